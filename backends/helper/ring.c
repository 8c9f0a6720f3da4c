#include "ring.h"

int
ring_make (struct ring *r, u64 size)
{
  r->size = size < RING_LEAST ? RING_LEAST : size > RING_MOST ? RING_MOST : size;
  r->written = 0;
  r->data = map_pages (r->size);
  return r->data != NULL;
}

void
ring_free (struct ring *r)
{
  unmap_pages (r->data, r->size);
  r->data = NULL;
}

/* The part of a ring from offset AT on, BYTES of it (no more than there are in a ring), as one or two pieces. */
static int
pieces (const struct ring *r, u64 at, u64 bytes, struct iovec *out)
{
  u64 place = at % r->size, straight = r->size - place;
  if (straight >= bytes)
    straight = bytes;
  out[0] = (struct iovec) { r->data + place, straight };
  out[1] = (struct iovec) { r->data, bytes - straight };
  return bytes > straight ? 2 : 1;
}

long
ring_fill (struct ring *r, int fd, u64 most)
{
  static u8 unkept[16384];
  struct iovec iov[2] = { { unkept, sizeof unkept } };
  int count = 1;
  if (r->data)
    count = pieces (r, r->written, most < r->size ? most : r->size, iov);
  else if (most < sizeof unkept)
    iov[0].len = most;
  long n = SYS (readv, fd, iov, count);
  if (n > 0)
    r->written += (u64) n;
  return n;
}

long
ring_give (const struct ring *r, u64 from, u64 until, int fd)
{
  struct iovec iov[2];
  int count = pieces (r, from, until - from, iov);
  return SYS (writev, fd, iov, count);
}
