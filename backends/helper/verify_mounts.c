/* The mounts that there are, by the kernel's own list, against the plan: each must be private and at least as closed as the
 * plan says of the place where it stands, and none that is planned may be missing. What is mounted below a planned mount of
 * the host has come with it, and falls under the same words. */
#include "setup.h"
#include "verify.h"

#define PLACE_MOST 4096
#define PLANNED_MOST 1024

static struct planned { const char *place; size_t len; u32 attributes; int required; } planned[PLANNED_MOST];
static size_t planned_count;

/* One line of mountinfo: id, parent, device, root, place, options, then tags until a "-". */
enum field { FIELD_PLACE = 4, FIELD_OPTIONS = 5, FIELD_TAGS = 6 };
static struct line {
  int field, tags, escape;
  size_t place_len, options_len;
  char place[PLACE_MOST], options[256];
} line;

/* Where a record of the plan mounts something, relative to the root, and how it must be there at least; NULL for others. */
static const char *
planned_place (const struct record *r, u32 *attributes)
{
  const char *s = (const char *) r->data;
  switch (r->tag)
    {
    case PLAN_BIND:
      *attributes = ((const struct plan_bind *) r->data)->attributes;
      s += sizeof (struct plan_bind);
      return s + str_len (s) + 1;
    case PLAN_TMPFS:
      memcpy (attributes, s, 4);
      s += 8;
      return s + str_len (s) + 1;
    case PLAN_PROC:
      *attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
      return s;
    case PLAN_DEVPTS:
      *attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
      return s;
    case PLAN_REBIND:
      *attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
      return s + str_len (s) + 1;
    }
  return NULL;
}

/* What the deepest planned mount at or above PLACE says; where several stand on top of each other, what all of them say.
 * *EXACT: one that must be there stands right there. */
static u32
planned_attributes (const char *place, size_t len, int *exact)
{
  u32 wanted = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV; /* the new root's */
  size_t deepest = 0;
  *exact = 0;
  for (const struct planned *p = planned; p < planned + planned_count; p++)
    {
      if (p->len > len || p->len < deepest || (place[p->len] && place[p->len] != '/') || memcmp (place, p->place, p->len) != 0)
        continue;
      wanted = p->len == deepest ? wanted & p->attributes : p->attributes;
      deepest = p->len;
      *exact = p->len == len && p->required;
    }
  return wanted;
}

static u32
attributes_of (const char *options)
{
  static const struct { const char *name; u32 attribute; } known[] = {
    { "ro", MOUNT_ATTR_RDONLY },
    { "nosuid", MOUNT_ATTR_NOSUID },
    { "nodev", MOUNT_ATTR_NODEV },
    { "noexec", MOUNT_ATTR_NOEXEC },
  };
  u32 found = 0;
  while (*options)
    {
      for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        {
          size_t n = str_len (known[i].name);
          if (str_prefix (options, known[i].name) && (!options[n] || options[n] == ','))
            found |= known[i].attribute;
        }
      while (*options && *options++ != ',')
        ;
    }
  return found;
}

/* The line is complete: 1 when its mount is not as planned. *STANDING counts those that stand right where one is planned. */
static u32
judge (u32 *standing)
{
  int exact;
  line.place[line.place_len] = 0;
  line.options[line.options_len] = 0;
  if (line.place_len + 1 == sizeof line.place || line.place[0] != '/')
    return 1;
  u32 wanted = planned_attributes (line.place + 1, line.place_len - 1, &exact);
  *standing += (u32) exact;
  return line.tags || (attributes_of (line.options) & wanted) != wanted;
}

/* One character of a place: "\040" is a space. */
static void
take_place (char c)
{
  if (line.escape)
    {
      line.place[line.place_len] = (char) (line.place[line.place_len] * 8 + c - '0');
      if (--line.escape == 0)
        line.place_len++;
    }
  else if (line.place_len + 1 < sizeof line.place)
    {
      line.place[line.place_len] = c == '\\' ? 0 : c;
      line.escape = c == '\\' ? 3 : 0;
      line.place_len += c != '\\';
    }
}

static void
take_character (char c)
{
  if (c == ' ')
    line.field++;
  else if (line.field == FIELD_PLACE)
    take_place (c);
  else if (line.field == FIELD_OPTIONS && line.options_len + 1 < sizeof line.options)
    line.options[line.options_len++] = c;
  else if (line.field == FIELD_TAGS && c != '-')
    line.tags = 1; /* "shared:" or "master:": what is mounted on the host would appear here, or the other way about */
}

/* How many mounts there must be. */
static u32
read_plan (void)
{
  size_t at = 0;
  struct record r;
  u32 required = 0, attributes;
  planned_count = 0;
  while (plan_next (&at, &r))
    {
      const char *place = planned_place (&r, &attributes);
      if (!place)
        continue;
      if (planned_count == PLANNED_MOST)
        fail ("mounts", "too many to be verified", -E2BIG);
      int must_be = r.tag != PLAN_BIND || !((const struct plan_bind *) r.data)->optional;
      planned[planned_count++] = (struct planned) { place, str_len (place), attributes, must_be };
      required += (u32) must_be;
    }
  return required;
}

u32
mounts_unlike_plan (void)
{
  static char text[8192];
  u32 wrong = 0, standing = 0, required = read_plan ();
  long fd = SYS (openat, AT_FDCWD, "/proc/self/mountinfo", O_RDONLY | O_CLOEXEC, 0), got = fd;
  while (fd >= 0 && (got = SYS (read, fd, text, sizeof text)) > 0)
    for (long i = 0; i < got; i++)
      if (text[i] != '\n')
        take_character (text[i]);
      else
        {
          wrong += judge (&standing);
          line.field = line.tags = line.escape = 0;
          line.place_len = line.options_len = 0;
        }
  if (fd >= 0)
    SYS (close, fd);
  if (got < 0)
    return ~0u;
  return wrong + covers_missed + (standing < required ? required - standing : 0);
}
