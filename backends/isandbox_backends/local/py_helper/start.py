"""From a fresh interpreter to the server's loop, and out again."""

from __future__ import annotations

import errno
import os
import socket
import struct
from contextlib import suppress

from .plan import load_plan
from .serve import Server
from .system import CONTROL_FD, PLAN_FD, become_subreaper, forget_the_host
from .wire import FEATURE_FDS, VERSION, Frame, HelperError, send


def main() -> None:
    """Serve until the host hangs up. What goes wrong is told in an ERROR frame; in any case nothing is left running."""
    forget_the_host()
    control = socket.socket(fileno=CONTROL_FD)
    code = 1
    try:
        _serve(control)
        code = 0
    except HelperError as error:
        _tell(error.number, error.stage, error.subject)
    except Exception as error:  # nobody else would hear of it: this process has no stderr
        _tell(errno.EIO, "python helper", repr(error))
    os._exit(code)


def _serve(control: socket.socket) -> None:
    plan = load_plan(PLAN_FD)
    os.dup2(0, PLAN_FD, inheritable=False)  # taken for good: a command's script goes there
    send(CONTROL_FD, Frame.LAUNCHED, struct.pack("<I", os.getpid()))
    with suppress(PermissionError):  # the leader of a group already
        os.setsid()
    server = Server(plan, control, complete=become_subreaper())
    send(CONTROL_FD, Frame.HELLO, struct.pack("<IIIIIIQ", VERSION, FEATURE_FDS, 0, 0, 0, 0, 0))  # no layer, and to client 0
    try:
        server.run()
    except ConnectionError:  # how some systems say that the host has died
        return
    finally:
        server.end_everything()


def _tell(number: int, stage: str, subject: str) -> None:
    texts = f"{stage}\0{subject[:512]}\0".encode("utf-8", "replace")
    send(CONTROL_FD, Frame.ERROR, struct.pack("<I", number) + texts)
