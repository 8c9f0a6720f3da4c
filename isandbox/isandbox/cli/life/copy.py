"""`isandbox cp`: files and trees between the host and a sandbox."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from isandbox._text import plain
from isandbox.cli._output import say_object
from isandbox.cli.life.edge import guarded
from isandbox.cli.life.ids import open_sandbox
from isandbox.errors import ConfigurationError

if TYPE_CHECKING:
    from isandbox.records import Transfer
    from isandbox.sync import ISandbox

STREAM = "-"
_WRITABLE = "its workspace can be written when it is made with -w DIR:rw or -w none, /tmp in any case"


@dataclass(frozen=True, slots=True)
class Place:
    """One side of a copy: ``path`` in the sandbox ``id``, or on the host when that is ``None``."""

    path: str
    id: str | None = None


def parse_place(text: str) -> Place:
    """``ID:PATH`` or a path of the host; one with a colon is written ``./a:b``, as for ``docker cp``."""
    sandbox, colon, path = text.partition(":")
    if not colon or not sandbox or "/" in sandbox or sandbox.startswith("."):
        return Place(text)
    return Place(path or ".", sandbox)


def copy_command(source: str, target: str, *, recursive: bool, as_json: bool) -> int:
    """0 when all of it is there, else 125."""
    return guarded(lambda: _copy(parse_place(source), parse_place(target), recursive, as_json=as_json), as_json=as_json)


def _copy(source: Place, target: Place, recursive: bool, *, as_json: bool) -> int:
    if (source.id is None) == (target.id is None):
        both = "neither side is" if source.id is None else "both sides are"
        raise ConfigurationError(f"cp: {both} in a sandbox; exactly one is ID:PATH (a file of the host: ./a:b)")
    with open_sandbox(source.id or target.id or "") as sandbox:
        if target.id is None:
            moved = _download(sandbox, source.path, target.path, recursive)
        else:
            moved = _upload(sandbox, source.path, target.path, recursive)
    return say_object({"files": moved.files, "bytes": moved.bytes}) if as_json else 0


def _upload(sandbox: ISandbox, source: str, target: str, recursive: bool) -> Transfer:
    if source == STREAM:
        return sandbox.files.upload_archive(sys.stdin.buffer, target)
    if os.path.isdir(source) and not recursive:
        raise ConfigurationError(f"cp: {plain(source)} is a directory; -r copies it with all that is in it")
    try:
        return sandbox.files.upload(source, _inside(target, source, is_directory=_is_directory(sandbox, target)))
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        raise OSError(error.errno, f"{error.strerror}; {_WRITABLE}", error.filename) from error


def _download(sandbox: ISandbox, source: str, target: str, recursive: bool) -> Transfer:
    if target == STREAM:
        raise ConfigurationError(
            "cp: - is a tar archive to unpack inside; to the host there is none, name a file or directory"
        )
    if not recursive and sandbox.files.stat(source).kind == "directory":
        raise ConfigurationError(f"cp: {plain(source)} is a directory; -r copies it with all that is in it")
    return sandbox.files.download(source, _inside(target, source, is_directory=os.path.isdir(target)))


def _inside(target: str, source: str, *, is_directory: bool) -> str:
    """As cp(1): into a directory that is there under the source's name, else by the target's own name."""
    name = os.path.basename(os.path.normpath(source))
    if not is_directory:
        return target
    if name in ("", ".", ".."):
        raise ConfigurationError(
            f"cp: {plain(source)} has no name of its own to have in {plain(target)}; name the target in full"
        )
    return os.path.join(target, name)


def _is_directory(sandbox: ISandbox, path: str) -> bool:
    try:
        return sandbox.files.stat(path.rstrip("/") + "/." if path.strip("/") else "/").kind == "directory"
    except (FileNotFoundError, NotADirectoryError):
        return False
