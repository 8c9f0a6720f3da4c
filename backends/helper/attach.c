/* What a client can ask of relayed commands: more viewers, a size, an end of input, a list. */
#include "relay.h"

static struct relay *
find_kept (u32 serial)
{
  for (struct relay *r = relays; r; r = r->next)
    if (relay_kept (r) && r->serial == serial && !r->forgotten)
      return r;
  return NULL;
}

static struct relay *
find_viewed (u32 client, u32 id, struct viewer **viewer)
{
  for (struct relay *r = relays; r; r = r->next)
    for (struct viewer *v = r->viewers; v; v = v->next)
      if (v->client == client && v->id == id)
        {
          *viewer = v;
          return r;
        }
  return NULL;
}

int
relay_id_taken (u32 client, u32 id)
{
  struct viewer *unused;
  return find_viewed (client, id, &unused) != NULL;
}

struct command *
relay_command (u32 client, u32 id)
{
  struct viewer *unused;
  const struct relay *r = find_viewed (client, id, &unused);
  return r ? r->command : NULL;
}

static u64
within (const struct ring *ring, u64 since)
{
  u64 first = ring_first (ring);
  return since < first ? first : since > ring->written ? ring->written : since;
}

/* Its program could not be attached to; all descriptors are closed. */
static void
refuse_viewer (u32 id, u32 error, const int *fds, int nfds)
{
  struct exit_report report = { .id = id, .wait_status = 127 << 8, .start_errno = error, .start_stage = STAGE_ATTACH };
  viewer_own (fds[0]);
  send_frame (fds[0], FRAME_EXIT, &report, sizeof report);
  for (int i = 0; i < nfds; i++)
    SYS (close, fds[i]);
}

static void
equip (struct viewer *v, u32 flags, const int *fds)
{
  v->status = *fds++;
  v->out[0] = *fds++;
  if (!(flags & START_MERGE))
    v->out[1] = *fds++;
  if (flags & START_STDIN)
    v->in = *fds++;
  const int all[] = { v->status, v->out[0], v->out[1], v->in };
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    if (all[i] >= 0)
      viewer_own (all[i]);
}

const char *
relay_attach (u32 client, const u8 *payload, size_t len, const int *fds, int nfds)
{
  struct attach_request request;
  if (len != sizeof request)
    return "frame length";
  memcpy (&request, payload, sizeof request);
  if (request.flags & ~(u32) (START_STDIN | START_MERGE))
    return "flags";
  int wanted = 2 + !(request.flags & START_MERGE) + !!(request.flags & START_STDIN);
  if (nfds != wanted)
    return nfds < wanted ? "descriptor missing" : "descriptors left over";
  struct relay *r = request.serial ? find_kept (request.serial) : NULL;
  struct viewer *v = r ? viewer_make (client, request.id) : NULL;
  if (!v)
    {
      refuse_viewer (request.id, r ? EBUSY : ESRCH, fds, nfds);
      return NULL;
    }
  equip (v, request.flags, fds);
  v->at[0] = v->first[0] = within (&r->stream[0].ring, request.since_out);
  v->at[1] = v->first[1] = within (&r->stream[1].ring, request.since_err);
  v->next = r->viewers;
  r->viewers = v;
  return NULL;
}

const char *
relay_resize (u32 client, const u8 *payload, size_t len)
{
  struct resize_request request;
  struct viewer *unused;
  if (len != sizeof request)
    return "frame length";
  memcpy (&request, payload, sizeof request);
  const struct relay *r = find_viewed (client, request.id, &unused);
  if (r && (r->flags & START_TERMINAL) && r->stream[0].fd >= 0)
    terminal_resize (r->stream[0].fd, request.rows, request.columns);
  return NULL;
}

const char *
relay_stdin_eof (u32 client, const u8 *payload, size_t len)
{
  struct viewer *v;
  u32 id;
  if (len != sizeof id)
    return "frame length";
  memcpy (&id, payload, sizeof id);
  if (find_viewed (client, id, &v))
    v->eof = 1;
  return NULL;
}

void
relay_client_gone (u32 client)
{
  for (struct relay *r = relays; r; r = r->next)
    for (struct viewer **link = &r->viewers; *link;)
      {
        struct viewer *v = *link;
        if (v->client == client)
          {
            *link = v->next;
            viewer_last_input (r, v);
            viewer_free (v);
          }
        else
          link = &v->next;
      }
}

static void
describe (const struct relay *r, u64 now, struct command_record *out)
{
  memset (out, 0, sizeof *out);
  out->serial = r->serial;
  out->pid = (u32) r->pid;
  out->state = r->ended ? COMMAND_ENDED : COMMAND_RUNNING;
  out->wait_status = r->end.wait_status;
  out->fault = r->end.fault;
  out->flags = (r->flags & START_TERMINAL ? COMMAND_TERMINAL : 0) | (r->flags & START_STDIN ? COMMAND_STDIN : 0);
  out->age_ms = (now - r->started_ns) / 1000000;
  out->written_out = r->stream[0].ring.written;
  out->written_err = r->stream[1].ring.written;
  out->first_out = ring_first (&r->stream[0].ring);
  out->first_err = ring_first (&r->stream[1].ring);
  memcpy (out->name, r->name, sizeof out->name);
}

/* Not one whose keeper has yet to say whether it has started. */
static int
listed (const struct relay *r)
{
  return relay_kept (r) && !r->forgotten && (r->pid || r->ended);
}

size_t
relay_list (u8 *answer, size_t cap)
{
  struct commands_answer head = { 0, sizeof (struct command_record) };
  u64 now = now_ns ();
  u32 count = 0;
  for (const struct relay *r = relays; r; r = r->next)
    count += (u32) listed (r);
  if (cap < sizeof head + count * sizeof (struct command_record))
    return 0;
  head.count = count;
  memcpy (answer, &head, sizeof head);
  for (const struct relay *r = relays; r; r = r->next)
    if (listed (r))
      {
        struct command_record record;
        describe (r, now, &record);
        memcpy (answer + sizeof head + --count * sizeof record, &record, sizeof record);
      }
  return sizeof head + head.count * sizeof (struct command_record);
}
