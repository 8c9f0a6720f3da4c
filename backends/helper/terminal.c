/* Terminals: of the sandbox's own devpts, or the host's where nothing is isolated. */
#include "relay.h"

#define TCGETS 0x5401
#define TCSETS 0x5402
#define TIOCSWINSZ 0x5414
#define TIOCSPTLCK 0x40045431
#define TIOCGPTPEER 0x5441
#define ICANON 2
#define IUTF8 0x4000
#define VEOF 4
#define TYPED_EOF 4 /* ^D, where the program reads what is typed as it is */

struct winsize { u16 rows, columns, width, height; };
struct termios { u32 input, output, control, local; u8 line, characters[19]; };

void
terminal_resize (int master, u16 rows, u16 columns)
{
  struct winsize size = { rows, columns, 0, 0 };
  SYS (ioctl, master, TIOCSWINSZ, &size);
}

static long
prepare (int master, u16 rows, u16 columns)
{
  int unlocked = 0;
  struct termios settings;
  long r = SYS (ioctl, master, TIOCSPTLCK, &unlocked);
  if (r < 0)
    return r;
  terminal_resize (master, rows, columns);
  if ((r = SYS (ioctl, master, TCGETS, &settings)) < 0)
    return r;
  settings.input |= IUTF8; /* commands have a UTF-8 locale: erasing takes whole characters */
  if ((r = SYS (ioctl, master, TCSETS, &settings)) < 0)
    return r;
  return SYS (ioctl, master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

long
terminal_open (u16 rows, u16 columns, int *slave)
{
  long master = open_for_command ("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (master < 0)
    return master;
  long peer = prepare ((int) master, rows, columns);
  if (peer < 0)
    {
      SYS (close, master);
      return peer;
    }
  *slave = (int) peer;
  return master;
}

/* In the middle of a line the first one only hands over the line (man 3 termios). */
u32
terminal_eof (int master, int line_begun, u8 *out)
{
  struct termios settings;
  out[0] = out[1] = TYPED_EOF;
  if (SYS (ioctl, master, TCGETS, &settings) < 0 || !(settings.local & ICANON))
    return 1;
  out[0] = out[1] = settings.characters[VEOF];
  return line_begun ? 2 : 1;
}
