"""The host's side of a transfer: what an upload reads, and where a download lands. Blocking; by descriptor only."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from isandbox.files.beneath import Beneath
from isandbox.files.limits import Limits, Options, Unsafe
from isandbox.files.names import Kind, NamesHeld, check_component, check_depth, leads_out, refuse
from isandbox.policy import check_path

PIECE = 1 << 20
_SINGLE = "file"


@dataclass(frozen=True, slots=True)
class Entry:
    """One member of a tree. ``path`` is relative and normal; the empty one is the tree itself, or a single file."""

    path: str
    kind: Kind
    mode: int
    """Permission bits for what is made of it."""
    size: int = 0
    target: str = ""
    """What a link says."""
    offset: int = 0
    """In an accepted archive's contents."""


def permissions(mode: int, kind: Kind) -> int:
    """Nine bits; a directory's owner can always use it, else nobody could fill or remove it."""
    return mode & 0o777 | (0o700 if kind == "directory" else 0)


@dataclass(slots=True)
class Plan:
    """Entries of a tree, directories before those in them."""

    limits: Limits
    unsafe: Unsafe
    entries: list[Entry] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    bytes: int = 0
    _count: int = 0
    """Of members; the tree itself is none."""
    _names: NamesHeld = field(default_factory=NamesHeld)

    def add(self, entry: Entry) -> None:
        self._count_one(entry.path, entry.target)
        check_depth(entry.path.split("/"), entry.path, self.limits)
        if entry.kind == "symlink" and (why := leads_out(entry.path, entry.target)) is not None:
            self._turn_away(entry.path, "link", f"{why}: {entry.target[:200]!r}")
            return
        self.entries.append(entry)
        self.bytes += entry.size
        if self.bytes > self.limits.bytes:
            refuse("bytes", entry.path, f"more than {self.limits.bytes} bytes")

    def add_special(self, path: str) -> None:
        """A device, FIFO or socket: refuses all because of this one, or leaves it out."""
        self._count_one(path)
        self._turn_away(path, "special", "neither file, directory nor link")

    def _turn_away(self, path: str, rule: str, why: str) -> None:
        if self.unsafe == "refuse":
            refuse(rule, path, why)
        self.skipped.append(path)

    def _count_one(self, *texts: str) -> None:
        self._names.add(*texts)
        self._count += 1
        if self._count > self.limits.members:
            refuse("members", "", f"more than {self.limits.members} members")

    def of_kind(self, kind: Kind) -> list[Entry]:
        return [entry for entry in self.entries if entry.kind == kind]


class Content:
    """``size`` bytes of a file from ``offset``; at most that many, however it grows. Takes ``fd`` over."""

    def __init__(self, fd: int, offset: int, size: int) -> None:
        self._fd, self._at, self._end = fd, offset, offset + size

    def read(self) -> bytes:
        """The next piece; empty at the end."""
        data = os.pread(self._fd, min(PIECE, self._end - self._at), self._at)
        self._at += len(data)
        return data

    def close(self) -> None:
        os.close(self._fd)


class HostTree:
    """A file or directory of the host that is uploaded. No link in it is followed, whatever changes meanwhile."""

    def __init__(self, source: str | os.PathLike[str], options: Options) -> None:
        """Opens and lists all of it. Raises `TransferRefusedError` and `OSError`."""
        path = check_path(source, "source")
        self.plan = Plan(options.limits, options.unsafe)
        found = os.stat(path)
        self._single = -1
        self._top: Beneath | None = None
        try:
            if stat.S_ISDIR(found.st_mode):
                self._top = Beneath.open(path)
                self._scan(self._top)
            else:
                self._open_single(path)
        except BaseException:
            self.close()
            raise

    def _open_single(self, path: str) -> None:
        self._single = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        found = os.fstat(self._single)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        self.plan.add(Entry("", "file", permissions(found.st_mode, "file"), found.st_size))

    def _scan(self, top: Beneath) -> None:
        self.plan.entries.append(Entry("", "directory", permissions(os.fstat(top.fd).st_mode, "directory")))
        waiting = [""]
        while waiting:
            directory = waiting.pop()
            below = []
            for name, found in top.list(directory or ".", most=self.plan.limits.members + 1):
                path = f"{directory}/{name}" if directory else name
                if stat.S_ISDIR(found.st_mode):
                    self.plan.add(Entry(path, "directory", permissions(found.st_mode, "directory")))
                    below.append(path)
                elif stat.S_ISREG(found.st_mode):
                    self.plan.add(Entry(path, "file", permissions(found.st_mode, "file"), found.st_size))
                elif stat.S_ISLNK(found.st_mode):
                    self.plan.add(Entry(path, "symlink", 0o777, target=top.read_link(path)))
                else:
                    self.plan.add_special(path)
            waiting.extend(reversed(below))

    def open(self, entry: Entry) -> Content:
        """Raises `OSError` when it is no regular file any more, ELOOP when a link leads there now."""
        fd = os.dup(self._single) if self._top is None else self._top.open_file(entry.path)
        return Content(fd, 0, entry.size)

    def close(self) -> None:
        if self._top is not None:
            self._top.close()
        fd, self._single = self._single, -1
        if fd >= 0:
            os.close(fd)


