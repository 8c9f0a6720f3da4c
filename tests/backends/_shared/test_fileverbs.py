"""File verbs: requests that are checked, and answers that are not believed."""

from __future__ import annotations

import errno
import os
import stat
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox import ConfigurationError, FileInfo
from isandbox._verbs import check_data
from isandbox_backends._shared import fileverbs
from isandbox_backends._shared.protocol import FileOperation, ProtocolError


def entry(name: bytes, mode: int = stat.S_IFREG | 0o644, size: int = 3, target: bytes = b"") -> bytes:
    raw = struct.pack("<IQqII", mode, size, 1_500_000_000, 1000, 1001) + name + b"\0" + target + b"\0"
    return struct.pack("<I", len(raw)) + raw


@pytest.mark.parametrize(
    ("call", "operation", "argv"),
    [
        (fileverbs.read("a", 0, None), FileOperation.READ, ("a", "0", str(fileverbs.READ_CEILING + 1))),
        (fileverbs.read("a", 5, 6), FileOperation.READ, ("a", "5", "6")),
        (fileverbs.write("a", b"x", None, False), FileOperation.WRITE, ("a", "", "")),
        (fileverbs.write("a", b"x", 0o640, True), FileOperation.WRITE, ("a", "640", "append")),
        (fileverbs.stat_entry("a"), FileOperation.STAT, ("a",)),
        (fileverbs.list_dir("a"), FileOperation.LIST, ("a",)),
        (fileverbs.read_chunks("a", 5, None), FileOperation.READ, ("a", "5", "")),
        (fileverbs.read_chunks("a", 0, 6), FileOperation.READ, ("a", "0", "6")),
        (fileverbs.write_chunks("a", 0o600, True), FileOperation.WRITE, ("a", "600", "append")),
        (fileverbs.make_dir("a", True, None), FileOperation.MKDIR, ("a", "parents", "")),
        (fileverbs.make_dir("a", False, 0o711), FileOperation.MKDIR, ("a", "", "711")),
        (fileverbs.make_link("a", "../b"), FileOperation.SYMLINK, ("a", "../b")),
        (fileverbs.remove("a", False), FileOperation.REMOVE, ("a", "")),
        (fileverbs.rename("a", "b"), FileOperation.RENAME, ("a", "b")),
    ],
)
def test_requests(call: Any, operation: FileOperation, argv: tuple[str, ...]) -> None:
    """Each verb is an operation with its arguments as texts."""
    assert (call.operation, call.spec.argv, call.path) == (operation, argv, "a")


@pytest.mark.parametrize(
    ("verb", "arguments", "word"),
    [
        (fileverbs.read, ("a", -1, None), "offset"),
        (fileverbs.read, ("a", True, None), "offset"),
        (fileverbs.read, ("a", 1.0, None), "offset"),
        (fileverbs.read, ("a", 1 << 64, None), "offset"),
        (fileverbs.read, ("a", 0, 1 << 63), "limit"),
        (fileverbs.read, ("a", 0, "5"), "limit"),
        (fileverbs.read, ("", 0, None), "empty"),
        (fileverbs.read, ("a\0", 0, None), "NUL"),
        (fileverbs.read, ("x" * 5000, 0, None), "5000"),
        (fileverbs.read, (b"a", 0, None), "bytes"),
        (fileverbs.write, ("a", b"", 0o1000, False), "mode"),
        (fileverbs.write, ("a", b"", 0o4755, False), "mode"),
        (fileverbs.write, ("a", b"", -1, False), "mode"),
        (fileverbs.write, ("a", b"", True, False), "mode"),
        (fileverbs.write, ("a", b"", "644", False), "mode"),
        (fileverbs.write, ("a", "text", None, False), "str"),
        (fileverbs.write, ("a", 5, None, False), "int"),
        (fileverbs.write, ("a", None, None, False), "NoneType"),
        (fileverbs.read_chunks, ("a", -1, None), "offset"),
        (fileverbs.read_chunks, ("a", None, None), "offset"),
        (fileverbs.read_chunks, ("a", 0, 1.5), "limit"),
        (fileverbs.write_chunks, ("a", 0o7777, False), "mode"),
        (fileverbs.write_chunks, ("", None, False), "empty"),
        (fileverbs.make_dir, ("a", True, 0o2755), "mode"),
        (fileverbs.make_link, ("a", ""), "target"),
        (fileverbs.make_link, ("a", "b\0c"), "target"),
        (fileverbs.rename, ("a", ""), "target"),
        (fileverbs.rename, ("a", "\0"), "target"),
    ],
)
def test_requests_that_are_not_valid(verb: Any, arguments: tuple[Any, ...], word: str) -> None:
    """Refused before anything is sent: a text as data would have left the helper waiting for its input."""
    with pytest.raises(ConfigurationError, match=word):
        verb(*arguments)


