/* Whose a sandbox is, seen from outside: the namespace that its ids are taken from, and the owner of its own. */
#include "protocol.h"
#include "setup.h"

#define SECBIT_NO_SETUID_FIXUP 4

/* The host may have passed more than the plan speaks of, and less. */
long
ids_close_others (void)
{
  u32 flags = plan.ids ? plan.ids->flags : 0, detached = plan.mode->flags & MODE_DETACHED;
  const int kept[] = { flags & IDS_CLAIM ? CLAIM_FD : -1, flags & IDS_OUTER ? OUTER_FD : -1,
                       detached ? LISTEN_FD : -1, detached ? LOCK_FD : -1, detached ? NOTE_FD : -1 };
  return close_all_but (CLAIM_FD, kept, sizeof kept / sizeof kept[0]);
}

/* The launcher, before it makes the sandbox's namespaces. */
void
ids_prepare (void)
{
  if (plan.ids->flags & IDS_OUTER)
    {
      /* There the launcher has the right to map any of the ids, without a set-user-id program. */
      must (SYS (setns, OUTER_FD, CLONE_NEWUSER), "ids", "enter the namespace of subordinate ids");
      SYS (close, OUTER_FD);
    }
  if (plan.ids->flags & IDS_OWNER)
    {
      /* What the kernel counts per user (inotify, queued signals, namespaces) it also counts for the owner of the namespace,
       * in the namespace above: not for root, whom all sandboxes would then share. Root keeps its capabilities where it may:
       * some systems refuse namespaces to those who have none. */
      SYS (prctl, PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0);
      must (SYS (setresuid, -1, plan.ids->owner, -1), "ids", "become the owner of the namespace");
    }
}

/* The launcher again, once they are made: it has ids to map. */
void
ids_made (void)
{
  if (plan.ids->flags & IDS_OWNER)
    must (SYS (setresuid, -1, 0, -1), "ids", "become root again");
}

/* What INSIDE is on the other side of MAP, a checked list of "INSIDE OUTSIDE COUNT". */
u64
ids_outside (const char *map, u64 inside)
{
  for (;; map++)
    {
      u64 field[3];
      for (int i = 0; i < 3; i++, map += i < 3)
        field[i] = take_num (&map);
      if (inside >= field[0] && inside - field[0] < field[2])
        return field[1] + inside - field[0];
      if (!*map)
        fail ("idmap", "the command's id is not mapped", -EINVAL);
    }
}

/* A place in the new root. One behind a mounted directory that is its owner's alone, the command's user, opens for that user, if
 * not for a helper with another uid. */
long
ids_open_inside (int base, const char *path, u64 resolve)
{
  struct open_how how = { O_PATH | O_CLOEXEC, 0, resolve };
  long fd = SYS (openat2, base, path, &how, sizeof how);
  if (fd != -EACCES || !(plan.mode->flags & MODE_SPLIT_UID))
    return fd;
  SYS (setfsgid, plan.mode->command_gid);
  SYS (setfsuid, plan.mode->command_uid);
  fd = SYS (openat2, base, path, &how, sizeof how);
  SYS (setfsuid, 0);
  SYS (setfsgid, 0);
  /* The change may have opened our memory (fs.suid_dumpable). */
  must (SYS (prctl, PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable", path);
  return fd;
}

/* A process whose user namespace is all that the host wants of it: it maps ids there, opens it, and hangs up. */
void
ids_hold_namespace (void)
{
  must (SYS (unshare, CLONE_NEWUSER), "create namespaces", "ids");
  u32 pid = (u32) SYS0 (getpid);
  must (send_frame (CONTROL_FD, FRAME_LAUNCHED, &pid, sizeof pid), "launch", "report");
  char byte;
  while (SYS (read, CONTROL_FD, &byte, 1) == -EINTR)
    ;
  exit_now (0);
}
