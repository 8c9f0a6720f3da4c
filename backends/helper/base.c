#include "base.h"
#include "protocol.h"

void *
memset (void *p, int c, size_t n)
{
  u8 *b = p;
  while (n--)
    *b++ = (u8) c;
  return p;
}

void *
memcpy (void *to, const void *from, size_t n)
{
  u8 *t = to;
  const u8 *f = from;
  while (n--)
    *t++ = *f++;
  return to;
}

int
memcmp (const void *a, const void *b, size_t n)
{
  const u8 *x = a, *y = b;
  for (; n--; x++, y++)
    if (*x != *y)
      return *x - *y;
  return 0;
}

size_t
str_len (const char *s)
{
  size_t n = 0;
  while (s[n])
    n++;
  return n;
}

int
str_eq (const char *a, const char *b)
{
  while (*a && *a == *b)
    a++, b++;
  return *a == *b;
}

int
str_prefix (const char *s, const char *prefix)
{
  while (*prefix)
    if (*s++ != *prefix++)
      return 0;
  return 1;
}

const char *
str_chr (const char *s, char c)
{
  for (; *s; s++)
    if (*s == c)
      return s;
  return NULL;
}

size_t
put_str (char *buf, size_t cap, size_t len, const char *s)
{
  while (*s && len + 1 < cap)
    buf[len++] = *s++;
  buf[len] = 0;
  return len;
}

size_t
put_num (char *buf, size_t cap, size_t len, u64 n)
{
  char digits[24];
  int i = 23;
  digits[i] = 0;
  do
    digits[--i] = (char) ('0' + n % 10);
  while (n /= 10);
  return put_str (buf, cap, len, digits + i);
}

u64
take_num (const char **s)
{
  u64 n = 0;
  while (**s >= '0' && **s <= '9')
    n = n * 10 + (u64) (*(*s)++ - '0');
  return n;
}

void *
map_pages (size_t bytes)
{
  void *p = (void *) SYS (mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return MAP_FAILED_P (p) ? NULL : p;
}

void
unmap_pages (void *p, size_t bytes)
{
  if (p)
    SYS (munmap, p, bytes);
}

u64
now_ns (void)
{
  struct timespec ts;
  SYS (clock_gettime, CLOCK_MONOTONIC, &ts);
  return (u64) ts.sec * 1000000000ull + (u64) ts.nsec;
}

void
sleep_us (u64 us)
{
  struct timespec ts = { (i64) (us / 1000000), (i64) (us % 1000000) * 1000 };
  SYS (nanosleep, &ts, 0);
}

long
write_all (int fd, const void *data, size_t n)
{
  const u8 *p = data;
  while (n > 0)
    {
      long w = SYS (write, fd, p, n);
      if (w == -EINTR)
        continue;
      if (w < 0)
        return w;
      p += w;
      n -= (size_t) w;
    }
  return 0;
}

long
write_file (const char *path, const char *text)
{
  long fd = SYS (openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
  if (fd < 0)
    return fd;
  long r = write_all ((int) fd, text, str_len (text));
  SYS (close, fd);
  return r;
}

long
read_file (const char *path, char *buf, size_t cap)
{
  long fd = SYS (openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0)
    return fd;
  size_t len = 0;
  long r = 0;
  while (len + 1 < cap && (r = SYS (read, fd, buf + len, cap - 1 - len)) > 0)
    len += (size_t) r;
  SYS (close, fd);
  buf[len] = 0;
  return r < 0 ? r : (long) len;
}

long
close_all_but (int first, const int *kept, size_t n)
{
  for (;;)
    {
      int next = -1;
      for (size_t i = 0; i < n; i++)
        if (kept[i] >= first && (next < 0 || kept[i] < next))
          next = kept[i];
      if (next < 0)
        return SYS (close_range, first, ~0u, 0);
      if (next > first)
        {
          long r = SYS (close_range, first, next - 1, 0);
          if (r < 0)
            return r;
        }
      first = next + 1;
    }
}

void
exit_now (int code)
{
  for (;;)
    SYS (exit_group, code);
}

void
fail (const char *stage, const char *object, long error)
{
  char text[1024];
  size_t len = put_str (text, sizeof text, 0, stage);
  text[len++] = 0;
  len = put_str (text + len, sizeof text - len, 0, object ? object : "") + len + 1;
  send_error ((u32) -error, text, len);
  exit_now (125);
}
