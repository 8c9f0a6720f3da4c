/* File verbs, run in place of a program: as the command's user, in the sandbox's own view, so that the kernel decides what a
 * path means and whether it may be touched. The host never opens by path what a sandbox can write. */
#ifndef ISANDBOX_FILEOPS_H
#define ISANDBOX_FILEOPS_H

enum file_operation {
  FILE_READ = 1,   /* path, offset, limit: bytes to stdout */
  FILE_WRITE = 2,  /* path, octal mode or "", "append" or "": bytes from stdin; parents are made */
  FILE_STAT = 3,   /* path: one entry to stdout */
  FILE_LIST = 4,   /* path: entries to stdout */
  FILE_MKDIR = 5,  /* path, "parents" or "", octal mode or "": the mode of a directory that is made, not of one that is there */
  FILE_REMOVE = 6, /* path, "recursive" or "" */
  FILE_RENAME = 7, /* path, new path */
  FILE_SYMLINK = 8, /* path of the link, what it says */
};

/* u32 length of what follows, u32 mode, u64 size, i64 mtime_ns, u32 uid, u32 gid, name\0, link target\0 */

#endif
