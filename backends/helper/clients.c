#include "clients.h"
#include "relay.h"

struct client *clients;
u32 clients_count;

static struct client creator;
static struct hello *welcome;
static u32 last_number;
static int released; /* the creator's end is no longer the sandbox's */

static int
is_vital (const struct client *c)
{
  return c == &creator && !released;
}

/* Nothing here waits: for a client that does not read, the kernel's buffer is all the patience there is. */
static long
send_now (int fd, u32 type, const void *payload, size_t len, int descriptor)
{
  u8 head[FRAME_HEADER];
  u32 length = (u32) len;
  u16 kind = (u16) type, with = descriptor >= 0;
  memcpy (head, &length, 4);
  memcpy (head + 4, &kind, 2);
  memcpy (head + 6, &with, 2);
  union { struct cmsghdr header; u8 space[24]; } control = { { sizeof control.header + sizeof (int), SOL_SOCKET, SCM_RIGHTS } };
  memcpy (control.space + sizeof control.header, &descriptor, sizeof descriptor);
  struct iovec parts[2] = { { head, sizeof head }, { (void *) payload, len } };
  struct msghdr message = { 0, 0, parts, 2, with ? &control : 0, with ? sizeof control : 0, 0 };
  long r = SYS (sendmsg, fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return r == (long) (sizeof head + len) ? 0 : -EAGAIN;
}

static size_t
hello_size (const struct hello *hello)
{
  return sizeof *hello - (LAYERS - hello->layers) * sizeof hello->reports[0];
}

void
clients_goodbye (u32 reason)
{
  for (struct client *c = clients; c; c = c->next)
    send_now (c->source.fd, FRAME_GOODBYE, &reason, sizeof reason, -1);
}

/* Its commands go with it, but for those that are kept. */
static void
client_gone (struct client *c)
{
  if (is_vital (c))
    end_sandbox ();
  for (struct command *command = commands; command; command = command->next)
    if (command->client == c)
      {
        command->client = NULL;
        if (!(command->start.flags & START_KEPT))
          command_end (command, FAULT_CANCELLED);
      }
  relay_client_gone (c->number);
  struct client **link = &clients;
  while (*link != c)
    link = &(*link)->next;
  *link = c->next;
  clients_count--;
  loop_remove (&c->source);
  for (int i = 0; i < c->nfds; i++)
    SYS (close, c->fds[i]);
  if (c->inbox != c->small)
    unmap_pages (c->inbox, c->inbox_cap);
  if (c != &creator)
    {
      SYS (close, c->source.fd);
      unmap_pages (c, sizeof *c);
    }
  else /* what fails is told on this number: it may never be anybody else's */
    SYS (dup3, 0, CONTROL_FD, O_CLOEXEC);
}

/* Who made a sandbox that is nobody else's is told, and it ends. Another client loses its connection. */
static void
client_broken (struct client *c, const char *why)
{
  if (is_vital (c))
    fail ("protocol", why, -EPROTO);
  client_gone (c);
}

static const char *
handle_id (struct client *c, u32 type, const u8 *payload, size_t len, int count)
{
  u32 words[2];
  if (len != sizeof words || count)
    return "frame length";
  memcpy (words, payload, sizeof words);
  struct command *command = command_find (c, words[0]); /* gone already: nothing to do */
  if (!command)
    command = relay_command (c->number, words[0]);
  if (command && type == FRAME_KILL && words[1] >= FAULT_TIMEOUT && words[1] <= FAULT_KILLED)
    command_end (command, words[1]);
  else if (command && type == FRAME_SIGNAL && words[1] > 0 && words[1] <= 64)
    command_signal (command, (int) words[1]);
  return NULL;
}

static const char *
attach (struct client *c, const u8 *payload, size_t len, int count)
{
  u32 id;
  if (len < sizeof id)
    return "frame length";
  memcpy (&id, payload, sizeof id);
  if (command_find (c, id) || relay_id_taken (c->number, id))
    return "id in use";
  return relay_attach (c->number, payload, len, c->fds, count);
}

/* NULL, or in which way the frame breaks the protocol. The first COUNT descriptors are the frame's. */
static const char *
handle (struct client *c, u32 type, const u8 *payload, size_t len, int count)
{
  const char *why;
  switch (type)
    {
    case FRAME_START:
      return command_start (c, payload, len, c->fds, count);
    case FRAME_KILL:
    case FRAME_SIGNAL:
      return handle_id (c, type, payload, len, count);
    case FRAME_ATTACH:
      return attach (c, payload, len, count);
    case FRAME_RESIZE:
      return count ? "frame length" : relay_resize (c->number, payload, len);
    case FRAME_STDIN_EOF:
      return count ? "frame length" : relay_stdin_eof (c->number, payload, len);
    case FRAME_ASK:
      if (count != 1)
        return "a question without a descriptor for its answer";
      why = ask (payload, len, c->fds[0]);
      if (!why)
        SYS (close, c->fds[0]);
      return why;
    case FRAME_SHUTDOWN:
      if (len || count)
        return "frame length";
      clients_goodbye (GOODBYE_SHUTDOWN);
      end_sandbox ();
      return NULL;
    case FRAME_RELEASE:
      if (len || count || c != &creator || !(plan.mode->flags & MODE_DETACHED))
        return "nothing to release";
      released = 1;
      return NULL;
    default:
      return "unknown frame";
    }
}

/* What is left of the inbox goes to its start; it grows for the frame that is still arriving, and shrinks again. */
static const char *
make_room (struct client *c, size_t at, size_t need)
{
  size_t rest = c->inbox_len - at, old_cap = c->inbox_cap;
  u8 *old = c->inbox;
  if (c->inbox != c->small && need <= sizeof c->small)
    {
      c->inbox = c->small;
      c->inbox_cap = sizeof c->small;
    }
  else if (need > c->inbox_cap)
    {
      u8 *larger = map_pages (need);
      if (!larger)
        return "no memory for a frame";
      c->inbox = larger;
      c->inbox_cap = need;
    }
  memcpy (c->inbox, old + at, rest); /* forwards: safe within one buffer */
  c->inbox_len = rest;
  if (old != c->inbox && old != c->small)
    unmap_pages (old, old_cap);
  return NULL;
}

/* Take whole frames out of the inbox; make room for the one that is still arriving. */
static const char *
take_frames (struct client *c)
{
  size_t at = 0;
  u32 len = 0;
  u16 type, count;
  while (c->inbox_len - at >= FRAME_HEADER)
    {
      memcpy (&len, c->inbox + at, 4);
      memcpy (&type, c->inbox + at + 4, 2);
      memcpy (&count, c->inbox + at + 6, 2);
      if (len > FRAME_MAX)
        return "frame too long";
      if (c->inbox_len - at - FRAME_HEADER < len)
        break;
      if (count > c->nfds)
        return "descriptors missing";
      life_used ();
      const char *why = handle (c, type, c->inbox + at + FRAME_HEADER, len, count);
      if (why)
        return why;
      c->nfds -= count;
      for (int i = 0; i < c->nfds; i++)
        c->fds[i] = c->fds[i + count];
      at += FRAME_HEADER + len;
      len = 0;
    }
  const char *why = make_room (c, at, len + FRAME_HEADER);
  /* A frame's descriptors come with its bytes: with none waiting, they would be taken for the next frame's. */
  if (!why && c->inbox_len == 0 && c->nfds > 0)
    return "descriptors without a frame";
  return why;
}

static const char *
take_rights (struct client *c, struct msghdr *message)
{
  const struct cmsghdr *head = message->control;
  int count = 0;
  if (message->controllen >= sizeof *head && head->level == SOL_SOCKET && head->type == SCM_RIGHTS)
    count = (int) ((head->len - sizeof *head) / sizeof (int));
  const int *arrived = (const int *) (head + 1);
  if ((message->flags & MSG_CTRUNC) || c->nfds + count > MAX_FDS)
    {
      for (int i = 0; i < count; i++)
        SYS (close, arrived[i]);
      return message->flags & MSG_CTRUNC ? "too many descriptors" : "descriptors without frames";
    }
  memcpy (c->fds + c->nfds, arrived, (size_t) count * sizeof (int));
  c->nfds += count;
  return NULL;
}

static void
receive (struct source *s, short happened)
{
  (void) happened;
  struct client *c = (struct client *) s;
  union { struct cmsghdr header; u8 space[sizeof (struct cmsghdr) + 16 * sizeof (int)]; } control;
  struct iovec iov = { c->inbox + c->inbox_len, c->inbox_cap - c->inbox_len };
  struct msghdr message = { 0, 0, &iov, 1, &control, sizeof control, 0 };
  long r = SYS (recvmsg, s->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (r == -EAGAIN || r == -EINTR)
    return;
  if (r <= 0) /* it closed, or died */
    {
      client_gone (c);
      return;
    }
  const char *why = take_rights (c, &message);
  if (!why)
    {
      c->inbox_len += (size_t) r;
      why = take_frames (c);
    }
  if (why)
    client_broken (c, why);
}

static void
add (struct client *c, int fd, u32 number)
{
  c->source = (struct source) { .fd = fd, .events = POLLIN, .ready = receive };
  c->number = number;
  c->inbox = c->small;
  c->inbox_cap = sizeof c->small;
  c->next = clients;
  clients = c;
  clients_count++;
  loop_add (&c->source);
}

void
clients_begin (struct hello *hello)
{
  welcome = hello;
  must (send_frame (CONTROL_FD, FRAME_HELLO, hello, hello_size (hello)), "serve", "hello");
  add (&creator, CONTROL_FD, 0);
}

void
client_accept (int fd)
{
  struct client *c = clients_count < MAX_CLIENTS && last_number < ~0u ? map_pages (sizeof *c) : NULL;
  if (c)
    {
      welcome->client = last_number + 1;
      if (send_now (fd, FRAME_HELLO, welcome, hello_size (welcome), NOTE_FD) == 0)
        {
          add (c, fd, ++last_number);
          return;
        }
      unmap_pages (c, sizeof *c);
    }
  SYS (close, fd);
}
