"""A tree as a tar stream: the same bytes for the same tree, whoever makes them and when."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from isandbox._text import plain
from isandbox.files.archive.tar import BLOCK

if TYPE_CHECKING:
    from isandbox.files.host import Content, Entry, Plan

_TYPES = {"file": tarfile.REGTYPE, "directory": tarfile.DIRTYPE, "symlink": tarfile.SYMTYPE}


class Tree(Protocol):
    """`HostTree` and `Archive` are such."""

    plan: Plan

    def open(self, entry: Entry) -> Content: ...


def write_archive(
    tree: Tree, *, root: str = "", uid: int = 0, gid: int = 0, mtime: int = 0, compress: bool = False
) -> Iterator[bytes]:
    """Chunks of a tar stream (pax), gzip with ``compress``; never more than a piece of a file in memory.

    Members are sorted by path, below ``root`` when one is given, all of one owner and time. No link is followed. Raises
    `OSError` when a file changes its size meanwhile: a header has been written by then, and the stream is of no use.
    """
    plain = _members(tree, root, uid, gid, mtime)
    yield from _gzip(plain) if compress else plain


def _members(tree: Tree, root: str, uid: int, gid: int, mtime: int) -> Iterator[bytes]:
    for entry in sorted(tree.plan.entries, key=lambda entry: entry.path):
        name = "/".join(part for part in (root, entry.path) if part)
        if not name:
            continue  # the directory itself, which the receiver has
        yield _header(entry, name, uid, gid, mtime)
        if entry.kind == "file":
            yield from _content(tree, entry, name)
    yield bytes(2 * BLOCK)


def _header(entry: Entry, name: str, uid: int, gid: int, mtime: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size = _TYPES[entry.kind], entry.mode, entry.size
    info.linkname, info.uid, info.gid, info.mtime = entry.target, uid, gid, mtime
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _content(tree: Tree, entry: Entry, name: str) -> Iterator[bytes]:
    content = tree.open(entry)
    try:
        left = entry.size
        while data := content.read():
            left -= len(data)
            yield data
        if left:
            raise OSError(f"{plain(name)}: it became shorter while it was read")
        yield bytes(-entry.size % BLOCK)
    finally:
        content.close()


def _gzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(wbits=31)  # without a name and a time in its header
    for chunk in chunks:
        if packed := packer.compress(chunk):
            yield packed
    yield packer.flush()
