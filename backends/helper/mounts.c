/* The new root: a tmpfs that the plan fills with binds, files and links, entered with pivot_root. */
#include "setup.h"

#define MAX_BINDS 512

static int trees[MAX_BINDS]; /* in the order of the plan's binds; -1: optional and not there */

static long
beneath (int dir, const char *path, u64 flags, u64 resolve)
{
  struct open_how how = { flags, 0, resolve };
  return SYS (openat2, dir, path, &how, sizeof how);
}

/* A user namespace that exists only as the id mapping of a mount: on-disk OWNER becomes the command's user. */
static long
idmap_userns (u32 owner_uid, u32 owner_gid)
{
  int gate[2];
  char line[64], path[64];
  must (SYS (pipe2, gate, O_CLOEXEC), "idmap", "pipe");
  long pid = must (SYS (clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), "idmap", "clone");
  if (pid == 0)
    {
      SYS (close, gate[1]);
      SYS (read, gate[0], line, 1); /* until the parent has opened the namespace, or died */
      exit_now (0);
    }
  const u32 ids[2][2] = { { owner_uid, plan.mode->command_uid }, { owner_gid, plan.mode->command_gid } };
  const char *files[2] = { "/uid_map", "/gid_map" };
  const char *maps[2] = { plan.uid_map, plan.gid_map };
  for (int i = 0; i < 2; i++)
    {
      size_t len = put_num (line, sizeof line, 0, ids[i][0]);
      len = put_str (line, sizeof line, len, " ");
      len = put_num (line, sizeof line, len, ids_outside (maps[i], ids[i][1]));
      put_str (line, sizeof line, len, " 1\n");
      len = put_str (path, sizeof path, 0, "/proc/");
      len = put_num (path, sizeof path, len, (u64) pid);
      put_str (path, sizeof path, len, files[i]);
      must (write_file (path, line), "idmap", path);
    }
  size_t len = put_str (path, sizeof path, 0, "/proc/");
  len = put_num (path, sizeof path, len, (u64) pid);
  put_str (path, sizeof path, len, "/ns/user");
  long fd = must (SYS (openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), "idmap", path);
  SYS (close, gate[0]);
  SYS (close, gate[1]);
  SYS (wait4, pid, 0, 0, 0);
  return fd;
}

/* A mount with the owner of its root directory mapped to the command's user, so that files made inside belong, on the
 * host, to whoever owns the directory. */
static void
add_idmap (int source, struct mount_attr *attr, const char *path)
{
  struct statx st;
  must (SYS (statx, source, "", AT_EMPTY_PATH, STATX_BASIC, &st), "stat mount source", path);
  attr->attr_set |= MOUNT_ATTR_IDMAP;
  attr->userns_fd = (u64) idmap_userns (st.uid, st.gid);
}

