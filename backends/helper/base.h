/* What a libc would have given us: memory, strings, numbers, time. Plus the two ways a start can fail. */
#ifndef ISANDBOX_BASE_H
#define ISANDBOX_BASE_H

#include "sys.h"

#define PLAN_FD 3    /* sealed memfd with the compiled plan */
#define CONTROL_FD 4 /* stream socket to the host */
#define CLAIM_FD 5   /* where the plan says so: kept open, and with it the host's lock, for as long as the sandbox lives */
#define OUTER_FD 6   /* where the plan says so: the user namespace that the sandbox's is made in */
/* MODE_DETACHED: the socket that clients connect to, which in a first process is that of its doorkeeper; the locked file that
 * says that the sandbox lives; the sealed file that every later client gets. */
#define LISTEN_FD 7
#define LOCK_FD 8
#define NOTE_FD 9

void *memset (void *p, int c, size_t n);
void *memcpy (void *to, const void *from, size_t n);
int memcmp (const void *a, const void *b, size_t n);
size_t str_len (const char *s);
int str_eq (const char *a, const char *b);
int str_prefix (const char *s, const char *prefix);
const char *str_chr (const char *s, char c);
/* Append to a buffer of CAP bytes; returns the new length, never past CAP - 1, always terminated. */
size_t put_str (char *buf, size_t cap, size_t len, const char *s);
size_t put_num (char *buf, size_t cap, size_t len, u64 n);
/* Decimal number at *s; advances *s past it; 0 when there is none. */
u64 take_num (const char **s);

void *map_pages (size_t bytes); /* zeroed anonymous memory, or NULL */
void unmap_pages (void *p, size_t bytes);

u64 now_ns (void);
void sleep_us (u64 us);
long write_all (int fd, const void *data, size_t n);
long write_file (const char *path, const char *text);
/* Whole small file into BUF (terminated); bytes read or negative errno. */
long read_file (const char *path, char *buf, size_t cap);
/* Close every descriptor from FIRST on but the N of KEPT, whose order does not matter; -1 is none. */
long close_all_but (int first, const int *kept, size_t n);
__attribute__ ((noreturn)) void exit_now (int code);

/* Set-up failed: tell the host the stage, the object and the errno, and end. Nothing runs half-confined. */
__attribute__ ((noreturn)) void fail (const char *stage, const char *object, long error);
/* RESULT is what the kernel returned; a negative one ends the start. */
static inline long
must (long result, const char *stage, const char *object)
{
  if (result < 0)
    fail (stage, object, result);
  return result;
}

int helper_main (int argc, char **argv);

#endif
