"""Archives: what is accepted, what is refused as a whole, and that the writer's are the same bytes every time."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tarfile
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox import TransferRefusedError
from isandbox.files.archive.reader import ArchiveReader
from isandbox.files.archive.writer import write_archive
from isandbox.files.host import HostTree
from isandbox.files.limits import Limits, Options

REG, SYM, LNK, DIR = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
END = bytes(1024)
LIMITS = Limits(members=1000, bytes=64 << 20, depth=8)


def member(name: str, kind: bytes = REG, data: bytes = b"", link: str = "", **fields: Any) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, len(data), 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape") + data + bytes(-len(data) % 512)


def meta(kind: bytes, payload: bytes) -> bytes:
    return member("meta", kind, payload)


def pax(**records: str) -> bytes:
    out = b""
    for key, value in records.items():
        body = f" {key}={value}\n".encode("utf-8", "surrogateescape")
        length = len(body) + 1
        while len(str(length)) + len(body) != length:
            length += 1
        out += str(length).encode() + body
    return out


def accept(raw: bytes, limits: Limits = LIMITS, piece: int = 1 << 20) -> dict[str, tuple[Any, ...]]:
    """Path -> kind, mode, content or target."""
    with contextlib.closing(ArchiveReader(limits)) as reader:
        for start in range(0, len(raw), piece):
            reader.feed(raw[start : start + piece])
        archive = reader.accepted()
        found: dict[str, tuple[Any, ...]] = {}
        for entry in archive.plan.entries:
            if entry.kind == "file":
                with contextlib.closing(archive.open(entry)) as content:
                    found[entry.path] = ("file", entry.mode, b"".join(iter(content.read, b"")))
            else:
                found[entry.path] = (entry.kind, entry.mode, entry.target)
        return found


# A directory may come after its content and again; its last mode holds.
ACCEPTED = {
    "nothing": (END, {}),
    "the root": (member("./", DIR) + END, {}),
    "a file": (member("a/b", data=b"x" * 600) + END, {"a/b": ("file", 0o644, b"x" * 600)}),
    "dots and slashes": (member("./a//b/./c", data=b"x") + END, {"a/b/c": ("file", 0o644, b"x")}),
    "a directory after its content": (
        member("d/f") + member("d/", DIR, mode=0o500) + member("d", DIR) + END,
        {"d": ("directory", 0o744, ""), "d/f": ("file", 0o644, b"")},
    ),
    "a directory twice": (
        member("d", DIR) + member("d/", DIR, mode=0o750) + END,
        {"d": ("directory", 0o750, "")},
    ),
    "set-id bits go": (member("f", mode=0o6755) + END, {"f": ("file", 0o755, b"")}),
    "a closed directory is opened": (member("d", DIR, mode=0o055) + END, {"d": ("directory", 0o755, "")}),
    "links inside": (
        member("d/l", SYM, link="../x/y") + member("m", SYM, link="d/l") + END,
        {"d/l": ("symlink", 0o777, "../x/y"), "m": ("symlink", 0o777, "d/l")},
    ),
    "a hard link": (
        member("f", data=b"one") + member("d/h", LNK, link="./f") + member("i", LNK, link="d/h") + END,
        dict.fromkeys(("f", "d/h", "i"), ("file", 420, b"one")),
    ),
    "a long GNU name": (
        meta(b"L", b"d/" + b"n" * 200 + b"\0") + member("short") + END,
        {"d/" + "n" * 200: ("file", 0o644, b"")},
    ),
    "a long GNU link": (
        meta(b"K", b"t" * 200 + b"\0") + member("l", SYM, link="short") + END,
        {"l": ("symlink", 0o777, "t" * 200)},
    ),
    "pax": (
        meta(b"x", pax(path="näme", mtime="1.5", comment="x")) + member("f", data=b"1") + member("g", data=b"2") + END,
        {"näme": ("file", 0o644, b"1"), "g": ("file", 0o644, b"2")},
    ),
    "a pax size": (meta(b"x", pax(size="3")) + member("f", data=b"abc") + END, {"f": ("file", 0o644, b"abc")}),
    "a global comment": (meta(b"g", pax(comment="git")) + member("f") + END, {"f": ("file", 0o644, b"")}),
    "a name that is no UTF-8": (member("n\udcff") + END, {"n\udcff": ("file", 0o644, b"")}),
    "padding": (member("f") + END + bytes(20 << 10), {"f": ("file", 0o644, b"")}),
    "names that differ in case": (
        member("F") + member("f") + END,
        {"F": ("file", 0o644, b""), "f": ("file", 0o644, b"")},
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("piece", [1 << 20, 7])
@pytest.mark.parametrize("compressed", [False, True])
def test_what_is_accepted(name: str, piece: int, compressed: bool) -> None:
    """What archivers write is read, in pieces of any size, plain and gzip."""
    raw, wanted = ACCEPTED[name]
    assert accept(gzip.compress(raw) if compressed else raw, piece=piece) == wanted


REFUSED = {
    "..": ("path", member("..") + END),
    "up": ("path", member("../x") + END),
    "up inside": ("path", member("a/../../x") + END),
    "up that stays inside": ("path", member("a/../x") + END),
    "absolute": ("path", member("/x") + END),
    "two slashes": ("path", member("//x") + END),
    "a drive letter": ("path", member("C:x") + END),
    "a drive": ("path", member("c:/x") + END),
    "a backslash": ("name", member("a\\b") + END),
    "a UNC path": ("name", member("\\\\host\\x") + END),
    "no name": ("name", member("") + END),
    "a NUL in a pax name": ("name", meta(b"x", pax(path="a\0b")) + member("f") + END),
    "a long component": ("name", meta(b"L", b"n" * 256 + b"\0") + member("f") + END),
    "a long path": ("depth", meta(b"L", b"n/" * 2100 + b"x\0") + member("f") + END),
    "too deep": ("depth", member("/".join("abcdefghi")) + END),
    "a pax name that leads out": ("path", meta(b"x", pax(path="../x")) + member("good") + END),
    "a GNU name that leads out": ("path", meta(b"L", b"/etc/x\0") + member("good") + END),
    "a file for the root": ("name", member(".") + END),
    "a file named as a directory": ("name", meta(b"x", pax(path="a/")) + member("f") + END),
    "a file twice": ("duplicate", member("f") + member("f") + END),
    "a file twice, another way": ("duplicate", member("a/f") + member("./a//f") + END),
    "below a file": ("duplicate", member("f") + member("f/x") + END),
    "below a link": ("duplicate", member("l", SYM, link="d") + member("l/x") + END),
    "far below a link": ("duplicate", member("a/l", SYM, link="d") + member("a/l/b/c/x") + END),
    "a link where something is below": ("duplicate", member("d/x") + member("d", SYM, link="e") + END),
    "a link for a directory": ("duplicate", member("d", DIR) + member("d", SYM, link="e") + END),
    "a file for a directory": ("duplicate", member("d", DIR) + member("d") + END),
    "a hard link below a link": ("duplicate", member("f") + member("l", SYM, link=".") + member("l/h", LNK, link="f") + END),
    "a link up": ("link", member("l", SYM, link="../x") + END),
    "a link far up": ("link", member("d/l", SYM, link="../../x") + END),
    "a link that goes down and up": ("link", member("l", SYM, link="d/../x") + END),
    "an absolute link": ("link", member("l", SYM, link="/etc/passwd") + END),
    "a link to a drive": ("link", member("l", SYM, link="C:x") + END),
    "a link to nothing": ("link", member("l", SYM) + END),
    "a pax link that leads out": ("link", meta(b"x", pax(linkpath="/etc")) + member("l", SYM, link="x") + END),
    "a hard link to nothing": ("link", member("h", LNK, link="f") + END),
    "a hard link to a later file": ("link", member("h", LNK, link="f") + member("f") + END),
    "a hard link to a link": ("link", member("l", SYM, link="f") + member("h", LNK, link="l") + END),
    "a hard link to a directory": ("link", member("d", DIR) + member("h", LNK, link="d") + END),
    "a hard link up": ("path", member("h", LNK, link="../f") + END),
    "an absolute hard link": ("path", member("h", LNK, link="/etc/passwd") + END),
    "a character device": ("special", member("x", tarfile.CHRTYPE) + END),
    "a block device": ("special", member("x", tarfile.BLKTYPE) + END),
    "a FIFO": ("special", member("x", tarfile.FIFOTYPE) + END),
    "a contiguous file": ("special", member("x", tarfile.CONTTYPE) + END),
    "a GNU sparse file": ("special", member("x", tarfile.GNUTYPE_SPARSE) + END),
    "a pax sparse file": ("special", meta(b"x", pax(**{"GNU.sparse.major": "1"})) + member("f") + END),
    "a type that nobody knows": ("special", member("x", b"Z") + END),
    "a Solaris header": ("special", member("x", b"X") + END),
    "a directory with a content": ("malformed", member("d", DIR, b"x") + END),
    "a link with a content": ("malformed", member("l", SYM, b"x", link="y") + END),
    "a hard link with a content": ("malformed", member("f") + member("h", LNK, b"x", link="f") + END),
    "a size below nothing": ("malformed", member("f", size=-1) + END),
    "a giant size": ("bytes", member("f", size=1 << 50) + END),
    "two sizes": ("malformed", meta(b"x", pax(size="5")) + member("f", data=b"abc") + END),
    "a pax size that is none": ("malformed", meta(b"x", pax(size="-3")) + member("f") + END),
    "two names": ("malformed", meta(b"x", pax(path="a")) + meta(b"L", b"b\0") + member("f") + END),
    "two pax headers": ("malformed", meta(b"x", pax(path="a")) + meta(b"x", pax(path="b")) + member("f") + END),
    "a global name": ("malformed", meta(b"g", pax(path="a")) + member("f") + END),
    "a global sparse file": ("special", meta(b"g", pax(**{"GNU.sparse.size": "9"})) + member("f") + END),
    "an empty pax name": ("malformed", meta(b"x", pax(path="")) + member("f") + END),
    "a pax record of length 0": ("malformed", meta(b"x", b"0 path=x\n") + member("f") + END),
    "a pax record that is cut off": ("malformed", meta(b"x", b"99 path=x\n") + member("f") + END),
    "a pax record without a length": ("malformed", meta(b"x", b"path=x\n") + member("f") + END),
    "a huge pax header": ("malformed", meta(b"x", pax(path="x" * (65 << 10))) + member("f") + END),
    "a pax header of a giant size": ("malformed", member("x", b"x", size=1 << 40) + END),
    "a long name with more behind it": ("malformed", meta(b"L", b"a\0/../b") + member("f") + END),
    "extended headers of nothing": ("truncated", meta(b"L", b"a\0") + END),
    "no archive": ("malformed", b"PK\3\4" + bytes(508)),
    "xz": ("malformed", b"\xfd7zXZ\0" + bytes(506)),
    "a broken checksum": ("malformed", member("f").replace(b"0000644", b"0000777") + END),
    "not a byte": ("truncated", b""),
    "one byte": ("truncated", b"\0"),
    "no end": ("truncated", member("f")),
    "half an end": ("truncated", member("f") + bytes(512)),
    "cut off in a header": ("truncated", member("f")[:100]),
    "cut off in a content": ("truncated", member("f", data=b"x" * 2000)[:1500]),
    "a member after one block of zeros": ("malformed", member("f") + bytes(512) + member("g") + END),
    "something after the end": ("malformed", member("f") + END + member("g")),
    "endless padding": ("malformed", member("f") + END + bytes(2 << 20)),
    "too many members": ("members", b"".join(member(f"{n}") for n in range(1001)) + END),
    "too many implied members": ("members", b"".join(member(f"{n}/a/b/c/d/e/f") for n in range(200)) + END),
    "too many bytes": ("bytes", member("f", size=(64 << 20) + 1)),
    "too many bytes by links": (
        "bytes",
        member("f", data=bytes(1 << 20)) + b"".join(member(f"h{n}", LNK, link="f") for n in range(64)) + END,
    ),
}


@pytest.mark.parametrize("attack", REFUSED)
@pytest.mark.parametrize("compressed", [False, True])
def test_what_is_refused(attack: str, compressed: bool) -> None:
    """Each rule refuses all of the archive, a good member before it or not, and the error says which rule."""
    rule, raw = REFUSED[attack]
    alone = attack in ("no archive", "xz", "not a byte", "one byte")
    for whole in (raw,) if alone else (raw, member("first", data=b"x") + raw):
        with pytest.raises(TransferRefusedError) as caught:
            accept(gzip.compress(whole) if compressed else whole)
        assert caught.value.rule == rule, str(caught.value)
        assert caught.value.code == "transfer_refused"


GZIP = gzip.compress(member("f", data=b"content") + END)


@pytest.mark.parametrize(
    ("rule", "raw"),
    [
        pytest.param("truncated", GZIP[:-1], id="cut off in the checksum"),
        pytest.param("truncated", GZIP[:40], id="cut off in the data"),
        pytest.param("truncated", GZIP[:2], id="the magic alone"),
        pytest.param("malformed", GZIP + b"junk", id="something behind it"),
        pytest.param("malformed", GZIP[:-8] + bytes(8), id="a wrong checksum"),
        pytest.param("truncated", GZIP + b"\x1f", id="half a magic behind it"),
    ],
)
def test_a_gzip_stream_that_is_not_whole(rule: str, raw: bytes) -> None:
    """Cut off, damaged or followed by something: refused, whatever of the tar archive was there."""
    for piece in (1, 1 << 20):
        with pytest.raises(TransferRefusedError) as caught:
            accept(raw, piece=piece)
        assert caught.value.rule == rule


def test_gzip_in_several_members_and_padding() -> None:
    """Streams one after the other are one, as gzip has it, and zeros may fill a block."""
    raw = member("f", data=os.urandom(300_000)) + END
    whole = gzip.compress(raw[:1000]) + gzip.compress(raw[1000:]) + bytes(512)
    for piece in (1000, 1 << 20):
        assert accept(whole, piece=piece) == accept(raw)


def feed_all(reader: ArchiveReader, chunks: Iterator[bytes]) -> tuple[int, TransferRefusedError]:
    """How many bytes it took before it refused, and with what."""
    taken = 0
    for chunk in chunks:
        taken += len(chunk)
        try:
            reader.feed(chunk)
        except TransferRefusedError as error:
            return taken, error
    raise AssertionError("it took everything")


def endless_gzip(first: bytes) -> Iterator[bytes]:
    packer = zlib.compressobj(9, wbits=31)
    yield packer.compress(first)
    for _ in range(20_000):
        yield packer.compress(bytes(1 << 20))


def test_a_bomb_is_refused_early() -> None:
    """A thousand bytes out of one, without an end: refused after little input and with little memory."""
    tracemalloc.start()
    with contextlib.closing(ArchiveReader(Limits(bytes=64 << 30))) as reader:
        taken, refused = feed_all(reader, endless_gzip(member("zeros", size=32 << 30)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused.rule == "ratio"
    assert taken < 1 << 20
    assert peak < 32 << 20


def test_a_million_members_are_refused_at_the_limit() -> None:
    """Nothing of what follows the first member over the limit is read."""
    numbered = _Numbered()
    with contextlib.closing(ArchiveReader(Limits())) as reader:
        taken, refused = feed_all(reader, (numbered.header(number) for number in range(1_000_000)))
    assert refused.rule == "members"
    assert taken == 512 * (Limits.members + 1)


class _Numbered:
    """Headers that differ in seven digits, with a checksum that is right: a million of them in little time."""

    def __init__(self) -> None:
        self._block = bytearray(member("0000000"))

    def header(self, number: int) -> bytes:
        self._block[:7] = b"%07d" % number
        self._block[148:156] = b"        "
        self._block[148:156] = b"%06o\0 " % sum(self._block)
        return bytes(self._block)


def build(top: Path) -> None:
    (top / "d" / "e").mkdir(parents=True)
    (top / "d" / "f").write_bytes(os.urandom(100_000))
    (top / "empty").mkdir(mode=0o750)
    (top / ("n" * 120)).write_text("long name")
    (top / "x").write_text("run")
    (top / "x").chmod(0o6755)
    (top / "l").symlink_to("d/f")
    (top / "d" / "n\udcff").write_text("no UTF-8")


def packed(top: Path, **options: Any) -> bytes:
    with contextlib.closing(HostTree(top, Options(Limits()))) as tree:
        return b"".join(write_archive(tree, **options))


@pytest.mark.parametrize("compress", [False, True])
def test_what_is_written_is_read(tmp_path: Path, compress: bool) -> None:
    """The reader, and the standard library, find in the writer's archive what was in the tree."""
    build(tmp_path)
    raw = packed(tmp_path, compress=compress, uid=7, gid=8, root="top")
    found = accept(raw)
    assert found["top/d/f"] == ("file", 0o644, (tmp_path / "d" / "f").read_bytes())
    assert found["top/x"][1] == 0o755
    assert found["top/l"] == ("symlink", 0o777, "d/f")
    assert found["top/" + "n" * 120][2] == b"long name"
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        assert {info.name for info in archive} == {*found, "top"}
        assert {(info.uid, info.gid, info.mtime) for info in archive} == {(7, 8, 0)}