static int
open_source (const struct plan_bind *bind, const char *path)
{
  /* The host resolved every link; one that has appeared since is an attack or a race, and refused. */
  long source = beneath (AT_FDCWD, path, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
  if (bind->optional && (source == -ENOENT || source == -ENOTDIR))
    return -1;
  must (source, "open mount source", path);
  unsigned recursive = bind->recursive ? AT_RECURSIVE : 0;
  long tree = SYS (open_tree, source, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | O_CLOEXEC | recursive);
  must (tree, "clone mount", path);
  struct mount_attr attr = { bind->attributes, 0, MS_PRIVATE, 0 };
  if (bind->idmap)
    add_idmap ((int) source, &attr, path);
  long r = SYS (mount_setattr, tree, "", AT_EMPTY_PATH | recursive, &attr, sizeof attr);
  if (r < 0 && bind->idmap == 2)
    {
      attr.attr_set &= ~(u64) MOUNT_ATTR_IDMAP;
      r = SYS (mount_setattr, tree, "", AT_EMPTY_PATH | recursive, &attr, sizeof attr);
    }
  must (r, bind->idmap ? "id-mapped mount" : "mount attributes", path);
  if (bind->idmap)
    SYS (close, attr.userns_fd);
  SYS (close, source);
  return (int) tree;
}

void
mounts_open_sources (void)
{
  size_t at = 0;
  struct record r;
  int n = 0;
  while (plan_next (&at, &r))
    if (r.tag == PLAN_BIND)
      {
        if (n == MAX_BINDS)
          fail ("mount", "too many mounts", -E2BIG);
        trees[n++] = open_source ((const struct plan_bind *) r.data,
                                  (const char *) r.data + sizeof (struct plan_bind));
      }
}

static void
attach (int tree, const char *target)
{
  /* Never through a link, not even one that the plan made: mount points are what they look like. */
  long place = ids_open_inside (AT_FDCWD, target, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
  must (place, "mount point", target);
  must (SYS (move_mount, tree, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH), "mount", target);
  SYS (close, place);
  SYS (close, tree);
}

static void
make_file (const struct record *r)
{
  u32 mode, length;
  memcpy (&mode, r->data, 4);
  memcpy (&length, r->data + 4, 4);
  const char *target = (const char *) r->data + 8;
  if (length == 0) /* a mount point, most often: one call instead of two */
    {
      must (SYS (mknodat, AT_FDCWD, target, S_IFREG | mode, 0), "create", target);
      return;
    }
  long fd = must (SYS (openat, AT_FDCWD, target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode), "create", target);
  must (write_all ((int) fd, target + str_len (target) + 1, length), "write", target);
  SYS (close, fd);
}

static void
make_tmpfs (const struct record *r)
{
  u32 flags;
  memcpy (&flags, r->data, 4);
  const char *options = (const char *) r->data + 8;
  const char *target = options + str_len (options) + 1;
  must (SYS (mount, "tmpfs", target, "tmpfs", flags, options), "mount tmpfs", target);
}

static void
make_directory (const struct record *r)
{
  u32 mode, owned;
  memcpy (&mode, r->data, 4);
  memcpy (&owned, r->data + 4, 4);
  const char *target = (const char *) r->data + 8;
  must (SYS (mkdirat, AT_FDCWD, target, mode), "mkdir", target);
  if (owned && (plan.mode->flags & MODE_SPLIT_UID))
    must (SYS (fchownat, AT_FDCWD, target, plan.mode->command_uid, plan.mode->command_gid, AT_SYMLINK_NOFOLLOW),
          "chown", target);
}

static void
rebind (const char *source, const char *target)
{
  long from = must (beneath (AT_FDCWD, source, O_PATH | O_CLOEXEC, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS), "rebind", source);
  long tree = must (SYS (open_tree, from, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | O_CLOEXEC), "rebind", source);
  attach ((int) tree, target);
  SYS (close, from);
}

static void
make_entry (const struct record *r)
{
  const char *s = (const char *) r->data;
  switch (r->tag)
    {
    case PLAN_TMPFS:
      make_tmpfs (r);
      break;
    case PLAN_PROC:
      must (SYS (mount, "proc", s, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, 0), "mount proc", s);
      break;
    case PLAN_DEVPTS:
      /* Terminals are counted for the whole machine (kernel.pty.max): one sandbox gets a small share. */
      must (SYS (mount, "devpts", s, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,max=256"),
            "mount devpts", s);
      break;
    case PLAN_DIR:
      make_directory (r);
      break;
    case PLAN_REBIND:
      rebind (s, s + str_len (s) + 1);
      break;
    case PLAN_SYMLINK:
      must (SYS (symlinkat, s, AT_FDCWD, s + str_len (s) + 1), "symlink", s + str_len (s) + 1);
      break;
    case PLAN_FILE:
      make_file (r);
      break;
    case PLAN_STORE:
      covers_store (r);
      break;
    case PLAN_VIEW:
      covers_view (r);
      break;
    case PLAN_COVER:
      covers_make (r);
      break;
    }
}

void
mounts_build (void)
{
  must (SYS (mount, "tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=4m"), "mount", "new root");
  must (SYS (chdir, "/tmp"), "chdir", "new root");

  size_t at = 0;
  struct record r;
  int n = 0;
  while (plan_next (&at, &r))
    {
      if (r.tag != PLAN_BIND)
        make_entry (&r);
      else if (trees[n++] >= 0)
        {
          const char *source = (const char *) r.data + sizeof (struct plan_bind);
          attach (trees[n - 1], source + str_len (source) + 1);
        }
    }
  covers_end ();

  must (SYS (pivot_root, ".", "."), "pivot_root", "");
  must (SYS (umount2, ".", MNT_DETACH), "detach the host's root", "");
  must (SYS (chdir, "/"), "chdir", "/");
  struct mount_attr attr = { MOUNT_ATTR_RDONLY, 0, 0, 0 };
  must (SYS (mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof attr), "read-only root", "");
}
