/* Covers: an empty directory or file over what commands must not see, and mount points that pin the directories above it.
 *
 * The plan makes a store in scratch space and covers it before anything runs; it is used by descriptor alone. Nothing is made
 * in a directory of the host: what is not there is not covered.
 */
#include "setup.h"

static int store = -1;

static long
look (int base, const char *path)
{
  struct open_how how = { O_PATH | O_CLOEXEC, 0, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS };
  return SYS (openat2, base, path, &how, sizeof how);
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
  SYS (close, from);
  put (tree, must (look (in_store (), name), "cover", name), name);
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
cover (long place, const char *name, const char *target)
{
  struct statx st;
  must (SYS (statx, place, "", AT_EMPTY_PATH, STATX_BASIC, &st), "cover", target);
  if ((st.mode & S_IFMT) != S_IFDIR)
    name = "file";
  long from = must (look (in_store (), name), "cover", name);
  long tree = must (SYS (open_tree, from, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | O_CLOEXEC), "cover", target);
  SYS (close, from);
  struct mount_attr attr = { MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, 0, 0, 0 };
  must (SYS (mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr), "cover", target);
  put (tree, place, target);
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
  cover (must (place, "cover", target), name, target);
}

void
covers_end (void)
{
  if (store >= 0)
    SYS (close, store);
  store = -1;
}
