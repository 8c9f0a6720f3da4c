/* Looking at what runs: quotas that no kernel mechanism covers without a cgroup (memory of all commands together, CPU time
 * of one command with all its children), and which limits are used up. What happens between two looks goes unseen, so a
 * quota can be overshot by that much: the nearer memory is to its quota, the sooner is the next look.
 */
#include "command.h"

#define TICK_NS 10000000ull /* USER_HZ is 100 on both architectures */
#define LOOK_NS 50000000ull
#define LOOK_SOONEST_NS 2000000ull
/* Of the time, where only limits are looked at: the more processes there are, the longer a look takes. */
#define LOOK_SHARE 50
/* Bytes in a nanosecond: what two cores can touch of fresh memory, measured with 2 MiB pages, and a half more. */
#define FILL_RATE 8

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
  u64 bytes = 0, ticks = 0, cpu_ns;
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
  /* A parent that ignores SIGCHLD hides its children's time from /proc, not from the cgroup. */
  cpu_ns = c->meters[METER_CPU] >= 0 ? meter_since (c, METER_CPU) : ticks * TICK_NS;
  c->over_cpu = plan.mode->cpu_ns && cpu_ns > plan.mode->cpu_ns;
  return bytes;
}

static u64
next_look (u64 left)
{
  u64 ns = left / FILL_RATE;
  return ns < LOOK_SOONEST_NS ? LOOK_SOONEST_NS : ns > LOOK_NS ? LOOK_NS : ns;
}

u64
watch_first (void)
{
  return plan.mode->memory ? next_look (plan.mode->memory) : LOOK_NS;
}

u64
watch (void)
{
  u64 began = now_ns (), total = plan.mode->memory ? tmpfs_bytes () : 0, largest = 0;
  u32 threads = 0;
  struct command *culprit = NULL;
  struct procs p = procs_read (); /* one picture for all commands; ending one makes another */
  for (struct command *c = commands; c; c = c->next)
    {
      u64 bytes = weigh (c, &p);
      threads += limits_look (c, &p);
      total += bytes;
      if (bytes >= largest)
        {
          largest = bytes;
          culprit = c;
        }
    }
  limits_together (threads);
  u64 cost = now_ns () - began; /* of the look: what ending a command takes is no reason to look less */
  for (struct command *c = commands; c; c = c->next)
    if (!command_fault (c) && (c->over_cpu || out_of_memory (c)))
      command_end (c, c->over_cpu ? FAULT_CPU : FAULT_OOM);
  if (!plan.mode->memory && !plan.mode->cpu_ns)
    return cost * LOOK_SHARE < LOOK_NS ? LOOK_NS : cost * LOOK_SHARE;
  if (!plan.mode->memory)
    return LOOK_NS;
  if (total > plan.mode->memory && culprit && !command_fault (culprit))
    command_end (culprit, FAULT_OOM);
  return next_look (total < plan.mode->memory ? plan.mode->memory - total : 0);
}
