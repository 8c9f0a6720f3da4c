"""Numbers, lists and patterns beyond what makes sense, in every parameter that takes them."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine
from typing import Any

from isandbox.errors import ConfigurationError, SandboxError
from isandbox.policy import Quotas
from isandbox.sandbox import ISandbox
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.interface.verbs import ANSWER, archive, member, said, typed
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

_NAN, _INF, _HUGE = float("nan"), float("inf"), 10**400
_NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    -0.5,
    _NAN,
    _INF,
    -_INF,
    1e308,
    True,
    _HUGE,
    -_HUGE,
    "1",
    "1; id",
    b"1",
    [],
    {},
    object(),
    1j,
)
# Where nothing is a meaning of its own, or a number that is small and whole is fine.
_ALSO_FINE: dict[str, tuple[Any, ...]] = {
    "max_output": (0, _HUGE),
    **dict.fromkeys(("offset", "limit", "mode"), (0,)),
    **dict.fromkeys(("max_files", "max_bytes", "max_depth", "max_ratio"), (_HUGE,)),
}

Call = Callable[[ISandbox, Any], Coroutine[Any, Any, object]]

_CALLS: dict[str, Call] = {
    "timeout": lambda box, value: box.exec(["true"], timeout=value),
    "max_output": lambda box, value: box.exec(["true"], max_output=value, timeout=ANSWER),
    "offset": lambda box, value: box.read("file", offset=value),
    "limit": lambda box, value: box.read("file", limit=value),
    "mode": lambda box, value: box.write("file", b"x", mode=value),
    "max_files": lambda box, value: box.files.upload_archive(io.BytesIO(archive(member("f"))), "d", max_files=value),
    "max_bytes": lambda box, value: box.files.upload_archive(io.BytesIO(archive(member("f", b"x"))), "d", max_bytes=value),
    "max_depth": lambda box, value: box.files.upload_archive(io.BytesIO(archive(member("f"))), "d", max_depth=value),
    "max_ratio": lambda box, value: box.files.upload_archive(io.BytesIO(archive(member("f"))), "d", max_ratio=value),
}
_QUOTAS = ("cpus", "cpu_time", "memory", "disk", "pids", "open_files", "file_size", "output")
_TEXTS: tuple[Any, ...] = (None, 5, b"x", ["x"], {"x": 1}, object(), True)


@probe("F21", "Numbers out of range are refused before anything is done", claim="interface")
async def numbers(arena: Arena) -> Verdict:
    """Zero, negative, endless, no number, a truth value, texts and numbers of 400 digits: `ConfigurationError` for every number,
    quota and signal; a huge list of arguments too.
    """
    sandbox, checks = await arena.sandbox(), Checks()
    await sandbox.write("file", b"content")
    checks.control("a number in range", (await sandbox.exec(["true"], timeout=1.5)).ok)
    for name, call in _CALLS.items():
        for value in _NUMBERS:
            fine = any(value is one for one in _ALSO_FINE.get(name, ()))
            if fine:
                continue
            answer = await _answer(call(sandbox, value))
            checks.hold(f"{name}={_short(value)}", answer == "ConfigurationError", answer)
    for name in _QUOTAS:
        for value in _NUMBERS:
            answer = _quota(name, value)
            checks.hold(f"quotas.{name}={_short(value)}", answer == "ConfigurationError", answer)
    process = await sandbox.start(["sleep", "20"], timeout=30.0)
    for value in (*_NUMBERS, 65):
        answer = await _answer(process.signal(value))
        checks.hold(f"signal={_short(value)}", answer == "ConfigurationError", answer)
    await process.kill()
    arena.saw(await process.wait())
    for value in _NUMBERS:
        answer = await _created(arena, start_timeout=value)
        checks.hold(f"start_timeout={_short(value)}", answer == "ConfigurationError", answer)
    target = arena.directory() / "got"
    await sandbox.write("large", bytes(3 << 20))
    answer = await said(arena, sandbox.files.download("large", target, max_bytes=_HUGE))
    checks.hold("no bound to speak of", answer == "ok", answer)
    answer = await _answer(sandbox.exec(["true", *["x"] * 1_000_000], timeout=ANSWER))
    checks.hold("a million arguments", answer == "ConfigurationError", answer)
    return checks.verdict("BLOCKED", "checked before it is sent")


@probe("F21-types", "What is no text, mapping or record is refused before anything is done", claim="interface")
async def types(arena: Arena) -> Verdict:
    """Values of every wrong type for paths, commands, variables and options: a typed error, never another and never a guess."""
    sandbox, checks = await arena.sandbox(), Checks()
    checks.control("the right types", (await sandbox.exec(["true"], env={"A": "b"}, cwd=".", input="x", timeout=ANSWER)).ok)
    calls: dict[str, Call] = {
        "read": lambda box, value: box.read(value),
        "stat": lambda box, value: box.stat(value),
        "list_dir": lambda box, value: box.list_dir(value),
        "make_dir": lambda box, value: box.make_dir(value),
        "remove": lambda box, value: box.remove(value),
        "rename": lambda box, value: box.rename("file", value),
        "make_link": lambda box, value: box.make_link("link", value),
        "write": lambda box, value: box.write(value, b"x"),
        "data": lambda box, value: box.files.write("file", _no_data(value)),
        "download": lambda box, value: box.files.download(value, "/nowhere/at/all"),
        "upload": lambda box, value: box.files.upload(value, "x"),
        "command": lambda box, value: box.exec([value] if value == ["x"] else value),
        "env": lambda box, value: box.exec(["true"], env=_no_env(value)),
        "stderr": lambda box, value: box.exec(["true"], stderr=value),
    }
    for name, call in calls.items():
        for value in _TEXTS:
            answer = await _answer(call(sandbox, value))
            checks.hold(f"{name}={_short(value)}", answer in {"ConfigurationError", "UnsupportedError"}, answer)
    for name in ("env", "labels", "mounts", "quotas", "network", "policy", "workspace", "waive", "min_isolation", "on_event"):
        for value in (5, object(), True, 1.5, 0, False, b"x", [1], [[]]):
            answer = await _created(arena, **{name: value})
            checks.hold(f"create {name}={_short(value)}", answer in {"ConfigurationError", "UnsupportedError"}, answer)
    answer = await _created(arena, no_such_option=1)
    checks.hold("an unknown option", answer == "ConfigurationError", answer)
    return checks.verdict("BLOCKED", "checked before it is sent")


def _no_env(value: Any) -> Any:
    return {"A": value} if value != {"x": 1} else {5: "x"}


def _no_data(value: Any) -> Any:
    return None if value == b"x" else value


async def _answer(call: Coroutine[Any, Any, object]) -> str:
    try:
        async with asyncio.timeout(ANSWER):
            await call
    except Exception as error:  # its very class is what is looked at
        return type(error).__name__
    return "accepted"


async def _created(arena: Arena, **options: Any) -> str:
    try:
        await arena.create(**options)
    except Exception as error:  # its very class is what is looked at
        return type(error).__name__
    return "accepted"


def _quota(name: str, value: Any) -> str:
    small = value in {"1", 1} if isinstance(value, (str, int)) and not isinstance(value, bool) else False
    try:
        Quotas(**{name: value})
    except ConfigurationError:
        return "ConfigurationError"
    except Exception as error:  # its very class is what is looked at
        return type(error).__name__
    sizes = {"memory", "disk", "file_size", "output"}
    return "ConfigurationError" if small and name in sizes else "accepted"  # one byte is a size


def _short(value: Any) -> str:
    return (
        f"{type(value).__name__} {value!r:.12}" if not isinstance(value, int) or value.bit_length() < 64 else "a huge number"
    )


_LOOPS = """
os.makedirs("loops/a/b")
os.symlink("..", "loops/a/b/up"); os.symlink("self", "loops/self"); os.symlink("a", "loops/again"); os.symlink("b", "loops/a/twice")
os.makedirs("wide")
for number in range(count):
    os.close(os.open("wide/%05d" % number, os.O_CREAT | os.O_WRONLY))
