/* A detached sandbox: out of its creator's family, and open to others.
 *
 * The launcher forks a process that outlives it. With namespaces that one is the doorkeeper: it stays outside, where the ids of
 * those who connect are what they are, and forks a launcher of its own, whose first process becomes its child by CLONE_PARENT. It
 * passes on connections and parses nothing. Without namespaces there is nothing to stay outside of: the server lets clients in.
 */
#include "door.h"
#include "clients.h"
#include "setup.h"

#define SO_PEERCRED 17
#define SOCK_STREAM 1
#define SOCK_NONBLOCK O_NONBLOCK
#define AF_UNIX 1
#define F_SETFL 4
#define S_IFSOCK 0140000
#define PAUSE_NS 100000000l

struct filter_step { u16 code; u8 yes, no; u32 value; };
#define LOAD(offset) { 0x20, 0, 0, offset }      /* BPF_LD | BPF_W | BPF_ABS */
#define SKIP_IF(value, steps) { 0x15, steps, 0, value } /* BPF_JMP | BPF_JEQ | BPF_K */
#define SKIP_UNLESS(value, steps) { 0x15, 0, steps, value }
#define RETURN(value) { 0x06, 0, 0, value }
#define KILL_PROCESS 0x80000000u
#define ALLOW 0x7fff0000u
#if defined(__x86_64__)
#define AUDIT_ARCH 0xc000003eu
#else
#define AUDIT_ARCH 0xc00000b7u
#endif

/* All that a doorkeeper does. Numbers of x86-64's other ABI have a bit that none of these has. */
static const struct filter_step allowed[] = {
  LOAD (4), SKIP_UNLESS (AUDIT_ARCH, 8),
  LOAD (0),
  SKIP_IF (__NR_ppoll, 7), SKIP_IF (__NR_accept4, 6), SKIP_IF (__NR_getsockopt, 5), SKIP_IF (__NR_sendmsg, 4),
  SKIP_IF (__NR_close, 3), SKIP_IF (__NR_wait4, 2), SKIP_IF (__NR_exit_group, 1),
  RETURN (KILL_PROCESS), RETURN (ALLOW),
};

static struct source door = { .fd = LISTEN_FD, .events = POLLIN };

