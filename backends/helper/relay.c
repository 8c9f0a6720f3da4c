/* From relayed commands into their rings: making them, reading what they write and what their keepers report. */
#include "clients.h"
#include "relay.h"

/* What a terminal may hold on its way to us when its command ends: the kernel's buffers of one (drivers/tty). */
#define TERMINAL_HOLDS (64u << 10)

struct relay *relays;
u32 relays_kept;

static void
close_one (int *fd)
{
  if (*fd >= 0)
    SYS (close, *fd);
  *fd = -1;
}

static void
name_after (struct relay *r, char **argv)
{
  size_t len = 0;
  for (char **word = argv; *word; word++)
    {
      if (word != argv)
        len = put_str (r->name, sizeof r->name, len, " ");
      len = put_str (r->name, sizeof r->name, len, *word);
    }
}

static void
close_all (const int *fds, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (fds[i] >= 0)
      SYS (close, fds[i]);
}

/* A pipe's two ends, ours and the command's. */
static long
open_pipe (int reading, int *ours, int *theirs)
{
  int ends[2];
  long r = make_pipe_for_command (ends);
  if (r < 0)
    return r;
  *ours = ends[!reading];
  *theirs = ends[reading];
  viewer_own (*ours);
  return 0;
}

/* The keeper's pipe, which is nobody else's. */
static long
open_reports (struct relay *r, int *report)
{
  int ends[2];
  long e = SYS (pipe2, ends, O_CLOEXEC);
  if (e < 0)
    return e;
  r->status = ends[0];
  *report = ends[1];
  viewer_own (r->status);
  return 0;
}

/* The command's three standard streams (THEIRS: in, out, err), and ours. */
static long
open_streams (struct relay *r, int *theirs)
{
  long e;
  if (r->flags & START_TERMINAL)
    {
      e = terminal_open (r->command->start.rows, r->command->start.columns, &r->slave);
      if (e < 0)
        return e;
      r->stream[0].fd = r->sink = (int) e;
      for (int i = 0; i < 2; i++)
        {
          if ((e = SYS (fcntl, r->slave, F_DUPFD_CLOEXEC, 3)) < 0)
            return e;
          theirs[i] = (int) e;
        }
      return 0;
    }
  if ((r->flags & START_STDIN) && (e = open_pipe (0, &r->sink, &theirs[0])) < 0)
    return e;
  for (u32 i = 0; i < r->streams; i++)
    if ((e = open_pipe (1, &r->stream[i].fd, &theirs[1 + i])) < 0)
      return e;
  return 0;
}

static long
make_rings (struct relay *r)
{
  u64 size = relay_kept (r) ? r->command->start.keep : TERMINAL_RING;
  size = size < RING_LEAST ? RING_LEAST : size > RING_MOST ? RING_MOST : size;
  long e = keeping_room (size * r->streams, relay_kept (r));
  if (e < 0)
    return e;
  for (u32 i = 0; i < r->streams; i++)
    if (!ring_make (&r->stream[i].ring, size))
      return -ENOMEM;
  return 0;
}

static void
relay_free (struct relay *r)
{
  while (r->viewers)
    {
      struct viewer *v = r->viewers;
      r->viewers = v->next;
      viewer_free (v);
    }
  for (int i = 0; i < 2; i++)
    {
      ring_free (&r->stream[i].ring);
      close_one (&r->stream[i].fd);
      watch_end (&r->stream[i].on);
    }
  watch_end (&r->on_status);
  watch_end (&r->on_sink);
  if (!(r->flags & START_TERMINAL))
    close_one (&r->sink);
  close_one (&r->slave);
  close_one (&r->status);
  unmap_pages (r, sizeof *r);
}

static struct relay *
allocate (struct command *c)
{
  struct relay *r = map_pages (sizeof *r);
  if (!r)
    return NULL;
  r->command = c;
  r->flags = c->start.flags;
  r->streams = r->flags & START_MERGE ? 1 : 2;
  r->serial = r->flags & START_KEPT ? relays_kept + 1 : 0;
  r->quota = relay_kept (r) ? c->start.output_quota : 0;
  r->started_ns = c->started_ns;
  r->status = r->sink = r->slave = r->stream[0].fd = r->stream[1].fd = -1;
  r->stream[0].settled = r->stream[1].settled = ~0ull;
  name_after (r, c->argv);
  return r;
}

/* The command's descriptors so far are its first viewer's. */
static void
hand_over (struct relay *r, struct command *c, int report, const int *theirs)
{
  struct viewer *v = r->viewers;
  v->status = c->fd_status;
  v->out[0] = c->fd_out;
  v->out[1] = c->fd_err;
  v->in = c->fd_in;
  viewer_own (v->status);
  for (int i = 0; i < 2; i++)
    if (v->out[i] >= 0)
      viewer_own (v->out[i]);
  if (v->in >= 0)
    viewer_own (v->in);
  c->fd_status = report;
  c->fd_in = theirs[0];
  c->fd_out = theirs[1];
  c->fd_err = theirs[2];
  c->start.flags |= START_WANT_STARTED;
  c->relay = r;
}

long
relay_begin (struct command *c)
{
  int report = -1, theirs[3] = { -1, -1, -1 };
  struct relay *r = allocate (c);
  if (!r)
    return -ENOMEM;
  long e = make_rings (r);
  if (e >= 0)
    e = open_reports (r, &report);
  if (e >= 0)
    e = open_streams (r, theirs);
  if (e >= 0 && !(r->viewers = viewer_make (c->client->number, c->start.id)))
    e = -ENOMEM;
  if (e < 0)
    {
      close_all (theirs, 3);
      close_one (&report);
      relay_free (r);
      return e;
    }
  hand_over (r, c, report, theirs);
  relays_kept += relay_kept (r);
  r->next = relays;
  relays = r;
  return 0;
}

