"""Files that are none: pipes, sockets, devices, directories, and one that grows while it is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from isandbox.sandbox import ISandbox
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.interface.verbs import READING, Place, said, typed, until_there
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

MIB = 1 << 20
_MAKE = """
os.mkfifo("pipe", 0o666)
bound = socket.socket(socket.AF_UNIX)
bound.bind("socket")
os.mkdir("directory")
for name, target in (("pipe", "to-pipe"), ("/dev/zero", "to-zero"), ("loop", "loop")):
    os.symlink(name, target)
with open("file", "w") as file:
    file.write("a file")
controls["made"] = "ok" if stat.S_ISFIFO(os.stat("pipe").st_mode) else "no"
"""
# Appends as fast as it is read, up to a bound.
_GROW = """
with open("growing", "wb", buffering=0) as file:
    end = time.monotonic() + 15
    for _ in range(24):
        if time.monotonic() > end or os.path.exists("enough"):
            break
        file.write(bytes(1 << 20))
        time.sleep(0.01)
"""
_NO_FILES = ["pipe", "socket", "directory", "to-pipe", "to-zero", "loop", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx"]


@probe("F06", "What is no regular file is refused at once, and an endless one is bounded", claim="interface")
async def no_files(arena: Arena) -> Verdict:
    """Reading and writing a FIFO that nobody serves, a socket, a device, a directory and a loop of links: a typed error, never a
    wait. A file that grows while it is read gives what was asked for.
    """
    sandbox, checks = await arena.sandbox(), Checks()
    _, controls = await arena.attack(_MAKE)
    checks.control("made", set(controls.values()) == {"ok"}, controls)
    checks.control("a plain file is read", await sandbox.read("file") == b"a file")
    calls: dict[str, Callable[[str], Awaitable[object]]] = {
        "read": sandbox.read,
        "a part": lambda path: sandbox.read(path, limit=10),
        "read_chunks": lambda path: READING["read_chunks"](Place(arena, sandbox, path)),
    }
    for path in _NO_FILES:
        for name, call in calls.items():
            answer = await said(arena, call(path))
            checks.hold(f"{name} {path}", typed(answer) and answer != "ok", answer)
    for path in ("pipe", "socket", "directory", "to-pipe", "loop"):
        for append in (False, True):
            answer = await said(arena, sandbox.write(path, b"x", append=append))
            checks.hold(f"write {path}", typed(answer) and answer != "ok", answer)
    for path in ("pipe", "socket", "to-pipe", "loop", "/dev/zero"):
        answer = await said(arena, sandbox.files.download(path, arena.directory() / "got"))
        checks.hold(f"download {path}", typed(answer) and answer != "ok", answer)
        answer = await said(arena, sandbox.list_dir(path))
        checks.hold(f"list {path}", typed(answer) and answer != "ok", answer)
    answer = await said(arena, sandbox.exec(["true"], cwd="pipe", timeout=20.0))
    checks.hold("a pipe as working directory", typed(answer) and answer != "ok", answer)
    await _growing(arena, sandbox, checks)
    return checks.verdict("BLOCKED", "regular files only")


async def _growing(arena: Arena, sandbox: ISandbox, checks: Checks) -> None:
    process = await sandbox.start(["python3", "-I", "-c", f"import os, time\n{_GROW}"], timeout=30.0)
    await until_there(sandbox, "growing")
    part = await sandbox.read("growing", offset=0, limit=64)
    checks.hold("no more than asked for", len(part) <= 64, len(part))
    answer = await said(arena, sandbox.files.download("growing", arena.directory() / "got", max_bytes=2 * MIB))
    checks.hold("no more than the bound is downloaded", typed(answer), answer)
    answer = await said(arena, sandbox.read("growing"))
    checks.hold("reading all of it ends", typed(answer), answer)
    await sandbox.write("enough", b"")
    arena.saw(await process.wait())
