/* Put in front of each of the helper's sources (-include) by the tests' builds of it: every system call of the helper goes
 * through a function of the test program. The sources themselves stay as they are. */
#ifndef ISANDBOX_TEST_KERNEL_H
#define ISANDBOX_TEST_KERNEL_H

/* The C library has these names, and the sanitiser's run time watches them there. */
#define memcpy helper_memcpy
#define memset helper_memset
#define memcmp helper_memcmp

/* Before a call that does not return the compiler's checks wipe the default stack, and warn on any other: a helper's task has
 * one of its own. */
#define noreturn cold

#define sys6 kernel_call /* the real one */
#include "sys.h"
#undef sys6

long sys6 (long n, long a, long b, long c, long d, long e, long f);

#endif
