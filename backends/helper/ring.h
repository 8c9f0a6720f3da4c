/* The last bytes of a stream that may be endless, each with its exact offset from the stream's beginning. */
#ifndef ISANDBOX_RING_H
#define ISANDBOX_RING_H

#include "base.h"

#define RING_LEAST 4096
#define RING_MOST (16u << 20)

/* Without DATA nothing is kept, and bytes are only counted. WRITTEN: how many bytes there have been. */
struct ring { u8 *data; u64 size, written; };

int ring_make (struct ring *r, u64 size); /* 0 where there is no memory; touched only as far as it is used */
void ring_free (struct ring *r);          /* what was kept is gone, WRITTEN stays */

/* The oldest byte that is still there. */
static inline u64
ring_first (const struct ring *r)
{
  u64 kept = r->data ? r->size : 0;
  return r->written > kept ? r->written - kept : 0;
}

/* One read of at most MOST bytes from FD, over the oldest ones: their number, 0 at the end, or a negative errno. */
long ring_fill (struct ring *r, int fd, u64 most);
/* One write to FD of what stands between FROM and UNTIL, both within what is kept: how many bytes, or a negative errno. */
long ring_give (const struct ring *r, u64 from, u64 until, int fd);

#endif
