/* What is kept of commands that have ended, and the bounds of it. */
#include "relay.h"

/* The oldest ended one that can still be attached to. */
static struct relay *
oldest_ended (void)
{
  struct relay *found = NULL;
  for (struct relay *r = relays; r; r = r->next)
    if (relay_kept (r) && r->ended && !r->forgotten)
      found = r;
  return found;
}

/* Who still views it has lost what was not taken; what a background child writes is read on, and thrown away. */
static void
forget (struct relay *r)
{
  r->forgotten = 1;
  for (u32 i = 0; i < r->streams; i++)
    ring_free (&r->stream[i].ring);
}

/* Bytes that its rings may come to use. What nobody writes to any more has not touched the rest. */
static u64
weight (const struct relay *r)
{
  u64 bytes = 0;
  for (u32 i = 0; i < r->streams; i++)
    {
      const struct stream *s = &r->stream[i];
      u64 used = (s->ring.written + 4095) & ~4095ull;
      if (s->ring.data)
        bytes += s->fd < 0 && used < s->ring.size ? used : s->ring.size;
    }
  return bytes;
}

static u64
weigh_all (void)
{
  u64 bytes = 0;
  for (const struct relay *r = relays; r; r = r->next)
    bytes += weight (r);
  return bytes;
}

static u32
count (int ended_only)
{
  u32 n = 0;
  for (const struct relay *r = relays; r; r = r->next)
    n += relay_kept (r) && !r->forgotten && (r->ended || !ended_only);
  return n;
}

u32
relay_count_kept (void)
{
  return count (0);
}

long
keeping_room (u64 bytes, int kept)
{
  while (weigh_all () + bytes > RINGS_MOST || (kept && count (0) >= KEPT_MOST))
    {
      struct relay *r = oldest_ended ();
      if (!r)
        return kept && count (0) >= KEPT_MOST ? -EBUSY : -ENOMEM;
      forget (r);
    }
  return 0;
}

void
keeping_bounds (void)
{
  while (count (1) > KEPT_ENDED)
    forget (oldest_ended ());
}
