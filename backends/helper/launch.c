/* From the host's namespaces into new ones. The launcher makes the sandbox's first process as its own sibling
 * (CLONE_PARENT), so that the host is its parent, maps its ids, and ends. */
#include "command.h"
#include "setup.h"
#include "verify.h"

#define MAP_MOST 1024

/* Whether two texts have the same words, whatever stands between them. */
static int
same_words (const char *a, const char *b)
{
  for (;;)
    {
      while (*a == ' ' || *a == '\n')
        a++;
      while (*b == ' ' || *b == '\n')
        b++;
      if (!*a || *a != *b)
        return !*a && !*b;
      for (; *a == *b && *a && *a != ' ' && *a != '\n'; a++, b++)
        ;
      if ((*a && *a != ' ' && *a != '\n') || (*b && *b != ' ' && *b != '\n'))
        return 0;
    }
}

static void
write_map (long pid, const char *file, const char *text)
{
  char path[64];
  size_t len = put_str (path, sizeof path, 0, "/proc/");
  len = put_num (path, sizeof path, len, (u64) pid);
  put_str (path, sizeof path, len, file);
  long fd = must (SYS (openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0), "map ids", path);
  must (write_all ((int) fd, text, str_len (text)), "map ids", path);
  /* What the kernel made of it, in its own columns; a map cannot be changed later. */
  char found[MAP_MOST];
  long r = must (SYS (pread64, fd, found, sizeof found - 1, 0), "map ids", path);
  SYS (close, fd);
  found[r] = 0;
  if (!same_words (found, text))
    fail ("map ids", path, -EPROTO);
}

/* The launcher's last act. The child waits at the gate until its ids are mapped. */
__attribute__ ((noreturn)) static void
release (long pid, int gate)
{
  /* First, so that the host can end and reap the child whatever happens next. */
  u32 seen[2] = { (u32) pid, 0 }, detached = plan.mode->flags & MODE_DETACHED;
  if (detached)
    seen[1] = (u32) SYS0 (getppid); /* the doorkeeper */
  must (send_frame (CONTROL_FD, FRAME_LAUNCHED, seen, detached ? 8 : 4), "launch", "report");
  ids_made ();
  if (!(plan.mode->flags & MODE_SPLIT_UID))
    write_map (pid, "/setgroups", "deny"); /* the kernel's condition for an unprivileged gid_map */
  write_map (pid, "/gid_map", plan.gid_map);
  write_map (pid, "/uid_map", plan.uid_map);
  must (write_all (gate, "", 1), "launch", "release");
  exit_now (0);
}

static void
await_release (int gate)
{
  char byte;
  long r;
  while ((r = SYS (read, gate, &byte, 1)) == -EINTR)
    ;
  if (r != 1) /* the launcher failed and has told the host why */
    exit_now (125);
}

/* The network namespace takes the kernel as long as all mounts together. A task that shares memory and descriptors with the
 * first process makes it meanwhile, on another CPU where there is one; the first process enters it before it is confined, so
 * that no command ever runs outside it. */
static struct network { u8 stack[STACK_SIZE] __attribute__ ((aligned (16))); long proc, task, ns; } network;

static int
network_make (void *unused)
{
  (void) unused;
  must (SYS (unshare, CLONE_NEWNET), "create namespaces", "network");
  /* By a descriptor of /proc: the path may be covered by a mount by now. */
  network.ns = must (SYS (openat, network.proc, "thread-self/ns/net", O_RDONLY | O_CLOEXEC, 0), "network", "open");
  if (plan.mode->flags & MODE_LOOPBACK)
    confine_loopback_up ();
  return 0;
}

static void
network_begin (void)
{
  network.proc = must (SYS (openat, AT_FDCWD, "/proc", O_PATH | O_CLOEXEC, 0), "network", "/proc");
  network.task = clone_call (CLONE_VM | CLONE_FILES | SIGCHLD, network.stack + STACK_SIZE, network_make, NULL);
  must (network.task, "network", "clone");
}

static void
network_enter (void)
{
  int status = 0;
  must (SYS (wait4, network.task, &status, __WALL, 0), "network", "wait");
  if (status != 0)
    fail ("network", "not made", -ECHILD);
  must (SYS (setns, network.ns, CLONE_NEWNET), "network", "enter");
  SYS (close, network.ns);
  SYS (close, network.proc);
}

void
launch (void)
{
  int isolated_network = (plan.mode->clone_flags & CLONE_NEWNET) != 0;
  int early = (plan.mode->flags & MODE_OPEN_EARLY) != 0;
  int gate[2];
  if (early)
    mounts_open_sources ();
  must (SYS (pipe2, gate, O_CLOEXEC), "launch", "pipe");
  ids_prepare ();
  /* CLONE_PARENT wants no exit signal of its own: the child takes the launcher's, SIGCHLD. */
  long pid = SYS (clone, (plan.mode->clone_flags & ~(u64) CLONE_NEWNET) | CLONE_PARENT, 0, 0, 0, 0);
  must (pid, "create namespaces", "");
  if (pid > 0)
    {
      SYS (close, gate[0]);
      release (pid, gate[1]);
    }
  SYS (close, gate[1]);
  if (isolated_network)
    network_begin ();
  await_release (gate[0]);
  SYS (close, gate[0]);

  must (SYS0 (setsid), "session", ""); /* the caller's terminal is not ours */
  must (SYS (mount, 0, "/", 0, MS_REC | MS_PRIVATE, 0), "private mounts", "");
  if (!early)
    mounts_open_sources ();
  if (plan.mode->flags & MODE_SPLIT_UID)
    confine_become_root ();
  mounts_build ();
  confine_sysctls ();
  if (plan.hostname)
    must (SYS (sethostname, plan.hostname, str_len (plan.hostname)), "hostname", plan.hostname);
  verify_view ();
  if (isolated_network)
    network_enter ();
  confine_forever ();
}
