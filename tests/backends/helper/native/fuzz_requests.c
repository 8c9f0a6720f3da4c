/* A stream of requests through the server, with keepers and commands up to the kernel's edge. Input: two bytes of chance, one
 * for how often calls fail, one for pieces and options, then frames. Beside memory the descriptors are watched: each that
 * arrives is closed once, and those that are open belong to somebody. */
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

static struct {
  const u8 *data;
  size_t size, at, frame_end;
  size_t piece;
  int wrong_rights, next;
  u8 open[FDS_MOST];
} stream;

/* Descriptors of the frames that begin in the next BYTES bytes. */
static int
rights_within (size_t bytes)
{
  int count = 0;
  while (stream.frame_end < stream.at + bytes && stream.frame_end + FRAME_HEADER <= stream.size)
    {
      u32 length;
      u16 fds_here;
      memcpy (&length, stream.data + stream.frame_end, 4);
      memcpy (&fds_here, stream.data + stream.frame_end + 6, 2);
      count += fds_here > 20 ? 20 : fds_here;
      stream.frame_end += FRAME_HEADER + (size_t) length;
    }
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

static void
check_descriptors (void)
{
  int open = 0, owned = creator.nfds;
  for (int i = 0; i < stream.next; i++)
    open += stream.open[i];
  for (const struct command *c = commands; c; c = c->next)
    {
      owned++; /* its status pipe */
      for (int i = 0; i < METERS; i++)
        owned += c->meters[i] >= 0;
    }
  if (open != owned)
    abort ();
}

long
on_recvmsg (struct msghdr *message)
{
  size_t left = stream.size - stream.at;
  size_t bytes = left < stream.piece ? left : stream.piece;
  if (bytes > message->iov->len)
    bytes = message->iov->len;
  check_descriptors ();
  if (bytes == 0)
    return message->iov->len == 0 ? -EAGAIN : 0;
  memcpy (message->iov->base, stream.data + stream.at, bytes);
  give_rights (message, rights_within (bytes));
  stream.at += bytes;
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
  mode = (struct plan_mode) { .flags = data[3] & 3, .command_uid = 1000, .command_gid = 1000, .pids = data[3] & 4,
                              .memory = data[3] & 8 ? 1 << 20 : 0, .cpu_ns = data[3] & 16 ? 1 << 30 : 0 };
  plan.base = (const u8 *) &records;
  plan.size = sizeof records;
  plan.mode = &mode;
  plan.landlock = landlock;
  stream.data = data + 4;
  stream.size = size - 4;
  stream.wrong_rights = (data[3] & 32) != 0;
  stream.piece = data[3] & 64 ? 1 + data[0] + size / 64 : 1 << 20;
  fake_process (serve);
  put_back ();
  return 0;
}
