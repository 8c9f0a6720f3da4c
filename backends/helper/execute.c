/* The command's own process, from its making to exec: its groups, limits and ids. It shares memory with the server: raw system
 * calls only, nothing here allocates, and nothing written here belongs to another command. */
#include "command.h"

#define PATH_MAX 4096
#define NPROC_SLACK 64

/* Whether the kernel lists this process in a group: whole lines, in our own numbers. */
static int
is_member (int group)
{
  char text[4096];
  u64 self = (u64) SYS0 (getpid);
  i64 at = 0;
  size_t kept = 0;
  long r;
  while ((r = SYS (pread64, group, text + kept, sizeof text - 1 - kept, at)) > 0)
    {
      at += r;
      size_t len = kept + (size_t) r, line = 0;
      text[len] = 0;
      for (size_t i = 0; i < len; i++)
        if (text[i] == '\n')
          {
            const char *number = text + line;
            if (take_num (&number) == self && *number == '\n')
              return 1;
            line = i + 1;
          }
      kept = len - line;
      if (kept > 64) /* no line of numbers */
        return 0;
      memcpy (text, text + line, kept);
    }
  return 0;
}

/* Before the limits and the uid: the files were opened by the host, and it is the host's right to write to them that counts. */
static long
join_groups (const struct command *c)
{
  for (int i = 0; i < MAX_JOINS; i++)
    if (c->joins[i] >= 0)
      {
        long r = write_all (c->joins[i], "0", 1);
        if (r < 0)
          return r;
        if (!is_member (c->joins[i]))
          return -EPROTO;
      }
  return 0;
}

/* Never above what whoever runs isandbox may have: only a privilege outside could raise a hard limit, so that asking for more
 * would be refused and nothing would start. */
static long
set_limit (long resource, u64 soft, u64 hard)
{
  struct rlimit value;
  long r = SYS (prlimit64, 0, resource, 0, &value);
  if (r < 0)
    return r;
  value.cur = soft < value.max ? soft : value.max;
  value.max = hard < value.max ? hard : value.max;
  return SYS (prlimit64, 0, resource, &value, 0);
}

static long
set_limits (const struct command *c)
{
  size_t at = 0;
  struct record r;
  long result = 0;
  while (plan_next (&at, &r))
    if (r.tag == PLAN_RLIMIT)
      {
        const struct plan_rlimit *limit = (const struct plan_rlimit *) r.data;
        if ((result = set_limit (limit->resource, limit->soft, limit->hard)) < 0)
          return result;
      }
  if (plan.mode->pids && (plan.mode->flags & MODE_NAMESPACES))
    {
      /* RLIMIT_NPROC counts per user namespace and uid: the helper's own processes count where they share the uid. Where a
       * cgroup holds the quota it must be the first to refuse, for it counts what it refuses: this is a second line. */
      u64 limit = plan.mode->pids + ((plan.mode->flags & MODE_SPLIT_UID) ? 0 : c->own_processes);
      if (c->meters[METER_PIDS] >= 0)
        limit += NPROC_SLACK;
      result = set_limit (RLIMIT_NPROC, limit, limit);
    }
  return result;
}

static long
become_command_user (const struct command *c)
{
  long r;
  if ((r = join_groups (c)) < 0 || (r = set_limits (c)) < 0)
    return r;
  if (plan.mode->flags & MODE_SPLIT_UID)
    {
      u32 uid = plan.mode->command_uid, gid = plan.mode->command_gid;
      if (c->start.operation)
        {
          /* The user's rights on files, not its ids: a command must not be able to stop or kill a file operation. The
           * calls return the id before; the second of a pair tells whether the first has worked. */
          SYS (setfsgid, gid);
          SYS (setfsuid, uid);
          if (SYS (setfsgid, gid) != (long) gid || SYS (setfsuid, uid) != (long) uid)
            return -EPERM;
        }
      /* The memory is still the server's, and where fs.suid_dumpable is 1 the change of uid opens it to every command until
       * the next call. A capability that commands do not have keeps them out meanwhile; exec takes it away. */
      else if ((r = SYS (prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0)) < 0 || (r = SYS (setresgid, gid, gid, gid)) < 0
               || (r = SYS (setresuid, uid, uid, uid)) < 0)
        return r;
    }
  if ((r = SYS (prctl, PR_SET_DUMPABLE, 0, 0, 0, 0)) < 0
      || (r = SYS (prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)) < 0) /* after setresuid, which clears it */
    return r;
  SYS (umask, 022);
  u64 none = 0;
  return SYS (rt_sigprocmask, SIG_SETMASK, &none, 0, 8);
}

static const char *
search_path (struct command *c)
{
  for (char **e = c->env; *e; e++)
    if (str_prefix (*e, "PATH="))
      return *e + 5;
  return "/usr/local/bin:/usr/bin:/bin";
}

/* As execvp does: a name without a slash is looked for in PATH; EACCES is remembered, other failures go on. */
static long
execute (struct command *c)
{
  const char *name = c->argv[0];
  if (str_chr (name, '/'))
    return SYS (execve, name, c->argv, c->env);
  if (!*name)
    return -ENOENT;
  char path[PATH_MAX];
  long result = -ENOENT;
  for (const char *p = search_path (c); *p;)
    {
      size_t len = 0;
      for (; *p && *p != ':'; p++)
        if (len + 2 < sizeof path)
          path[len++] = *p;
      if (*p)
        p++;
      if (len == 0)
        path[len++] = '.';
      path[len++] = '/';
      if (put_str (path, sizeof path, len, name) - len < str_len (name))
        continue;
      long r = SYS (execve, path, c->argv, c->env);
      if (r == -EACCES)
        result = r;
      else if (r != -ENOENT && r != -ENOTDIR)
        return r;
    }
  return result;
}

int
not_started (struct command *c, u32 stage, long error)
{
  c->start_stage = stage;
  c->start_errno = (u32) -error;
  return stage == STAGE_EXEC && error != -ENOENT && error != -ENOTDIR ? 126 : 127;
}

/* The command's process, in shared memory until exec: what it leaves in *c is how the keeper learns of a failure. */
int
command_main (void *arg)
{
  struct command *c = arg;
  long r;
  if ((r = SYS0 (setsid)) < 0 || (r = become_command_user (c)) < 0)
    return not_started (c, STAGE_IDENTITY, r);
  if ((c->start.flags & START_TERMINAL) && (r = SYS (ioctl, 0, TIOCSCTTY, 0)) < 0)
    return not_started (c, STAGE_STDIO, r);
  if ((r = SYS (chdir, c->cwd)) < 0)
    return not_started (c, STAGE_CWD, r);
  if (c->start.operation)
    return file_operation (c);
  if (c->fd_script >= 0 && (r = SYS (dup3, KEEPER_SCRIPT_FD, 3, 0)) < 0)
    return not_started (c, STAGE_STDIO, r);
  SYS (close_range, c->fd_script >= 0 ? 4 : 3, ~0u, 0);
  return not_started (c, STAGE_EXEC, execute (c));
}
