#include "loop.h"

#define FEW 16

static struct source *sources;
static struct source **last = &sources;
static u32 count;

static struct pollfd few_polls[FEW];
static struct source *few_told[FEW];
static struct pollfd *polls = few_polls;
static struct source **told = few_told; /* NULL: removed since the round began */
static u32 room = FEW, in_round;

void
loop_add (struct source *s)
{
  s->next = NULL;
  *last = s;
  last = &s->next;
  count++;
}

void
loop_remove (struct source *s)
{
  struct source **link = &sources;
  while (*link && *link != s)
    link = &(*link)->next;
  if (!*link)
    return;
  *link = s->next;
  if (last == &s->next)
    last = link;
  count--;
  for (u32 i = 0; i < in_round; i++)
    if (told[i] == s)
      told[i] = NULL;
}

/* Never given back: a sandbox that had that many will have them again. */
static void
widen (void)
{
  u32 more = 2 * count;
  struct pollfd *wider_polls = map_pages (more * sizeof *polls);
  struct source **wider_told = map_pages (more * sizeof *told);
  if (!wider_polls || !wider_told)
    fail ("serve", "no memory to wait for descriptors", -ENOMEM);
  if (polls != few_polls)
    {
      unmap_pages (polls, room * sizeof *polls);
      unmap_pages (told, room * sizeof *told);
    }
  polls = wider_polls;
  told = wider_told;
  room = more;
}

void
loop_wait (int ms)
{
  if (count > room)
    widen ();
  in_round = 0;
  for (struct source *s = sources; s; s = s->next)
    if (s->events) /* the kernel counts also what is not waited for, and takes no more than there may be descriptors */
      {
        polls[in_round] = (struct pollfd) { s->fd, s->events, 0 };
        told[in_round++] = s;
      }
  struct timespec limit = { ms / 1000, ms % 1000 * 1000000l };
  SYS (ppoll, polls, in_round, ms < 0 ? 0 : &limit, 0, 8);
  for (u32 i = 0; i < in_round; i++)
    if (told[i] && polls[i].revents)
      told[i]->ready (told[i], polls[i].revents);
  in_round = 0;
}
