/* The event loop of the sandbox's first process: requests, dead children, time. */
#include "clients.h"
#include "command.h"
#include "door.h"
#include "relay.h"
#include "setup.h"
#include "verify.h"

#define SIGNAL_FD 3 /* the plan's number, free by now */

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

/* Nothing that happens from here on is a command's own end: no keeper reports it. In a pid namespace our end is everybody's;
 * without one, end them by hand. */
void
end_sandbox (void)
{
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

/* Of two waits, -1 being none. */
static int
sooner (int a, int b)
{
  return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* What is due now; returns the milliseconds until the next thing is, or -1. */
static int
take_time (void)
{
  static int begun;
  u64 now = now_ns ();
  if (!begun++)
    life_begin (now);
  int wait = life_wait ();
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

static void
on_signal (struct source *s, short happened)
{
  u8 drain[128];
  (void) happened;
  while (SYS (read, s->fd, drain, sizeof drain) > 0)
    ;
  reap_children ();
}

static void
take_signals (void)
{
  static struct source news = { .fd = SIGNAL_FD, .events = POLLIN, .ready = on_signal };
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
  loop_add (&news); /* first: who has ended is known before the next request is read */
}

void
serve (void)
{
  static struct hello hello = { .version = PROTOCOL_VERSION, .features = FEATURE_FDS };
  take_signals ();
  if (plan.mode->flags & MODE_NAMESPACES)
    verify_layers (&hello);
  door_open ();
  clients_begin (&hello);

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
      relays_watch ();
      loop_wait (wait);
      relays_turn ();
      if (commands && look_ns && now_ns () >= look_ns)
        {
          u64 pause = watch ();
          look_ns = now_ns () + pause;
        }
    }
}
