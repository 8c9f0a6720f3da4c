#include "clients.h"
#include "relay.h"

struct command *commands;
volatile u32 commands_alive;

static struct command *spare; /* the last freed one: the next command starts on warm pages */

#define START_KNOWN (START_STDIN | START_MERGE | START_SCRIPT | START_WANT_STARTED | START_RELAYED)
#define SWEEP_FIRST_NS 2000000ull
#define SWEEP_LIMIT_NS 900000000ull

struct command *
command_find (const struct client *client, u32 id)
{
  for (struct command *c = commands; c; c = c->next)
    if (c->client == client && c->start.id == id)
      return c;
  return NULL;
}

static struct command *
allocate (void)
{
  struct command *c = spare;
  spare = NULL;
  if (!c)
    c = map_pages (sizeof *c);
  else
    memset (c, 0, offsetof (struct command, inline_request));
  if (c)
    {
      c->fd_in = c->fd_out = c->fd_err = c->fd_script = c->fd_status = -1;
      for (int i = 0; i < MAX_JOINS; i++)
        c->joins[i] = -1;
      for (int i = 0; i < METERS; i++)
        c->meters[i] = -1;
    }
  return c;
}

/* The server's copies of the pipes. The fields stay as they are: the keeper may be reading them right now. */
static void
close_pipes (const struct command *c)
{
  const int pipes[] = { c->fd_in, c->fd_out, c->fd_err, c->fd_script };
  for (size_t i = 0; i < sizeof pipes / sizeof pipes[0]; i++)
    if (pipes[i] >= 0)
      SYS (close, pipes[i]);
  for (int i = 0; i < MAX_JOINS; i++)
    if (c->joins[i] >= 0)
      SYS (close, c->joins[i]);
}

/* Its pages only: who has its descriptors is the caller's matter. */
static void
discard (struct command *c, int orderly)
{
  if (c->request && c->request != c->inline_request)
    unmap_pages (c->request, c->request_bytes);
  if (spare || !orderly) /* after a murder nobody must come to life again on these stacks */
    unmap_pages (c, sizeof *c);
  else
    spare = c;
}

static void
release (struct command *c, int orderly)
{
  relay_command_gone (c);
  SYS (close, c->fd_status);
  for (int i = 0; i < METERS; i++)
    if (c->meters[i] >= 0)
      SYS (close, c->meters[i]);
  discard (c, orderly);
}

/* COUNT strings from *s, all ending before END, into a NULL-terminated vector at OUT. NULL when some are missing. */
static char **
take_strings (char **s, const char *end, u32 count, char **out)
{
  char **vector = out;
  while (count--)
    {
      if (*s >= end)
        return NULL;
      *out++ = *s;
      *s += str_len (*s) + 1; /* the payload ends with NUL: checked by the caller */
    }
  *out = NULL;
  return vector;
}

/* The payload is copied behind the two pointer vectors, so that it lives exactly as long as the command. */
static const char *
parse_request (struct command *c, const u8 *payload, size_t len)
{
  if (len < sizeof c->start + 1 || payload[len - 1] != 0)
    return "START is too short";
  memcpy (&c->start, payload, sizeof c->start);
  size_t strings = len - sizeof c->start;
  if (c->start.argc > strings || c->start.envc > strings || c->start.argc == 0)
    return "string counts";
  if (c->start.joins > MAX_JOINS || c->start.meters >= 1u << METERS)
    return "cgroup descriptors";
  if (c->start.flags & ~START_KNOWN || (c->start.operation && c->start.flags & START_RELAYED))
    return "flags";
  if (c->start.flags & START_TERMINAL)
    c->start.flags |= START_MERGE;
  size_t vectors = ((size_t) c->start.argc + c->start.envc + 2) * sizeof (char *);
  c->request = c->inline_request;
  c->request_bytes = vectors + strings;
  if (c->request_bytes > INLINE_REQUEST)
    c->request = map_pages (c->request_bytes);
  if (!c->request)
    return "no memory for the request";
  char *text = c->request + vectors, *end = text + strings;
  memcpy (text, payload + sizeof c->start, strings);
  c->cwd = text;
  text += str_len (text) + 1;
  c->argv = take_strings (&text, end, c->start.argc, (char **) c->request);
  c->env = c->argv ? take_strings (&text, end, c->start.envc, c->argv + c->start.argc + 1) : NULL;
  return c->env ? NULL : "string missing";
}