def test_the_same_tree_is_the_same_bytes(tmp_path: Path) -> None:
    """Times, owners and the order of making do not matter."""
    content = os.urandom(1000)
    for name, order in (("one", ("a", "b")), ("two", ("b", "a"))):
        for file in order:
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / file).write_bytes(content)
            os.utime(tmp_path / name / file, (len(name + file), 5 if file == "a" else 6))
    for options in ({}, {"compress": True}):
        assert packed(tmp_path / "one", **options) == packed(tmp_path / "two", **options)


def test_a_file_that_shrinks_while_it_is_written(tmp_path: Path) -> None:
    """Its header has been sent: OSError, not an archive that lies."""
    (tmp_path / "f").write_bytes(bytes(100))
    with contextlib.closing(HostTree(tmp_path, Options(Limits()))) as tree:
        (tmp_path / "f").write_bytes(b"x")
        with pytest.raises(OSError, match="shorter"):
            b"".join(write_archive(tree))


NAMES = st.one_of(
    st.sampled_from(["..", "/", "a/..", "a/../b", "C:", "a\\b", ".", "a", "a/b", "b", "l", "l/x", "//a", "./a"]),
    st.text(st.sampled_from("ab./\\:"), max_size=12),
)
MEMBERS = st.tuples(NAMES, st.sampled_from([REG, DIR, SYM, LNK, tarfile.FIFOTYPE, b"Z"]), NAMES, st.binary(max_size=3))


