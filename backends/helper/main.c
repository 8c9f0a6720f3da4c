/* isandbox-helper: launcher and first process of a sandbox. Started by the host with a compiled plan on fd 3 and a stream
 * socket on fd 4, and 5 to 9 where the plan asks for them (base.h); reads no argument, no environment and no file that the plan does
 * not name.
 *
 * It decides nothing: which namespaces, mounts, rules and limits there are is the host's policy (plan.h). What it promises
 * is that it does all of the plan or nothing, and that what it reports about a command is true (protocol.h).
 */
#include "command.h"
#include "door.h"
#include "setup.h"

/* Nothing is inherited from the host but those descriptors: Python, for one, ignores SIGPIPE, and an ignored SIGCHLD
 * would make every wait fail. */
static void
forget_the_host (void)
{
  struct kernel_sigaction standard = { 0, 0, 0, 0 };
  for (int signal = 1; signal <= 64; signal++)
    if (signal != SIGKILL && signal != SIGSTOP)
      must (SYS (rt_sigaction, signal, &standard, 0, 8), "start", "signals");
  u64 none = 0;
  must (SYS (rt_sigprocmask, SIG_SETMASK, &none, 0, 8), "start", "signal mask");
  must (ids_close_others (), "start", "close descriptors");
  long null = must (SYS (openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0), "start", "/dev/null");
  for (int fd = 0; fd < 3; fd++)
    if (fd != null)
      must (SYS (dup3, null, fd, O_CLOEXEC), "start", "dup");
  if (null > 2)
    SYS (close, null);
  SYS (umask, 0);
}

int
helper_main (int argc, char **argv)
{
  (void) argc;
  (void) argv;
  plan_load (PLAN_FD);
  forget_the_host ();
  if (plan.mode->flags & MODE_HOLD_IDS)
    ids_hold_namespace ();
  door_detach ();
  /* Here, not per command: the filter may refuse to change it later, and everything inherits it. */
  if (plan.affinity)
    must (SYS (sched_setaffinity, 0, plan.affinity_len, plan.affinity), "cpus", "affinity");
  if (plan.mode->flags & MODE_NAMESPACES)
    launch ();
  else
    {
      u32 pid = (u32) SYS0 (getpid);
      must (send_frame (CONTROL_FD, FRAME_LAUNCHED, &pid, sizeof pid), "launch", "report");
      must (SYS0 (setsid), "session", "");
      must (SYS (prctl, PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable", "");
    }
  serve ();
}
