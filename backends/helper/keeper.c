/* The keeper of one command. It shares memory with the server: raw system calls only, nothing here allocates, and nothing
 * written here belongs to another command. */
#include "command.h"

/* Keep only 0, 1, 2, the status pipe, the script and the cgroup's files; everything else (control socket, other commands'
 * pipes) is closed. */
static long
arrange_descriptors (struct command *c)
{
  long in = c->fd_in;
  if (in < 0 && (in = SYS (openat, AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC, 0)) < 0)
    return in;
  long r;
  if ((r = SYS (dup3, in, 0, 0)) < 0 || (r = SYS (dup3, c->fd_out, 1, 0)) < 0
      || (r = SYS (dup3, c->fd_err >= 0 ? c->fd_err : c->fd_out, 2, 0)) < 0
      || (r = SYS (dup3, c->fd_status, KEEPER_STATUS_FD, O_CLOEXEC)) < 0)
    return r;
  if (c->fd_script < 0)
    SYS (close, KEEPER_SCRIPT_FD);
  else if ((r = SYS (dup3, c->fd_script, KEEPER_SCRIPT_FD, O_CLOEXEC)) < 0)
    return r;
  int kept[MAX_JOINS + METERS];
  memcpy (kept, c->joins, sizeof c->joins);
  memcpy (kept + MAX_JOINS, c->meters, sizeof c->meters);
  return close_all_but (KEEPER_SCRIPT_FD + 1, kept, sizeof kept / sizeof kept[0]);
}

/* Clients of a detached sandbox come and go: one that fills its status pipe holds up neither the server nor the end of its
 * command, and does without the report. What is shorter than a page fits a pipe that can be written to. */
static void
send_report (int fd, u32 type, const void *payload, size_t len)
{
  struct pollfd pipe = { fd, POLLOUT, 0 };
  struct timespec now = { 0, 0 };
  if ((plan.mode->flags & MODE_DETACHED) && SYS (ppoll, &pipe, 1, &now, 0, 8) == 0)
    return;
  send_frame (fd, type, payload, len);
}

void
keeper_report (int fd, struct command *c, int wait_status, int lingering)
{
  struct rusage usage;
  memset (&usage, 0, sizeof usage);
  if (fd == KEEPER_STATUS_FD) /* in the keeper: all that it reaped */
    SYS (getrusage, RUSAGE_CHILDREN, &usage);
  if (!c->start.operation)
    limits_at_end (c);
  struct exit_report report = {
    .id = c->start.id,
    .wait_status = wait_status,
    .fault = command_fault (c),
    .limits = c->limits,
    .start_errno = c->start_errno,
    .start_stage = c->start_stage,
    .lingering = (u32) lingering,
    .maxrss_kb = (u32) usage.maxrss,
    .utime_us = (u64) (usage.utime.sec * 1000000 + usage.utime.usec),
    .stime_us = (u64) (usage.stime.sec * 1000000 + usage.stime.usec),
    .duration_us = (now_ns () - c->started_ns) / 1000,
  };
  c->reported = 1;
  send_report (fd, FRAME_EXIT, &report, sizeof report);
}

static int
reap_one (struct command *c, i32 pid)
{
  int status = 0;
  SYS (wait4, pid, &status, __WALL, 0);
  limits_of_a_death (c, status);
  return status;
}

/* Look for a child that has ended, and leave it to be reaped: INFO->pid is 0 when there is none. Returns 0 when there are no
 * children. A process can make its parent its tracer (PTRACE_TRACEME), and the kernel then tells of its stops too, asked or
 * not. It is let go, with the signal that it stopped for; but not with the SIGTRAP of an exec, which is for tracers only. */
static int
next_dead (struct siginfo_wait *info)
{
  for (;;)
    {
      info->pid = 0;
      if (SYS (waitid, P_ALL, 0, info, WEXITED | WNOHANG | WNOWAIT | __WALL, 0) == -ECHILD)
        return 0;
      if (info->pid == 0 || info->code < CLD_TRAPPED)
        return 1;
      long signal = info->status & 0x7f;
      SYS (ptrace, PTRACE_DETACH, info->pid, 0, signal == SIGTRAP ? 0 : signal);
    }
}

static int
children_left (struct command *c)
{
  struct siginfo_wait info;
  while (next_dead (&info))
    {
      if (info.pid == 0)
        return 1;
      reap_one (c, info.pid); /* dead already: it does not linger */
    }
  return 0;
}

/* The server died and this is no pid namespace that died with it: what the command started must not outlive it. One keeper
 * at a time looks at /proc, for the picture of it is shared memory; a keeper that was killed with the lock in its hand holds
 * the others up for a second. */
