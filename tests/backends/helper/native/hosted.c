/* The helper as a program with a C library and the sanitisers' run time: the main() that stands before the helper's own entry
 * point. For tests only. argv[1] is the file that reports go to, for a sandbox's first process has nowhere else to say
 * anything.
 *
 * Three things need help here. What the kernel writes into the helper's memory is not seen by the compiler's checks, so that
 * sys6 checks those buffers. Mapped pages have no end that a program could run over by one byte: sys6 makes one. And the helper
 * shares memory between processes and ends them in the middle of functions, which leaves marks of dead stack frames behind:
 * clone_call and mmap wipe them. */
#include "base.h"

#define REPORT_FD 900 /* above what the helper uses, below the usual limit of 1024 */
#define REPORTED 99   /* the exit code of a process that has reported */

extern int open (const char *path, int flags, ...);
extern int dup3 (int from, int to, int flags);
extern void __asan_poison_memory_region (const void *start, size_t bytes);
extern void __asan_unpoison_memory_region (const void *start, size_t bytes);
extern void *__asan_region_is_poisoned (void *start, size_t bytes);
void __sanitizer_on_print (const char *text);
extern long task_on_stack (u64 flags, void *stack_top, int (*fn) (void *), void *arg); /* start.c's clone_call */

const char *
__asan_default_options (void)
{
  return "detect_leaks=0:detect_stack_use_after_return=0:handle_segv=0:exitcode=99:abort_on_error=0:symbolize=0";
}

const char *
__ubsan_default_options (void)
{
  return "exitcode=99:abort_on_error=0:symbolize=0:print_stacktrace=1";
}

/* Called with all that the run time prints. Its own files do not survive a change of pid. */
void
__sanitizer_on_print (const char *text)
{
  kernel_call (__NR_write, REPORT_FD, (long) text, (long) str_len (text), 0, 0, 0);
}

/* Private writable mappings count as data, the sanitiser's terabytes of shadow too: under a limit on data no page is to be
 * had any more. File operations, which ask for pages under it, get these. */
static long
spare_pages (size_t bytes)
{
  static u8 pool[64][65536] __attribute__ ((aligned (4096)));
  static u32 used;
  u32 turn = __atomic_fetch_add (&used, 1, __ATOMIC_SEQ_CST) % 64;
  if (bytes > sizeof pool[0])
    return -ENOMEM;
  helper_memset (pool[turn], 0, bytes);
  return (long) pool[turn];
}

static long
mapped (long pages, size_t bytes, long flags)
{
  if (pages == -ENOMEM && (flags & MAP_ANONYMOUS))
    pages = spare_pages (bytes);
  if (MAP_FAILED_P (pages))
    return pages;
  __asan_unpoison_memory_region ((void *) pages, bytes);
  if (bytes % 4096)
    __asan_poison_memory_region ((u8 *) pages + bytes, 4096 - bytes % 4096);
  return pages;
}

/* Read every byte where the compiler's checks are on: that finds the one that is not the helper's. */
static void
check (long start, size_t bytes)
{
  if (!bytes || !__asan_region_is_poisoned ((void *) start, bytes))
    return;
  for (size_t i = 0; i < bytes; i++)
    (void) ((const volatile u8 *) start)[i];
}

static void
check_buffers (long n, long b, long c, long d)
{
  const struct msghdr *message = (const struct msghdr *) b;
  switch (n)
    {
    case __NR_read:
    case __NR_pread64:
    case __NR_write:
    case __NR_getdents64:
      check (b, (size_t) c);
      break;
    case __NR_readlinkat:
      check (c, (size_t) d);
      break;
    case __NR_readv:
    case __NR_writev:
      for (const struct iovec *part = (const struct iovec *) b; c > 0; part++, c--)
        check ((long) part->base, part->len);
      break;
    case __NR_recvmsg:
      check ((long) message->iov->base, message->iov->len);
      check ((long) message->control, message->controllen);
      break;
    }
}

long
sys6 (long n, long a, long b, long c, long d, long e, long f)
{
  check_buffers (n, b, c, d);
  if (n == __NR_close_range && a < REPORT_FD && (u32) b >= REPORT_FD)
    {
      long r = kernel_call (n, a, REPORT_FD - 1, c, 0, 0, 0);
      return r < 0 || b == REPORT_FD ? r : kernel_call (n, REPORT_FD + 1, b, c, 0, 0, 0);
    }
  long r = kernel_call (n, a, b, c, d, e, f);
  if (n == __NR_statx && r == 0 && str_eq ((const char *) b, "/proc/self/fd"))
    ((struct statx *) e)->size--; /* the helper's own probe counts descriptors: this one is not its own */
  return n == __NR_mmap ? mapped (r, (size_t) b, d) : r;
}

long
clone_call (u64 flags, void *stack_top, int (*fn) (void *), void *arg)
{
  __asan_unpoison_memory_region ((u8 *) stack_top - STACK_SIZE, STACK_SIZE);
  return task_on_stack (flags, stack_top, fn, arg);
}

int
main (int argc, char **argv)
{
  int fd = argc >= 2 ? open (argv[1], O_WRONLY | 02000 /* O_APPEND */ | O_CLOEXEC) : -1;
  if (fd < 0 || dup3 (fd, REPORT_FD, O_CLOEXEC) < 0)
    return REPORTED;
  return helper_main (argc, argv);
}
