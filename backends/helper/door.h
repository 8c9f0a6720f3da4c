/* How a detached sandbox leaves its creator, and how others come in. Nothing happens for another. */
#ifndef ISANDBOX_DOOR_H
#define ISANDBOX_DOOR_H

#include "base.h"

void door_detach (void); /* the launcher: returns in a process that nobody's end ends */
void door_open (void);   /* the server, before it says that it is ready */

#endif
