/* A kernel that answers the helper's system calls inside one process, so that its parsers can be fed millions of inputs: what
 * a call needs from memory is read, what it gives is written, and nothing happens. Chance decides between success and failure
 * and comes from the input, so that an input always has the same run. */
#ifndef ISANDBOX_FAKE_KERNEL_H
#define ISANDBOX_FAKE_KERNEL_H

#include "base.h"

#define CALLS_MOST 4000 /* an input may ask for more work than is interesting */

struct fake {
  u64 chance;   /* state of the generator */
  u32 failures; /* of 256 calls, how many fail */
  u32 calls;
  const u8 *plan;
  size_t plan_size;
  u64 now_ns;
  i32 next_fd, next_pid, child; /* the last process made */
  u32 capabilities[6];
  u32 groups, users; /* what setfsgid and setfsuid have set */
  u32 entries;       /* directory listings given */
  int depth;         /* how many processes deep we are */
};

extern struct fake fake;

void fake_begin (const u8 *head, u32 failures);
/* Run BODY as a process of its own; its exit code, or -1 when it did not end within CALLS_MOST. Everything it mapped is gone
 * after that. */
int fake_process (void (*body) (void));
u32 fake_chance (u32 most); /* 0 to MOST - 1 */

/* What the program under test supplies. */
long on_recvmsg (int fd, struct msghdr *message);
long on_accept (void);
void on_close (int fd);
long on_wait (i32 pid, int *status);

#endif
