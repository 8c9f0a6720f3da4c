"""The structure of a tar archive, without any I/O: bytes go in, in any pieces; entries and file contents come out.

Nothing is believed: each length is bounded before it is used, and what two readers could understand in two ways is refused.
The standard library parses one header block; its stream reader is not used, as it believes sizes and keeps what it is told to.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from isandbox.files.host import Entry, Plan, permissions
from isandbox.files.names import Table, member_path, refuse

BLOCK = 512
# Bytes of one extended header (a path has 4,096 at most), and of all of an archive.
_META_MAX, _META_TOTAL = 64 << 10, 64 << 20
# Zeros after the end: archivers fill the last record, of 10 KiB unless told otherwise.
_PADDING_MAX = 1 << 20
# What the size field of a ustar header can say. Past it archivers write it into an extended header.
_SIZE_FIELD_MAX = 0o77777777777
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)
_META = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
# Octal digits between spaces and NULs, or the GNU form: what follows a first byte of 128 or 255. Python's parser also takes
# signs, "0o" and underscores, which others read as another number.
_NUMBER = re.compile(rb" *[0-7]*[ \0]*|[\x80\xff].*", re.DOTALL)
_MODE, _SIZE, _MAGIC, _PREFIX = slice(100, 108), slice(124, 136), slice(257, 263), 345

T = TypeVar("T")


class TarParser:
    """Fills ``plan``; contents of files go to ``sink``, one after the other. Raises `TransferRefusedError`."""

    def __init__(self, plan: Plan, sink: Callable[[memoryview], object]) -> None:
        self._plan, self._sink = plan, sink
        self._table = Table(plan.limits)
        self._files: dict[str, Entry] = {}
        self._directories: dict[str, int] = {}
        """Where in the plan those are that have been written down."""
        self._buffer = bytearray()
        self._body = self._padding = 0
        self._meta: tuple[bytes, int] | None = None
        """Type and size of an extended header whose content is being collected."""
        self._over: dict[str, str] = {}
        """What extended headers say about the next member: path, linkpath, size."""
        self._offset = self._meta_total = self._trailing = 0
        self._zeros = 0
        """Blocks of zeros so far; two are the end."""

    def feed(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self._zeros >= 2:
                return self._after_the_end(view)
            if self._body or self._padding:
                view = self._take_body(view)
                continue
            missing = self._wanted() - len(self._buffer)
            self._buffer += view[:missing]
            view = view[missing:]
            if len(self._buffer) == self._wanted():
                block = bytes(self._buffer)
                self._buffer.clear()
                if self._meta is None:
                    self._header(block)
                else:
                    self._take_meta(block)
        return None

    def finish(self) -> None:
        """No more comes. Raises unless the archive had its end."""
        if self._zeros < 2:
            refuse("truncated", "", "the archive has no end")
        self._plan.entries.sort(key=lambda entry: entry.path)  # directories before those in them

    def _wanted(self) -> int:
        return BLOCK if self._meta is None else _padded(self._meta[1])

    def _after_the_end(self, view: memoryview) -> None:
        self._trailing += len(view)
        if self._trailing > _PADDING_MAX or any(view):
            refuse("malformed", "", "something follows the archive's end")

    def _take_body(self, view: memoryview) -> memoryview:
        body = view[: self._body]
        if body:
            self._sink(body)
            self._body -= len(body)
        rest = view[len(body) :]
        skipped = min(self._padding, len(rest)) if not self._body else 0
        self._padding -= skipped
        return rest[skipped:]

    def _header(self, block: bytes) -> None:
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            if any(block):
                refuse("malformed", "", f"no tar header where one must be ({error})")
            if self._over:
                refuse("truncated", "", "an extended header of nothing")
            self._zeros += 1
            return
        if self._zeros:
            refuse("malformed", info.name, "a member after the archive's end")
        self._check_one_meaning(block, info)
        if info.type in _META:
            self._begin_meta(info)
        else:
            self._member(info)

    def _check_one_meaning(self, block: bytes, info: tarfile.TarInfo) -> None:
        if not (_NUMBER.fullmatch(block[_SIZE]) and _NUMBER.fullmatch(block[_MODE])):
            refuse("malformed", info.name, "a size or mode that is no number")
        if block[_PREFIX] and block[_MAGIC] != tarfile.POSIX_MAGIC[:6]:
            refuse("malformed", info.name, "a name with a prefix in a format that has none")
        if info.isdir() and block[156:157] == tarfile.AREGTYPE and "path" in self._over:
            refuse("malformed", info.name, "a directory by one of its names, a file by the other")

    def _begin_meta(self, info: tarfile.TarInfo) -> None:
        self._meta_total += max(0, info.size)
        if not 0 < info.size <= _META_MAX or self._meta_total > _META_TOTAL:
            refuse("malformed", info.name, f"an extended header of {info.size} bytes")
        self._meta = (info.type, info.size)

    def _take_meta(self, block: bytes) -> None:
        kind, size = self._meta or (b"", 0)
        self._meta = None
        if kind == tarfile.XHDTYPE:
            found = _pax(block[:size])
        elif kind == tarfile.XGLTYPE:
            if _pax(block[:size]):
                refuse("malformed", "", "a global header that names or measures members")
            return
        else:
            found = {"path" if kind == tarfile.GNUTYPE_LONGNAME else "linkpath": _long_text(block[:size])}
        for key, value in found.items():
            if key in self._over:
                refuse("malformed", value, f"two extended headers give a {key}")
            self._over[key] = value

    def _member(self, info: tarfile.TarInfo) -> None:
        over, self._over = self._over, {}
        name = over.get("path", info.name)
        size = _size(info, over, name)
        path = member_path(name, self._plan.limits)
        if info.isdir() or info.issym() or info.islnk():
            if size:
                refuse("malformed", name, "a directory or link with a content")
        elif info.type not in _FILES:
            refuse("special", name, f"a member of type {info.type!r}")
        if info.isdir():
            if path:
                self._directory(path, permissions(info.mode, "directory"))
            return
        if not path or name.endswith("/"):
            refuse("name", name, "a directory's name for something else")
        self._table.add(path, "symlink" if info.issym() else "file")
        target = over.get("linkpath", info.linkname)
        if info.issym():
            self._plan.add(Entry(path, "symlink", 0o777, target=target))
        elif info.islnk():
            self._file(replace(self._linked(name, target), path=path))
        else:
            self._file(Entry(path, "file", permissions(info.mode, "file"), size, offset=self._offset))
            self._offset += size
            self._body, self._padding = size, _padded(size) - size

    def _directory(self, path: str, mode: int) -> None:
        """It may come again, and after what is in it; the last mode is the one that it gets from other readers too."""
        self._table.add(path, "directory")
        at = self._directories.setdefault(path, len(self._plan.entries))
        if at < len(self._plan.entries):
            self._plan.entries[at] = replace(self._plan.entries[at], mode=mode)
        else:
            self._plan.add(Entry(path, "directory", mode))

    def _file(self, entry: Entry) -> None:
        self._plan.add(entry)
        self._files[entry.path] = entry

    def _linked(self, name: str, target: str) -> Entry:
        """The earlier file that a hard link is another name of; it becomes a file of its own."""
        found = self._files.get(member_path(target, self._plan.limits))
        return found if found is not None else refuse("link", name, f"a hard link to no earlier file: {target[:200]!r}")


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _size(info: tarfile.TarInfo, over: dict[str, str], name: str) -> int:
    """Two places can give it; where both do they agree, or the older one says nothing or all that it can."""
    size = info.size
    if "size" in over:
        text = over["size"]
        if not (text.isascii() and text.isdigit() and len(text) <= 20):
            refuse("malformed", name, "a size that is no number")
        if size not in (0, int(text)) and size < _SIZE_FIELD_MAX:
            refuse("malformed", name, "two sizes")
        size = int(text)
    if size < 0:
        refuse("malformed", name, "a size below nothing")
    return size


def _long_text(payload: bytes) -> str:
    """GNU's long names end with a NUL."""
    text, _, rest = payload.partition(b"\0")
    if any(rest):
        refuse("malformed", "", "a long name with something behind it")
    return text.decode("utf-8", "surrogateescape")


def _pax(payload: bytes) -> dict[str, str]:
    """The records that matter here: ``length key=value newline``, the length that of the whole record."""
    found: dict[str, str] = {}
    while payload:
        digits, space, _ = payload[:8].partition(b" ")
        length = int(digits) if digits.isdigit() and space else 0
        record = payload[:length]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if not key or not equals or len(record) != length or record[-1:] != b"\n":
            refuse("malformed", "", "an extended header that does not parse")
        payload = payload[length:]
        if key.startswith(b"GNU.sparse"):
            refuse("special", "", "a sparse file")
        name = key.decode("utf-8", "replace")
        if name not in ("path", "linkpath", "size"):
            continue  # times, owners, comments
        if not value or name in found:
            refuse("malformed", "", f"an extended header with no {name}, or two")
        found[name] = value.decode("utf-8", "surrogateescape")
    return found
