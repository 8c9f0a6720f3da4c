"""The half of a probe that runs inside: a small Python program, and its answer, which is read as hostile input.

Nothing of this is ever run outside a sandbox. Inside there must be a ``python3``; the program needs nothing but its standard
library, and works with any version from 3.6 on.
"""

from __future__ import annotations

import json
import re
from typing import Any

from isandbox.testing.containment.numbers import NUMBERS

ANSWER_LIMIT = 1 << 20
VALUE_LIMIT = 64 << 10

PRELUDE = r"""
import ctypes, errno, hashlib, json, os, signal, socket, stat, struct, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
out, controls = {}, {}

def word(number):
    "The name of an errno."
    return errno.errorcode.get(number, "E%d" % number)

def call(number, *args):
    "A system call's outcome: 'ok' or the name of its errno."
    ctypes.set_errno(0)
    wide = [a if isinstance(a, (bytes, ctypes.Array)) or a is None else ctypes.c_long(a) for a in args]
    result = libc.syscall(ctypes.c_long(number), *wide)
    return "ok" if result >= 0 else word(ctypes.get_errno())

def attempt(function, *args, **options):
    "'ok', or the name of the errno of the OSError that it raises."
    try:
        function(*args, **options)
    except OSError as error:
        return word(error.errno) if error.errno else type(error).__name__
    return "ok"

def opened(path, flags=os.O_RDONLY):
    "Open and close, never read or write."
    return attempt(lambda: os.close(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)))

def content(path, limit=65536):
    "What can be read there without waiting, or the name of the errno."
    found = b""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
            while len(found) < limit:  # a file of /proc gives a page at a time
                piece = file.read(limit - len(found))
                if not piece:
                    break
                found += piece
        return found.decode("latin-1")
    except OSError as error:
        return word(error.errno)

def identity(path, limit=65536):
    "Which file that is, to compare with the host's: device, inode and a hash of its first bytes, or the name of the errno."
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            return "%d %d %s" % (status.st_dev, status.st_ino, hashlib.sha256(file.read(limit)).hexdigest())
    except OSError as error:
        return word(error.errno)

def below(top="/", skip=("/proc", "/sys", "/usr"), most=40000, seconds=10):
    "Paths below a directory, with lstat; no link is followed, and there is an end."
    end, waiting = time.monotonic() + seconds, [top]
    while waiting and most > 0 and time.monotonic() < end:
        try:
            names = os.listdir(waiting[0])
        except OSError:
            names = []
        directory = waiting.pop(0)
        for name in names[:most]:
            path = os.path.join(directory, name)
            try:
                status = os.lstat(path)
            except OSError:
                continue
            most -= 1
            yield path, status
            if stat.S_ISDIR(status.st_mode) and path not in skip:
                waiting.append(path)

def place(top=None):
    "A new directory, which goes when the program ends."
    import atexit, shutil, tempfile
    path = tempfile.mkdtemp(prefix="probe-", dir=top)
    atexit.register(shutil.rmtree, path, True)
    return path

def in_child(function, seconds=10):
    "What a forked child says, so that an attack that works does not reach the probe itself; it is killed when it hangs."
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            signal.alarm(seconds)
            os.write(write, str(function()).encode()[:4096])
        except BaseException as error:
            os.write(write, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(write)
    answer = b""
    while True:
        piece = os.read(read, 4096)
        if not piece:
            break
        answer += piece
    os.close(read)
    status = os.waitpid(child, 0)[1]
    return "signal %d" % os.WTERMSIG(status) if os.WIFSIGNALED(status) else answer.decode("latin-1")
"""
EPILOGUE = '\nsys.stdout.write("\\n" + json.dumps({"out": out, "controls": controls}) + "\\n")\n'


# What is between the texts of an answer in JSON.
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)

Answers = dict[str, str]


class UnusableAnswerError(Exception):
    """The program inside did not answer, or not in a form that is read."""


def program(body: str, values: dict[str, Any]) -> str:
    """The whole program. ``values``: its variables, sent as JSON. A body that mentions ``NR`` has the numbers of the system
    calls in it, of the machine that it runs on.
    """
    given = "".join(f"{name} = json.loads({json.dumps(value)!r})\n" for name, value in values.items())
    if re.search(r"\bNR\b", body):
        given += f"NR = {NUMBERS!r}[os.uname().machine]\n"
    return PRELUDE + given + body + EPILOGUE


def parse(output: bytes) -> tuple[Answers, Answers]:
    """``(out, controls)``: flat maps of names to texts; numbers and truth values become texts. Nothing else is accepted."""
    if len(output) > ANSWER_LIMIT:
        raise UnusableAnswerError(f"an answer of {len(output)} bytes")
    line = output.rstrip(b"\n").rpartition(b"\n")[2]
    between = _TEXTS.sub(b"", line)
    if between.count(b"{") > 3 or b"[" in between:  # before it is parsed: a deep one would exhaust the stack
        raise UnusableAnswerError("an answer that is nested")
    try:
        answer = json.loads(line)
        return _flat(answer["out"]), _flat(answer["controls"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnusableAnswerError(f"no answer in JSON: {output[-200:]!r}") from error


def _flat(given: object) -> Answers:
    if not isinstance(given, dict) or not all(isinstance(v, (str, int, float, bool)) for v in given.values()):
        raise UnusableAnswerError("an answer that is not flat")
    return {str(name)[:200]: str(value)[:VALUE_LIMIT] for name, value in given.items()}
