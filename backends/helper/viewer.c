/* Between a ring and the pipes of a client. Nothing here ever waits. */
#include "relay.h"

u32 viewers_alive;

struct viewer *
viewer_make (u32 client, u32 id)
{
  struct viewer *v = viewers_alive < VIEWERS_MOST ? map_pages (sizeof *v) : NULL;
  if (!v)
    return NULL;
  viewers_alive++;
  v->client = client;
  v->id = id;
  v->status = v->in = v->out[0] = v->out[1] = -1;
  return v;
}

void
viewer_own (int fd)
{
  SYS (fcntl, fd, F_SETFL, O_NONBLOCK);
}

static void
close_one (int *fd)
{
  if (*fd >= 0)
    SYS (close, *fd);
  *fd = -1;
}

void
viewer_free (struct viewer *v)
{
  close_one (&v->status);
  close_one (&v->in);
  close_one (&v->out[0]);
  close_one (&v->out[1]);
  watch_end (&v->on_status);
  watch_end (&v->on_in);
  watch_end (&v->on_out[0]);
  watch_end (&v->on_out[1]);
  viewers_alive--;
  unmap_pages (v, sizeof *v);
}

u64
viewers_slowest (const struct relay *r, int stream)
{
  u64 slowest = r->stream[stream].ring.written;
  for (const struct viewer *v = r->viewers; v; v = v->next)
    if (v->out[stream] >= 0 && v->at[stream] < slowest)
      slowest = v->at[stream];
  return slowest;
}

static void
give (struct viewer *v, const struct stream *s, int stream)
{
  u64 first = ring_first (&s->ring), *at = &v->at[stream];
  if (*at < first)
    {
      v->omitted[stream] += first - *at;
      *at = first;
    }
  while (v->out[stream] >= 0 && *at < s->ring.written)
    {
      long n = ring_give (&s->ring, *at, s->ring.written, v->out[stream]);
      if (n == -EAGAIN)
        return;
      if (n > 0)
        *at += (u64) n;
      else if (n != -EINTR)
        close_one (&v->out[stream]); /* nobody reads it any more */
    }
  if (s->fd < 0)
    close_one (&v->out[stream]);
}

void
viewers_give (struct relay *r, int stream)
{
  for (struct viewer *v = r->viewers; v; v = v->next)
    if (v->out[stream] >= 0)
      give (v, &r->stream[stream], stream);
}

/* A client that does not take its reports has no use for the rest. */
static void
report (struct viewer *v, u32 type, const void *payload, size_t len)
{
  if (v->status >= 0 && send_frame (v->status, type, payload, len) < 0)
    close_one (&v->status);
}

static void
tell_started (struct relay *r, struct viewer *v)
{
  struct started_report started = { v->id, (u32) r->pid, r->serial, 0, v->first[0], v->first[1] };
  if (r->pid && !v->started)
    report (v, FRAME_STARTED, &started, sizeof started);
  v->started = r->pid != 0;
}

void
viewers_started (struct relay *r)
{
  for (struct viewer *v = r->viewers; v; v = v->next)
    tell_started (r, v);
}

/* Once it has been given all that there was when the command ended. */
static void
tell_end (struct relay *r, struct viewer *v)
{
  for (u32 i = 0; i < r->streams; i++)
    if (v->out[i] >= 0 && v->at[i] < r->stream[i].settled)
      return;
  if (v->omitted[0] || v->omitted[1])
    {
      struct omitted_report omitted = { v->id, 0, v->omitted[0], v->omitted[1] };
      report (v, FRAME_OMITTED, &omitted, sizeof omitted);
    }
  struct exit_report end = r->end;
  end.id = v->id;
  report (v, FRAME_EXIT, &end, sizeof end);
  v->told = 1;
}

/* Into INPUT, when that is empty. */
static void
take_input (struct viewer *v)
{
  long n = SYS (read, v->in, v->input, sizeof v->input);
  if (n == -EAGAIN || n == -EINTR)
    return;
  v->given = 0;
  v->held = n > 0 ? (u32) n : 0;
  if (n <= 0)
    close_one (&v->in);
}

static void
close_inputs (struct relay *r)
{
  for (struct viewer *v = r->viewers; v; v = v->next)
    {
      close_one (&v->in);
      v->held = v->given = v->eof = 0;
    }
}

