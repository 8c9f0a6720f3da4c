/* Ending one command, with every process that it started, and no other.
 *
 * In a pid namespace: stop everything with one kill (-1, SIGSTOP), which reaches forks in flight and skips the first
 * process of the namespace; look at /proc once; kill the keeper's descendants; let the rest go on. A freezer that needs no
 * cgroup. Without a pid namespace kill (-1) would stop the caller's whole session: there the tree is walked and killed
 * process by process, each through a pidfd whose parent is checked again after it was opened.
 */
#include "command.h"
#include "procs.h"

/* Processes that were stopped on purpose before a freeze, ascending; as large as the table of processes. */
static i32 *stopped;
static u32 stopped_count;

static void
freeze (void)
{
  if (!stopped)
    stopped = map_pages (MAX_PROCS * sizeof *stopped); /* touched only as far as it is used */
  stopped_count = 0;
  struct procs p = procs_read ();
  for (u32 i = 0; stopped && i < p.count; i++)
    if (p.list[i].state == 'T')
      stopped[stopped_count++] = p.list[i].pid;
  SYS (kill, -1, SIGSTOP);
}

/* P was read while everything was frozen, so it is complete, and like the list of the stopped ones in the order of /proc.
 * Those are left alone instead of being stopped again: one that waits for a processor would be found running by the next
 * sweep, and be woken for good. */
static void
thaw (struct procs p, i32 keeper)
{
  if (p.count == MAX_PROCS)
    SYS (kill, -1, SIGCONT); /* some may not be in it */
  for (u32 i = 0, next = 0; i < p.count; i++)
    {
      i32 pid = p.list[i].pid;
      while (next < stopped_count && stopped[next] < pid)
        next++;
      if (next == stopped_count || stopped[next] != pid || pid == keeper)
        SYS (kill, pid, SIGCONT);
    }
}

static int
is_keeper (i32 pid)
{
  for (const struct command *c = commands; c; c = c->next)
    if (c->keeper == pid)
      return 1;
  return 0;
}

/* A process that somebody traces may stop once more on its way out, where no second SIGKILL reaches it (PTRACE_O_TRACEEXIT),
 * and when it is dead it stays until the tracer has looked at it. A tracer that is part of the command dies with it; one that
 * belongs to another command keeps this one from ending, and is ended too. */
static void
kill_tracers (i32 pid)
{
  i32 tracers[64];
  u32 n = proc_tracers (pid, tracers, sizeof tracers / sizeof tracers[0]);
  for (u32 i = 0; i < n; i++)
    if (tracers[i] != 1 && !is_keeper (tracers[i]))
      SYS (kill, tracers[i], SIGKILL);
}

/* AGAIN: this is not the first sweep, so whatever could be reaped has been. */
static void
sweep_namespace (i32 keeper, int again)
{
  freeze ();
  struct procs p = procs_read ();
  procs_mark_descendants (&p, keeper);
  for (u32 i = 0; i < p.count; i++)
    if (p.list[i].mark)
      {
        SYS (kill, p.list[i].pid, SIGKILL);
        if (again && (p.list[i].state == 'Z' || p.list[i].state == 't' || p.list[i].state == HEADLESS))
          kill_tracers (p.list[i].pid);
      }
  thaw (p, keeper);
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
    sweep_namespace (c->keeper, c->sweep_ns != 0);
  else
    sweep_tree (c->keeper);
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
  int isolated = (plan.mode->flags & MODE_NAMESPACES) != 0;
  if (isolated) /* they may fork faster than they are found */
    freeze ();
  kill_orphans ();
  if (isolated)
    thaw (procs_read (), 0);
}
