/* What the server waits for: a set of descriptors that is made anew before each wait. */
#ifndef ISANDBOX_LOOP_H
#define ISANDBOX_LOOP_H

#include "base.h"

void loop_clear (void);
/* Wait for EVENTS on FD too, and for its failure; where to ask about it afterwards, 0 for want of memory. */
u32 loop_watch (int fd, short events);
void loop_wait (const struct timespec *limit);
short loop_got (u32 slot); /* what has happened there; nothing at 0 */

#endif
