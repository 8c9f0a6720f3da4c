/* How long a sandbox lives. Its time goes on while the machine sleeps, and no clock that somebody sets changes it. */
#include "clients.h"
#include "command.h"

#define MOST_MS 1000000000000ull /* 31 years: longer is as good as for ever, and in nanoseconds fits */
#define LONGEST_WAIT_MS 30000    /* the kernel's waits stand still while the machine sleeps */

static u64 born_ns, end_ns, idle_ns, used_ns; /* 0: none */
static int used, had_commands;

static u64
boot_ns (void)
{
  struct timespec ts;
  SYS (clock_gettime, CLOCK_BOOTTIME, &ts);
  return (u64) ts.sec * 1000000000ull + (u64) ts.nsec;
}

static u64
span_ns (u64 ms)
{
  return (ms < MOST_MS ? ms : MOST_MS) * 1000000ull;
}

/* Without any end one clock is enough, which the server has looked at anyway. */
static int
is_timed (void)
{
  return plan.life != NULL;
}

void
life_begin (u64 now)
{
  born_ns = used_ns = is_timed () ? boot_ns () : now;
  if (is_timed () && plan.life->lifetime_ms)
    end_ns = born_ns + span_ns (plan.life->lifetime_ms);
  if (is_timed ())
    idle_ns = span_ns (plan.life->idle_ms);
}

void
life_used (void)
{
  used = 1;
}

void
life_renew (u64 ms)
{
  end_ns = boot_ns () + span_ns (ms);
}

static void
end_by (u32 reason)
{
  clients_goodbye (reason);
  end_sandbox ();
}

int
life_wait (void)
{
  if (!end_ns && !idle_ns)
    return -1;
  u64 now = boot_ns (), next = end_ns;
  /* A command was there until now, or until a moment ago: then its end is the last use. */
  if (used || commands || had_commands)
    used_ns = now;
  used = 0;
  had_commands = commands != NULL;
  if (end_ns && end_ns <= now)
    end_by (GOODBYE_LIFETIME);
  if (idle_ns && !commands)
    {
      if (used_ns + idle_ns <= now)
        end_by (GOODBYE_IDLE);
      if (!next || used_ns + idle_ns < next)
        next = used_ns + idle_ns;
    }
  if (!next)
    return -1;
  u64 ms = (next - now) / 1000000 + 1;
  return ms < LONGEST_WAIT_MS ? (int) ms : LONGEST_WAIT_MS;
}

void
life_tell (struct status_answer *answer)
{
  u64 boot = boot_ns ();
  answer->lifetime_left_ms = end_ns == 0 ? ~0ull : end_ns > boot ? (end_ns - boot) / 1000000 : 0;
  answer->idle_timeout_ms = idle_ns / 1000000;
  answer->age_ms = ((is_timed () ? boot : now_ns ()) - born_ns) / 1000000;
}
