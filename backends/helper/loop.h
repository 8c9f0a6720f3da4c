/* What the server waits for: descriptors, each with somebody who is told. */
#ifndef ISANDBOX_LOOP_H
#define ISANDBOX_LOOP_H

#include "base.h"

struct source {
  int fd;
  short events; /* POLLIN, POLLOUT; 0: nobody waits for it now, not even for its end */
  void (*ready) (struct source *s, short happened);
  struct source *next;
};

/* The structure is the caller's, and stays where it is until it is removed. A source that is added while others are told waits
 * for the next round; one that is removed is told nothing more, whoever removes it. */
void loop_add (struct source *s);
void loop_remove (struct source *s);
void loop_wait (int ms); /* one round; -1: without end */

#endif