path = "deep"
for _ in range(400):
    os.mkdir(path)
    os.chdir(path)
    path = "d"
controls["made"] = "ok"
"""


@probe("F22", "Loops, very wide and very deep trees are walked within their bounds", claim="interface")
async def loops(arena: Arena) -> Verdict:
    """Links that lead back are not followed; more names or levels than asked for are refused; other calls are answered
    meanwhile. Patterns are none of the port's.
    """
    sandbox, checks, count = await arena.sandbox(), Checks(), arena.rounds(3000, 60_000)
    _, controls = await arena.attack(_LOOPS, count=count, timeout=120.0)
    checks.control("made", set(controls.values()) == {"ok"}, controls)
    got = await sandbox.files.download("loops", arena.directory() / "got")
    checks.hold("links are links", got.files == 0, got)
    listing = asyncio.create_task(sandbox.list_dir("wide"))
    beside = await sandbox.exec(["echo", "answered"], timeout=ANSWER)
    checks.hold("other calls are answered meanwhile", beside.stdout == "answered\n", beside)
    checks.hold("all names are listed", len(await listing) == count)
    for what, call in (
        ("too wide", sandbox.files.download("wide", arena.directory() / "got", max_files=count - 1)),
        ("too deep", sandbox.files.download("deep", arena.directory() / "got", max_depth=64)),
    ):
        answer = await said(arena, call)
        checks.hold(what, answer == "transfer_refused", answer)
    answer = await said(arena, sandbox.remove("deep", recursive=True))
    checks.hold("a deep tree is removed", typed(answer) and not await sandbox.files.exists("deep"), answer)
    try:
        await sandbox.remove("wide", recursive=True)
    except SandboxError as error:
        checks.hold("a wide tree is removed", False, error)
    return checks.verdict("BLOCKED", "bounds on a walk")
