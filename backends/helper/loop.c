#include "loop.h"

static struct pollfd few[64];
static struct pollfd *set = few;
static size_t cap = 64;
static u32 count;

void
loop_clear (void)
{
  count = 1;
  set[0] = (struct pollfd) { -1, 0, 0 };
}

static int
grow (void)
{
  struct pollfd *more = map_pages (2 * cap * sizeof *set);
  if (!more)
    return 0;
  memcpy (more, set, count * sizeof *set);
  if (set != few)
    unmap_pages (set, cap * sizeof *set);
  set = more;
  cap *= 2;
  return 1;
}

u32
loop_watch (int fd, short events)
{
  if (count == cap && !grow ())
    return 0;
  set[count] = (struct pollfd) { fd, events, 0 };
  return count++;
}

void
loop_wait (const struct timespec *limit)
{
  struct timespec copy = limit ? *limit : (struct timespec) { 0, 0 };
  SYS (ppoll, set, count, limit ? &copy : 0, 0, 8);
}

short
loop_got (u32 slot)
{
  return slot ? set[slot].revents : 0;
}
