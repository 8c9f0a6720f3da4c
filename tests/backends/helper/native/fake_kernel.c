#include "fake_kernel.h"
#include <setjmp.h>

extern void *calloc (size_t count, size_t bytes);
extern void free (void *p);
__attribute__ ((__noreturn__)) extern void abort (void);

#define MAPPINGS 4096
#define DEEPEST 8
#define GONE 256

struct fake fake;

static struct { void *start; size_t bytes; } mappings[MAPPINGS];
static jmp_buf ends[DEEPEST];

u32
fake_chance (u32 most)
{
  fake.chance ^= fake.chance << 13;
  fake.chance ^= fake.chance >> 7;
  fake.chance ^= fake.chance << 17;
  return (u32) (fake.chance >> 11) % most;
}

void
fake_begin (const u8 *head, u32 failures)
{
  memset (&fake, 0, sizeof fake);
  fake.chance = 0x9e3779b97f4a7c15ull;
  for (int i = 0; i < 2; i++)
    fake.chance = (fake.chance ^ head[i]) * 0x100000001b3ull;
  fake.failures = failures;
  fake.now_ns = 1000000000;
  fake.next_fd = 10;
  fake.next_pid = 100;
}

static int
run_until_exit (int (*fn) (void *), void *arg, void (*body) (void))
{
  if (fake.depth == DEEPEST)
    abort ();
  int code = _setjmp (ends[fake.depth++]);
  if (code == 0)
    {
      if (fn)
        fn (arg);
      else
        body ();
    }
  fake.depth--;
  return code > GONE ? -1 : code % GONE;
}

int
fake_process (void (*body) (void))
{
  int code = run_until_exit (NULL, NULL, body);
  fake.depth = 0;
  for (size_t i = 0; i < MAPPINGS; i++)
    if (mappings[i].start)
      {
        free (mappings[i].start);
        mappings[i].start = NULL;
      }
  return code;
}

/* A task that runs to its end before the caller goes on. What it does to descriptors is its own affair: see depth. */
long
clone_call (u64 flags, void *stack_top, int (*fn) (void *), void *arg)
{
  (void) flags;
  (void) stack_top;
  if (fake_chance (256) < fake.failures)
    return -EAGAIN;
  i32 pid = fake.next_pid++;
  if (fake_chance (8))
    run_until_exit (fn, arg, NULL);
  fake.child = pid;
  return pid;
}

static long
map (size_t bytes, int fd)
{
  if (bytes == 0 || fake_chance (256) < fake.failures)
    return -ENOMEM;
  u8 *start = calloc (1, bytes); /* its ends are watched, other than those of a page */
  if (fd >= 0)
    memcpy (start, fake.plan, bytes);
  for (size_t i = 0; i < MAPPINGS; i++)
    if (!mappings[i].start)
      {
        mappings[i].start = start;
        mappings[i].bytes = bytes;
        return (long) start;
      }
  abort ();
}

static void
unmap (void *start, size_t bytes)
{
  for (size_t i = 0; i < MAPPINGS; i++)
    if (mappings[i].start == start && mappings[i].bytes == bytes)
      {
        mappings[i].start = NULL;
        free (start);
        return;
      }
  abort (); /* something that was never mapped, or a part of it */
}

static void
read_bytes (long start, size_t bytes)
{
  for (size_t i = 0; i < bytes; i++)
    (void) ((const volatile u8 *) start)[i];
}

static void
read_vector (long vector)
{
  for (char **p = (char **) vector; *p; p++)
    read_bytes ((long) *p, str_len (*p));
}

/* Text as /proc has it, or anything. */
static long
give_bytes (long start, size_t bytes)
{
  static const char text[] = "7 (a b) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 2 18\nRssAnon:\t 77 kB\noom_kill 3\n";
  size_t n = fake_chance (4) ? fake_chance ((u32) bytes + 1) : bytes;
  if (n > 70000)
    n = 70000;
  u32 shift = fake_chance (4) ? 0 : fake_chance (64);
  for (size_t i = 0; i < n; i++)
    ((u8 *) start)[i] = (u8) text[(i + shift) % (sizeof text - 1)];
  return fake_chance (3) ? (long) n : 0;
}

/* One to three directory entries; nothing more the next time. */
static long
give_entries (long start, size_t bytes)
{
  static const char *const names[] = { ".", "..", "1", "17", "4194304", "name", "self" };
  u8 *at = (u8 *) start;
  if (++fake.entries % 2 == 0)
    return 0;
  for (u32 n = 1 + fake_chance (3); n > 0; n--)
    {
      char name[256];
      size_t len = put_str (name, sizeof name, 0, names[fake_chance (7)]);
      if (!fake_chance (8))
        {
          len = 255;
          memset (name, 'n', len);
        }
      name[len] = 0;
      u16 whole = (u16) ((19 + len + 1 + 7) & ~7ul);
      if ((size_t) (at - (u8 *) start) + whole > bytes)
        break;
      memset (at, 0, whole);
      memcpy (at + 16, &whole, 2);
      memcpy (at + 19, name, len + 1);
      at += whole;
    }
  return at - (u8 *) start;
}

