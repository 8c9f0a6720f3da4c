/* Things that the server makes for a command, with the command's user as their owner. */
#include "relay.h"

/* The calls return the id before; the second of a pair tells whether the first has worked. A change of them resets what
 * PR_SET_DUMPABLE has said (fs.suid_dumpable), to every process that shares this memory. */
static long
act_as (u32 uid, u32 gid)
{
  SYS (setfsgid, gid);
  SYS (setfsuid, uid);
  int done = SYS (setfsgid, gid) == (long) gid && SYS (setfsuid, uid) == (long) uid;
  long r = SYS (prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
  return done ? r : -EPERM;
}

static long
act_as_command (void)
{
  return plan.mode->flags & MODE_SPLIT_UID ? act_as (plan.mode->command_uid, plan.mode->command_gid) : 0;
}

static void
act_as_server (void)
{
  if (plan.mode->flags & MODE_SPLIT_UID)
    act_as (0, 0);
}

long
make_pipe_for_command (int pipe[2])
{
  long r = act_as_command ();
  if (r == 0)
    r = SYS (pipe2, pipe, O_CLOEXEC);
  act_as_server ();
  return r;
}

long
open_for_command (const char *path, int flags)
{
  long r = act_as_command ();
  if (r == 0)
    r = SYS (openat, AT_FDCWD, path, flags, 0);
  act_as_server ();
  return r;
}