void
relay_command_gone (struct command *c)
{
  if (c->relay)
    c->relay->command = NULL;
}

void
relay_end_stream (struct stream *s)
{
  close_one (&s->fd);
  if (s->settled > s->ring.written)
    s->settled = s->ring.written;
}

static void
end_all (struct relay *r)
{
  for (u32 i = 0; i < r->streams; i++)
    relay_end_stream (&r->stream[i]);
  if (!(r->flags & START_TERMINAL))
    close_one (&r->sink);
  r->sink = -1;
  close_one (&r->slave);
}

/* The command has ended: what it has written is all in the pipe by now, and with background children more may come. */
static void
take_end (struct relay *r, const u8 *report)
{
  memcpy (&r->end, report, sizeof r->end);
  r->ended = 1;
  if (r->over && !r->end.fault)
    r->end.fault = FAULT_OUTPUT;
  if (!(r->flags & START_TERMINAL))
    close_one (&r->sink);
  r->sink = -1;
  close_one (&r->slave);
  for (u32 i = 0; i < r->streams; i++)
    {
      struct stream *s = &r->stream[i];
      int left = 0;
      if (r->flags & START_TERMINAL)
        left = TERMINAL_HOLDS;
      else if (s->fd >= 0)
        SYS (ioctl, s->fd, FIONREAD, &left);
      s->settled = s->ring.written + (s->fd >= 0 && left > 0 ? (u64) left : 0);
    }
  keeping_bounds ();
}

/* The keeper's two reports. Each is written at once and less than a page, so that none is ever read in pieces. */
static void
take_reports (struct relay *r)
{
  u8 data[512];
  long n = SYS (read, r->status, data, sizeof data);
  if (n == -EAGAIN || n == -EINTR)
    return;
  if (n <= 0)
    close_one (&r->status);
  for (long at = 0; n - at >= FRAME_HEADER;)
    {
      u32 len;
      u16 type;
      memcpy (&len, data + at, 4);
      memcpy (&type, data + at + 4, 2);
      at += FRAME_HEADER;
      if (len > (u64) (n - at))
        break;
      if (type == FRAME_STARTED && len == sizeof (struct started_report))
        {
          memcpy (&r->pid, data + at + offsetof (struct started_report, pid), 4);
          viewers_started (r);
        }
      else if (type == FRAME_EXIT && len == sizeof r->end && !r->ended)
        take_end (r, data + at);
      at += len;
    }
}

/* How much may be read now. What is kept overwrites the oldest; a terminal that is not kept waits for its viewer. */
static u64
room (const struct relay *r, int i)
{
  const struct ring *ring = &r->stream[i].ring;
  return relay_kept (r) ? ring->size : ring->size - (ring->written - viewers_slowest (r, i));
}

/* What a quota means does not depend on who is first: a command that ends by itself before it can be ended is over it too. */
static void
check_quota (struct relay *r)
{
  if (!r->quota || r->over || r->stream[0].ring.written + r->stream[1].ring.written <= r->quota)
    return;
  r->over = 1;
  if (r->ended && !r->end.fault)
    r->end.fault = FAULT_OUTPUT;
  else if (r->command)
    command_end (r->command, FAULT_OUTPUT);
}

static void
read_stream (struct relay *r, int i)
{
  struct stream *s = &r->stream[i];
  for (u64 budget = ROUND, most; budget > 0 && (most = room (r, i)) > 0;)
    {
      long n = ring_fill (&s->ring, s->fd, most < budget ? most : budget);
      if (n == -EINTR)
        continue;
      if (n == -EAGAIN)
        {
          if (r->ended && s->settled > s->ring.written)
            s->settled = s->ring.written;
          return;
        }
      if (n <= 0) /* of a terminal EIO: its session has ended */
        {
          if (r->sink == s->fd)
            r->sink = -1;
          relay_end_stream (s);
          return;
        }
      budget -= (u64) n;
      check_quota (r);
      viewers_give (r, i);
    }
}

void
relays_watch (void)
{
  for (struct relay *r = relays; r; r = r->next)
    {
      watch_for (&r->on_status, r->status, POLLIN);
      for (u32 i = 0; i < r->streams; i++)
        {
          struct stream *s = &r->stream[i];
          watch_for (&s->on, room (r, (int) i) > 0 ? s->fd : -1, POLLIN);
        }
      viewers_watch (r);
    }
}

static int
is_over (const struct relay *r)
{
  int open = r->status >= 0 || r->stream[0].fd >= 0 || r->stream[1].fd >= 0;
  return !r->command && !open && !r->viewers && (!relay_kept (r) || r->forgotten);
}

static void
turn (struct relay *r)
{
  if (r->on_status.got)
    take_reports (r);
  for (u32 i = 0; i < r->streams; i++)
    if (r->stream[i].fd >= 0 && (r->stream[i].on.got || (r->ended && r->stream[i].settled > r->stream[i].ring.written)))
      read_stream (r, (int) i);
  viewers_turn (r);
  if (!relay_kept (r) && !r->viewers)
    end_all (r); /* nobody is at the terminal any more: the kernel hangs it up */
  if ((r->flags & START_TERMINAL) && r->ended && r->stream[0].settled <= r->stream[0].ring.written)
    end_all (r); /* drained */
}

void
relays_turn (void)
{
  for (struct relay **link = &relays; *link;)
    {
      struct relay *r = *link;
      turn (r);
      if (is_over (r))
        {
          *link = r->next;
          relay_free (r);
        }
      else
        link = &r->next;
    }
}