static void
give_statx (struct statx *st, int fd)
{
  static const u16 kinds[] = { S_IFREG, S_IFDIR, S_IFLNK };
  memset (st, 0, sizeof *st);
  st->mode = (u16) (kinds[fake_chance (3)] | 0755);
  st->size = fd == PLAN_FD ? fake.plan_size : fake_chance (1 << 20);
  st->mtime.sec = (i64) fake_chance (1u << 31) * 2;
}

static long
give_child (struct siginfo_wait *info)
{
  if (!fake.child)
    return -ECHILD;
  info->pid = fake_chance (4) ? fake.child : 0;
  if (info->pid)
    fake.child = 0;
  return 0;
}

static long
process_call (long n, long a, long b, long c)
{
  u32 before;
  switch (n)
    {
    case __NR_clone:
      fake.child = fake_chance (4) ? 0 : fake.next_pid++;
      return fake.child;
    case __NR_wait4:
      if (a == -1)
        return on_wait ((i32) a, (int *) b);
      if (b)
        *(int *) b = 0;
      return a;
    case __NR_waitid:
      return give_child ((struct siginfo_wait *) c);
    case __NR_getpid:
    case __NR_getppid:
      return 1;
    case __NR_getresuid:
    case __NR_getresgid:
      *(u32 *) a = *(u32 *) b = *(u32 *) c = fake_chance (2) * 1000;
      return 0;
    case __NR_setfsgid:
      before = fake.groups;
      fake.groups = (u32) a;
      return before;
    case __NR_setfsuid:
      before = fake.users;
      fake.users = (u32) a;
      return before;
    case __NR_execve:
      read_bytes (a, str_len ((const char *) a));
      read_vector (b);
      read_vector (c);
      return fake_chance (2) ? -ENOENT : -EACCES;
    case __NR_prctl:
      return a == PR_CAPBSET_DROP && b > 40 ? -EINVAL : 0;
    case __NR_capset:
      memcpy (fake.capabilities, (const void *) b, sizeof fake.capabilities);
      return 0;
    case __NR_capget:
      memcpy ((void *) b, fake.capabilities, sizeof fake.capabilities);
      return 0;
    }
  return 0;
}

/* The strings that a call is given, by the number of its argument. */
static void
read_strings (long n, long a, long b, long c, long d)
{
  switch (n)
    {
    case __NR_openat:
    case __NR_openat2:
    case __NR_mkdirat:
    case __NR_mknodat:
    case __NR_faccessat:
    case __NR_unlinkat:
    case __NR_fchownat:
    case __NR_fchmodat:
    case __NR_readlinkat:
    case __NR_statx:
    case __NR_open_tree:
    case __NR_mount_setattr:
      read_bytes (b, str_len ((const char *) b));
      break;
    case __NR_symlinkat:
      read_bytes (a, str_len ((const char *) a));
      read_bytes (c, str_len ((const char *) c));
      break;
    case __NR_renameat2:
    case __NR_move_mount:
      read_bytes (b, str_len ((const char *) b));
      read_bytes (d, str_len ((const char *) d));
      break;
    case __NR_mount:
      read_bytes (b, str_len ((const char *) b));
      break;
    case __NR_chdir:
      read_bytes (a, str_len ((const char *) a));
      break;
    case __NR_sethostname:
      read_bytes (a, (size_t) b);
      break;
    case __NR_sched_setaffinity:
      read_bytes (c, (size_t) b);
      break;
    case __NR_landlock_add_rule:
      read_bytes (c, 12);
      break;
    }
}

/* Pieces of memory, one after the other. */
static long
give_pieces (const struct iovec *part, long count)
{
  long all = 0;
  for (; count > 0; part++, count--)
    {
      long n = give_bytes ((long) part->base, part->len);
      all += n;
      if (n < (long) part->len)
        break;
    }
  return all;
}

static long
take_pieces (const struct iovec *part, long count)
{
  size_t all = 0;
  for (; count > 0; part++, count--)
    {
      read_bytes ((long) part->base, part->len);
      all += part->len;
    }
  return fake_chance (4) ? (long) all : -EAGAIN;
}

static long
send_bytes (const struct msghdr *message)
{
  long sum = 0;
  for (size_t i = 0; i < message->iovlen; i++)
    {
      read_bytes ((long) message->iov[i].base, message->iov[i].len);
      sum += (long) message->iov[i].len;
    }
  read_bytes ((long) message->control, message->controllen);
  return sum;
}

