"""Archives and trees that are weapons: names that slip out, links, devices, and bombs."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
from collections.abc import Mapping
from pathlib import Path

import psutil

from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.interface.verbs import archive, member, said, typed
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

MIB = 1 << 20
_LINK, _HARD, _FIFO, _CHAR = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE


def hostile(outside: str) -> Mapping[str, bytes]:
    """Archives that try to write to, or to bring in, what is at the absolute path ``outside``."""
    up = "../" * 24 + outside.lstrip("/")
    pax = _pax("path", up)
    sized = member("././@PaxHeader", _pax("size", "1"), tarfile.XHDTYPE) + member("f", b"x" * 600)
    return {
        "up": archive(member(f"{up}/slipped", b"x")),
        "up inside": archive(member(f"a/{up}/slipped", b"x")),
        "absolute": archive(member(f"{outside}/slipped"[:100], b"x")),
        "absolute, by an extended header": archive(
            member("././@PaxHeader", _pax("path", outside), tarfile.XHDTYPE) + member("f")
        ),
        "up, by an extended header": archive(member("././@PaxHeader", pax, tarfile.XHDTYPE) + member("f", b"x")),
        "up, by a global header": archive(member("././@PaxHeader", pax, tarfile.XGLTYPE) + member("f", b"x")),
        "two sizes": archive(sized),
        "through a link": archive(member("l", b"", _LINK, link=outside[:99]) + member("l/slipped", b"x")),
        "through a link that goes up": archive(member("l", b"", _LINK, link="../" * 30) + member("l/slipped", b"x")),
        "through a link that a link makes": archive(
            member("a", b"", _LINK, link="."), member("a/b", b"", _LINK, link=".."), member("a/b/slipped", b"x")
        ),
        "a hard link out": archive(member("h", b"", _HARD, link=f"{outside}/secret"[:99])),
        "a hard link up": archive(member("h", b"", _HARD, link=f"{'../' * 20}etc/passwd")),
        "a file where a link was": archive(member("l", b"", _LINK, link=outside[:99]) + member("l", b"x")),
        "a device": archive(member("device", b"", _CHAR)),
        "a FIFO": archive(member("fifo", b"", _FIFO)),
        "a drive": archive(member("C:\\slipped", b"x")),
        "backslashes": archive(member("..\\..\\slipped", b"x")),
        "a name twice": archive(member("f", b"1") + member("f", b"2")),
        "below a file": archive(member("f", b"1") + member("f/g", b"2")),
        "no name": archive(member("", b"x")),
        "cut off": archive(member("f", b"x" * 2000))[:1000],
        "a size that lies": _sized(member("f", b"x"), 1 << 40),
        "a size below nothing": _sized(member("f", b"x"), -1),
        "no archive": os.urandom(4096),
    }


def _pax(key: str, value: str) -> bytes:
    """One record: its own length in front."""
    record = f" {key}={value}\n"
    length = len(record) + 2
    while len(f"{length}{record}") != length:
        length += 1
    return f"{length}{record}".encode()


def _sized(header: bytes, size: int) -> bytes:
    """The header with another size in it, in the binary form, and a checksum that is right."""
    block = bytearray(header[:512])
    block[124:136] = size.to_bytes(12, "big", signed=True)
    block[124] |= 0x80
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return archive(bytes(block) + header[512:])


_TREE = """
import stat
os.makedirs("tree/below"); os.makedirs("good")
with open("good/file", "w") as file:
    file.write("good")
attempt(os.chmod, "good/file", 0o6777)  # some sandboxes do not even let it be set
os.symlink("file", "good/inside")
def made(name, make):
    os.makedirs("t-" + name)
    with open("t-%s/file" % name, "w") as file:
        file.write("x")
    os.chdir("t-" + name)
    out[name] = attempt(make)
    os.chdir("..")
