/* What is done once, before the first command: ids, mounts, confinement. */
#ifndef ISANDBOX_SETUP_H
#define ISANDBOX_SETUP_H

#include "plan.h"

/* mounts.c */
void mounts_open_sources (void); /* clone every bind source as a detached tree */
void mounts_build (void);        /* new root, everything the plan puts into it, pivot, read-only */

/* covers.c */
void covers_store (const struct record *r);
void covers_view (const struct record *r);
void covers_make (const struct record *r);
void covers_end (void);
extern u32 covers_missed; /* covers and views that were laid and are not there */

/* SECBIT_NOROOT, NO_CAP_AMBIENT_RAISE and their locks. NO_SETUID_FIXUP stays off: a command loses the helper's three
 * capabilities by that very fix-up. */
#define SECUREBITS (0x01 | 0x02 | 0x40 | 0x80)

/* What the first process and the keepers need where commands have another uid. */
static inline u32
kept_capabilities (void)
{
  return plan.mode->flags & MODE_SPLIT_UID ? 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_KILL : 0;
}

/* confine.c */
void confine_become_root (void); /* uid 0 of the new user namespace; the caller's groups dropped */
void confine_loopback_up (void);
void confine_sysctls (void);
void confine_forever (void); /* capabilities, no_new_privs, Landlock, seccomp: nothing can be taken back */
extern int landlock_abi; /* of the rules in force; 0: none */

/* ids.c */
long ids_close_others (void);   /* descriptors that the plan does not name */
void ids_prepare (void);          /* the launcher: the namespace above the sandbox's, and the owner of the sandbox's */
void ids_made (void);
u64 ids_outside (const char *map, u64 inside);
long ids_open_inside (int base, const char *path, u64 resolve);
__attribute__ ((noreturn)) void ids_hold_namespace (void);

/* launch.c */
void launch (void); /* returns only in the sandbox's first process */

/* serve.c */
__attribute__ ((noreturn)) void serve (void);

#endif