class Landing:
    """Where a download is put together: a directory beside ``target`` that only the caller can enter, until `commit`."""

    def __init__(self, target: str | os.PathLike[str], *, tree: bool) -> None:
        """Raises `FileExistsError` for a tree where something is, `IsADirectoryError` for a file where a directory is."""
        path = os.path.abspath(check_path(target, "target"))
        directory, self._name = os.path.split(path)
        if not self._name:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._path, self._tree = path, tree
        self._hidden = f".isandbox-{secrets.token_hex(8)}"
        self._reserve: list[int] = []
        with contextlib.ExitStack() as undo:
            self._parent = undo.enter_context(Beneath.open(directory))
            self._check_target()
            undo.callback(self._remove_hidden)
            try:
                self._parent.make_dir(self._hidden, 0o700)
            except OSError as error:  # nobody has asked for a file of that name
                raise OSError(error.errno, error.strerror, directory) from error
            self._top = undo.enter_context(Beneath(self._parent.open_directory(self._hidden)))
            undo.callback(self._close_reserve)
            for _ in range(2):  # what `close` needs, to do its work also when descriptors are short
                self._reserve.append(os.dup(self._top.fd))
            undo.pop_all()

    def _check_target(self) -> None:
        try:
            found = self._parent.stat(self._name)
        except FileNotFoundError:
            return
        if self._tree:
            raise FileExistsError(errno.EEXIST, "a tree is not downloaded over what is there", self._path)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self._path)

    def _inside(self, path: str) -> str:
        return f"{_SINGLE}/{path}" if path else _SINGLE

    def make_dirs(self, plan: Plan) -> None:
        """The umask applies to modes."""
        for entry in plan.of_kind("directory"):
            self._top.make_dir(self._inside(entry.path), entry.mode)

    def make_links(self, plan: Plan) -> None:
        """Last, so that nothing can be written through one."""
        for entry in plan.of_kind("symlink"):
            self._top.make_link(self._inside(entry.path), entry.target)

    def create(self, path: str, mode: int) -> Growing:
        """The umask applies to ``mode``: the kernel does that when the file is made."""
        return Growing(self._top.create_file(self._inside(path), mode))

    def put(self, path: str, mode: int, data: bytes) -> None:
        """A whole small file."""
        with self.create(path, mode) as file:
            file.write(data)

    def commit(self) -> None:
        """Make it visible at once. Raises as the constructor does, when something has come there meanwhile."""
        self._check_target()
        # From the descriptor: whoever may write to the parent could have put another directory where ours was.
        os.rename(_SINGLE, self._name, src_dir_fd=self._top.fd, dst_dir_fd=self._parent.fd)

    def close(self) -> None:
        """Remove what was not committed."""
        self._close_reserve()
        try:
            self._remove()
        except KeyboardInterrupt:
            self._remove()
            raise
        finally:
            self._top.close()
            self._parent.close()

    def _remove(self) -> None:
        self._top.clear()
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(self._parent.stat(self._hidden), os.fstat(self._top.fd)):
                self._parent.remove(self._hidden)

    def _remove_hidden(self) -> None:
        with contextlib.suppress(OSError):
            self._parent.remove(self._hidden)

    def _close_reserve(self) -> None:
        while self._reserve:
            os.close(self._reserve.pop())


class Growing:
    """A new file that is written to its end."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._fd, left) :]

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def children(directory: str, names: Iterator[str]) -> Iterator[str]:
    """Paths of what a listing of the sandbox names. Raises `TransferRefusedError` for a name that is a path."""
    for name in names:
        path = f"{directory}/{name}" if directory else name
        check_component(name, path)
        yield path