made("absolute", lambda: os.symlink(outside, "x"))
made("up", lambda: os.symlink("../" * 24 + outside.lstrip("/"), "x"))
made("back", lambda: (os.mkdir("d"), os.symlink("..", "d/up"), os.symlink("d/up/../..", "x")))
made("fifo", lambda: os.mkfifo("x"))
made("socket", lambda: socket.socket(socket.AF_UNIX).bind("x"))
made("dangling", lambda: os.symlink("../nowhere", "x"))
controls["made"] = "ok" if os.path.exists("good/inside") else "no"
"""


@probe("F07", "An archive or a tree cannot slip out of where it goes", claim="interface")
async def slips(arena: Arena) -> Verdict:
    """Hostile archives are refused whole and leave nothing inside; hostile trees are refused whole, or without their hostile
    parts, and what lands on the host is the caller's, with plain modes and no link that leads out.
    """
    sandbox, checks = await arena.sandbox(), Checks()
    path, _ = arena.plant("secret")
    outside = str(path.parent)
    good = archive(member("d/", b"", tarfile.DIRTYPE, mode=0o755), member("d/f", b"good", mode=0o6755))
    moved = await sandbox.files.upload_archive(io.BytesIO(good), "unpacked")
    checks.control("a good one is unpacked", moved.files == 1 and await sandbox.read("unpacked/d/f") == b"good")
    checks.hold("set-id bits stay out", not (await sandbox.stat("unpacked/d/f")).mode & 0o7000)
    for what, raw in hostile(outside).items():
        for name, data in ((what, raw), (f"{what}, compressed", gzip.compress(raw))):
            answer = await said(arena, sandbox.files.upload_archive(io.BytesIO(data), "slip/here"))
            checks.hold(name, answer == "transfer_refused", answer)
    checks.hold("nothing of them is inside", not await sandbox.files.exists("slip"))
    answers, controls = await arena.attack(_TREE, outside=outside)
    checks.control("trees were made", set(controls.values()) == {"ok"}, controls)
    for name in [name for name, value in answers.items() if value == "ok"]:
        landing = arena.directory()
        answer = await said(arena, sandbox.files.download(f"t-{name}", landing / "got"))
        checks.hold(f"{name} is refused", answer == "transfer_refused" and not os.listdir(landing), answer)
        got = await sandbox.files.download(f"t-{name}", landing / "got", unsafe="skip")
        left = [entry for entry in (landing / "got").rglob("*") if entry.is_symlink() and _leads_out(entry, landing / "got")]
        checks.hold(f"{name} is left out", "x" in got.skipped and not left, got)
    landing = arena.directory() / "got"
    await sandbox.files.download("good", landing)
    _landed(checks, landing)
    return checks.verdict("BLOCKED", "every member is checked before any is written")


def _landed(checks: Checks, top: Path) -> None:
    found = (top / "file").stat()
    checks.control("a good tree lands", (top / "inside").read_text() == "good")
    checks.hold("with plain modes", not stat.S_IMODE(found.st_mode) & 0o7000, oct(found.st_mode))
    checks.hold("as the caller's", found.st_uid == os.geteuid(), found.st_uid)


def _leads_out(link: Path, top: Path) -> bool:
    return not link.resolve().is_relative_to(top.resolve())


class Endless(io.RawIOBase):
    """An archive of one file that never ends, and how much of it was read."""

    def __init__(self) -> None:
        super().__init__()
        self.given = 0
        self._rest = _sized(member("endless"), 1 << 50)[:512]

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = (self._rest or bytes(1 << 16))[: size if size >= 0 else 1 << 16]
        self._rest = self._rest[len(piece) :]
        self.given += len(piece)
        if self.given > 64 * MIB:  # the probe's own end
            raise AssertionError("it was read to no end")
        return piece


@probe("F09", "An archive cannot be far more than it seems", claim="interface")
async def bombs(arena: Arena) -> Verdict:
    """Compression without end, too many members, a file without end and an archive in an archive: refused at the bound, in
    memory that stays bounded, and nothing of it inside.
    """
    sandbox, checks = await arena.sandbox(), Checks()
    zeros = gzip.compress(archive(member("zeros", bytes(96 * MIB))), 9)
    many = gzip.compress(archive(*(member(f"{number}") for number in range(1500))))
    endless = Endless()
    process = psutil.Process()
    before = process.memory_info().rss
    upload = sandbox.files.upload_archive
    fits = await upload(io.BytesIO(many), "many")
    checks.control("1,500 members fit", fits.files == 1500)
    cases = {
        "96 MiB in 96 KiB": upload(io.BytesIO(zeros), "bomb"),
        "the same twice compressed": upload(io.BytesIO(gzip.compress(zeros)), "bomb"),
        "more members than asked for": upload(io.BytesIO(many), "bomb", max_files=1499),
        "more bytes than asked for": upload(io.BytesIO(archive(member("f", bytes(2 * MIB)))), "bomb", max_bytes=MIB),
        "deeper than asked for": upload(io.BytesIO(archive(member("d/" * 40 + "f"))), "bomb", max_depth=20),
        "hard links that copy": upload(
            io.BytesIO(archive(member("f", bytes(MIB)), *(member(f"h{n}", b"", _HARD, link="f") for n in range(400)))), "bomb"
        ),
        "without end": upload(endless, "bomb", max_bytes=4 * MIB),  # type: ignore[arg-type]
    }
    for what, call in cases.items():
        answer = await said(arena, call)
        checks.hold(what, answer == "transfer_refused" and typed(answer), answer)
    checks.hold("little of the endless one was read", endless.given <= 16 * MIB, endless.given)
    checks.hold("nothing of them is inside", not await sandbox.files.exists("bomb"))
    grown = process.memory_info().rss - before
    checks.hold("memory stays bounded", grown < 192 * MIB, f"{grown >> 20} MiB more")
    await sandbox.remove("many", recursive=True)
    return checks.verdict("BLOCKED", "counted as it is read")
