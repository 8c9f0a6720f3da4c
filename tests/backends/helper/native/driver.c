/* A fuzzing engine for a compiler that has none: `PROGRAM ROUNDS FILE...` replays every file, then changes them at random for
 * so many rounds, always the same way, and keeps what reaches code that nothing before it has reached. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 65536
#define KEPT_MOST 4096
#define MAP_BITS 16

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

struct input { uint8_t *data; size_t size; };

static struct input kept[KEPT_MOST];
static size_t kept_count;
static uint8_t reached[1 << MAP_BITS], ever[1 << MAP_BITS];
static uintptr_t before;

/* The compiler puts a call of this on every edge. */
__attribute__ ((no_sanitize_coverage)) void
__sanitizer_cov_trace_pc (void)
{
  /* Counted from a place in the program, which is not always loaded at the same one. */
  uintptr_t here = (uintptr_t) __builtin_return_address (0) - (uintptr_t) LLVMFuzzerTestOneInput;
  uint32_t edge = (uint32_t) ((here ^ before << 1) * 2654435761u) >> (32 - MAP_BITS);
  before = here;
  reached[edge] = 1;
}

static uint64_t state = 88172645463325252ull;

static uint32_t
chance (uint32_t most)
{
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t) (state >> 16) % most;
}

static int
run (const uint8_t *data, size_t size)
{
  int fresh = 0;
  memset (reached, 0, sizeof reached);
  before = 0;
  uint8_t *copy = malloc (size ? size : 1); /* exactly as long: the ends are watched */
  memcpy (copy, data, size);
  LLVMFuzzerTestOneInput (copy, size);
  free (copy);
  for (size_t i = 0; i < sizeof reached; i++)
    if (reached[i] && !ever[i])
      fresh = ever[i] = 1;
  return fresh;
}

static void
keep (const uint8_t *data, size_t size)
{
  if (kept_count == KEPT_MOST)
    return;
  kept[kept_count].data = malloc (size ? size : 1);
  kept[kept_count].size = size;
  memcpy (kept[kept_count++].data, data, size);
}

static size_t
change_once (uint8_t *data, size_t size)
{
  static const uint32_t words[] = { 0, 1, 2, 7, 8, 16, 255, 4096, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff8, 0xfffffff9 };
  size_t at = size ? chance ((uint32_t) size) : 0, n;
  const struct input *other;
  switch (size < 8 ? 3 : chance (6))
    {
    case 0:
      data[at] ^= (uint8_t) (1u << chance (8));
      return size;
    case 1:
      data[at] = (uint8_t) chance (256);
      return size;
    case 2:
      at &= ~3ul;
      memcpy (data + at, &words[chance (13)], size - at < 4 ? size - at : 4);
      return size;
    case 3: /* take something in, from here or from another input */
      other = &kept[chance ((uint32_t) kept_count)];
      n = other->size ? 1 + chance (other->size < 256 ? (uint32_t) other->size : 256) : 0;
      if (size + n > LONGEST || !n)
        return size;
      memmove (data + at + n, data + at, size - at);
      memcpy (data + at, other->data + chance ((uint32_t) (other->size - n + 1)), n);
      return size + n;
    case 4:
      n = 1 + chance (16);
      n = n < size - at ? n : size - at;
      memmove (data + at, data + at + n, size - at - n);
      return size - n;
    default: /* a length, the length of a frame or a record, often enough stands in the last word before */
      n = at & ~7ul;
      memcpy (data + n, &(uint32_t) { (uint32_t) (size - n) }, size - n < 4 ? size - n : 4);
      return size;
    }
}

static void
replay (const char *path)
{
  static uint8_t data[1 << 20];
  FILE *file = fopen (path, "rb");
  if (!file)
    exit (2);
  size_t size = fread (data, 1, sizeof data, file);
  fclose (file);
  run (data, size);
  if (size <= LONGEST)
    keep (data, size);
}

int
main (int argc, char **argv)
{
  static uint8_t data[LONGEST];
  if (argc < 3)
    return 2;
  for (int i = 2; i < argc; i++)
    replay (argv[i]);
  size_t seeds = kept_count;
  for (long rounds = atol (argv[1]); rounds > 0; rounds--)
    {
      const struct input *from = &kept[chance ((uint32_t) kept_count)];
      size_t size = from->size;
      memcpy (data, from->data, size);
      for (uint32_t n = 1 + chance (4); n > 0; n--)
        size = change_once (data, size);
      if (run (data, size))
        keep (data, size);
    }
  size_t edges = 0;
  for (size_t i = 0; i < sizeof ever; i++)
    edges += ever[i];
  printf ("%d files, %s rounds, %zu edges, %zu new inputs\n", argc - 2, argv[1], edges, kept_count - seeds);
  return 0;
}