/* Which descriptors a request wants, in their order. */
static const char *
take_descriptors (struct command *c, const int *fds, int nfds)
{
  int *wanted[5 + MAX_JOINS + METERS], n = 0;
  u32 flags = c->start.flags;
  wanted[n++] = &c->fd_status;
  wanted[n++] = &c->fd_out;
  if (!(flags & START_MERGE))
    wanted[n++] = &c->fd_err;
  if (flags & START_STDIN)
    wanted[n++] = &c->fd_in;
  if (flags & START_SCRIPT)
    wanted[n++] = &c->fd_script;
  for (u32 i = 0; i < c->start.joins; i++)
    wanted[n++] = &c->joins[i];
  for (u32 i = 0; i < METERS; i++)
    if (c->start.meters & 1u << i)
      wanted[n++] = &c->meters[i];
  if (n != nfds)
    return n > nfds ? "descriptor missing" : "descriptors left over";
  while (n--)
    *wanted[n] = fds[n];
  return NULL;
}

static const char *
parse (struct command *c, const u8 *payload, size_t len, const int *fds, int nfds)
{
  const char *why = parse_request (c, payload, len);
  if (!why && (command_find (c->client, c->start.id) || relay_id_taken (c->client->number, c->start.id)))
    why = "id in use";
  return why ? why : take_descriptors (c, fds, nfds);
}

/* There is no keeper to tell of it. */
static void
not_begun (struct command *c, u32 stage, long error)
{
  c->start_errno = (u32) -error;
  c->start_stage = stage;
  keeper_report (c->fd_status, c, 127 << 8, 0);
  close_pipes (c);
  release (c, 1);
}

const char *
command_start (struct client *client, const u8 *payload, size_t len, const int *fds, int nfds)
{
  struct command *c = allocate ();
  if (!c)
    return "no memory for a command";
  c->client = client;
  const char *why = parse (c, payload, len, fds, nfds);
  if (why)
    {
      discard (c, 1);
      return why;
    }
  c->server = (i32) SYS0 (getpid);
  c->own_processes = 2;
  for (const struct command *other = commands; other; other = other->next)
    c->own_processes++;
  c->started_ns = now_ns ();
  meters_begin (c);
  long failed = c->start.flags & START_RELAYED ? relay_begin (c) : 0;
  if (failed < 0)
    {
      not_begun (c, STAGE_STDIO, failed);
      return NULL;
    }
  if (c->start.timeout_ms)
    c->deadline_ns = c->started_ns + c->start.timeout_ms * 1000000ull;
  long pid = -EAGAIN;
  commands_alive++; /* before: its keeper may ask at once */
  if (c->own_processes <= MAX_COMMANDS)
    pid = clone_call (CLONE_VM | SIGCHLD, c->keeper_stack + STACK_SIZE, keeper_main, c);
  if (pid < 0)
    {
      commands_alive--;
      not_begun (c, STAGE_IDENTITY, pid);
      return NULL;
    }
  c->keeper = (i32) pid;
  c->next = commands;
  commands = c;
  /* The keeper has its own copies. Ours would keep the pipes open when the command has ended. The status pipe stays: if
   * the keeper is murdered, the server reports in its place. */
  close_pipes (c);
  return NULL;
}

void
command_end (struct command *c, u32 fault)
{
  if (!c->reported)
    command_settle (c, fault);
  if (!c->sweep_until_ns)
    c->sweep_until_ns = now_ns () + SWEEP_LIMIT_NS;
  sweep (c);
  c->sweep_ns = now_ns () + SWEEP_FIRST_NS;
}

/* The keeper clears CHILD, then waits until SIGNALLING is 0, and only then reaps: so a pid read here cannot have been given
 * to another process. The server never waits for a keeper. */
void
command_signal (struct command *c, int signal)
{
  __atomic_store_n (&c->signalling, 1, __ATOMIC_SEQ_CST);
  i32 child = __atomic_load_n (&c->child, __ATOMIC_SEQ_CST);
  if (child > 0 && SYS (kill, -child, signal) < 0) /* each command leads a process group */
    SYS (kill, child, signal);
  __atomic_store_n (&c->signalling, 0, __ATOMIC_SEQ_CST);
}

/* An orderly keeper exits 0 after its report. Any other end is the work of a command that shares its uid. */
void
command_keeper_gone (struct command *c, int wait_status)
{
  struct command **link = &commands;
  while (*link != c)
    link = &(*link)->next;
  *link = c->next;
  commands_alive--;
  if (wait_status != 0)
    {
      sweep_orphans ();
      if (!c->reported)
        {
          if (!command_fault (c))
            c->verdict = FAULT_KILLED;
          keeper_report (c->fd_status, c, SIGKILL, 0);
        }
    }
  release (c, wait_status == 0);
}