/* The next connection of a process that is UID's; a negative errno where there is none. Others are closed. */
static long
take_peer (u32 uid)
{
  struct { i32 pid; u32 uid, gid; } peer = { 0, ~0u, ~0u };
  u32 len = sizeof peer;
  long fd = SYS (accept4, LISTEN_FD, 0, 0, O_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0)
    return fd;
  if (SYS (getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && len == sizeof peer && peer.uid == uid)
    return fd;
  SYS (close, fd);
  return -EPERM;
}

/* Without namespaces: the server at its own door. */
static void
let_in (struct source *s, short happened)
{
  (void) s;
  (void) happened;
  long fd = take_peer ((u32) SYS0 (geteuid));
  if (fd >= 0)
    client_accept ((int) fd);
  else if (fd != -EPERM && fd != -EAGAIN)
    sleep_us (1000); /* no descriptor to be had: it stands at the door until there is one */
}

/* The first process: what its doorkeeper passes on. */
static void
take_in (struct source *s, short happened)
{
  (void) happened;
  u8 byte;
  union { struct cmsghdr header; u8 space[24]; } control;
  struct iovec iov = { &byte, 1 };
  struct msghdr message = { 0, 0, &iov, 1, &control, sizeof control, 0 };
  long r = SYS (recvmsg, s->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (r == 0)
    end_sandbox (); /* nobody could ever end it in order any more */
  if (r < 0 || message.controllen < sizeof control.header || control.header.type != SCM_RIGHTS)
    return;
  int fd;
  memcpy (&fd, control.space + sizeof control.header, sizeof fd);
  client_accept (fd);
}

void
door_open (void)
{
  if (!(plan.mode->flags & MODE_DETACHED))
    return;
  door.ready = plan.mode->flags & MODE_NAMESPACES ? take_in : let_in;
  char byte;
  long r = 1;
  if (plan.mode->flags & MODE_NAMESPACES) /* it has given up what it could, or there is no sandbox */
    while ((r = SYS (read, LISTEN_FD, &byte, 1)) == -EINTR)
      ;
  if (r != 1)
    fail ("door", "its keeper has ended", -ECHILD);
  loop_add (&door);
}

static void
give_up_rights (void)
{
  struct { u32 version; i32 pid; } header = { 0x20080522, 0 };
  u32 none[6] = { 0 }, now[6];
  must (SYS (prctl, PR_SET_NAME, "isandbox-door", 0, 0, 0), "door", "name");
  must (SYS0 (setsid), "door", "session");
  must (SYS (chdir, "/"), "door", "directory");
  must (SYS (prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "door", "ambient capabilities");
  must (SYS (capset, &header, none), "door", "capset");
  must (SYS (capget, &header, now), "door", "capget");
  if (memcmp (none, now, sizeof none) != 0)
    fail ("door", "a set did not shrink", -EPERM);
  must (SYS (prctl, PR_SET_DUMPABLE, 0, 0, 0, 0), "door", "dumpable");
  must (SYS (prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "door", "no_new_privs");
  struct sock_fprog program = { sizeof allowed / sizeof allowed[0], (void *) allowed };
  must (SYS (prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "door", "seccomp");
}

/* One byte, and with it a descriptor. Whoever does not take it at once is too busy for one more client. */
static void
pass_on (int inside, long fd)
{
  union { struct cmsghdr header; u8 space[24]; } control = { { sizeof control.header + sizeof (int), SOL_SOCKET, SCM_RIGHTS } };
  int number = (int) fd;
  memcpy (control.space + sizeof control.header, &number, sizeof number);
  struct iovec iov = { "", 1 };
  struct msghdr message = { 0, 0, &iov, 1, fd < 0 ? 0 : &control, fd < 0 ? 0 : sizeof control, 0 };
  SYS (sendmsg, inside, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

__attribute__ ((noreturn)) static void
keep_door (int inside, u32 uid)
{
  struct timespec pause = { 0, PAUSE_NS };
  long fd = -EAGAIN;
  pass_on (inside, -1); /* ready */
  for (;;)
    {
      int stuck = fd < 0 && fd != -EPERM && fd != -EAGAIN; /* no descriptor to be had */
      struct pollfd polls[2] = { { inside, POLLIN, 0 }, { stuck ? -1 : LISTEN_FD, POLLIN, 0 } };
      SYS (ppoll, polls, 2, stuck ? &pause : 0, 0, 8);
      if (polls[0].revents)
        break;
      fd = -EAGAIN;
      if (!polls[1].revents)
        continue;
      fd = take_peer (uid);
      if (fd < 0)
        continue;
      pass_on (inside, fd);
      SYS (close, fd);
    }
  /* The first process lets go of its descriptors before the kernel has ended all others: the lock is ours too until then. */
  while (SYS (wait4, -1, 0, __WALL, 0) != -ECHILD)
    ;
  exit_now (0);
}

__attribute__ ((noreturn)) static void
become_doorkeeper (int inside)
{
  const int kept[] = { CONTROL_FD, LISTEN_FD, LOCK_FD, inside };
  struct kernel_sigaction ignored = { (void *) 1, 0, 0, 0 };
  u32 uid = (u32) SYS0 (geteuid);
  must (close_all_but (3, kept, 4), "door", "close descriptors");
  must (SYS (rt_sigaction, SIGCHLD, &ignored, 0, 8), "door", "signals"); /* the kernel reaps: the launcher, long before the rest */
  while (SYS (wait4, -1, 0, WNOHANG | __WALL, 0) > 0)
    ;
  unmap_pages ((void *) plan.base, plan.size);
  give_up_rights ();
  SYS (close, CONTROL_FD); /* from here on its end is the first process's */
  keep_door (inside, uid);
}

static void
check_descriptors (void)
{
  static const u16 kinds[] = { S_IFSOCK, S_IFREG, S_IFREG };
  struct statx st;
  for (int i = 0; i < 3; i++)
    if (SYS (statx, LISTEN_FD + i, "", AT_EMPTY_PATH, STATX_BASIC, &st) < 0 || (st.mode & S_IFMT) != kinds[i])
      fail ("door", "a descriptor is missing", -EBADMSG);
  must (SYS (fcntl, LISTEN_FD, F_SETFL, O_RDWR | O_NONBLOCK), "door", "listen");
}

static long
fork_child (void)
{
  return must (SYS (clone, SIGCHLD, 0, 0, 0, 0), "door", "fork");
}

void
door_detach (void)
{
  int pair[2];
  if (!(plan.mode->flags & MODE_DETACHED))
    return;
  check_descriptors ();
  if (fork_child ())
    exit_now (0); /* nobody of the sandbox is the creator's child */
  if (!(plan.mode->flags & MODE_NAMESPACES))
    return;
  must (SYS (socketpair, AF_UNIX, SOCK_STREAM | O_CLOEXEC, 0, pair), "door", "socketpair");
  if (fork_child ())
    {
      SYS (close, pair[1]);
      become_doorkeeper (pair[0]);
    }
  SYS (close, pair[0]);
  must (SYS (dup3, pair[1], LISTEN_FD, O_CLOEXEC), "door", "dup");
  SYS (close, pair[1]);
}
