/* The event loop of the sandbox's first process: requests, dead children, time. */
#include "command.h"
#include "loop.h"
#include "relay.h"
#include "setup.h"
#include "verify.h"

#define MAX_FDS 32
#define SIGNAL_FD 3 /* the plan's number, free by now */

static u8 small[16384];
static u8 *inbox = small;
static size_t inbox_cap = sizeof small, inbox_len;
static int fds[MAX_FDS];
static int nfds;

long
send_frame (int fd, u32 type, const void *payload, size_t len)
{
  u8 frame[FRAME_HEADER + 1024];
  u32 length = (u32) len;
  u16 kind = (u16) type, none = 0;
  if (len > sizeof frame - FRAME_HEADER)
    return -E2BIG;
  memcpy (frame, &length, 4);
  memcpy (frame + 4, &kind, 2);
  memcpy (frame + 6, &none, 2);
  memcpy (frame + FRAME_HEADER, payload, len);
  return write_all (fd, frame, FRAME_HEADER + len);
}

void
send_error (u32 error, const char *text, size_t len)
{
  u8 payload[1024];
  if (len > sizeof payload - 4)
    len = sizeof payload - 4;
  memcpy (payload, &error, 4);
  memcpy (payload + 4, text, len);
  send_frame (CONTROL_FD, FRAME_ERROR, payload, len + 4);
}

static void
handle (u32 type, const u8 *payload, size_t len, int count)
{
  u32 words[2];
  struct command *c;
  if (count > nfds)
    fail ("protocol", "descriptors missing", -EPROTO);
  switch (type)
    {
    case FRAME_START:
      command_start (payload, len, fds, count);
      break;
    case FRAME_ATTACH:
      if (relay_attach (0, payload, len, fds, count) < 0)
        fail ("protocol", "ATTACH", -EPROTO);
      break;
    case FRAME_RESIZE:
      {
        struct resize_request size;
        if (len != sizeof size || count)
          fail ("protocol", "frame length", -EPROTO);
        memcpy (&size, payload, sizeof size);
        relay_resize (0, size.id, size.rows, size.columns);
        break;
      }
    case FRAME_STDIN_EOF:
      if (len != 4 || count)
        fail ("protocol", "frame length", -EPROTO);
      memcpy (words, payload, 4);
      relay_stdin_eof (0, words[0]);
      break;
    case FRAME_ASK:
      {
        static u8 answer[RELAY_LIST_MOST];
        size_t n = relay_list (answer, sizeof answer);
        viewer_own (fds[0]);
        SYS (write, fds[0], answer, n);
        SYS (close, fds[0]);
        break;
      }
    case FRAME_KILL:
    case FRAME_SIGNAL:
      if (len != sizeof words || count)
        fail ("protocol", "frame length", -EPROTO);
      memcpy (words, payload, sizeof words);
      c = command_find (words[0]); /* gone already: nothing to do */
      if (!c)
        c = relay_command (0, words[0]);
      if (c && type == FRAME_KILL)
        command_end (c, words[1]);
      else if (c && words[1] > 0 && words[1] <= 64)
        command_signal (c, (int) words[1]);
      break;
    default:
      fail ("protocol", "unknown frame", -EPROTO);
    }
  nfds -= count;
  for (int i = 0; i < nfds; i++)
    fds[i] = fds[i + count];
}

/* Take whole frames out of the inbox; make room for the one that is still arriving. */
static void
take_frames (void)
{
  size_t at = 0;
  u32 len = 0;
  u16 type, count;
  while (inbox_len - at >= FRAME_HEADER)
    {
      memcpy (&len, inbox + at, 4);
      memcpy (&type, inbox + at + 4, 2);
      memcpy (&count, inbox + at + 6, 2);
      if (len > FRAME_MAX)
        fail ("protocol", "frame too long", -EPROTO);
      if (inbox_len - at - FRAME_HEADER < len)
        break;
      handle (type, inbox + at + FRAME_HEADER, len, count);
      at += FRAME_HEADER + len;
      len = 0;
    }
  size_t rest = inbox_len - at, need = len + FRAME_HEADER;
  u8 *old = inbox;
  size_t old_cap = inbox_cap;
  if (inbox != small && need <= sizeof small)
    {
      inbox = small;
      inbox_cap = sizeof small;
    }
  else if (need > inbox_cap)
    {
      inbox = map_pages (need);
      inbox_cap = need;
      if (!inbox)
        fail ("protocol", "no memory for a frame", -ENOMEM);
    }
  memcpy (inbox, old + at, rest); /* forwards: safe within one buffer */
  inbox_len = rest;
  if (old != inbox && old != small)
    unmap_pages (old, old_cap);
  /* A frame's descriptors come with its bytes: with none waiting, they would be taken for the next frame's. */
  if (inbox_len == 0 && nfds > 0)
    fail ("protocol", "descriptors without a frame", -EPROTO);
}

static void
take_rights (struct msghdr *message)
{
  const struct cmsghdr *c = message->control;
  if (message->flags & MSG_CTRUNC)
    fail ("protocol", "too many descriptors", -EPROTO);
  if (message->controllen < sizeof *c || c->level != SOL_SOCKET || c->type != SCM_RIGHTS)
    return;
  int count = (int) ((c->len - sizeof *c) / sizeof (int));
  if (nfds + count > MAX_FDS)
    fail ("protocol", "descriptors without frames", -EPROTO);
  memcpy (fds + nfds, c + 1, (size_t) count * sizeof (int));
  nfds += count;
}

