#include "procs.h"

struct dirent64 { u64 ino; i64 off; u16 reclen; u8 type; char name[]; };

static struct proc *table;

/* Fields of /proc/PID/stat after the command name, which may hold anything: the last ')' ends it (man 5 proc). */
static int
parse_stat (const char *text, struct proc *p)
{
  const char *s = NULL;
  for (const char *t = text; *t; t++)
    if (*t == ')')
      s = t;
  if (!s || s[1] != ' ' || !s[2] || s[3] != ' ')
    return 0;
  p->state = s[2];
  s += 4;
  p->parent = (i32) take_num (&s);
  p->cpu_ticks = 0;
  p->threads = 1;
  for (int field = 5; field <= 20 && *s; field++)
    {
      while (*s == ' ' || *s == '-')
        s++;
      u64 n = take_num (&s);
      if (field >= 14 && field <= 17)
        p->cpu_ticks += n;
      if (field == 20)
        p->threads = (u32) n;
      if (field == 20 && n > 1 && p->state == 'Z')
        p->state = HEADLESS;
    }
  return 1;
}

static int
read_stat (i32 pid, struct proc *p)
{
  char path[32], text[512];
  size_t len = put_str (path, sizeof path, 0, "/proc/");
  len = put_num (path, sizeof path, len, (u64) pid);
  put_str (path, sizeof path, len, "/stat");
  if (read_file (path, text, sizeof text) <= 0)
    return 0;
  p->pid = pid;
  p->mark = 0;
  return parse_stat (text, p);
}

struct procs
procs_read (void)
{
  struct procs found = { 0, NULL };
  if (!table)
    table = map_pages (MAX_PROCS * sizeof *table); /* touched only as far as it is used */
  long dir = SYS (openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (!table || dir < 0)
    return found;
  found.list = table;
  static u8 buf[16384] __attribute__ ((aligned (8)));
  long n;
  while ((n = SYS (getdents64, dir, buf, sizeof buf)) > 0)
    for (long pos = 0; pos < n;)
      {
        const struct dirent64 *entry = (const struct dirent64 *) (buf + pos);
        pos += entry->reclen;
        const char *name = entry->name;
        i32 pid = (i32) take_num (&name);
        if (pid > 0 && *name == 0 && found.count < MAX_PROCS && read_stat (pid, &table[found.count]))
          found.count++;
      }
  SYS (close, dir);
  return found;
}

u32
procs_count (void)
{
  u8 few[2048] __attribute__ ((aligned (8)));
  long n, dir = SYS (openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  u32 count = 0;
  while (dir >= 0 && (n = SYS (getdents64, dir, few, sizeof few)) > 0)
    for (long pos = 0; pos < n;)
      {
        const struct dirent64 *entry = (const struct dirent64 *) (few + pos);
        pos += entry->reclen;
        count += entry->name[0] >= '1' && entry->name[0] <= '9';
      }
  SYS (close, dir);
  return count;
}

u32
procs_mark_descendants (struct procs *p, i32 root)
{
  u32 live = 0;
  for (int changed = 1; changed;)
    {
      changed = 0;
      for (u32 i = 0; i < p->count; i++)
        {
          struct proc *q = &p->list[i];
          if (q->mark)
            continue;
          int child = q->parent == root;
          for (u32 j = 0; !child && j < p->count; j++)
            child = p->list[j].mark && p->list[j].pid == q->parent;
          if (child)
            {
              q->mark = 1;
              changed = 1;
              live += q->state != 'Z';
            }
        }
    }
  return live;
}

i32
proc_parent (i32 pid)
{
  struct proc p;
  return read_stat (pid, &p) ? p.parent : -ENOENT;
}

/* A thread of a process whose first thread has ended, or PID itself. */
static i32
live_thread (i32 pid)
{
  char path[32];
  u8 buf[512] __attribute__ ((aligned (8))); /* ".", "..", the first thread and at least one more */
  size_t len = put_str (path, sizeof path, 0, "/proc/");
  len = put_num (path, sizeof path, len, (u64) pid);
  put_str (path, sizeof path, len, "/task");
  long dir = SYS (openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (dir < 0)
    return pid;
  i32 found = pid;
  long n = SYS (getdents64, dir, buf, sizeof buf);
  for (long pos = 0; pos < n;)
    {
      const struct dirent64 *entry = (const struct dirent64 *) (buf + pos);
      pos += entry->reclen;
      const char *name = entry->name;
      i32 tid = (i32) take_num (&name);
      if (tid > 0 && tid != pid)
        found = tid;
    }
  SYS (close, dir);
  return found;
}

/* The number after NAME in /proc/PID/task/TID/status, 0 when it is not there. */
static u64
status_number (i32 pid, i32 tid, const char *name)
{
  char path[64], text[2048];
  size_t len = put_str (path, sizeof path, 0, "/proc/");
  len = put_num (path, sizeof path, len, (u64) pid);
  len = put_str (path, sizeof path, len, "/task/");
  len = put_num (path, sizeof path, len, (u64) tid);
  put_str (path, sizeof path, len, "/status");
  if (read_file (path, text, sizeof text) <= 0)
    return 0;
  for (const char *line = text; line; line = str_chr (line + 1, '\n'))
    if (str_prefix (line + (*line == '\n'), name))
      {
        const char *s = line + (*line == '\n') + str_len (name);
        while (*s == ' ' || *s == '\t')
          s++;
        return take_num (&s);
      }
  return 0;
}

u32
proc_tracers (i32 pid, i32 *out, u32 n)
{
  char path[32];
  u8 buf[1024] __attribute__ ((aligned (8)));
  u32 count = 0;
  size_t len = put_str (path, sizeof path, 0, "/proc/");
  len = put_num (path, sizeof path, len, (u64) pid);
  put_str (path, sizeof path, len, "/task");
  long left, dir = SYS (openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  while (dir >= 0 && (left = SYS (getdents64, dir, buf, sizeof buf)) > 0)
    for (long pos = 0; pos < left && count < n;)
      {
        const struct dirent64 *entry = (const struct dirent64 *) (buf + pos);
        pos += entry->reclen;
        const char *name = entry->name;
        i32 tid = (i32) take_num (&name);
        i32 tracer = tid > 0 ? (i32) status_number (pid, tid, "TracerPid:") : 0;
        if (tracer > 0)
          out[count++] = tracer;
      }
  if (dir >= 0)
    SYS (close, dir);
  return count;
}

/* RssAnon, RssShmem and VmSwap of a process's status, which are in kB (man 5 proc). File pages are the kernel's to drop. A
 * thread that has ended has no memory any more in the kernel's eyes, its process has. */
u64
proc_memory_bytes (const struct proc *p)
{
  static const char *const wanted[] = { "RssAnon:", "RssShmem:", "VmSwap:" };
  char path[64], text[2048];
  size_t len = put_str (path, sizeof path, 0, "/proc/");
  len = put_num (path, sizeof path, len, (u64) p->pid);
  len = put_str (path, sizeof path, len, "/task/");
  len = put_num (path, sizeof path, len, (u64) (p->state == HEADLESS ? live_thread (p->pid) : p->pid));
  put_str (path, sizeof path, len, "/status");
  if (read_file (path, text, sizeof text) <= 0)
    return 0;
  u64 kib = 0;
  for (const char *line = text; line; line = str_chr (line, '\n'))
    {
      if (*line == '\n')
        line++;
      for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (str_prefix (line, wanted[i]))
          {
            const char *s = line + str_len (wanted[i]);
            while (*s == ' ' || *s == '\t')
              s++;
            kib += take_num (&s);
          }
    }
  return kib * 1024;
}
