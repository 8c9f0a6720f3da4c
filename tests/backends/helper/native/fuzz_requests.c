/* A stream of requests through the server, with keepers and commands up to the kernel's edge. Input: two bytes of chance, one
 * for how often calls fail, one for pieces and options, then frames. Beside memory the descriptors are watched: each that
 * arrives is closed once, and those that are open belong to somebody. A detached sandbox has more than one client, who all say the
 * same, each at its own pace. */
#include "fake_kernel.h"

/* Their state has to be put back after each input. */
#include "server_state.h"
#include "serve.c"
#include "command.c"
#include "procs.c"

int LLVMFuzzerTestOneInput (const u8 *data, size_t size);
__attribute__ ((__noreturn__)) extern void abort (void);

#define FIRST_FD 1000
#define FDS_MOST 4096
#define READERS 32

static struct {
  const u8 *data;
  size_t size, piece;
  struct { size_t at, frame_end; } readers[READERS]; /* each client says the same; the first is the creator */
  int wrong_rights, next;
  u8 open[FDS_MOST];
} stream;

/* Descriptors of the frames that begin in the next BYTES bytes of a reader's. */
static int
rights_within (u32 reader, size_t bytes)
{
  size_t at = stream.readers[reader].at, end = stream.readers[reader].frame_end;
  int count = 0;
  while (end < at + bytes && end + FRAME_HEADER <= stream.size)
    {
      u32 length;
      u16 fds_here;
      memcpy (&length, stream.data + end, 4);
      memcpy (&fds_here, stream.data + end + 6, 2);
      count += fds_here > 20 ? 20 : fds_here;
      end += FRAME_HEADER + (size_t) length;
    }
  stream.readers[reader].frame_end = end;
  if (stream.wrong_rights && !fake_chance (4))
    count = (int) fake_chance (20);
  return count;
}

static void
give_rights (struct msghdr *message, int count)
{
  struct cmsghdr *head = message->control;
  size_t room = (message->controllen - sizeof *head) / sizeof (int);
  message->flags = (size_t) count > room ? MSG_CTRUNC : 0;
  if ((size_t) count > room)
    count = (int) room;
  if (stream.next + count > FDS_MOST)
    count = 0;
  message->controllen = count ? sizeof *head + (size_t) count * sizeof (int) : 0;
  if (count)
    *head = (struct cmsghdr) { message->controllen, SOL_SOCKET, SCM_RIGHTS };
  for (int i = 0; i < count; i++)
    {
      int fd = FIRST_FD + stream.next;
      memcpy ((u8 *) (head + 1) + (size_t) i * sizeof fd, &fd, sizeof fd);
      stream.open[stream.next++] = 1;
    }
}

static int
is_given (int fd)
{
  return fd >= FIRST_FD;
}

static int
of_viewers (void)
{
  int n = 0;
  for (const struct relay *r = relays; r; r = r->next)
    for (const struct viewer *v = r->viewers; v; v = v->next)
      n += is_given (v->status) + is_given (v->in) + is_given (v->out[0]) + is_given (v->out[1]);
  return n;
}

static void
check_descriptors (void)
{
  int open = 0, owned = of_viewers ();
  for (int i = 0; i < stream.next; i++)
    open += stream.open[i];
  for (const struct client *c = clients; c; c = c->next)
    owned += c->nfds + (c != &creator);
  for (const struct command *c = commands; c; c = c->next)
    {
      owned += is_given (c->fd_status); /* a relayed command's is the helper's own */
      for (int i = 0; i < METERS; i++)
        owned += c->meters[i] >= 0;
    }
  if (open != owned)
    abort ();
}

/* Somebody stands at the door, or it is closed for good. */
static long
at_the_door (struct msghdr *message)
{
  if (fake_chance (4) || stream.next == FDS_MOST)
    return fake_chance (64) ? -EAGAIN : 0;
  stream.readers[(u32) (stream.next + 1) % READERS].at = stream.readers[(u32) (stream.next + 1) % READERS].frame_end = 0;
  give_rights (message, 1);
  return 1;
}