__attribute__ ((noreturn)) static void
end_without_server (struct command *c)
{
  static volatile u32 lock;
  c->reported = 1;
  c->keeper = (i32) SYS0 (getpid);
  for (int tries = 0; tries < 1000 && __atomic_exchange_n (&lock, 1, __ATOMIC_SEQ_CST); tries++)
    sleep_us (1000);
  while (children_left (c))
    {
      sweep (c);
      sleep_us (1000);
    }
  __atomic_store_n (&lock, 0, __ATOMIC_SEQ_CST);
  exit_now (1);
}

/* Until a child has ended, or the server has; called again and again. All signals are blocked since before the first child,
 * so none is lost. */
static void
wait_for_news (struct command *c)
{
  u64 wanted = 1ull << (SIGCHLD - 1) | 1ull << (SIGHUP - 1);
  if ((i32) SYS0 (getppid) != c->server) /* first: it may have died before this keeper asked to be told */
    end_without_server (c);
  SYS (rt_sigtimedwait, &wanted, 0, 0, 8);
}

/* Where commands share the uid of file operations, one that stops them would hang the host's call. */
static void
resume (i32 child)
{
  struct siginfo_wait info;
  info.pid = 0;
  if (SYS (waitid, P_PID, child, &info, WUNTRACED | WNOHANG, 0) == 0 && info.pid == child)
    SYS (kill, child, SIGCONT);
}

/* Reap until nothing is left. The report goes out when the command itself has ended; when the sandbox ended it, only after
 * its last descendant, so that the host can say that nothing is left. So it is, too, when the kernel has ended one of its
 * processes for want of memory: the server sees that at its next look and ends the rest. */
static void
reap (struct command *c, i32 child)
{
  int status = 0, ended = 0;
  struct siginfo_wait info;
  while (next_dead (&info)) /* until there is none: the proof that nothing is left */
    {
      if (info.pid == 0)
        {
          if (c->start.operation && !ended)
            resume (child);
          wait_for_news (c);
        }
      else if (info.pid == child && !ended)
        {
          __atomic_store_n (&c->child, 0, __ATOMIC_SEQ_CST);
          while (__atomic_load_n (&c->signalling, __ATOMIC_SEQ_CST))
            SYS0 (sched_yield);
          status = reap_one (c, child);
          ended = 1;
        }
      else
        reap_one (c, info.pid);
      if (ended && !c->reported && !out_of_memory (c) && command_settle (c, OWN_END))
        keeper_report (KEEPER_STATUS_FD, c, status, children_left (c));
    }
  if (!c->reported)
    {
      command_settle (c, out_of_memory (c) ? FAULT_OOM : OWN_END);
      keeper_report (KEEPER_STATUS_FD, c, status, 0);
    }
}

int
keeper_main (void *arg)
{
  struct command *c = arg;
  SYS (prctl, PR_SET_NAME, "isandbox-keeper", 0, 0, 0);
  long r;
  if ((r = SYS (prctl, PR_SET_PDEATHSIG, SIGHUP, 0, 0, 0)) < 0 || (r = SYS (prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) < 0
      || (r = arrange_descriptors (c)) < 0)
    {
      not_started (c, STAGE_STDIO, r);
      keeper_report (c->fd_status, c, 127 << 8, 0);
      return 0;
    }
  /* A file operation may wait for a slow disk: no vfork, so that the keeper can still be told to end it. */
  u64 flags = CLONE_VM | SIGCHLD | (c->start.operation ? 0 : CLONE_VFORK);
  r = clone_call (flags, c->child_stack + STACK_SIZE, command_main, c);
  if (r < 0)
    {
      not_started (c, STAGE_IDENTITY, r);
      keeper_report (KEEPER_STATUS_FD, c, 127 << 8, 0);
      return 0;
    }
  if (!c->start.operation)
    __atomic_store_n (&c->child, (i32) r, __ATOMIC_SEQ_CST);
  for (int fd = 0; fd < 3; fd++)
    SYS (close, fd);
  SYS (close, KEEPER_SCRIPT_FD);
  for (int i = 0; i < MAX_JOINS; i++)
    if (c->joins[i] >= 0)
      SYS (close, c->joins[i]);
  if ((c->start.flags & START_WANT_STARTED) && !c->start_errno)
    {
      struct started_report started = { .id = c->start.id, .pid = (u32) r };
      send_report (KEEPER_STATUS_FD, FRAME_STARTED, &started, sizeof started);
    }
  reap (c, (i32) r);
  return 0;
}
