#include "plan.h"

struct plan plan;

#define PLAN_HEADER 16
/* CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET */
#define NAMESPACES_KNOWN 0x7e020000ull
#define NAMESPACES_NEEDED 0x30020000ull /* NEWNS, NEWUSER, NEWPID */

int
plan_next (size_t *at, struct record *r)
{
  size_t pos = *at ? *at : PLAN_HEADER;
  if (pos + 8 > plan.size)
    return 0;
  memcpy (&r->tag, plan.base + pos, 4);
  memcpy (&r->len, plan.base + pos + 4, 4);
  r->data = plan.base + pos + 8;
  *at = pos + 8 + ((r->len + 7u) & ~7ull);
  return 1;
}

__attribute__ ((noreturn)) static void
bad (const char *why)
{
  fail ("plan", why, -EBADMSG);
}

/* A payload of FIXED bytes followed by exactly STRINGS terminated strings; bytes after them only when TAIL. */
static void
check_shape (const struct record *r, size_t fixed, int strings, int tail)
{
  if (r->len < fixed)
    bad ("record too short");
  size_t pos = fixed;
  while (strings--)
    {
      while (pos < r->len && r->data[pos])
        pos++;
      if (pos++ >= r->len)
        bad ("string without end");
    }
  if (!tail && pos != r->len)
    bad ("bytes after the record");
}

static void
check_file (const struct record *r)
{
  u32 length;
  memcpy (&length, r->data + 4, 4);
  if (8 + str_len ((const char *) r->data + 8) + 1 + length != r->len)
    bad ("file content");
}

/* Lines of "INSIDE OUTSIDE COUNT": the kernel reads them, and so does who makes an id-mapped mount. */
static void
check_id_map (const char *s)
{
  for (int field = 0;; field = (field + 1) % 3)
    {
      if (*s < '0' || *s > '9')
        bad ("id map");
      take_num (&s);
      if (field == 2 && !*s)
        return;
      if (*s != (field < 2 ? ' ' : '\n'))
        bad ("id map");
      s++;
    }
}

/* Fixed bytes, then terminated strings; TAIL allows bytes after them. */
static const struct shape { u16 fixed; u8 strings, tail; } shapes[] = {
  [PLAN_MODE] = { sizeof (struct plan_mode), 0, 0 },
  [PLAN_ID_MAPS] = { sizeof (struct plan_ids), 2, 0 },
  [PLAN_BIND] = { sizeof (struct plan_bind), 2, 0 },
  [PLAN_TMPFS] = { 8, 2, 0 },
  [PLAN_PROC] = { 0, 1, 0 },
  [PLAN_DEVPTS] = { 0, 1, 0 },
  [PLAN_DIR] = { 8, 1, 0 },
  [PLAN_SYMLINK] = { 0, 2, 0 },
  [PLAN_FILE] = { 8, 1, 1 },
  [PLAN_HOSTNAME] = { 0, 1, 0 },
  [PLAN_RLIMIT] = { sizeof (struct plan_rlimit), 0, 0 },
  [PLAN_LANDLOCK] = { 16, 0, 0 },
  [PLAN_ALLOW] = { 8, 1, 0 },
  [PLAN_SECCOMP] = { 8, 0, 1 },
  [PLAN_AFFINITY] = { 8, 0, 1 },
  [PLAN_REBIND] = { 0, 2, 0 },
  [PLAN_SYSCTL] = { 0, 2, 0 },
  [PLAN_STORE] = { 0, 1, 0 },
  [PLAN_VIEW] = { 0, 2, 0 },
  [PLAN_COVER] = { sizeof (struct plan_cover), 2, 0 },
  [PLAN_OUTSIDE] = { 8 * NAMESPACES, 0, 0 },
  [PLAN_LIFE] = { sizeof (struct plan_life), 0, 0 },
};

static void
take_record (const struct record *r)
{
  if (r->tag == 0 || r->tag >= sizeof shapes / sizeof shapes[0])
    bad ("unknown record");
  const struct shape *shape = &shapes[r->tag];
  if (!shape->fixed && !shape->strings) /* a number that no record has */
    bad ("unknown record");
  check_shape (r, shape->fixed, shape->strings, shape->tail);

  switch (r->tag)
    {
    case PLAN_MODE:
      plan.mode = (const struct plan_mode *) r->data;
      break;
    case PLAN_ID_MAPS:
      plan.ids = (const struct plan_ids *) r->data;
      plan.uid_map = (const char *) (plan.ids + 1);
      plan.gid_map = plan.uid_map + str_len (plan.uid_map) + 1;
      check_id_map (plan.uid_map);
      check_id_map (plan.gid_map);
      break;
    case PLAN_FILE:
      check_file (r);
      break;
    case PLAN_HOSTNAME:
      plan.hostname = (const char *) r->data;
      break;
    case PLAN_LANDLOCK:
      plan.landlock = (const u64 *) r->data;
      break;
    case PLAN_SECCOMP:
      if (r->len % 8 || r->len / 8 > 4096)
        bad ("filter length");
      plan.seccomp = r->data;
      plan.seccomp_len = r->len / 8;
      break;
    case PLAN_OUTSIDE:
      plan.namespaces = (const u64 *) r->data;
      break;
    case PLAN_LIFE:
      plan.life = (const struct plan_life *) r->data;
      break;
    case PLAN_AFFINITY:
      plan.affinity = (const u64 *) r->data;
      plan.affinity_len = r->len;
      break;
    }
}

void
plan_load (int fd)
{
  struct statx st;
  must (SYS (statx, fd, "", AT_EMPTY_PATH, STATX_BASIC, &st), "plan", "stat");
  if (st.size < PLAN_HEADER || st.size > PLAN_MAX)
    bad ("size");
  void *p = (void *) SYS (mmap, 0, st.size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (MAP_FAILED_P (p))
    fail ("plan", "mmap", (long) p);
  SYS (close, fd);
  plan.base = p;
  plan.size = st.size;

  u32 version, total;
  memcpy (&version, plan.base + 4, 4);
  memcpy (&total, plan.base + 8, 4);
  if (memcmp (plan.base, "ISBP", 4) != 0 || version != PLAN_VERSION || total != plan.size)
    bad ("header");

  size_t at = 0;
  struct record r;
  while (plan_next (&at, &r))
    {
      if (r.len > plan.size || at > plan.size)
        bad ("record past the end");
      take_record (&r);
    }
  if (at != plan.size)
    bad ("bytes after the plan");
  if (!plan.mode)
    bad ("no mode");
  if ((plan.mode->flags & MODE_DETACHED) && (!plan.life || !plan.life->lifetime_ms || (plan.mode->flags & MODE_HOLD_IDS)))
    bad ("detached, and without an end");
  if ((plan.mode->flags & MODE_NAMESPACES) && (!plan.uid_map || !plan.seccomp || !plan.landlock))
    bad ("a layer is missing");
  /* Without a user and a mount namespace of its own, root would build the new root in the host's. */
  if ((plan.mode->flags & MODE_NAMESPACES)
      && ((plan.mode->clone_flags & ~NAMESPACES_KNOWN) || (plan.mode->clone_flags & NAMESPACES_NEEDED) != NAMESPACES_NEEDED))
    bad ("namespaces");
}
