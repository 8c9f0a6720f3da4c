/* Ending one command, with every process that it started, and no other.
 *
 * In a pid namespace: stop everything with one kill (-1, SIGSTOP), which reaches forks in flight and skips the first
 * process of the namespace; look at /proc once; kill the keeper's descendants; let the rest go on. A freezer that needs no
 * cgroup. Without a pid namespace kill (-1) would stop the caller's whole session: there the tree is walked and killed
 * process by process, each through a pidfd whose parent is checked again after it was opened.
 */
#include "command.h"
#include "procs.h"

#define MAX_REMEMBERED 256

/* Other commands' processes that were stopped on purpose must stay so. */
static u32
remember_stopped (i32 *stopped)
{
  u32 n = 0;
  struct procs p = procs_read ();
  for (u32 i = 0; i < p.count && n < MAX_REMEMBERED; i++)
    if (p.list[i].state == 'T')
      stopped[n++] = p.list[i].pid;
  return n;
}

static u32
freeze (i32 *stopped)
{
  u32 n = remember_stopped (stopped);
  SYS (kill, -1, SIGSTOP);
  return n;
}

static void
thaw (const i32 *stopped, u32 n, i32 keeper)
{
  SYS (kill, -1, SIGCONT);
  while (n--)
    if (stopped[n] != keeper)
      SYS (kill, stopped[n], SIGSTOP);
}

static void
sweep_namespace (i32 keeper)
{
  i32 stopped[MAX_REMEMBERED];
  u32 n = freeze (stopped);
  struct procs p = procs_read ();
  procs_mark_descendants (&p, keeper);
  for (u32 i = 0; i < p.count; i++)
    if (p.list[i].mark)
      SYS (kill, p.list[i].pid, SIGKILL);
  thaw (stopped, n, keeper);
}

static void
kill_if_child_of (i32 pid, i32 parent)
{
  long fd = SYS (pidfd_open, pid, 0);
  if (fd < 0)
    return;
  if (proc_parent (pid) == parent)
    SYS (pidfd_send_signal, fd, SIGKILL, 0, 0);
  SYS (close, fd);
}

static void
sweep_tree (i32 keeper)
{
  for (int pass = 0; pass < 8; pass++)
    {
      struct procs p = procs_read ();
      if (procs_mark_descendants (&p, keeper) == 0)
        return;
      for (u32 i = 0; i < p.count; i++)
        if (p.list[i].mark && p.list[i].state != 'Z')
          kill_if_child_of (p.list[i].pid, p.list[i].parent);
    }
}

void
sweep (struct command *c)
{
  if (plan.mode->flags & MODE_NAMESPACES)
    sweep_namespace (c->keeper);
  else
    sweep_tree (c->keeper);
}

static int
is_keeper (i32 pid)
{
  for (const struct command *c = commands; c; c = c->next)
    if (c->keeper == pid)
      return 1;
  return 0;
}

static void
kill_orphans (void)
{
  i32 self = (i32) SYS0 (getpid);
  for (int pass = 0; pass < 8; pass++)
    {
      struct procs p = procs_read ();
      for (u32 i = 0; i < p.count; i++)
        if (p.list[i].parent == self && !is_keeper (p.list[i].pid))
          {
            procs_mark_descendants (&p, p.list[i].pid);
            p.list[i].mark = 1;
          }
      u32 live = 0;
      for (u32 i = 0; i < p.count; i++)
        if (p.list[i].mark && p.list[i].state != 'Z')
          {
            live++;
            kill_if_child_of (p.list[i].pid, p.list[i].parent);
          }
      if (live == 0)
        return;
    }
}

void
sweep_orphans (void)
{
  i32 stopped[MAX_REMEMBERED];
  u32 n = 0;
  int isolated = (plan.mode->flags & MODE_NAMESPACES) != 0;
  if (isolated) /* they may fork faster than they are found */
    n = freeze (stopped);
  kill_orphans ();
  if (isolated)
    thaw (stopped, n, 0);
}
