/* Control connections. The first is the creator's, on CONTROL_FD; a detached sandbox may have more. */
#ifndef ISANDBOX_CLIENTS_H
#define ISANDBOX_CLIENTS_H

#include "loop.h"
#include "protocol.h"

#define MAX_CLIENTS 32
#define MAX_FDS 32

/* Ids of commands are a client's own. */
struct client {
  struct source source; /* first: the loop gives it back */
  struct client *next;
  u32 number; /* 0: the creator */
  u8 *inbox;
  size_t inbox_cap, inbox_len;
  u8 small[16384];
  int nfds, fds[MAX_FDS]; /* arrived, and not yet a frame's; last, so that the tests see a write past their end */
};

extern struct client *clients;
extern u32 clients_count;

void clients_begin (struct hello *hello); /* says HELLO to the creator; the structure is kept for others */
void clients_goodbye (u32 reason);        /* to all of them; nobody is waited for */
void client_accept (int fd);              /* a connection whose other end may speak to us; closed when there are too many */

/* serve.c: the end of the sandbox, with whatever runs in it */
__attribute__ ((noreturn)) void end_sandbox (void);

/* life.c */
void life_begin (u64 now);
void life_used (void);  /* a frame has arrived */
int life_wait (void);   /* ends a sandbox whose time has come; else milliseconds until it may have, or -1 */
void life_renew (u64 ms);
void life_tell (struct status_answer *answer);

/* ask.c: NULL, or in which way the question breaks the protocol. The descriptor stays the caller's. */
const char *ask (const u8 *payload, size_t len, int fd);
/* Write an answer without waiting: one that is not taken at once is lost, and its end is all that the client sees. */
void ask_answer (int fd, const void *answer, size_t len);

#endif
