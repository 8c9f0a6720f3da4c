# Made by scripts/unasync.py from isandbox/files/comfort.py: change that one.
"""Comfort over the port's file verbs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from isandbox.command import check_input
from isandbox.errors import ConfigurationError
from isandbox.files.limits import Limits, Options

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Callable
    from typing import BinaryIO

    from isandbox.files.limits import Unsafe
    from isandbox.records import FileInfo, Transfer
    from isandbox.sync.sandbox import ISandbox


class Files:
    """``sandbox.files``: the verbs of `ISandbox` under the names that people expect, texts beside bytes, whole trees.

    ``user`` is the user inside that acts, where the backend has more than one.
    """

    def __init__(self, sandbox: ISandbox) -> None:
        self._sandbox = sandbox

    def read_bytes(self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None) -> bytes:
        """Bytes from ``offset``, at most ``limit``."""
        return self._sandbox.read(path, offset=offset, limit=limit, user=user)

    def read_text(self, path: str, *, encoding: str = "utf-8", errors: str = "strict", user: str | None = None) -> str:
        """The whole file as a text. Raises `UnicodeDecodeError` for bytes that are none, unless ``errors`` says otherwise."""
        return (self._sandbox.read(path, user=user)).decode(encoding, errors)

    def read_chunks(self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None) -> Iterator[bytes]:
        """A file of any size, in chunks and bounded memory; see `ISandbox.read_chunks`."""
        return self._sandbox.read_chunks(path, offset=offset, limit=limit, user=user)

    def write(
        self,
        path: str,
        data: str | bytes | Iterable[bytes],
        *,
        mode: int | None = None,
        append: bool = False,
        user: str | None = None,
    ) -> None:
        """Create or overwrite; a text is written as UTF-8. A source of chunks may be of any size; see `ISandbox.write`."""
        if isinstance(data, (str, bytes, bytearray, memoryview)) or not isinstance(data, Iterable):
            if data is None:
                raise ConfigurationError("write: data is a text, bytes or a source of bytes, not None")
            data = cast("bytes", check_input(data))
        self._sandbox.write(path, data, mode=mode, append=append, user=user)

    def list(self, path: str = ".", *, user: str | None = None) -> list[FileInfo]:
        """The entries of a directory, sorted by name."""
        return self._sandbox.list_dir(path, user=user)

    def stat(self, path: str, *, user: str | None = None) -> FileInfo:
        """One entry; a link is described, not followed."""
        return self._sandbox.stat(path, user=user)

    def exists(self, path: str, *, user: str | None = None) -> bool:
        """Whether something is there; a dangling link is something."""
        try:
            self._sandbox.stat(path, user=user)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def remove(self, path: str, *, recursive: bool = False, user: str | None = None) -> None:
        """Remove a file, a link, an empty directory or, with ``recursive``, a tree."""
        self._sandbox.remove(path, recursive=recursive, user=user)

    def rename(self, path: str, target: str, *, user: str | None = None) -> None:
        """Rename; an existing file at ``target`` is replaced."""
        self._sandbox.rename(path, target, user=user)

    def make_dir(self, path: str, *, parents: bool = True, mode: int | None = None, user: str | None = None) -> None:
        """Make a directory and what is missing above it."""
        self._sandbox.make_dir(path, parents=parents, mode=mode, user=user)

    def make_link(self, path: str, target: str, *, user: str | None = None) -> None:
        """Make a symbolic link at ``path`` that says ``target``."""
        self._sandbox.make_link(path, target, user=user)

    def upload(
        self,
        source: str | os.PathLike[str],
        target: str,
        *,
        unsafe: Unsafe = "refuse",
        max_files: int = Limits.members,
        max_bytes: int = Limits.bytes,
        max_depth: int = Limits.depth,
        user: str | None = None,
        on_progress: Callable[[Transfer], Any] | None = None,
    ) -> Transfer:
        """Copy a file or a tree of the host to ``target`` in the sandbox; files that are there already are overwritten.

        **What goes.** Regular files, directories, and links that stay inside the tree; no link is followed, whatever another
        process does to the tree meanwhile. Other links, devices, FIFOs and sockets are `TransferRefusedError`; with
        ``unsafe="skip"`` they are left out, and named in the result. Permission bits go along (a directory is at least
        ``rwx`` for its owner), set-id and sticky bits, owners and times do not: inside, files belong to the user that
        commands run as.

        **Bounds.** The whole tree is looked at before anything is written. More than ``max_files`` entries, ``max_bytes``
        bytes or ``max_depth`` levels are `TransferRefusedError`.

        **Progress.** ``on_progress(transfer)`` and an event of kind ``transfer``, after every 8 MiB or 256 files and at the
        end.

        **Errors.** The standard library's for what cannot be read here or written there; `UnsupportedError` for links
        where the backend has no `make_link`, before anything is written. After an error in the middle, or a cancellation,
        what was copied so far is there.
        """
        from isandbox.sync.transfers import upload

        limits = Limits(members=max_files, bytes=max_bytes, depth=max_depth)
        return upload(self._sandbox, source, target, Options(limits, unsafe, user, on_progress))

    def upload_archive(
        self,
        archive: str | os.PathLike[str] | BinaryIO,
        target: str,
        *,
        max_files: int = Limits.members,
        max_bytes: int = Limits.bytes,
        max_depth: int = Limits.depth,
        max_ratio: int = Limits.ratio,
        user: str | None = None,
        on_progress: Callable[[Transfer], Any] | None = None,
    ) -> Transfer:
        """Unpack a tar archive, plain or gzip, of the host into the directory ``target`` in the sandbox.

        ``archive`` is a path or a binary stream, which is read to its end and not closed. All of it is read and checked
        before anything is written, and one member that breaks a rule refuses all: absolute names, ``..``, drive letters,
        backslashes, a name twice, anything below a file or link, links that lead out, hard links to what is no earlier
        file, devices, FIFOs, sparse files and unknown types, sizes that lie, a missing end, what follows the end; more than
        ``max_files`` members, ``max_bytes`` bytes, ``max_depth`` levels, or ``max_ratio`` times as many bytes as
        the archive itself has, by compression or by hard links (past the first 16 MiB); a header that two readers would take
        for different things. `TransferRefusedError` names the member and the rule. No program in the
        sandbox is needed.

        Modes, owners, progress and other errors are as for `upload`; a hard link becomes a file of its own. The contents
        wait in an unnamed temporary file of the host.
        """
        from isandbox.sync.transfers import upload_archive

        limits = Limits(members=max_files, bytes=max_bytes, depth=max_depth, ratio=max_ratio)
        options = Options(limits, user=user, on_progress=on_progress)
        return upload_archive(self._sandbox, archive, target, options)

    def download(
        self,
        path: str,
        target: str | os.PathLike[str],
        *,
        unsafe: Unsafe = "refuse",
        max_files: int = Limits.members,
        max_bytes: int = Limits.bytes,
        max_depth: int = Limits.depth,
        user: str | None = None,
        on_progress: Callable[[Transfer], Any] | None = None,
    ) -> Transfer:
        """Copy a file or a tree of the sandbox to ``target`` on the host. Nothing that is inside is trusted.

        **Target.** For a tree it must not exist (`FileExistsError`); for a file, a file or link there is replaced. Its
        directory must exist. All is written beside it, in a directory that only the caller can enter, and renamed in the
        end: whatever goes wrong before that, ``target`` is as it was and nothing else is left. What comes later, a
        cancellation or the last ``on_progress``, finds it there. (A host process that is killed leaves a directory
        ``.isandbox-…``.)

        **What comes.** Regular files, directories, and links that stay inside the tree. Other links and special files are
        `TransferRefusedError`, or with ``unsafe="skip"`` left out and named in the result. Files belong to the caller. Their
        permission bits are those inside, less the caller's umask (a directory is at least ``rwx`` for its owner); set-id and
        sticky bits, owners and times do not come along.

        **Bounds.** Entries, bytes and levels: `TransferRefusedError` past them. Bytes are counted as they come, not believed.

        Progress, errors and cancellation are as for `upload`.
        """
        from isandbox.sync.transfers import download

        limits = Limits(members=max_files, bytes=max_bytes, depth=max_depth)
        return download(self._sandbox, path, target, Options(limits, unsafe, user, on_progress))
