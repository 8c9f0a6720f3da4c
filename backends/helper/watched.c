#include "relay.h"

static void
keep (struct source *s, short happened)
{
  ((struct watched *) s)->got = happened;
}

void
watch_for (struct watched *w, int fd, short events)
{
  if (!w->source.ready)
    {
      w->source.ready = keep;
      loop_add (&w->source);
    }
  w->source.fd = fd;
  w->source.events = fd >= 0 ? events : 0;
  w->got = 0;
}

void
watch_end (struct watched *w)
{
  if (w->source.ready)
    loop_remove (&w->source);
  w->source.ready = NULL;
}