long
on_accept (void)
{
  if (fake_chance (4) || stream.next == FDS_MOST)
    return -EAGAIN;
  stream.readers[(u32) (stream.next + 1) % READERS].at = stream.readers[(u32) (stream.next + 1) % READERS].frame_end = 0;
  stream.open[stream.next] = 1;
  return FIRST_FD + stream.next++;
}

long
on_recvmsg (int fd, struct msghdr *message)
{
  u32 reader = fd == CONTROL_FD ? 0 : (u32) (fd - FIRST_FD + 1) % READERS;
  if (fd == LISTEN_FD)
    return at_the_door (message);
  size_t left = stream.size - stream.readers[reader].at;
  size_t bytes = left < stream.piece ? left : stream.piece;
  if (bytes > message->iov->len)
    bytes = message->iov->len;
  check_descriptors ();
  if (bytes == 0)
    return message->iov->len == 0 ? -EAGAIN : 0;
  memcpy (message->iov->base, stream.data + stream.readers[reader].at, bytes);
  give_rights (message, rights_within (reader, bytes));
  stream.readers[reader].at += bytes;
  return (long) bytes;
}

void
on_close (int fd)
{
  if (fd < FIRST_FD)
    return;
  if (fd >= FIRST_FD + stream.next || !stream.open[fd - FIRST_FD])
    abort (); /* not open: it may be somebody else's by now */
  stream.open[fd - FIRST_FD] = 0;
}

/* Some keeper has ended, in order or not, or was stopped; or a process that is nobody's. */
long
on_wait (i32 pid, int *status)
{
  static const int ways[] = { 0, 0, 0, 0, 9, 11, 0x137f, 1 << 8 };
  (void) pid;
  u32 turn = fake_chance (4);
  const struct command *c = commands;
  while (c && turn--)
    c = c->next;
  if (!c)
    return fake_chance (4) ? 0 : 99;
  *status = ways[fake_chance (8)];
  return c->keeper;
}

static void
put_back (void)
{
  put_server_back ();
  commands = spare = NULL;
  relays = NULL;
  viewers_alive = relays_kept = 0;
  table = NULL;
}

int
LLVMFuzzerTestOneInput (const u8 *data, size_t size)
{
  static const struct plan_rlimit limit = { 7, 0, 64, 64 };
  static struct { u8 head[16]; u32 tag, len; struct plan_rlimit limit; } records = { { 0 }, PLAN_RLIMIT, sizeof limit, { 7, 0, 64, 64 } };
  static const u64 landlock[2] = { 1, 1 };
  static struct plan_mode mode;
  if (size < 4)
    return 0;
  put_back ();
  memset (&stream, 0, sizeof stream);
  memset (&plan, 0, sizeof plan);
  fake_begin (data, data[2] % 4 ? 0 : data[2] / 4);
  static const struct plan_life life = { 60000, 5000 };
  mode = (struct plan_mode) { .flags = (data[3] & 3) | (data[3] & 128 ? MODE_DETACHED : 0), .command_uid = 1000, .command_gid = 1000, .pids = data[3] & 4,
                              .memory = data[3] & 8 ? 1 << 20 : 0, .cpu_ns = data[3] & 16 ? 1 << 30 : 0 };
  plan.base = (const u8 *) &records;
  plan.size = sizeof records;
  plan.mode = &mode;
  plan.landlock = landlock;
  plan.life = data[3] & 128 ? &life : NULL;
  stream.data = data + 4;
  stream.size = size - 4;
  stream.wrong_rights = (data[3] & 32) != 0;
  stream.piece = data[3] & 64 ? 1 + data[0] + size / 64 : 1 << 20;
  fake_process (serve);
  put_back ();
  return 0;
}