@pytest.mark.parametrize("data", [b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_data_is_anything_of_bytes(data: Any) -> None:
    """Whatever holds bytes is sent as them."""
    assert fileverbs.write("a", data, None, False).spec.stdin == b"abc"


@pytest.mark.parametrize("data", ["text", 5, None, [1, 2]])
def test_a_chunk_is_bytes(data: Any) -> None:
    """A source that gives anything else is a ConfigurationError, not a helper that waits."""
    with pytest.raises(ConfigurationError, match="bytes"):
        check_data(data)


def test_what_goes_into_memory_is_bounded() -> None:
    """Each verb says how much of an answer it takes; a stream keeps nothing and waits as long as its other end does."""
    assert fileverbs.read("a", 0, 7).ceiling == 7
    assert fileverbs.read("a", 0, None).ceiling == fileverbs.READ_CEILING + 1
    assert fileverbs.list_dir("a").ceiling == fileverbs.LIST_CEILING
    assert (fileverbs.stat_entry("a").ceiling or 0) < 1 << 20
    stream = fileverbs.read_chunks("a", 0, None)
    assert (stream.ceiling, stream.spec.max_output, stream.spec.timeout) == (None, 0, None)
    feed = fileverbs.write_chunks("a", None, False)
    assert (feed.spec.stdin, feed.spec.timeout) == ("pipe", None)


def test_a_listing() -> None:
    """Entries come sorted, with the directory joined to their names."""
    raw = (
        entry(b"b")
        + entry(b"a\xff", stat.S_IFLNK | 0o777, target=b"to\xfe")
        + entry(b"c", stat.S_IFDIR)
        + entry(b"d", stat.S_IFIFO)
    )
    found = fileverbs.list_dir("dir/").parse(raw)
    assert [(e.path, e.kind, e.target) for e in found] == [
        ("dir/a\udcff", "symlink", "to\udcfe"), ("dir/b", "file", None), ("dir/c", "directory", None), ("dir/d", "other", None),
    ]  # fmt: skip
    assert fileverbs.list_dir(".").parse(entry(b"x"))[0].path == "x"
    assert fileverbs.list_dir("/").parse(entry(b"x"))[0].path == "/x"
    assert fileverbs.list_dir("/").parse(b"") == []


def test_one_entry() -> None:
    """stat answers with the path that was asked for."""
    info = fileverbs.stat_entry("dir/x/").parse(entry(b""))
    assert info == FileInfo("dir/x/", "x", "file", 3, 0o644, 1.5, 1000, 1001)
    assert fileverbs.stat_entry("/").parse(entry(b"", stat.S_IFDIR | 0o755)).name == "/"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\1", id="half a length"),
        pytest.param(b"\xff\xff\xff\xff", id="a giant length"),
        pytest.param(struct.pack("<I", 100) + bytes(50), id="cut off"),
        pytest.param(struct.pack("<I", 0), id="an entry of nothing"),
        pytest.param(struct.pack("<I", 27) + bytes(27), id="an entry that is too short"),
        pytest.param(entry(b"a") + b"x", id="bytes after the last entry"),
        pytest.param(entry(b""), id="no name"),
        pytest.param(entry(b".."), id="the parent"),
        pytest.param(entry(b"."), id="itself"),
        pytest.param(entry(b"../../etc/passwd"), id="a path for a name"),
    ],
)
def test_listings_that_are_none(raw: bytes) -> None:
    """A hostile answer is a ProtocolError, and no name in it leads out of the directory."""
    with pytest.raises(ProtocolError):
        fileverbs.list_dir("dir").parse(raw)


@pytest.mark.parametrize("raw", [b"", entry(b"") * 2, b"\0" * 3])
def test_a_stat_is_exactly_one_entry(raw: bytes) -> None:
    """None and two are both wrong."""
    with pytest.raises(ProtocolError):
        fileverbs.stat_entry("x").parse(raw)


@pytest.mark.parametrize(
    "call", [fileverbs.write("a", b"", None, False), fileverbs.remove("a", True), fileverbs.rename("a", "b")]
)
def test_a_verb_without_an_answer_gets_none(call: Any) -> None:
    """Bytes where nothing was asked for are not ignored."""
    assert call.parse(b"") is None
    with pytest.raises(ProtocolError):
        call.parse(b"x")


@given(st.binary(max_size=300))
def test_arbitrary_answers(raw: bytes) -> None:
    """Any bytes are entries or a ProtocolError, nothing else."""
    for call in (fileverbs.list_dir("d"), fileverbs.stat_entry("d")):
        try:
            parsed = call.parse(raw)
        except ProtocolError:
            continue
        assert all(isinstance(entry, FileInfo) for entry in (parsed if isinstance(parsed, list) else [parsed]))


@given(
    st.lists(
        st.binary(min_size=1, max_size=20).filter(lambda n: not set(n) & set(b"\0/") and n not in (b".", b"..")), unique=True
    )
)
def test_every_name_the_kernel_allows_comes_through(names: list[bytes]) -> None:
    """Names are bytes on disk; each is found again by the text that stands for it."""
    found = fileverbs.list_dir("d").parse(b"".join(map(entry, names)))
    assert {os.fsencode(e.name) for e in found} == set(names)


def test_the_paths_of_a_listing_are_bounded() -> None:
    """Every entry repeats its directory: a full one that is deep is EFBIG long before it takes a hundred times its answer."""
    raw = entry(b"n" * 8) * 30_000
    assert len(fileverbs.list_dir("d").parse(raw)) == 30_000
    deep = "/".join(["\U0001f600" + "n" * 240] * 15)
    with pytest.raises(OSError, match="paths") as caught:
        fileverbs.list_dir(deep).parse(raw)
    assert caught.value.errno == errno.EFBIG
