"""Archives that two readers would understand in two ways, and those that are large in another way than by their bytes."""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile
import zlib

import pytest

from isandbox import TransferRefusedError
from isandbox.files.archive.reader import ArchiveReader
from isandbox.files.limits import Limits

END = bytes(1024)
GNU, OLD = b"ustar  \0", bytes(8)


def header(
    name: bytes = b"f", *, kind: bytes = b"0", size: bytes = b"", mode: bytes = b"0000644\0", magic: bytes = b"ustar\x0000",
    prefix: bytes = b"", link: bytes = b"",
) -> bytes:  # fmt: skip
    """A header block as no archiver need have written it."""
    block = bytearray(512)
    fields = {0: name, 100: mode, 124: size, 156: kind, 157: link, 257: magic, 345: prefix, 148: b" " * 8}
    for at, value in fields.items():
        block[at : at + len(value)] = value
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def pax(record: bytes) -> bytes:
    return header(kind=b"x", size=b"%011o\0" % len(record)) + record.ljust(512, b"\0")


def accept(raw: bytes, limits: Limits | None = None) -> dict[str, tuple[str, int, int]]:
    """Path -> kind, mode, size."""
    with contextlib.closing(ArchiveReader(limits or Limits())) as reader:
        reader.feed(raw)
        return {entry.path: (entry.kind, entry.mode, entry.size) for entry in reader.accepted().plan.entries}


@pytest.mark.parametrize("size", [b"00000000010\0", b"         10 ", b"10\0", b"\x80" + bytes(10) + b"\x08", b"000000000010"])
def test_a_size_in_the_forms_that_archivers_write(size: bytes) -> None:
    """Octal with zeros, spaces or nothing in front, to the field's end or not, and the GNU binary form."""
    assert accept(header(size=size) + bytes(512) + END) == {"f": ("file", 0o644, 8)}


@pytest.mark.parametrize(
    "size", [b"1_0\0", b"0o000000010\0", b"+0000000010\0", b"\t10\0", b"\x0b10 ", b"10\x0010\0", b"10 10\0", b"8\0", b"10x\0"]
)
def test_a_number_that_others_read_as_another(size: bytes) -> None:
    """What Python's parser takes for a number and other readers do not, or the other way round, is refused: size and mode."""
    for block in (header(size=size), header(mode=size[:8])):
        with pytest.raises(TransferRefusedError) as caught:
            accept(block + bytes(512) + END)
        assert caught.value.rule == "malformed"


def test_a_prefix_is_a_part_of_the_name_in_one_format_only() -> None:
    """POSIX archives have one; in the same bytes others keep times, which are no directory."""
    assert list(accept(header(prefix=b"d") + END)) == ["d/f"]
    for magic in (GNU, OLD):
        assert list(accept(header(magic=magic) + END)) == ["f"]
        with pytest.raises(TransferRefusedError) as caught:
            accept(header(magic=magic, prefix=b"14717236413\0") + END)
        assert caught.value.rule == "malformed"


def test_a_directory_by_one_name_and_a_file_by_the_other() -> None:
    """Of the oldest kind a slash makes a directory: no answer when only one of two names has it."""
    assert accept(header(b"d/", kind=b"\0") + END) == {"d": ("directory", 0o744, 0)}
    with pytest.raises(TransferRefusedError) as caught:
        accept(pax(b"10 path=f\n") + header(b"d/", kind=b"\0") + END)
    assert caught.value.rule == "malformed"


def test_the_last_mode_of_a_directory_holds() -> None:
    """As other readers have it: written down after what is in it, or twice. A private directory stays private."""
    private = header(b"d/", kind=b"5", mode=b"0000700\0")
    assert accept(header(b"d/f") + private + END) == {"d": ("directory", 0o700, 0), "d/f": ("file", 0o644, 0)}
    assert accept(header(b"d/", kind=b"5", mode=b"0000755\0") + private + END) == {"d": ("directory", 0o700, 0)}


@pytest.mark.parametrize("packed", [False, True])
def test_hard_links_are_no_way_around_the_ratio(packed: bool) -> None:
    """Each becomes a file: few bytes that become many are a bomb, by whatever means."""
    data = bytes(range(256)) * 4096
    file = header(size=b"%011o\0" % len(data)) + data
    links = [header(b"l%d" % number, kind=b"1", link=b"f") for number in range(400)]
    few, many = file + b"".join(links[:10]) + END, file + b"".join(links) + END
    assert len(accept(few)) == 11
    with pytest.raises(TransferRefusedError) as caught:
        accept(gzip.compress(many, 1) if packed else many)
    assert caught.value.rule == "ratio"
    assert len(accept(many, Limits(ratio=1000))) == 401


@pytest.mark.parametrize("idle", ["empty streams", "zeros", "a comment"])
def test_input_that_unpacks_to_nothing_has_an_end(idle: str) -> None:
    """A stream could else be read for ever: bounded, and a little of it is accepted."""
    if idle == "empty streams":
        piece = zlib.compressobj(wbits=31).flush() * 1000
        start = b""
    elif idle == "zeros":
        piece, start = bytes(64 << 10), gzip.compress(END)
    else:
        piece, start = b"c" * (64 << 10), b"\x1f\x8b\x08\x10" + bytes(6)
    with contextlib.closing(ArchiveReader(Limits())) as reader:
        reader.feed(start)
        reader.feed(piece)
        with pytest.raises(TransferRefusedError) as caught:  # noqa: PT012 - which piece does not matter
            for _ in range(200):
                reader.feed(piece)
        assert caught.value.rule == "malformed"


def test_the_standard_library_agrees_on_what_is_accepted() -> None:
    """The header that these tests make is one: another reader finds the same name, size and mode."""
    raw = header(b"name", size=b"00000000010\0", prefix=b"d") + bytes(512) + END
    with tarfile.open(fileobj=io.BytesIO(raw)) as other:
        found = {info.name: ("file", info.mode, info.size) for info in other}
    assert accept(raw) == found
