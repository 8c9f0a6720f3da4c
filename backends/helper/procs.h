/* A picture of the processes in /proc: who is whose child, who is stopped, who uses what. */
#ifndef ISANDBOX_PROCS_H
#define ISANDBOX_PROCS_H

#include "base.h"

#define MAX_PROCS 32768
#define HEADLESS 'H' /* the first thread has ended, others run on: the kernel shows a zombie, and none is there */

struct proc {
  i32 pid, parent;
  char state; /* as the kernel shows it, or HEADLESS */
  u8 mark;
  u32 threads;
  u64 cpu_ticks; /* utime + stime + cutime + cstime */
};

struct procs { u32 count; struct proc *list; };

/* The table is static and reused: at most one picture is alive at a time. Processes past MAX_PROCS are not in it. */
struct procs procs_read (void);
/* How many processes there are; needs no table, so that a keeper may ask too. */
u32 procs_count (void);
/* Mark every descendant of ROOT (not ROOT itself); returns how many that are not zombies. */
u32 procs_mark_descendants (struct procs *p, i32 root);
/* Parent of PID right now, or a negative errno. */
i32 proc_parent (i32 pid);
/* Write to OUT at most N processes that trace a thread of PID; returns how many. */
u32 proc_tracers (i32 pid, i32 *out, u32 n);
/* Memory of a process that only its end gives back, bytes. */
u64 proc_memory_bytes (const struct proc *p);

#endif
