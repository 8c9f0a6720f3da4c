/* What the first process finds out about itself before it says HELLO, by trying wherever a try is cheap: a layer whose call
 * returned 0 is not yet a layer that holds. The host decides what a finding means. */
#ifndef ISANDBOX_VERIFY_H
#define ISANDBOX_VERIFY_H

#include "protocol.h"

/* verify.c */
void verify_view (void);              /* mounts and namespaces, while another task makes the network's */
void verify_keyring (long joined);    /* before the filter, which forbids the question; JOINED: the keyring's serial number */
void verify_layers (struct hello *h); /* the rest, once everything is in place; fills in the reports */

/* verify_mounts.c */
u32 mounts_unlike_plan (void); /* how many mounts are not what the plan says, or are missing from it */

#endif
