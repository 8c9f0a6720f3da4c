/* What is done once, before the first command: ids, mounts, confinement. */
#ifndef ISANDBOX_SETUP_H
#define ISANDBOX_SETUP_H

#include "plan.h"

/* mounts.c */
void mounts_open_sources (void); /* clone every bind source as a detached tree */
void mounts_build (void);        /* new root, everything the plan puts into it, pivot, read-only */

/* confine.c */
void confine_become_root (void); /* uid 0 of the new user namespace; the caller's groups dropped */
void confine_loopback_up (void);
void confine_sysctls (void);
void confine_forever (void); /* capabilities, no_new_privs, Landlock, seccomp: nothing can be taken back */
int landlock_abi (void);

/* ids.c */
void ids_keep_descriptors (void); /* those that the plan names */
void ids_prepare (void);          /* the launcher: the namespace above the sandbox's, and the owner of the sandbox's */
void ids_made (void);
u64 ids_outside (const char *map, u64 inside);
long ids_open_inside (const char *path, u64 resolve);
__attribute__ ((noreturn)) void ids_hold_namespace (void);

/* launch.c */
void launch (void); /* returns only in the sandbox's first process */

/* serve.c */
__attribute__ ((noreturn)) void serve (void);

#endif
