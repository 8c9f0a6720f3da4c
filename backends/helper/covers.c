/* Covers: an empty directory or file over what commands must not see, and mount points that pin the directories above it.
 *
 * The plan makes a store in scratch space and covers it before anything runs; it is used by descriptor alone. Nothing is made
 * in a directory of the host: what is not there is not covered.
 */
#include "setup.h"

u32 covers_missed;

static int store = -1;

static long
look (int base, const char *path)
{
  return ids_open_inside (base, path, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
}

static int
in_store (void)
{
  if (store < 0)
    fail ("plan", "no store", -EBADMSG);
  return store;
}

static void
put (long tree, long place, const char *target)
{
  must (SYS (move_mount, tree, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH), "cover", target);
  SYS (close, tree);
  SYS (close, place);
}

/* A call that returned 0 may have done nothing: what is seen at PATH now must be the file of FROM, which is closed. */
static void
look_again (int base, const char *path, long from)
{
  struct statx wanted, seen;
  long place = look (base, path);
  covers_missed += place < 0 || SYS (statx, place, "", AT_EMPTY_PATH, STATX_INO, &seen) < 0
                   || SYS (statx, from, "", AT_EMPTY_PATH, STATX_INO, &wanted) < 0 || seen.ino != wanted.ino
                   || seen.dev_major != wanted.dev_major || seen.dev_minor != wanted.dev_minor;
  if (place >= 0)
    SYS (close, place);
  SYS (close, from);
}

void
covers_store (const struct record *r)
{
  const char *target = (const char *) r->data;
  store = (int) must (look (AT_FDCWD, target), "cover", target);
}

/* The same tree at a second place, which only the store's descriptor leads to. The kernel refuses to rename or remove a
 * directory on which anything is mounted, wherever in the namespace that mount is. So a pin in this view holds the directory,
 * and in the view that commands have, files still move across it: it is no border of a mount there. */
void
covers_view (const struct record *r)
{
  const char *source = (const char *) r->data, *name = source + str_len (source) + 1;
  long from = must (look (AT_FDCWD, source), "cover", source);
  /* With what is mounted below: a user may not clone one without the other. */
  long tree = SYS (open_tree, from, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | O_CLOEXEC | AT_RECURSIVE);
  must (tree, "cover", source);
  put (tree, must (look (in_store (), name), "cover", name), name);
  look_again (in_store (), name, from);
}

/* Nobody can see into this directory now, but its owner may change that from inside: what is above it is covered then.
 * 0: that would be the mount itself. */
static int
go_up (char *path, size_t keep)
{
  size_t length = str_len (path);
  while (length > keep && path[length - 1] != '/')
    length--;
  if (length <= keep + 1)
    return 0;
  path[length - 1] = 0;
  return 1;
}

static void
cover (int base, const char *path, long place, const char *name, const char *target)
{
  struct statx st;
  must (SYS (statx, place, "", AT_EMPTY_PATH, STATX_BASIC, &st), "cover", target);
  if ((st.mode & S_IFMT) != S_IFDIR)
    name = "file";
  long from = must (look (in_store (), name), "cover", name);
  long tree = must (SYS (open_tree, from, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | O_CLOEXEC), "cover", target);
  struct mount_attr attr = { MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, 0, 0, 0 };
  must (SYS (mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr), "cover", target);
  put (tree, place, target);
  look_again (base, path, from);
}

void
covers_make (const struct record *r)
{
  const struct plan_cover *how = (const struct plan_cover *) r->data;
  const char *name = (const char *) r->data + sizeof *how, *target = name + str_len (name) + 1;
  int base = how->in_store ? in_store () : AT_FDCWD;
  char path[PATH_MAX];
  if (str_len (target) >= sizeof path)
    fail ("cover", target, -ENAMETOOLONG);
  put_str (path, sizeof path, 0, target);
  long place;
  while ((place = look (base, path)) == -EACCES)
    {
      if (!go_up (path, how->keep))
        fail ("cover", target, -EACCES);
      name = "directory";
    }
  /* A link is no place. Where it leads is in the plan as well, if it led there when the plan was made. */
  if ((place == -ENOENT || place == -ENOTDIR || place == -ELOOP) && !how->needed)
    return;
  cover (base, path, must (place, "cover", target), name, target);
}

void
covers_end (void)
{
  if (store >= 0)
    SYS (close, store);
  store = -1;
}
