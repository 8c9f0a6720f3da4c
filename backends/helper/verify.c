#include "verify.h"
#include "setup.h"

/* For the whiteout: scratch space of the sandbox's own, where the mount plan lets nobody put anything of the host. */
#define PROBE_PLACE "/dev/shm"
#define CAPS_MOST 64

static const struct namespace { u16 layer; u64 flag; const char *name; } namespaces[NAMESPACES] = {
  { LAYER_USER_NAMESPACE, CLONE_NEWUSER, "user" },
  { LAYER_MOUNT_NAMESPACE, CLONE_NEWNS, "mnt" },
  { LAYER_PID_NAMESPACE, CLONE_NEWPID, "pid" },
  { LAYER_IPC_NAMESPACE, CLONE_NEWIPC, "ipc" },
  { LAYER_UTS_NAMESPACE, CLONE_NEWUTS, "uts" },
  { LAYER_CGROUP_NAMESPACE, CLONE_NEWCGROUP, "cgroup" },
  { LAYER_NET_NAMESPACE, CLONE_NEWNET, "net" },
};

static struct { u32 namespaces[NAMESPACES], mounts; } seen; /* by verify_view: what is wrong */
static int keyring_is_new;

static long
open_namespaces (void)
{
  return SYS (openat, AT_FDCWD, "/proc/self/ns", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
}

/* 1: the host's, or not to be seen. 2: not the first process of its pid namespace, or another one's /proc. */
static u32
namespace_wrong (long directory, size_t i)
{
  char self[16];
  struct statx st;
  if (!plan.namespaces || !plan.namespaces[i] || SYS (statx, directory, namespaces[i].name, 0, STATX_INO, &st) < 0
      || st.ino == plan.namespaces[i])
    return 1;
  if (namespaces[i].flag == CLONE_NEWPID
      && (SYS0 (getpid) != 1 || SYS (readlinkat, AT_FDCWD, "/proc/self", self, sizeof self) != 1 || self[0] != '1'))
    return 2;
  return 0;
}

void
verify_view (void)
{
  seen.mounts = mounts_unlike_plan ();
  long directory = open_namespaces ();
  for (size_t i = 0; i < NAMESPACES; i++)
    if (namespaces[i].flag & plan.mode->clone_flags & ~(u64) CLONE_NEWNET)
      seen.namespaces[i] = namespace_wrong (directory, i);
  if (directory >= 0)
    SYS (close, directory);
}

void
verify_keyring (long joined)
{
  /* The one that was made is the one that is searched, and nothing is in it. */
  keyring_is_new = SYS (keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0) == joined
                   && SYS (keyctl, KEYCTL_READ, KEY_SPEC_SESSION_KEYRING, 0, 0) == 0;
}

static void
report (struct hello *h, u16 layer, int planned, u32 got_through)
{
  u16 verdict = !planned ? VERDICT_NOT_PLANNED : got_through ? VERDICT_NOT_IN_EFFECT : VERDICT_ENFORCED;
  h->reports[h->layers++] = (struct layer_report) { layer, verdict, planned ? got_through : 0 };
}

/* Whether all three ids that CALL gives are ID. */
#define IDS_ARE(call, id) (SYS (call, &ids[0], &ids[1], &ids[2]) == 0 && ids[0] == (id) && ids[1] == (id) && ids[2] == (id))

/* The launcher has looked at the maps. 1: uid. 2: gid. */
static u32
ids_wrong (void)
{
  int split = (plan.mode->flags & MODE_SPLIT_UID) != 0;
  u32 ids[3], uid = split ? 0 : plan.mode->command_uid, gid = split ? 0 : plan.mode->command_gid;
  if (!IDS_ARE (getresuid, uid))
    return 1;
  return IDS_ARE (getresgid, gid) ? 0 : 2;
}

/* 1: effective, permitted or inheritable. 2: bounding. 3: ambient. 4: securebits. The kernel keeps the ambient set within the
 * inheritable one, which is empty: of its members those are asked for that the process could have. */
static u32
capabilities_wrong (void)
{
  u32 keep = kept_capabilities ();
  struct { u32 version; i32 pid; } header = { 0x20080522, 0 };
  u32 wanted[6] = { keep, keep, 0, 0, 0, 0 }, now[6];
  if (SYS (capget, &header, now) < 0 || memcmp (wanted, now, sizeof now) != 0)
    return 1;
  long r = 0;
  int cap = 0;
  for (; cap < CAPS_MOST && (r = SYS (prctl, PR_CAPBSET_READ, cap, 0, 0, 0)) == 0; cap++)
    if (keep >> (cap & 31) & 1 && SYS (prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) != 0)
      return 3;
  if (cap == 0 || (r != 0 && r != -EINVAL)) /* EINVAL: the first number past the kernel's last capability */
    return 2;
  return SYS (prctl, PR_GET_SECUREBITS, 0, 0, 0, 0) == SECUREBITS ? 0 : 4;
}

/* A node that needs no privilege, in a place where everybody may write: nothing but Landlock forbids it (MAKE_CHAR).
 * 1: it was made. 2: the place is closed, so that a refusal says nothing. */
static u32
landlock_wrong (void)
{
  if (SYS (faccessat, AT_FDCWD, PROBE_PLACE, W_OK | X_OK) != 0)
    return 2;
  long r = SYS (mknodat, AT_FDCWD, PROBE_PLACE "/.isandbox-probe", S_IFCHR | 0600, 0); /* 0:0, a whiteout of overlayfs */
  if (r == 0)
    SYS (unlinkat, AT_FDCWD, PROBE_PLACE "/.isandbox-probe", 0);
  return r != -EACCES;
}

/* Calls that are harmless without the filter, and that the kernel itself answers otherwise: done, or EINVAL.
 * 1: no filter. From 2 on: the number of the call that got through. */
static u32
seccomp_wrong (void)
{
  if (SYS (prctl, PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER)
    return 1;
  if (SYS (unshare, 0) != -EPERM)
    return 2;
  if (SYS (clone3, 0, 0) != -ENOSYS)
    return 3;
  if (SYS (keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0) != -EPERM)
    return 4;
  /* The kernel looks at the type before the family: it would say EINVAL, and load no module. */
  return SYS (socket, AF_VSOCK, SOCK_MAX, 0) == -EAFNOSUPPORT ? 0 : 5;
}

/* The filter as it was given to the kernel: FNV-1a over its instructions. */
static u64
filter_hash (void)
{
  u64 hash = 0xcbf29ce484222325ull;
  for (u32 i = 0; i < plan.seccomp_len; i++)
    {
      u64 instruction;
      memcpy (&instruction, plan.seccomp + 8 * i, 8);
      hash = (hash ^ instruction) * 0x100000001b3ull;
    }
  return hash;
}

static int
is_null_device (u32 fd)
{
  struct statx st;
  return SYS (statx, fd, "", AT_EMPTY_PATH, STATX_BASIC, &st) == 0 && (st.mode & S_IFMT) == S_IFCHR && st.rdev_major == 1
         && st.rdev_minor == 3;
}

/* Whether the lock on the sandbox's ids is held by a descriptor of ours. */
static int
claimed (void)
{
  return plan.ids && (plan.ids->flags & IDS_CLAIM) != 0;
}

/* Whether three more descriptors belong to it: its doorkeeper's, the lock and the note. */
static int
is_detached (void)
{
  return (plan.mode->flags & MODE_DETACHED) != 0;
}

/* The number of a descriptor above the control socket that has no place there, plus one; 0: there is none. */
static u32
descriptor_too_many (void)
{
  static u8 entries[2048];
  long directory = SYS (openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0), got = directory;
  u32 wrong = directory < 0;
  while (!wrong && (got = SYS (getdents64, directory, entries, sizeof entries)) > 0)
    for (long at = 0; at < got && !wrong;)
      {
        u16 length;
        memcpy (&length, entries + at + 16, 2);
        const char *name = (const char *) entries + at + 19;
        u32 fd = (u32) take_num (&name);
        int detached = fd >= LISTEN_FD && fd <= NOTE_FD && is_detached ();
        if (fd > CONTROL_FD && fd != (u32) directory && !(fd == CLAIM_FD && claimed ()) && !detached)
          wrong = fd + 1;
        at += length;
      }
  if (directory >= 0)
    SYS (close, directory);
  return wrong || got >= 0 ? wrong : 1;
}

/* Open are /dev/null three times, the server's signals, the control socket, the lock on the ids and what a detached sandbox has
 * besides. The number of another, plus one. From Linux 6.2 on the directory of descriptors has their number as its size; else
 * they are looked at one by one. */
static u32
descriptors_wrong (void)
{
  struct statx st;
  for (u32 fd = 0; fd < 3; fd++)
    if (!is_null_device (fd))
      return fd + 1;
  /* A file: nothing else can be the lock. */
  if (claimed () && (SYS (statx, CLAIM_FD, "", AT_EMPTY_PATH, STATX_BASIC, &st) < 0 || (st.mode & S_IFMT) != S_IFREG))
    return CLAIM_FD + 1;
  if (SYS (statx, AT_FDCWD, "/proc/self/fd", 0, STATX_BASIC, &st) < 0)
    return 1;
  return st.size == CONTROL_FD + 1 + (u64) claimed () + 3 * (u64) is_detached () ? 0 : descriptor_too_many ();
}

void
verify_layers (struct hello *h)
{
  int split = (plan.mode->flags & MODE_SPLIT_UID) != 0, landlock = plan.landlock[0] || plan.landlock[1];
  long directory = open_namespaces ();
  h->layers = 0;
  for (size_t i = 0; i < NAMESPACES; i++)
    {
      u32 wrong = namespaces[i].flag == CLONE_NEWNET ? namespace_wrong (directory, i) : seen.namespaces[i];
      report (h, namespaces[i].layer, (plan.mode->clone_flags & namespaces[i].flag) != 0, wrong);
    }
  if (directory >= 0)
    SYS (close, directory);
  report (h, LAYER_IDS, 1, ids_wrong ());
  report (h, LAYER_GROUPS, split, split && SYS (getgroups, 0, 0) != 0);
  report (h, LAYER_SPLIT_UID, split, plan.mode->command_uid == 0 || plan.mode->command_gid == 0);
  report (h, LAYER_MOUNTS, 1, seen.mounts);
  report (h, LAYER_CAPABILITIES, 1, capabilities_wrong ());
  report (h, LAYER_NO_NEW_PRIVS, 1, SYS (prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1);
  report (h, LAYER_DUMPABLE, 1, SYS (prctl, PR_GET_DUMPABLE, 0, 0, 0, 0) != 0);
  report (h, LAYER_KEYRING, (plan.mode->flags & MODE_KEYRING) != 0, !keyring_is_new);
  report (h, LAYER_LANDLOCK, landlock, landlock ? landlock_wrong () : 0);
  report (h, LAYER_SECCOMP, 1, seccomp_wrong ());
  report (h, LAYER_DESCRIPTORS, 1, descriptors_wrong ());
  h->landlock_abi = (u32) landlock_abi;
  h->filter = filter_hash ();
}
