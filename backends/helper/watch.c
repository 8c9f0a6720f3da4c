/* Quotas that no kernel mechanism covers without a cgroup: memory of all commands together, CPU time of one command with
 * all its children. Looked at every WATCH_MS while commands run, so both can be overshot by what happens in between. */
#include "command.h"
#include "procs.h"

#define TICK_NS 10000000ull /* USER_HZ is 100 on both architectures */

/* All scratch space is one tmpfs, so that any place of it tells for all. */
static u64
tmpfs_bytes (void)
{
  struct statfs fs;
  if (!(plan.mode->flags & MODE_NAMESPACES) || SYS (statfs, "/tmp", &fs) < 0)
    return 0;
  return (u64) (fs.blocks - fs.bfree) * (u64) fs.bsize;
}

/* Memory of a command's processes, bytes; whether it is over its CPU time is left in it. */
static u64
weigh (struct command *c, struct procs *p)
{
  u64 bytes = 0, ticks = 0;
  for (u32 i = 0; i < p->count; i++)
    p->list[i].mark = 0;
  procs_mark_descendants (p, c->keeper);
  for (u32 i = 0; i < p->count; i++)
    if (p->list[i].mark)
      {
        bytes += plan.mode->memory ? proc_memory_bytes (&p->list[i]) : 0;
        ticks += p->list[i].cpu_ticks;
      }
    else if (p->list[i].pid == c->keeper)
      ticks += p->list[i].cpu_ticks; /* of the orphans that it has reaped */
  c->over_cpu = plan.mode->cpu_ns && ticks * TICK_NS > plan.mode->cpu_ns;
  return bytes;
}

void
watch (void)
{
  u64 total = tmpfs_bytes (), largest = 0;
  struct command *culprit = NULL;
  struct procs p = procs_read (); /* one picture for all commands; ending one makes another */
  for (struct command *c = commands; c; c = c->next)
    {
      u64 bytes = weigh (c, &p);
      total += bytes;
      if (bytes >= largest)
        {
          largest = bytes;
          culprit = c;
        }
    }
  for (struct command *c = commands; c; c = c->next)
    if (c->over_cpu && !command_fault (c))
      command_end (c, FAULT_CPU);
  if (plan.mode->memory && total > plan.mode->memory && culprit && !command_fault (culprit))
    command_end (culprit, FAULT_OOM);
}
