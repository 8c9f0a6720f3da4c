/* One plan through the whole helper: the check of its shape, then everything that reads it. Input: two bytes of chance, one
 * for how often calls fail, one unused, the plan. */
#include "fake_kernel.h"
#include "plan.h"

/* Its state has to be put back after each input. */
#include "procs.c"
#include "server_state.h"

int LLVMFuzzerTestOneInput (const u8 *data, size_t size);

long
on_recvmsg (int fd, struct msghdr *message)
{
  (void) fd;
  (void) message;
  return 0; /* the host has nothing to say, and goes */
}

long
on_accept (void)
{
  return -EAGAIN;
}

void
on_close (int fd)
{
  (void) fd;
}

long
on_wait (i32 pid, int *status)
{
  (void) pid;
  (void) status;
  return -ECHILD;
}

static void
whole_helper (void)
{
  helper_main (0, NULL);
}

int
LLVMFuzzerTestOneInput (const u8 *data, size_t size)
{
  if (size < 4)
    return 0;
  memset (&plan, 0, sizeof plan);
  table = NULL;
  put_server_back ();
  fake_begin (data, data[2] % 4 ? 0 : data[2] / 4);
  fake.plan = data + 4;
  fake.plan_size = size - 4;
  fake_process (whole_helper);
  return 0;
}
