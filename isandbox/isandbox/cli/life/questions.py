"""Whether a terminal is about to answer, as if somebody had typed, what a program has asked it. Pure."""

from __future__ import annotations

import re

# What may stand within a control sequence: terminals act on control characters there as well, but for CAN, SUB and ESC.
_WITHIN = rb"[\x00-\x17\x19\x1c-\x3f]*"
# From xterm's ctlseqs and kitty's protocols: attributes (c), status (n), window (t), modes (p), parameters (x), checksums (y),
# presentation (w, |); with a marker the version (q), keyboard (u, m) and graphics (S); ENQ and DECID; every device control
# and application command, and a command of the operating system that has a question mark. Better one too many than one too few.
_ASKS = re.compile(
    rb"\x05|\x1b[\x20-\x2f]*+Z|\x1b[P_]|\xc2[\x90\x9a\x9f]"
    # Neither way is gone back: a stranger's output decides how long it is.
    rb"|(?:\x1b\[|\xc2\x9b)(?:" + _WITHIN + rb"+[cntpxyw|]|(?=" + _WITHIN + rb"[?>$])" + _WITHIN + rb"+[qumS])"
    rb"|(?:\x1b\]|\xc2\x9d)[^\x07\x1b?]{0,256}+\?"
)
_LONGEST = 4_096


class Questions:
    """Looks for them in a stream of output, however it is split."""

    def __init__(self) -> None:
        self._before = b""

    def feed(self, data: bytes) -> bool:
        """Whether a question has been asked in this chunk, or ends in it."""
        text = self._before + data
        found = None
        for found in _ASKS.finditer(text):  # noqa: B007 - the last one
            pass
        self._before = text[max(len(text) - _LONGEST, 0 if found is None else found.end()) :]
        return found is not None
