"""Terminals: nothing that is written inside may be read as typed by the caller."""

from __future__ import annotations

import os

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.judge import judge
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.victim import inhabitant

_TYPE = r"""
import fcntl, pty, termios
REQUESTS = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C, "TIOCCONS": 0x541D, "TIOCSETD": 0x5423}
HIGH = (0, 1 << 32, 0xDEADBEEF << 32)  # the kernel reads 32 bits of the request

def request(descriptor, number):
    return call(NR["ioctl"], descriptor, number, ctypes.create_string_buffer(b"x", 8))

def on_own_terminal():
    "As a session's leader on a terminal of its own: there the kernel itself would let it type."
    os.setsid()
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    answers = {}
    for name in ("TIOCSTI", "TIOCLINUX", "TIOCCONS"):
        for high in HIGH:
            answers["%s with %x" % (name, high)] = request(slave, REQUESTS[name] | high)
    answers["control"] = attempt(termios.tcgetattr, slave)
    return json.dumps(answers)

out["/dev/tty"] = opened("/dev/tty", os.O_RDWR)
for descriptor in (0, 1, 2):
    out["descriptor %d is a terminal" % descriptor] = "ok" if os.isatty(descriptor) else "ENOTTY"
    for name, number in REQUESTS.items():
        out["%s on descriptor %d" % (name, descriptor)] = request(descriptor, number)
try:
    answers = json.loads(in_child(on_own_terminal))
except ValueError:
    answers = {"control": "no terminal can be made"}
controls["a terminal of its own"] = answers.pop("control")
out.update(answers)
"""


@probe("B06", "Nothing can be typed into a terminal", claim="terminal")
async def terminal_injection(arena: Arena) -> Verdict:
    """A command has no controlling terminal, none on its descriptors, and is not of the caller's session; TIOCSTI, TIOCLINUX and TIOCCONS are refused even on a
    terminal of its own, as they would be needed for the caller's, whatever stands in the upper half of the request.
    """
    out, controls = await arena.attack(_TYPE)
    for process in (await inhabitant(arena, await arena.box())).seen:
        # Of the caller's session is who has the caller's terminal, if there is one.
        out["session"] = "the caller's" if os.getsid(process.pid) == os.getsid(0) else "its own"
    # EIO is the kernel's own answer to TIOCSTI where the sysctl legacy_tiocsti is 0; EINVAL to TIOCLINUX on what is no console.
    own = {f"TIOCLINUX with {high:x}" for high in (0, 1 << 32, 0xDEADBEEF << 32)}
    answers = {name: "ENOTTY" if name in own and answer == "EINVAL" else answer for name, answer in out.items()}
    by = {
        "ENXIO": "no controlling terminal",
        "ENOTTY": "no terminal",
        "EPERM": "system call filter",
        "EIO": "legacy_tiocsti",
        "its own": "an own session",
    }
    return judge(answers, controls, refused={"EPERM", "EACCES", "EIO", "ENXIO", "ENOTTY", "ENOENT", "its own"}, by=by)