static void
receive (void)
{
  union { struct cmsghdr header; u8 space[sizeof (struct cmsghdr) + 16 * sizeof (int)]; } control;
  struct iovec iov = { inbox + inbox_len, inbox_cap - inbox_len };
  struct msghdr message = { 0, 0, &iov, 1, &control, sizeof control, 0 };
  long r = SYS (recvmsg, CONTROL_FD, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (r == -EAGAIN || r == -EINTR)
    return;
  if (r <= 0)
    {
      /* The host closed, or died. Nothing that happens from here on is a command's own end: no keeper reports it. In a pid
       * namespace our end is everybody's; without one, end them by hand. */
      for (struct command *c = commands; c; c = c->next)
        c->reported = 1;
      if (!(plan.mode->flags & MODE_NAMESPACES))
        {
          for (struct command *c = commands; c; c = c->next)
            sweep (c);
          sweep_orphans (); /* of keepers that were killed a moment ago */
        }
      exit_now (0);
    }
  take_rights (&message);
  inbox_len += (size_t) r;
  take_frames ();
}

static void
reap_children (void)
{
  int status;
  long pid;
  while ((pid = SYS (wait4, -1, &status, WNOHANG | WUNTRACED | __WALL, 0)) > 0)
    {
      struct command *c = commands;
      while (c && c->keeper != pid)
        c = c->next;
      if (!c)
        continue; /* an orphan whose keeper was murdered */
      if ((status & 0xff) == 0x7f)
        SYS (kill, pid, SIGCONT); /* a command stopped its own keeper: no exit may be lost by that */
      else
        command_keeper_gone (c, status);
    }
}

/* At most 24 days: a time-out may be twice as long, and a negative number would be no end at all. */
static int
ms_until (u64 when, u64 now)
{
  u64 ms = when <= now ? 0 : (when - now) / 1000000 + 1;
  return ms < 0x7fffffff ? (int) ms : 0x7fffffff;
}

static int
sooner (int a, int b)
{
  return a < 0 || b < a ? b : a;
}

/* What is due now; returns the milliseconds until the next thing is, or -1. */
static int
take_time (void)
{
  int wait = -1;
  u64 now = now_ns ();
  for (struct command *c = commands; c; c = c->next)
    {
      if (c->deadline_ns && !c->reported && !command_fault (c))
        {
          if (c->deadline_ns <= now)
            command_end (c, FAULT_TIMEOUT);
          else
            wait = sooner (wait, ms_until (c->deadline_ns, now));
        }
      if (!c->sweep_until_ns)
        continue;
      if (now > c->sweep_until_ns && (plan.mode->flags & MODE_NAMESPACES))
        exit_now (1); /* it cannot be ended in time: the sandbox is lost rather than the promise */
      if (c->sweep_ns <= now)
        {
          sweep (c);
          c->sweep_ns = now_ns () + 20000000ull; /* paced: spinning would starve the processes that are to die */
        }
      wait = sooner (wait, ms_until (c->sweep_ns, now_ns ()));
    }
  return wait;
}

void
serve (void)
{
  u64 all = ~0ull;
  must (SYS (rt_sigprocmask, SIG_SETMASK, &all, 0, 8), "serve", "signal mask");
  u64 child = 1ull << (SIGCHLD - 1);
  long signals = must (SYS (signalfd4, -1, &child, 8, O_CLOEXEC | O_NONBLOCK), "serve", "signalfd");
  if (signals != SIGNAL_FD)
    {
      must (SYS (dup3, signals, SIGNAL_FD, O_CLOEXEC), "serve", "signalfd");
      SYS (close, signals);
    }
  must (SYS (prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "serve", "subreaper");

  static struct hello hello = { .version = PROTOCOL_VERSION, .features = FEATURE_FDS };
  if (plan.mode->flags & MODE_NAMESPACES)
    verify_layers (&hello);
  size_t unused = (LAYERS - hello.layers) * sizeof hello.reports[0];
  must (send_frame (CONTROL_FD, FRAME_HELLO, &hello, sizeof hello - unused), "serve", "hello");

  u64 look_ns = 0; /* when to watch next, while a command runs; requests and dead children in between are no reason to */
  for (;;)
    {
      int wait = take_time ();
      if (!commands)
        look_ns = 0;
      else if (!look_ns)
        look_ns = now_ns () + watch_first ();
      if (look_ns)
        wait = sooner (wait, ms_until (look_ns, now_ns ()));
      loop_clear ();
      u32 control = loop_watch (CONTROL_FD, POLLIN), signal = loop_watch (SIGNAL_FD, POLLIN);
      relays_watch ();
      struct timespec limit = { wait / 1000, wait % 1000 * 1000000l };
      loop_wait (wait < 0 ? 0 : &limit);
      if (loop_got (signal))
        {
          u8 drain[128];
          while (SYS (read, SIGNAL_FD, drain, sizeof drain) > 0)
            ;
          reap_children ();
        }
      if (loop_got (control))
        receive ();
      relays_turn ();
      if (commands && look_ns && now_ns () >= look_ns)
        {
          u64 pause = watch ();
          look_ns = now_ns () + pause;
        }
    }
}
