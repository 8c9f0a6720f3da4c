#include "fileops.h"
#include "command.h"

#define BUFFER 65536
#define PATH_MAX 4096

struct dirent64 { u64 ino; i64 off; u16 reclen; u8 type; char name[]; };

static u64
octal (const char *s)
{
  u64 n = 0;
  while (*s >= '0' && *s <= '7')
    n = n * 8 + (u64) (*s++ - '0');
  return n;
}

static long
copy (int from, int to, u64 limit)
{
  u8 *buf = map_pages (BUFFER);
  long r = buf ? 0 : -ENOMEM;
  while (r >= 0 && limit > 0)
    {
      r = SYS (read, from, buf, limit < BUFFER ? limit : BUFFER);
      if (r == 0)
        break;
      if (r > 0)
        {
          limit -= (u64) r;
          r = write_all (to, buf, (size_t) r);
        }
    }
  unmap_pages (buf, BUFFER);
  return r;
}

/* Regular files only: a FIFO or socket would block or talk to somebody, and a device never ends: a command could leave a
 * link to /dev/zero where the host expects a result. */
static long
check_kind (int fd)
{
  struct statx st;
  long r = SYS (statx, fd, "", AT_EMPTY_PATH, STATX_BASIC, &st);
  u32 kind = st.mode & S_IFMT;
  if (r < 0)
    return r;
  if (kind == S_IFDIR)
    return -EISDIR;
  return kind == S_IFREG ? 0 : -EINVAL;
}

