/* Ids, capabilities, Landlock and seccomp of the sandbox's first process. Every command inherits them. */
#include "setup.h"
#include "verify.h"

#define LANDLOCK_VERSION_FLAG 1
#define LANDLOCK_RULE_PATH_BENEATH 1
/* EXECUTE, WRITE_FILE, READ_FILE, TRUNCATE, IOCTL_DEV: the rights that a rule on a file may carry. */
#define LANDLOCK_FILE_RIGHTS (1ull | 2 | 4 | 1ull << 14 | 1ull << 15)

struct landlock_ruleset { u64 fs, net, scoped; };
struct landlock_path { u64 access; i32 parent; } __attribute__ ((packed));

void
confine_become_root (void)
{
  must (SYS (setgroups, 0, 0), "setgroups", "");
  must (SYS (setresgid, 0, 0, 0), "setresgid", "");
  must (SYS (setresuid, 0, 0, 0), "setresuid", "");
}

void
confine_loopback_up (void)
{
  struct { char name[16]; short flags; char rest[22]; } request = { "lo", 0, { 0 } };
  long fd = must (SYS (socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "loopback", "socket");
  must (SYS (ioctl, fd, SIOCGIFFLAGS, &request), "loopback", "read flags");
  request.flags |= IFF_UP;
  must (SYS (ioctl, fd, SIOCSIFFLAGS, &request), "loopback", "up");
  SYS (close, fd);
}

void
confine_sysctls (void)
{
  size_t at = 0;
  struct record r;
  while (plan_next (&at, &r))
    if (r.tag == PLAN_SYSCTL)
      {
        char path[128];
        const char *name = (const char *) r.data;
        size_t len = put_str (path, sizeof path, 0, "/proc/sys/");
        put_str (path, sizeof path, len, name);
        long w = write_file (path, name + str_len (name) + 1);
        if (w != -ENOENT) /* what this kernel does not have, nobody can use up */
          must (w, "sysctl", name);
      }
}

static void
drop_capabilities (void)
{
  must (SYS (prctl, PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0), "securebits", "");
  must (SYS (prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "ambient capabilities", "");
  long r = 0;
  for (int cap = 0; (r = SYS (prctl, PR_CAPBSET_DROP, cap, 0, 0, 0)) == 0; cap++)
    ;
  if (r != -EINVAL) /* the first number past the kernel's last capability */
    fail ("bounding set", "", r);

  u32 keep = kept_capabilities ();
  struct { u32 version; i32 pid; } header = { 0x20080522, 0 };
  u32 sets[6] = { keep, keep, 0, 0, 0, 0 }, now[6];
  must (SYS (capset, &header, sets), "capset", "");
  must (SYS (capget, &header, now), "capget", "");
  if (memcmp (sets, now, sizeof sets) != 0)
    fail ("capabilities", "a set did not shrink", -EPERM);
}

int landlock_abi;

/* Rights and scopes that a kernel with this ABI knows (Documentation/userspace-api/landlock.rst). */
static struct landlock_ruleset
known_to (int abi)
{
  struct landlock_ruleset known = { (1ull << 13) - 1, 0, 0 };
  if (abi >= 2)
    known.fs |= 1ull << 13;
  if (abi >= 3)
    known.fs |= 1ull << 14;
  if (abi >= 5)
    known.fs |= 1ull << 15;
  if (abi >= 6)
    known.scoped = 3;
  return known;
}

static void
allow_path (int ruleset, u64 access, const char *path)
{
  struct statx st;
  long fd = ids_open_inside (AT_FDCWD, path, RESOLVE_NO_SYMLINKS);
  if (fd == -ENOENT)
    return; /* an optional part of the view that this host does not have */
  must (fd, "landlock path", path);
  must (SYS (statx, fd, "", AT_EMPTY_PATH, STATX_BASIC, &st), "landlock path", path);
  if ((st.mode & S_IFMT) != S_IFDIR)
    access &= LANDLOCK_FILE_RIGHTS;
  struct landlock_path rule = { access, (i32) fd };
  must (SYS (landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0), "landlock rule", path);
  SYS (close, fd);
}

static void
restrict_paths (void)
{
  struct landlock_ruleset wanted = { plan.landlock[0], 0, plan.landlock[1] };
  if (!wanted.fs && !wanted.scoped)
    return; /* waived by the caller, by name */
  int abi = (int) must (SYS (landlock_create_ruleset, 0, 0, LANDLOCK_VERSION_FLAG), "landlock", "version");
  struct landlock_ruleset known = known_to (abi);
  wanted.fs &= known.fs;
  wanted.scoped &= known.scoped;
  size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
  long ruleset = must (SYS (landlock_create_ruleset, &wanted, size, 0), "landlock", "create");

  size_t at = 0;
  struct record r;
  while (plan_next (&at, &r))
    if (r.tag == PLAN_ALLOW)
      {
        u64 access;
        memcpy (&access, r.data, 8);
        if (access & wanted.fs)
          allow_path ((int) ruleset, access & wanted.fs, (const char *) r.data + 8);
      }
  must (SYS (landlock_restrict_self, ruleset, 0), "landlock", "restrict");
  SYS (close, ruleset);
  landlock_abi = abi;
}

void
confine_forever (void)
{
  /* A session keyring of our own, as minijail does: the caller's keys are not ours to hold. */
  if (plan.mode->flags & MODE_KEYRING)
    verify_keyring (must (SYS (keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0), "keyring", ""));
  drop_capabilities ();
  must (SYS (prctl, PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable", "");
  must (SYS (prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs", "");
  restrict_paths ();
  struct sock_fprog program = { (u16) plan.seccomp_len, (void *) plan.seccomp };
  must (SYS (prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "seccomp", "load");
}