static long
file_call (long n, long a, long b, long c, long d, long e)
{
  switch (n)
    {
    case __NR_read:
      if (b && c == 1)
        return 1; /* a gate */
      return a == PLAN_FD ? -EAGAIN : give_bytes (b, (size_t) c);
    case __NR_pread64:
      return give_bytes (b, (size_t) c);
    case __NR_write:
      read_bytes (b, (size_t) c);
      return c > 1 && !fake_chance (8) ? 1 + fake_chance ((u32) c) : c;
    case __NR_sendmsg:
      return fake_chance (8) ? send_bytes ((const struct msghdr *) b) : -EAGAIN;
    case __NR_accept4:
      return on_accept ();
    case __NR_getsockopt: /* the credentials of a peer, mostly our own */
      memset ((void *) d, fake_chance (8) ? 0 : 1, 12);
      return 0;
    case __NR_readv:
      return fake_chance (8) ? give_pieces ((const struct iovec *) b, c) : -EAGAIN;
    case __NR_writev:
      return take_pieces ((const struct iovec *) b, c);
    case __NR_ioctl:
      if (b == 0x5401) /* TCGETS */
        memset ((void *) c, 4, 36);
      if (b == FIONREAD)
        *(int *) c = (int) fake_chance (70000);
      return b == 0x5441 ? fake.next_fd++ : 0; /* TIOCGPTPEER */
    case __NR_fcntl:
      return b == F_DUPFD_CLOEXEC ? fake.next_fd++ : 0;
    case __NR_sendto:
      read_bytes (b, (size_t) c);
      return c;
    case __NR_getdents64:
      return give_entries (b, (size_t) c);
    case __NR_readlinkat:
      memset ((void *) c, 'l', (size_t) d);
      return fake_chance (2) ? d : 1;
    case __NR_statx:
      give_statx ((struct statx *) e, (int) a);
      return 0;
    case __NR_socketpair:
      a = d; /* fall through */
    case __NR_pipe2:
      ((int *) a)[0] = fake.next_fd++;
      ((int *) a)[1] = fake.next_fd++;
      return 0;
    case __NR_landlock_create_ruleset:
      return c ? (long) fake_chance (8) : fake.next_fd++;
    case __NR_openat:
    case __NR_openat2:
    case __NR_open_tree:
    case __NR_socket:
    case __NR_signalfd4:
    case __NR_pidfd_open:
      return fake.next_fd++;
    case __NR_close:
      if (fake.depth == 1)
        on_close ((int) a);
      return 0;
    }
  return 0;
}

static long
other_call (long n, long a, long b, long d, long e)
{
  struct timespec *time = (struct timespec *) b;
  struct pollfd *poll = (struct pollfd *) a;
  switch (n)
    {
    case __NR_clock_gettime:
      fake.now_ns += fake_chance (16) ? fake_chance (2000) : fake_chance (1u << 31);
      time->sec = (i64) (fake.now_ns / 1000000000);
      time->nsec = (i64) (fake.now_ns % 1000000000);
      return 0;
    case __NR_ppoll:
      poll[0].revents = (short) fake_chance (2); /* the server's signals */
      for (long i = 1; i < b; i++)
        poll[i].revents = i == 1 ? POLLIN : (short) (poll[i].fd < 0 ? 0 : fake_chance (16) ? poll[i].events : POLLERR);
      return 1;
    case __NR_recvmsg:
      return on_recvmsg ((int) a, (struct msghdr *) b);
    case __NR_mmap:
      return map ((size_t) b, d & MAP_ANONYMOUS ? -1 : (int) e);
    case __NR_munmap:
      unmap ((void *) a, (size_t) b);
      return 0;
    case __NR_getrusage:
      memset ((void *) b, 0, sizeof (struct rusage));
      return 0;
    case __NR_statfs:
      memset ((void *) b, 0x11, sizeof (struct statfs));
      return 0;
    case __NR_prlimit64:
      if (d)
        memset ((void *) d, 0x7f, sizeof (struct rlimit));
      return 0;
    }
  return 0;
}

static int
may_fail (long n)
{
  return n != __NR_rt_sigaction && n != __NR_exit && n != __NR_exit_group && n != __NR_recvmsg && n != __NR_wait4 && n != __NR_mmap && n != __NR_close
         && n != __NR_munmap;
}

long
sys6 (long n, long a, long b, long c, long d, long e, long f)
{
  static const u8 errors[] = { EPERM, ENOENT, EAGAIN, ENOMEM, EACCES, EEXIST, EINVAL, ENOSYS, ENOTEMPTY, EISDIR };
  (void) f;
  if (n == __NR_exit_group || n == __NR_exit)
    longjmp (ends[fake.depth - 1], (int) (a % GONE ? a % GONE : GONE));
  if (++fake.calls > CALLS_MOST)
    longjmp (ends[0], GONE + 1);
  if (n != __NR_mount_setattr || b)
    read_strings (n, a, b, c, d);
  if (may_fail (n) && fake_chance (256) < fake.failures)
    return -(long) errors[fake_chance (sizeof errors)];
  long r = other_call (n, a, b, d, e);
  if (!r)
    r = file_call (n, a, b, c, d, e);
  return r ? r : process_call (n, a, b, c);
}