static long
do_read (char **argv)
{
  const char *offset = argv[1], *limit = argv[2];
  long fd = SYS (openat, AT_FDCWD, argv[0], O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
  if (fd < 0)
    return fd;
  long r = check_kind ((int) fd);
  u64 start = take_num (&offset);
  if (r == 0 && start)
    r = SYS (lseek, fd, start, 0);
  return r < 0 ? r : copy ((int) fd, 1, *limit ? take_num (&limit) : ~0ull);
}

static long
make_parents (const char *path)
{
  char part[PATH_MAX];
  if (str_len (path) >= sizeof part)
    return -36; /* ENAMETOOLONG */
  for (size_t i = 0; path[i]; i++)
    {
      if (i > 0 && path[i] == '/')
        {
          part[i] = 0;
          long r = SYS (mkdirat, AT_FDCWD, part, 0777);
          struct statx st; /* a read-only or foreign parent that is there already is no failure */
          if (r < 0 && SYS (statx, AT_FDCWD, part, 0, STATX_BASIC, &st) < 0)
            return r;
        }
      part[i] = path[i];
    }
  return 0;
}

static long
do_write (char **argv)
{
  long r = make_parents (argv[0]);
  if (r < 0)
    return r;
  int flags = O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (*argv[2] ? 02000 : 0);
  long fd = SYS (openat, AT_FDCWD, argv[0], flags, *argv[1] ? octal (argv[1]) : 0666);
  if (fd < 0)
    return fd;
  if ((r = check_kind ((int) fd)) < 0)
    return r;
  if (!*argv[2] && (r = SYS (ftruncate, fd, 0)) < 0)
    return r;
  if (*argv[1] && (r = SYS (fchmod, fd, octal (argv[1]))) < 0)
    return r;
  return copy (0, (int) fd, ~0ull);
}

/* A command can give a file any second. What the format cannot say, past the year 2262, is the last that it can. */
static i64
nanoseconds (const struct statx_timestamp *t)
{
  const i64 most = 9223372036ll;
  if (t->sec >= most || t->sec <= -most)
    return t->sec < 0 ? -most * 1000000000ll : most * 1000000000ll;
  return t->sec * 1000000000ll + t->nsec;
}

static long
put_entry (int dir, const char *path, const char *name)
{
  u8 out[64 + 256 + PATH_MAX];
  struct statx st;
  long r = SYS (statx, dir, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC, &st);
  if (r < 0)
    return r;
  u32 mode = st.mode;
  i64 mtime = nanoseconds (&st.mtime);
  memcpy (out + 4, &mode, 4);
  memcpy (out + 8, &st.size, 8);
  memcpy (out + 16, &mtime, 8);
  memcpy (out + 24, &st.uid, 4);
  memcpy (out + 28, &st.gid, 4);
  size_t len = 32 + put_str ((char *) out + 32, 256, 0, name) + 1;
  if ((mode & S_IFMT) == S_IFLNK && (r = SYS (readlinkat, dir, path, out + len, PATH_MAX - 1)) > 0)
    len += (size_t) r;
  out[len++] = 0;
  u32 length = (u32) len - 4;
  memcpy (out, &length, 4);
  return write_all (1, out, len);
}

static int
is_dot (const char *name)
{
  return str_eq (name, ".") || str_eq (name, "..");
}

static long
do_list (char **argv)
{
  long dir = SYS (openat, AT_FDCWD, argv[0], O_RDONLY | O_DIRECTORY | O_NOCTTY | O_CLOEXEC, 0);
  u8 *buf = map_pages (BUFFER);
  if (dir < 0 || !buf)
    return dir < 0 ? dir : -ENOMEM;
  long n;
  while ((n = SYS (getdents64, dir, buf, BUFFER)) > 0)
    for (long pos = 0; pos < n;)
      {
        const struct dirent64 *e = (const struct dirent64 *) (buf + pos);
        pos += e->reclen;
        if (is_dot (e->name))
          continue;
        long r = put_entry ((int) dir, e->name, e->name);
        if (r < 0 && r != -ENOENT) /* gone since: not in the list */
          return r;
      }
  return n;
}

/* Move everything in the directory SUB away: files are removed, directories go up into TOP under a new name. */
static long
empty_into (int top, int sub, u64 *serial)
{
  u8 inner[4096] __attribute__ ((aligned (8)));
  long n;
  while ((n = SYS (getdents64, sub, inner, sizeof inner)) > 0)
    for (long at = 0; at < n;)
      {
        const struct dirent64 *e = (const struct dirent64 *) (inner + at);
        at += e->reclen;
        if (is_dot (e->name) || SYS (unlinkat, sub, e->name, 0) == 0 || SYS (unlinkat, sub, e->name, AT_REMOVEDIR) == 0)
          continue;
        char name[48];
        size_t len = put_str (name, sizeof name, 0, ".isandbox-removing-");
        put_num (name, sizeof name, len, (*serial)++);
        long r = SYS (renameat2, sub, e->name, top, name, 1 /* RENAME_NOREPLACE */);
        if (r == -EACCES && SYS (fchmodat, sub, e->name, 0700) == 0) /* moving a directory writes its ".." */
          r = SYS (renameat2, sub, e->name, top, name, 1);
        if (r < 0)
          return r;
      }
  return n;
}

/* Remove one entry of TOP, or at least bring what is in it one level up. */
static long
remove_entry (int top, const char *name, u64 *serial)
{
  long r = SYS (unlinkat, top, name, 0);
  if (r != -EISDIR && r != -EPERM)
    return r;
  r = SYS (unlinkat, top, name, AT_REMOVEDIR);
  if (r != -ENOTEMPTY)
    return r;
  long sub = SYS (openat, top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
  if (sub == -EACCES && SYS (fchmodat, top, name, 0700) == 0)
    sub = SYS (openat, top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
  if (sub < 0)
    return sub;
  r = SYS (fchmod, sub, 0700); /* somebody else's directory will say so itself */
  r = empty_into (top, (int) sub, serial);
  SYS (close, sub);
  return r < 0 ? r : SYS (unlinkat, top, name, AT_REMOVEDIR);
}

/* One pass over the directory TOP. Directories found in its subdirectories are moved up into it: one level of descriptors,
 * no recursion, whatever depth a hostile command has built. Passes are repeated until one finds nothing. */
static long
flatten (int top, u8 *buf, u64 *serial, int *left)
{
  long n;
  *left = 0;
  SYS (lseek, top, 0, 0);
  while ((n = SYS (getdents64, top, buf, BUFFER)) > 0)
    for (long pos = 0; pos < n;)
      {
        const struct dirent64 *e = (const struct dirent64 *) (buf + pos);
        pos += e->reclen;
        if (is_dot (e->name))
          continue;
        *left = 1;
        long r = remove_entry (top, e->name, serial);
        if (r < 0 && r != -ENOENT && r != -ENOTEMPTY)
          return r;
      }
  return n;
}

static long
do_remove (char **argv)
{
  long r = SYS (unlinkat, AT_FDCWD, argv[0], 0);
  if (r != -EISDIR && r != -EPERM)
    return r;
  long removed = SYS (unlinkat, AT_FDCWD, argv[0], AT_REMOVEDIR);
  if (removed != -ENOTEMPTY || !*argv[1])
    return removed;
  long top = SYS (openat, AT_FDCWD, argv[0], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
  u8 *buf = map_pages (BUFFER);
  if (top < 0 || !buf)
    return top < 0 ? top : -ENOMEM;
  u64 serial = now_ns ();
  int left = 1;
  while (left)
    if ((r = flatten ((int) top, buf, &serial, &left)) < 0)
      return r;
  return SYS (unlinkat, AT_FDCWD, argv[0], AT_REMOVEDIR);
}

static long
do_mkdir (char **argv)
{
  long r = *argv[1] ? make_parents (argv[0]) : 0;
  if (r == 0)
    r = SYS (mkdirat, AT_FDCWD, argv[0], *argv[2] ? octal (argv[2]) : 0777);
  if (r == 0 && *argv[2]) /* the umask had its say */
    r = SYS (fchmodat, AT_FDCWD, argv[0], octal (argv[2]));
  struct statx st;
  if (r == -EEXIST && *argv[1] && SYS (statx, AT_FDCWD, argv[0], 0, STATX_BASIC, &st) == 0
      && (st.mode & S_IFMT) == S_IFDIR)
    return 0;
  return r;
}

int
file_operation (struct command *c)
{
  static const struct { u32 arguments; long (*run) (char **); } table[] = {
    [FILE_READ] = { 3, do_read },     [FILE_WRITE] = { 3, do_write },   [FILE_STAT] = { 1, NULL },
    [FILE_LIST] = { 1, do_list },     [FILE_MKDIR] = { 3, do_mkdir },   [FILE_REMOVE] = { 2, do_remove },
    [FILE_RENAME] = { 2, NULL },        [FILE_SYMLINK] = { 2, NULL },
  };
  /* Over the file size quota a write fails (EFBIG); it does not kill what would report that. */
  struct kernel_sigaction ignore = { (void *) 1, 0, 0, 0 };
  SYS (rt_sigaction, SIGXFSZ, &ignore, 0, 8);
  u32 operation = c->start.operation;
  long r = -EINVAL;
  if (operation < sizeof table / sizeof table[0] && c->start.argc == table[operation].arguments)
    {
      if (operation == FILE_STAT)
        r = put_entry (AT_FDCWD, c->argv[0], "");
      else if (operation == FILE_RENAME)
        r = SYS (renameat2, AT_FDCWD, c->argv[0], AT_FDCWD, c->argv[1], 0);
      else if (operation == FILE_SYMLINK)
        r = SYS (symlinkat, c->argv[1], AT_FDCWD, c->argv[0]);
      else
        r = table[operation].run (c->argv);
    }
  if (r >= 0)
    return 0;
  c->start_stage = STAGE_FILE;
  c->start_errno = (u32) -r;
  return 1;
}