/* Its program reads no more, or has ended. */
static void
close_sink (struct relay *r)
{
  if (!(r->flags & START_TERMINAL))
    close_one (&r->sink);
  r->sink = -1;
  close_inputs (r);
}

static void
pass_input (struct relay *r, struct viewer *v)
{
  while (v->given < v->held)
    {
      long n = SYS (write, r->sink, v->input + v->given, v->held - v->given);
      if (n == -EINTR)
        continue;
      if (n == -EAGAIN)
        return;
      if (n < 0)
        {
          close_sink (r);
          return;
        }
      v->given += (u32) n;
      r->line_begun = v->input[v->given - 1] != '\n';
    }
  v->held = v->given = 0;
}

/* V's pipe has been read to its end, and that was meant. */
static void
end_input (struct relay *r, struct viewer *v)
{
  v->eof = 0;
  if (!(r->flags & START_TERMINAL))
    {
      close_sink (r);
      return;
    }
  v->held = terminal_eof (r->sink, (int) r->line_begun, v->input);
  v->given = 0;
  pass_input (r, v);
  r->line_begun = 0;
}

static void
input (struct relay *r, struct viewer *v)
{
  if (v->on_in.got && v->held == 0 && v->in >= 0)
    take_input (v);
  if (v->held)
    pass_input (r, v);
  if (r->sink >= 0 && v->eof && v->in < 0 && v->held == 0)
    end_input (r, v);
}

/* Its client has gone: what it had said before is taken as far as the command takes it at once. */
void
viewer_last_input (struct relay *r, struct viewer *v)
{
  for (u32 taken = 0; taken < ROUND && r->sink >= 0 && v->in >= 0; taken += sizeof v->input)
    {
      if (!v->held)
        take_input (v);
      if (!v->held)
        break;
      pass_input (r, v);
      if (v->held)
        return;
    }
  if (v->held && r->sink >= 0)
    pass_input (r, v);
  if (v->eof && v->in < 0 && !v->held && r->sink >= 0)
    end_input (r, v);
}

void
viewers_watch (struct relay *r)
{
  int waiting = 0;
  for (struct viewer *v = r->viewers; v; v = v->next)
    {
      waiting |= v->held != 0;
      watch_for (&v->on_status, v->status, POLLERR);
      watch_for (&v->on_in, !v->held && r->sink >= 0 ? v->in : -1, POLLIN);
      for (int i = 0; i < 2; i++)
        {
          int behind = v->at[i] < r->stream[i].ring.written;
          watch_for (&v->on_out[i], v->out[i], behind ? POLLOUT : POLLERR);
        }
    }
  /* Without anything to write it is only asked whether it is still read. */
  int asked = waiting || !(r->flags & START_TERMINAL);
  watch_for (&r->on_sink, asked ? r->sink : -1, waiting ? POLLOUT : POLLERR);
}

static void
output (struct relay *r, struct viewer *v)
{
  for (int i = 0; i < 2; i++)
    {
      if (v->on_out[i].got & POLLERR)
        close_one (&v->out[i]);
      if (v->out[i] >= 0 && (u32) i >= r->streams)
        close_one (&v->out[i]); /* there is no such stream */
      if (v->out[i] >= 0)
        give (v, &r->stream[i], i);
    }
}

static void
one_turn (struct relay *r, struct viewer *v)
{
  if (v->on_status.got & POLLERR)
    close_one (&v->status);
  if (r->sink < 0)
    close_one (&v->in);
  else
    input (r, v);
  output (r, v);
  tell_started (r, v);
  if (r->ended && !v->told)
    tell_end (r, v);
  if (v->told && r->status < 0)
    close_one (&v->status);
}

void
viewers_turn (struct relay *r)
{
  if (r->sink >= 0 && (r->on_sink.got & POLLERR))
    close_sink (r);
  for (struct viewer **link = &r->viewers; *link;)
    {
      struct viewer *v = *link;
      one_turn (r, v);
      /* Without a status pipe nobody has the handle any more; with all told and taken there is nothing left to do. */
      if (v->status < 0 && (!v->told || (v->out[0] < 0 && v->out[1] < 0)))
        {
          *link = v->next;
          viewer_last_input (r, v);
          viewer_free (v);
        }
      else
        link = &v->next;
    }
}
