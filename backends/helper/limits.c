/* What the sandbox refused while a command ran, and how that is known.
 *
 * Where the command has a cgroup the kernel counts what it refuses, and a counter that has moved is the proof. Without one
 * there is no such counter: a look every WATCH_MS sees that a limit is used up, which is when the kernel refuses. What comes
 * and goes between two looks is not seen. None of this can be written to from inside.
 */
#include "command.h"

/* The number after KEY at the start of a line of TEXT; without a key, the first number there is. */
static u64
number_after (const char *text, const char *key)
{
  for (const char *line = text; line; line = str_chr (line, '\n'))
    {
      if (*line == '\n')
        line++;
      if (!str_prefix (line, key))
        continue;
      const char *s = line + str_len (key);
      return take_num (&s);
    }
  return 0;
}

static u64
meter_read (const struct command *c, enum meter which)
{
  static const char *const keys[] = { "oom_kill ", "max ", "max ", "usage_usec " };
  char text[1024];
  long n = c->meters[which] < 0 ? 0 : SYS (pread64, c->meters[which], text, sizeof text - 1, 0);
  if (n <= 0)
    return 0;
  text[n] = 0;
  if (which == METER_CPU)
    return text[0] >= '0' && text[0] <= '9' ? number_after (text, "") : number_after (text, keys[which]) * 1000;
  return number_after (text, keys[which]);
}

void
meters_begin (struct command *c)
{
  for (int i = 0; i < METERS; i++)
    c->meters_before[i] = meter_read (c, (enum meter) i);
}

u64
meter_since (const struct command *c, enum meter which)
{
  u64 now = meter_read (c, which);
  return now > c->meters_before[which] ? now - c->meters_before[which] : 0;
}

int
out_of_memory (const struct command *c)
{
  return meter_since (c, METER_MEMORY) > 0;
}

/* All scratch space is one tmpfs, so that any place of it tells for all. */
static int
scratch_is_full (void)
{
  struct statfs fs;
  if (!(plan.mode->flags & MODE_NAMESPACES) || SYS (statfs, "/tmp", &fs) < 0)
    return 0;
  return (fs.blocks && !fs.bfree) || (fs.files && !fs.ffree);
}

/* What the plan allows of a resource. */
static u64
most_of (u32 resource)
{
  struct record r;
  for (size_t at = 0; plan_next (&at, &r);)
    {
      const struct plan_rlimit *limit = (const struct plan_rlimit *) r.data;
      if (r.tag == PLAN_RLIMIT && limit->resource == resource)
        return limit->hard;
    }
  return ~0ull;
}

/* Since Linux 6.2 the size of /proc/PID/fd is the number of its open descriptors; before, it is 0. */
static u64
open_files (i32 pid)
{
  char path[32];
  struct statx st;
  size_t len = put_str (path, sizeof path, 0, "/proc/");
  len = put_num (path, sizeof path, len, (u64) pid);
  put_str (path, sizeof path, len, "/fd");
  return SYS (statx, AT_FDCWD, path, 0, STATX_BASIC, &st) < 0 ? 0 : st.size;
}

/* Where no cgroup counts what is refused. */
static int
must_count_processes (const struct command *c)
{
  return plan.mode->pids && (plan.mode->flags & MODE_NAMESPACES) && c->meters[METER_PIDS] < 0;
}

/* As the kernel counts for RLIMIT_NPROC: see set_limits. */
static int
processes_are_used_up (const struct command *c, u32 used)
{
  u32 shared = (plan.mode->flags & MODE_SPLIT_UID) ? 0 : 1;
  return used + shared * (1 + commands_alive) >= plan.mode->pids + shared * c->own_processes;
}

void
limits_of_a_death (struct command *c, int wait_status)
{
  if ((wait_status & 0x7f) == SIGXFSZ && most_of (RLIMIT_FSIZE) != ~0ull)
    limit_hit (c, LIMIT_FILE_SIZE);
}

u32
limits_look (struct command *c, const struct procs *p)
{
  u64 most = most_of (RLIMIT_NOFILE);
  u32 threads = 0;
  for (u32 i = 0; i < p->count; i++)
    if (p->list[i].mark)
      {
        threads += p->list[i].threads; /* a zombie counts until somebody reaps it */
        if (p->list[i].state != 'Z' && most != ~0ull && open_files (p->list[i].pid) >= most)
          limit_hit (c, LIMIT_OPEN_FILES);
      }
  return threads;
}

void
limits_together (u32 threads)
{
  int full = scratch_is_full ();
  for (struct command *c = commands; c; c = c->next)
    {
      if (full)
        limit_hit (c, LIMIT_DISK);
      if (must_count_processes (c) && processes_are_used_up (c, threads))
        limit_hit (c, LIMIT_PIDS);
    }
}

static u32
others_alive (void)
{
  u32 count = procs_count (), own = 1 + commands_alive;
  return count > own ? count - own : 0;
}

void
limits_at_end (struct command *c)
{
  if (scratch_is_full ())
    limit_hit (c, LIMIT_DISK);
  if (meter_since (c, METER_PIDS) || meter_since (c, METER_PIDS_ALL))
    limit_hit (c, LIMIT_PIDS);
  /* Its background children may use them up still: one less than before it ended itself. */
  if (must_count_processes (c) && processes_are_used_up (c, others_alive () + 1))
    limit_hit (c, LIMIT_PIDS);
}