@given(st.lists(MEMBERS, max_size=6))
def test_what_is_accepted_is_safe_for_others_too(members: list[tuple[str, bytes, str, bytes]]) -> None:
    """Whatever members come together, what passes here passes the standard library's filter for foreign archives as well."""
    raw = b"".join(member(n, k, d if k == REG else b"", link) for n, k, link, d in members) + END
    try:
        found = accept(raw)
    except TransferRefusedError:
        return
    if hasattr(tarfile, "data_filter"):  # Python 3.11.4
        with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
            for info in archive:
                tarfile.data_filter(info, "/nowhere/at/all")
    for path, (kind, _, target) in found.items():
        assert path == os.path.normpath(path)
        assert not path.startswith("/")
        assert ".." not in path.split("/")
        if kind == "symlink":
            assert (
                os.path.commonpath(["/top", os.path.normpath(os.path.join("/top", os.path.dirname(path), target))]) == "/top"
            )


@given(st.binary(max_size=2000), st.integers(0, 1500))
def test_arbitrary_bytes(noise: bytes, at: int) -> None:
    """Noise, and a good archive with noise in it, is accepted or TransferRefusedError, nothing else."""
    good = meta(b"x", pax(path="a/b", size="3")) + member("f", data=b"abc") + END
    for raw in (noise, good[:at] + noise + good[at + len(noise) :], gzip.compress(good)[: at % 100] + noise):
        with contextlib.suppress(TransferRefusedError):
            accept(raw)
