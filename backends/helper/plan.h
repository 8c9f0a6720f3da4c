/* The compiled plan: what the host decided, as records the helper only has to carry out.
 *
 * Layout: "ISBP", u32 version, u32 total bytes, u32 0, then records of u32 tag, u32 length, payload padded to 8 bytes. Strings in
 * a payload end with NUL. The plan is checked as a whole before anything is done; a record that does not parse, or a tag
 * that is not known, ends the start. The host's half is _shared/plan.py.
 */
#ifndef ISANDBOX_PLAN_H
#define ISANDBOX_PLAN_H

#include "base.h"

#define PLAN_VERSION 1
#define PLAN_MAX (16u << 20)
#define NAMESPACES 7

enum plan_tag {
  PLAN_MODE = 1,       /* struct plan_mode */
  PLAN_ID_MAPS = 2,    /* struct plan_ids, uid_map\0 gid_map\0: lines of "inside outside count" */
  PLAN_BIND = 3,       /* struct plan_bind, source\0 target\0 */
  PLAN_TMPFS = 4,      /* u32 attributes, u32 0, options\0 target\0 */
  PLAN_PROC = 5,       /* target\0 */
  PLAN_DEVPTS = 6,     /* target\0 */
  PLAN_DIR = 7,        /* u32 mode, u32 1 for the command's user as owner, target\0 */
  PLAN_SYMLINK = 8,    /* text\0 target\0 */
  PLAN_FILE = 9,       /* u32 mode, u32 length, target\0 content */
  PLAN_HOSTNAME = 10,  /* name\0 */
  PLAN_RLIMIT = 11,    /* struct plan_rlimit */
  PLAN_LANDLOCK = 12,  /* u64 handled accesses, u64 scopes */
  PLAN_ALLOW = 13,     /* u64 accesses, path\0: one Landlock rule */
  PLAN_SECCOMP = 14,   /* struct sock_filter[] */
  PLAN_AFFINITY = 15,  /* u64 words of the CPU mask */
  PLAN_REBIND = 16,    /* source\0 target\0, both in the new root */
  PLAN_SYSCTL = 17,    /* file below /proc/sys\0 text\0: written once /proc is the sandbox's own */
  PLAN_STORE = 18,     /* target\0: the directory that later records use by descriptor, also once it is covered */
  PLAN_VIEW = 19,      /* source\0 name\0: what stands in the new root, once more in the store */
  PLAN_COVER = 20,     /* struct plan_cover, name\0 target\0: entry of the store over what is at the target */
  PLAN_OUTSIDE = 21,   /* u64[NAMESPACES]: inode numbers of the host's namespaces user, mnt, pid, ipc, uts, cgroup, net; 0: unknown */
  PLAN_LIFE = 22,      /* struct plan_life */
};

#define MODE_NAMESPACES 1 /* without it the helper is a launcher only: no isolation */
#define MODE_SPLIT_UID 2  /* commands run as another uid than the helper */
#define MODE_LOOPBACK 4
#define MODE_OPEN_EARLY 8 /* clone the mount sources with the caller's own credentials, before the namespaces */
#define MODE_KEYRING 16   /* a session keyring of the sandbox's own */
#define MODE_HOLD_IDS 128 /* no sandbox: a user namespace and nothing else, for the host to map ids in */
#define MODE_DETACHED 256 /* the sandbox outlives its creator and lets other clients in; LISTEN_FD, LOCK_FD and NOTE_FD are given */

#define IDS_CLAIM 1 /* CLAIM_FD is given */
#define IDS_OUTER 2 /* OUTER_FD is given; the outside ids are those of that namespace */
#define IDS_OWNER 4 /* `owner`, an id of the caller's namespace, owns the sandbox's user namespace */

struct plan_mode {
  u64 clone_flags;
  u32 flags, command_uid, command_gid, pids; /* pids: 0 for no limit */
  u64 memory;                                /* bytes that all commands may use together; 0: no limit, or a cgroup holds it */
  u64 cpu_ns;                                /* CPU time of one command with all its children; 0 for no limit */
};

struct plan_ids { u32 flags, owner; };

struct plan_bind {
  u32 attributes; /* MOUNT_ATTR_* */
  u32 idmap;      /* 1: the owner of the source appears as the command's user; 2: where the file system can do that */
  u32 optional;   /* 1: a source that does not exist is left out */
  u32 recursive;
};

struct plan_cover {
  u32 in_store; /* 1: the target is a path in the store; 0: in the new root */
  u32 needed;   /* 1: a target that is not there, or is a link, ends the start; 0: there is nothing to cover */
  u32 keep;     /* bytes of the target that name the mount it is in, which is never covered itself */
  u32 pad;
};

struct plan_rlimit { u32 resource, pad; u64 soft, hard; };

struct plan_life { u64 lifetime_ms, idle_ms; }; /* since the start, and since the last use; 0: no end */

struct record { u32 tag, len; const u8 *data; };

struct plan {
  const u8 *base;
  size_t size;
  const struct plan_mode *mode;
  const struct plan_ids *ids;
  const char *uid_map, *gid_map, *hostname;
  const u8 *seccomp;
  u32 seccomp_len;
  const u64 *landlock; /* handled, scopes */
  const u64 *affinity;
  const u64 *namespaces; /* the host's */
  const struct plan_life *life;
  u32 affinity_len;
};

extern struct plan plan;

void plan_load (int fd);
/* Records in order: start with *at = 0; 0 when there are no more. */
int plan_next (size_t *at, struct record *r);

#endif
