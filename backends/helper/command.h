/* One command: its request, the keeper that watches over it, and what became of it.
 *
 * Processes: serve.c (the sandbox's first process) makes a *keeper* per command with CLONE_VM; the keeper is a child
 * subreaper, vforks the command, reaps everything the command leaves behind, and writes the reports. When the keeper sees
 * ECHILD nothing of the command is left. The structure below is shared memory between the three.
 */
#ifndef ISANDBOX_COMMAND_H
#define ISANDBOX_COMMAND_H

#include "plan.h"
#include "procs.h"
#include "protocol.h"

#define MAX_COMMANDS 1024
#ifndef STACK_SIZE /* a build with a sanitiser has larger frames, */
#define STACK_SIZE 16384
#endif
#ifndef INLINE_REQUEST /* and sees the ends of what is mapped apart */
#define INLINE_REQUEST 8192
#endif

#define OWN_END (~0u)

/* Descriptor numbers inside a keeper. */
#define KEEPER_STATUS_FD 3
#define KEEPER_SCRIPT_FD 4

struct client;
struct relay;

struct command {
  struct command *next;
  struct client *client; /* whose it is, and its id; NULL: that one is gone */
  struct relay *relay;   /* of one whose output the helper reads itself */
  struct start_request start;
  const char *cwd;
  char **argv, **env;
  char *request; /* the START payload: INLINE or its own pages */
  size_t request_bytes;

  int fd_in, fd_out, fd_err, fd_script, fd_status; /* -1: none */
  int joins[MAX_JOINS], meters[METERS];            /* -1: none */
  u64 meters_before[METERS];
  i32 server, keeper; /* pids */
  u32 own_processes; /* of the helper, at the start of this command: itself and the keepers */
  u32 over_cpu;      /* at the watcher's last look */
  u64 started_ns, deadline_ns, sweep_ns, sweep_until_ns;

  /* Written by one process, read by another; see command_signal for the order that matters. */
  volatile i32 child;      /* pid of the command, 0 before it starts and after it is reaped */
  volatile i32 signalling; /* the server is about to use CHILD */
  volatile u32 verdict;    /* settled once: OWN_END by the keeper, or the fault of whoever ended it; 0 as long as it is open */
  volatile u32 reported;   /* the keeper has sent EXIT */
  volatile u32 start_errno, start_stage;
  volatile u32 limits;     /* enum limit: what was refused so far; only ever added to */

  char inline_request[INLINE_REQUEST] __attribute__ ((aligned (16)));
  u8 keeper_stack[STACK_SIZE] __attribute__ ((aligned (16)));
  u8 child_stack[STACK_SIZE] __attribute__ ((aligned (16)));
};

/* Of the command's own end and the sandbox's, the first counts, whatever the other one is about to report. */
static inline int
command_settle (struct command *c, u32 verdict)
{
  u32 open = 0;
  return __atomic_compare_exchange_n (&c->verdict, &open, verdict, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline u32
command_fault (const struct command *c)
{
  u32 verdict = __atomic_load_n (&c->verdict, __ATOMIC_SEQ_CST);
  return verdict == OWN_END ? FAULT_NONE : verdict;
}

extern struct command *commands; /* those whose keeper lives */
extern volatile u32 commands_alive; /* how many: a keeper may read this, the list is the server's alone */

/* command.c: the server's side */
/* NULL, or in which way the request breaks the protocol: then its descriptors are still the caller's. */
const char *command_start (struct client *client, const u8 *payload, size_t len, const int *fds, int nfds);
struct command *command_find (const struct client *client, u32 id);
void command_end (struct command *c, u32 fault); /* end all its processes; sets the fault if there is none yet */
void command_signal (struct command *c, int signal);
void command_keeper_gone (struct command *c, int wait_status);

/* execute.c: the command's process until exec; returns the exit code of one that could not start */
int command_main (void *command);
int not_started (struct command *c, u32 stage, long error); /* what went wrong; returns that exit code */

/* keeper.c */
int keeper_main (void *command);
void keeper_report (int fd, struct command *c, int wait_status, int lingering);

/* fileops.c: runs as the command's user, in its view, instead of a program */
int file_operation (struct command *c);

/* sweep.c */
void sweep (struct command *c);       /* one pass: kill every process the command started */
void sweep_orphans (void);            /* processes that lost their keeper */

/* watch.c */
u64 watch (void);       /* look at quotas and limits, end what is over a quota; nanoseconds until the next look */
u64 watch_first (void); /* from the start of a first command to the first look */

/* limits.c */
void meters_begin (struct command *c);
u64 meter_since (const struct command *c, enum meter which); /* what a counter has counted since the command's start */
int out_of_memory (const struct command *c);                 /* the kernel has ended a process of it for want of memory */
u32 limits_look (struct command *c, const struct procs *p);  /* at one command, whose processes are marked: its threads */
void limits_together (u32 threads);                          /* what only all commands together tell */
void limits_of_a_death (struct command *c, int wait_status);
void limits_at_end (struct command *c);

static inline void
limit_hit (struct command *c, u32 limit)
{
  __atomic_fetch_or (&c->limits, limit, __ATOMIC_SEQ_CST);
}

#endif
