/* Raw system calls and the few kernel structures the helper needs.
 *
 * The helper is freestanding: no libc is linked, because start-up of a static glibc costs about 0.5 ms in a
 * virtual machine (dozens of CPUID instructions, each one a trap), more than all the namespaces together.
 * Numbers come from the kernel's <asm/unistd.h>; what is newer than a distribution's headers is defined here.
 */
#ifndef ISANDBOX_SYS_H
#define ISANDBOX_SYS_H

#include <asm/unistd.h>
#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;
typedef int32_t i32;

#if defined(__x86_64__)
static inline long
sys6 (long n, long a, long b, long c, long d, long e, long f)
{
  register long r10 __asm__ ("r10") = d;
  register long r8 __asm__ ("r8") = e;
  register long r9 __asm__ ("r9") = f;
  long ret;
  __asm__ volatile ("syscall" : "=a"(ret)
                    : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                    : "rcx", "r11", "memory");
  return ret;
}
#elif defined(__aarch64__)
static inline long
sys6 (long n, long a, long b, long c, long d, long e, long f)
{
  register long x8 __asm__ ("x8") = n;
  register long x0 __asm__ ("x0") = a;
  register long x1 __asm__ ("x1") = b;
  register long x2 __asm__ ("x2") = c;
  register long x3 __asm__ ("x3") = d;
  register long x4 __asm__ ("x4") = e;
  register long x5 __asm__ ("x5") = f;
  __asm__ volatile ("svc 0" : "+r"(x0)
                    : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                    : "memory", "cc");
  return x0;
}
#else
#error "isandbox supports x86-64 and aarch64"
#endif

/* Every call returns the kernel's value: a negative errno on failure. */
#define SYS(name, ...) SYS_PICK (__VA_ARGS__, S6, S5, S4, S3, S2, S1, ) (__NR_##name, __VA_ARGS__)
#define SYS0(name) sys6 (__NR_##name, 0, 0, 0, 0, 0, 0)
#define SYS_PICK(a, b, c, d, e, f, which, ...) which
#define S1(n, a) sys6 (n, (long) (a), 0, 0, 0, 0, 0)
#define S2(n, a, b) sys6 (n, (long) (a), (long) (b), 0, 0, 0, 0)
#define S3(n, a, b, c) sys6 (n, (long) (a), (long) (b), (long) (c), 0, 0, 0)
#define S4(n, a, b, c, d) sys6 (n, (long) (a), (long) (b), (long) (c), (long) (d), 0, 0)
#define S5(n, a, b, c, d, e) sys6 (n, (long) (a), (long) (b), (long) (c), (long) (d), (long) (e), 0)
#define S6(n, a, b, c, d, e, f) sys6 (n, (long) (a), (long) (b), (long) (c), (long) (d), (long) (e), (long) (f))

/* start.c: run fn (arg) in a new task on its own stack; the task ends with exit (fn's return value). */
long clone_call (u64 flags, void *stack_top, int (*fn) (void *), void *arg);

/* errno values (the same on every architecture that we build for) */
#define EPERM 1
#define ENOENT 2
#define ESRCH 3
#define EINTR 4
#define EIO 5
#define E2BIG 7
#define ECHILD 10
#define EAGAIN 11
#define ENOMEM 12
#define EACCES 13
#define EBUSY 16
#define EEXIST 17
#define ENOTDIR 20
#define EISDIR 21
#define EINVAL 22
#define EFBIG 27
#define ENAMETOOLONG 36
#define ENOSYS 38
#define ENOTEMPTY 39
#define ELOOP 40
#define EPROTO 71
#define EBADMSG 74
#define EAFNOSUPPORT 97

#define AT_FDCWD (-100)
#define AT_EMPTY_PATH 0x1000
#define AT_RECURSIVE 0x8000
#define AT_SYMLINK_NOFOLLOW 0x100
#define AT_REMOVEDIR 0x200

#define O_RDONLY 0
#define O_WRONLY 1
#define O_RDWR 2
#define O_CREAT 0100
#define O_EXCL 0200
#define O_NOCTTY 0400
#define O_NONBLOCK 04000
#define O_CLOEXEC 02000000
#if defined(__aarch64__)
#define O_DIRECTORY 040000
#define O_NOFOLLOW 0100000
#else
#define O_DIRECTORY 0200000
#define O_NOFOLLOW 0400000
#endif
#define O_PATH 010000000

#define F_SETFL 4
#define F_DUPFD_CLOEXEC 1030

#define FIONREAD 0x541B
#define TIOCSCTTY 0x540E

#define X_OK 1
#define W_OK 2

#define S_IFMT 0170000
#define S_IFREG 0100000
#define S_IFDIR 0040000
#define S_IFCHR 0020000
#define S_IFLNK 0120000

#define CLONE_VM 0x100
#define CLONE_FILES 0x400
#define CLONE_VFORK 0x4000
#define CLONE_PARENT 0x8000
#define CLONE_NEWNS 0x20000
#define CLONE_NEWCGROUP 0x02000000
#define CLONE_NEWUTS 0x04000000
#define CLONE_NEWIPC 0x08000000
#define CLONE_NEWUSER 0x10000000
#define CLONE_NEWPID 0x20000000
#define CLONE_NEWNET 0x40000000

