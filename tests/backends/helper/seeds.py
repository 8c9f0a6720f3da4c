"""What the corpus of the helper's two parsers began with: whole plans and streams of requests. `seeds.py DIRECTORY` writes them
into ``plan`` and ``requests`` there, with the head that the fuzz targets expect.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from isandbox_backends._shared.plan import (
    Affinity,
    Allow,
    Bind,
    Cover,
    Devpts,
    Directory,
    File,
    Hostname,
    IdMaps,
    IdUse,
    Landlock,
    Life,
    Mode,
    ModeRecord,
    Outside,
    Proc,
    Rebind,
    Record,
    Rlimit,
    Seccomp,
    Store,
    Symlink,
    Sysctl,
    Tmpfs,
    View,
    encode_plan,
)
from isandbox_backends._shared.protocol import Meter, Question, StartFlag
from isandbox_backends._shared.requests import (
    encode_ask,
    encode_attach,
    encode_kill,
    encode_release,
    encode_resize,
    encode_shutdown,
    encode_signal,
    encode_start,
    encode_stdin_eof,
)

NAMESPACES = 0x7E020000


def isolated(*, split: bool) -> list[Record]:
    """One of each record that a plan can hold."""
    flags = Mode.NAMESPACES | Mode.LOOPBACK | Mode.KEYRING | (Mode.SPLIT_UID | Mode.OPEN_EARLY if split else Mode(0))
    maps = "0 100000 65536" if split else "0 32768 1\n1000 65536 1"
    return [
        ModeRecord(flags, NAMESPACES, 1000, 1000, pids=64, memory=1 << 28, cpu_ns=10**9),
        IdMaps(maps, maps, IdUse.CLAIM | (IdUse.OWNER if split else IdUse.OUTER), 100001),
        Outside((1, 2, 3, 4, 5, 6, 0)),
        Bind("/usr", "usr", idmap=2 if split else 0),
        Bind("/missing", "missing", optional=True, recursive=False),
        Tmpfs("tmp", "mode=1777,size=1m"),
        Proc("proc"),
        Devpts("dev/pts"),
        Directory("workspace", 0o700, owned=True),
        Rebind("tmp", "workspace"),
        Symlink("usr/bin", "bin"),
        File("etc/passwd", b"user:x:1000:1000::/home:/bin/sh\n"),
        File("dev/null"),
        Directory("tmp/store"),
        Store("tmp/store"),
        View("workspace", "view"),
        Cover("view/a", "view", in_store=True),
        Cover("workspace/a/b", "workspace", "file", needed=True),
        Sysctl("user/max_user_namespaces", "0"),
        Hostname("sandbox"),
        Rlimit(7, 1024, 1024),
        Affinity((0, 65)),
        Landlock(0xFFFF, 3),
        Life(60_000, 0 if split else 5000),
        Allow("/usr", 0xD),
        Allow("/workspace", 0xFFFF),
        Seccomp(struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000)),
    ]


def plans() -> dict[str, bytes]:
    launcher = [ModeRecord(Mode(0), memory=1 << 28, cpu_ns=10**9), Rlimit(4, 0, 0), Affinity((0,))]
    return {
        "split": encode_plan(isolated(split=True)),
        "user": encode_plan(isolated(split=False)),
        "launcher": encode_plan(launcher),
        "ids": encode_plan([ModeRecord(Mode.HOLD_IDS)]),
    }


def unfinished_plans() -> dict[str, bytes]:
    """Each record once more as the last one, its strings without end at the end of the plan, its length true or not; and id
    maps that end too soon.
    """
    good, found = encode_plan(isolated(split=True)), {}
    tails = [(f"unfinished-{number}", *record.encode()) for number, record in enumerate(isolated(split=True))]
    for name, tag, payload in [*tails, ("no-ids", 2, bytes(8) + b"0 100000 65536\0\0")]:
        kept = len(payload) if name == "no-ids" else len(payload) & ~7 or 8
        body = payload.rstrip(b"\0")[:kept] if name != "no-ids" else payload
        body = body.ljust(kept, b"7")
        for kind, length in (("", kept), ("-lies", kept + 64)):
            tail = struct.pack("<II", tag, length) + body + b"7" * (-kept % 8)
            found[name + kind] = good[:8] + struct.pack("<I", len(good) + len(tail)) + good[12:] + tail
    return found


def requests() -> dict[str, bytes]:
    def start(number: int, argv: list[str], flags: int = 0, operation: int = 0, groups: tuple[int, int] = (0, 0)) -> bytes:
        joins, meters = groups
        count = 3 - bool(flags & 34) + bool(flags & 1) + bool(flags & 4) + joins + meters.bit_count()
        return encode_start(
            number, argv, {} if operation else {"PATH": "/usr/bin::/bin", "A": "1"}, "/workspace", flags=StartFlag(flags),
            timeout=1.5, descriptors=count, operation=operation, joins=joins, meters=Meter(meters),
            keep=5000 if flags & 48 else 0, rows=24, columns=80, output_quota=1 << 20 if flags & 16 else 0,
        )  # fmt: skip

    def attach(number: int, serial: int, flags: int) -> bytes:
        count = 3 - bool(flags & 2) + bool(flags & 1)
        return encode_attach(number, serial, flags=StartFlag(flags), since_out=7, since_err=1 << 40, descriptors=count)

    files = [["a/b", "0", "9"], ["a/b", "644", "append"], ["a"], ["."], ["a/b", "parents"], ["a", "recursive"], ["a", "b"]]
    return {
        "commands": start(1, ["true"]) + start(2, ["/bin/sh", "-c", "exit 3"], 15) + start(3, ["x"], 2),
        "groups": start(1, ["true"], groups=(2, 15)) + start(2, ["true"], 15, groups=(4, 5)) + start(3, ["x"], groups=(0, 8)),
        "nothing": start(1, []) + start(2, ["true"]),
        "ends": start(1, ["sleep", "9"]) + encode_signal(1, 15) + encode_kill(1, "killed") + encode_kill(7, "timeout"),
        "questions": start(1, ["true"]) + b"".join(encode_ask(what, value=60_000) for what in Question) + encode_shutdown(),
        "clients": encode_release()
        + start(1, ["true"])
        + encode_ask(Question.STATUS)
        + start(2, ["sleep", "9"])
        + encode_kill(1, "oom"),
        "kept": b"".join(start(number, ["yes", "no"], flags) for number, flags in enumerate((16, 17, 26, 31), 1))
        + attach(5, 1, 0)
        + attach(6, 2, 1)
        + attach(7, 3, 3)
        + attach(8, 99, 2)
        + encode_stdin_eof(6)
        + encode_kill(5, "killed")
        + encode_signal(7, 15)
        + encode_ask(Question.COMMANDS),
        "terminals": start(1, ["sh"], 33)
        + start(2, ["sh"], 49)
        + encode_resize(1, 50, 60)
        + encode_stdin_eof(2)
        + attach(3, 1, 1)
        + encode_resize(3, 1, 2)
        + encode_resize(9, 1, 2)
        + encode_kill(1, "killed"),
        "crowd": b"".join(start(number, ["true"], 17) + attach(100 + number, number, 1) for number in range(1, 50)),
        "files": b"".join(start(number, argv, operation=number) for number, argv in enumerate(files, 1)),
        "long": start(1, ["echo", "x" * 9000]) + start(2, ["true"]) + start(3, ["echo", *["y" * 500] * 40]),
        "many": b"".join(start(number, ["true"]) + encode_kill(number, "killed") for number in range(1, 40)),
    }


def main() -> None:
    for kind, seeds in (("plan", plans() | unfinished_plans()), ("requests", requests())):
        directory = Path(sys.argv[1], kind)
        directory.mkdir(parents=True, exist_ok=True)
        for name, body in seeds.items():
            for option, head in enumerate(
                (b"\1\2\1\0", b"\1\2\x20\x1f", b"\3\4\x10\x7f", b"\5\6\1\x43", b"\6\7\1\x80", b"\7\x08\0\xd7")
            ):
                (directory / f"{name}-{option}").write_bytes(head + body)


if __name__ == "__main__":
    main()
