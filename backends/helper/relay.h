/* Commands whose output the helper reads itself, so that it can outlast a client or pass a terminal: kept ones, and those with
 * a terminal. Between a command and its viewers stands a ring for each stream; a viewer is a set of pipes of one client.
 *
 * Everything here is the server's alone; the keeper of a relayed command reports into a pipe of the server's own.
 */
#ifndef ISANDBOX_RELAY_H
#define ISANDBOX_RELAY_H

#include "command.h"
#include "loop.h"
#include "ring.h"

#define START_RELAYED (START_KEPT | START_TERMINAL)

#define KEPT_MOST COMMANDS_MOST /* running and ended ones: as many as a list can tell of */
#define KEPT_ENDED 32
#define RINGS_MOST (64u << 20)  /* bytes of all rings together */
#define VIEWERS_MOST 256
#define TERMINAL_RING (64u << 10) /* of a command that is not kept: nothing is lost from it, it only carries over */
#define ROUND (64u << 10)         /* bytes of one stream before it is somebody else's turn */

/* A descriptor in the server's loop, looked at once in each round: the loop leaves what has happened in GOT. */
struct watched { struct source source; short got; };

struct viewer {
  struct viewer *next;
  u32 client, id;
  int status, in, out[2]; /* -1: closed, or never there */
  u64 first[2], at[2];    /* of each stream the byte that it began with, and the next one */
  u64 omitted[2];         /* bytes that were gone before this viewer had taken them */
  u32 started, told;      /* STARTED and EXIT have been sent */
  u32 eof;                /* the end of IN is meant as the end of the command's input */
  u32 held, given;        /* of INPUT: bytes read from IN, and how many of them the command has */
  struct watched on_status, on_in, on_out[2];
  u8 input[4096];
};

/* SETTLED: how much had been written when the command ended, ~0 as long as that is not known. */
struct stream { int fd; struct watched on; struct ring ring; u64 settled; };

struct relay {
  struct relay *next; /* older */
  struct command *command; /* until its keeper is gone */
  u32 serial;              /* 0: not kept */
  u32 flags, streams;
  i32 pid;
  u64 started_ns, quota;
  u32 ended, over, forgotten; /* over: its quota. forgotten: nothing is kept for later viewers, it cannot be attached to */
  u32 line_begun;       /* the last byte of its input was not the end of a line */
  int status, sink;     /* sink: of a terminal, the same as its stream */
  int slave;            /* held until the command has ended: a terminal that nobody has open cannot be told from a dead one */
  struct watched on_status, on_sink;
  struct stream stream[2];
  struct exit_report end;
  struct viewer *viewers;
  char name[256];
};

extern struct relay *relays; /* newest first */
extern u32 relays_kept;      /* how many there have been: the serial of the last one */

static inline int
relay_kept (const struct relay *r)
{
  return r->serial != 0;
}

/* relay.c. BEGIN: make a parsed command's pipes ours, and give it its own; a negative errno, and nothing has changed, where
 * that cannot be. */
long relay_begin (struct command *c);
void relay_command_gone (struct command *c);
void relays_watch (void); /* before each wait: say what they wait for */
void relays_turn (void);  /* after it: move what can be moved, a bounded part of it */
void relay_end_stream (struct stream *s);

/* watched.c. EVENTS: POLLERR to hear of a failure alone; a FD below 0 is not waited for. */
void watch_for (struct watched *w, int fd, short events);
void watch_end (struct watched *w); /* before its memory goes */

/* attach.c: what a client can ask of them; NULL, or in which way the request breaks the protocol. The descriptors are theirs
 * only when it does not. */
const char *relay_attach (u32 client, const u8 *payload, size_t len, const int *fds, int nfds);
const char *relay_resize (u32 client, const u8 *payload, size_t len);
const char *relay_stdin_eof (u32 client, const u8 *payload, size_t len);
void relay_client_gone (u32 client); /* its viewers; ending its commands is the caller's */
struct command *relay_command (u32 client, u32 id); /* that it has attached to, while that lives */
int relay_id_taken (u32 client, u32 id);
size_t relay_list (u8 *answer, size_t cap); /* the answer to COMMANDS; bytes */
#define RELAY_LIST_MOST (sizeof (struct commands_answer) + COMMANDS_MOST * sizeof (struct command_record))
u32 relay_count_kept (void);

/* viewer.c */
struct viewer *viewer_make (u32 client, u32 id);
void viewers_give (struct relay *r, int stream);
void viewers_started (struct relay *r);
void viewers_watch (struct relay *r);
void viewers_turn (struct relay *r); /* input, what is left of the output, reports; the gone ones are freed */
void viewer_own (int fd);            /* a descriptor that came from a client must never make us wait */
void viewer_last_input (struct relay *r, struct viewer *v);
void viewer_free (struct viewer *v);
u64 viewers_slowest (const struct relay *r, int stream);
extern u32 viewers_alive;

/* keeping.c: what is kept, and for how long */
long keeping_room (u64 bytes, int kept); /* negative errno when there is none even with every ended command forgotten */
void keeping_bounds (void);              /* forget the oldest ended ones that are too many */

/* terminal.c */
long terminal_open (u16 rows, u16 columns, int *slave); /* the master, or a negative errno */
void terminal_resize (int master, u16 rows, u16 columns);
/* What is typed to say that the input has ended: bytes in OUT, which has room for two. */
u32 terminal_eof (int master, int line_begun, u8 *out);

/* files.c: what the server makes for a command belongs to the command's user, which may open it anew by its name in /proc. */
long make_pipe_for_command (int pipe[2]);
long open_for_command (const char *path, int flags);

#endif