#define SIGHUP 1
#define SIGTRAP 5
#define SIGKILL 9
#define SIGCHLD 17
#define SIGCONT 18
#define SIGSTOP 19
#define SIGXFSZ 25
#define SIG_SETMASK 2

#define MS_NOSUID 2
#define MS_NODEV 4
#define MS_NOEXEC 8
#define MS_REC 0x4000
#define MS_PRIVATE 0x40000
#define MNT_DETACH 2

#define OPEN_TREE_CLONE 1
#define MOVE_MOUNT_F_EMPTY_PATH 4
#define MOVE_MOUNT_T_EMPTY_PATH 0x40
#define MOUNT_ATTR_RDONLY 1
#define MOUNT_ATTR_NOSUID 2
#define MOUNT_ATTR_NODEV 4
#define MOUNT_ATTR_NOEXEC 8
#define MOUNT_ATTR_IDMAP 0x00100000
struct mount_attr { u64 attr_set, attr_clr, propagation, userns_fd; };

#define PATH_MAX 4096
#define RESOLVE_NO_SYMLINKS 4
#define RESOLVE_IN_ROOT 0x10
struct open_how { u64 flags, mode, resolve; };

#define PR_SET_PDEATHSIG 1
#define PR_GET_DUMPABLE 3
#define PR_SET_DUMPABLE 4
#define PR_SET_KEEPCAPS 8
#define PR_SET_NAME 15
#define PR_GET_SECCOMP 21
#define PR_SET_SECCOMP 22
#define PR_CAPBSET_READ 23
#define PR_CAPBSET_DROP 24
#define PR_GET_SECUREBITS 27
#define PR_SET_SECUREBITS 28
#define PR_SET_CHILD_SUBREAPER 36
#define PR_SET_NO_NEW_PRIVS 38
#define PR_GET_NO_NEW_PRIVS 39
#define PR_CAP_AMBIENT 47
#define PR_CAP_AMBIENT_IS_SET 1
#define PR_CAP_AMBIENT_CLEAR_ALL 4
#define SECCOMP_MODE_FILTER 2

#define CAP_KILL 5
#define CAP_SETGID 6
#define CAP_SETUID 7

#define KEYCTL_GET_KEYRING_ID 0
#define KEYCTL_JOIN_SESSION_KEYRING 1
#define KEYCTL_READ 11
#define KEY_SPEC_SESSION_KEYRING (-3)

#define P_ALL 0
#define P_PID 1
#define WNOHANG 1
#define WUNTRACED 2
#define WEXITED 4
#define WNOWAIT 0x01000000
#define __WALL 0x40000000

#define RLIMIT_FSIZE 1
#define RLIMIT_NPROC 6
#define RLIMIT_NOFILE 7
#define RUSAGE_CHILDREN (-1)
#define CLOCK_MONOTONIC 1
#define CLOCK_BOOTTIME 7

#define POLLIN 1
#define POLLOUT 4
#define POLLERR 8
struct pollfd { int fd; short events, revents; };

#define AF_INET 2
#define AF_VSOCK 40
#define SOCK_MAX 11 /* the first type that there is not */
#define SOCK_DGRAM 2
#define SOCK_CLOEXEC 02000000
#define SIOCGIFFLAGS 0x8913
#define SIOCSIFFLAGS 0x8914
#define IFF_UP 1

#define SOL_SOCKET 1
#define SCM_RIGHTS 1
#define MSG_DONTWAIT 0x40
#define MSG_NOSIGNAL 0x4000
#define MSG_CTRUNC 8
#define MSG_CMSG_CLOEXEC 0x40000000
struct iovec { void *base; size_t len; };
struct msghdr { void *name; u32 namelen; struct iovec *iov; size_t iovlen; void *control; size_t controllen; u32 flags; };
struct cmsghdr { size_t len; int level, type; };

#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_PRIVATE 2
#define MAP_ANONYMOUS 0x20
#define MAP_FAILED_P(p) ((unsigned long) (p) >= (unsigned long) -4095L)

struct kernel_sigaction { void *handler; u64 flags; void *restorer; u64 mask; };
struct timespec { i64 sec, nsec; };
struct timeval { i64 sec, usec; };
struct rusage { struct timeval utime, stime; long maxrss, rest[13]; };
struct rlimit { u64 cur, max; };
struct sock_fprog { u16 len; void *filter; };
#define CLD_TRAPPED 4 /* this and more: it has stopped or goes on, and has not ended */
#define PTRACE_DETACH 17
struct siginfo_wait { i32 signo, err, code, pad, pid, uid, status; u8 rest[128 - 28]; };

struct statx_timestamp { i64 sec; u32 nsec; i32 pad; };
struct statx {
  u32 mask, blksize;
  u64 attributes;
  u32 nlink, uid, gid;
  u16 mode, pad;
  u64 ino, size, blocks, attributes_mask;
  struct statx_timestamp atime, btime, ctime, mtime;
  u32 rdev_major, rdev_minor, dev_major, dev_minor;
  u64 spare[14];
};
#define STATX_INO 0x100
#define STATX_BASIC 0x7ff

struct statfs { long type, bsize, blocks, bfree, bavail, files, ffree, rest[14]; };

#endif
