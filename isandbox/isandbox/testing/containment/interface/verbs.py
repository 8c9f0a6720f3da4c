"""Every verb of the port that takes a path, and what a call says."""

from __future__ import annotations

import asyncio
import errno
import io
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from isandbox.errors import SandboxError
from isandbox.records import ExecResult
from isandbox.sandbox import ISandbox
from isandbox.testing.containment.arena import Arena

# A call that has no answer by then hangs: no time is measured, machines may be slow.
ANSWER = 20.0


@dataclass(frozen=True, slots=True)
class Place:
    """What a verb works with: the sandbox, the path to try, and a directory of the host for what comes and goes."""

    arena: Arena
    sandbox: ISandbox
    path: str


Verb = Callable[[Place], Awaitable[object]]


async def _chunks(at: Place) -> bytes:
    return b"".join([chunk async for chunk in at.sandbox.read_chunks(at.path, limit=65_536)])


async def _download(at: Place) -> bytes:
    target = at.arena.directory() / "got"
    await at.sandbox.files.download(at.path, target, max_files=20, max_bytes=1 << 20, unsafe="skip")
    files = [target] if target.is_file() else [path for path in target.rglob("*") if path.is_file() and not path.is_symlink()]
    return b"\n".join(str(path).encode("utf-8", "surrogateescape") + b" " + path.read_bytes() for path in files)


async def _upload(at: Place) -> object:
    source = at.arena.directory() / "sent"
    source.write_bytes(b"sent")
    return await at.sandbox.files.upload(source, at.path)


async def _upload_archive(at: Place) -> object:
    return await at.sandbox.files.upload_archive(io.BytesIO(archive(member("unpacked", b"sent"))), at.path)


async def _read_through_link(at: Place) -> object:
    await at.sandbox.make_link("a-link", at.path)
    try:
        return await at.sandbox.read("a-link", limit=65_536)
    finally:
        await at.sandbox.remove("a-link")


READING: Mapping[str, Verb] = {
    "stat": lambda at: at.sandbox.stat(at.path),
    "exists": lambda at: at.sandbox.files.exists(at.path),
    "read": lambda at: at.sandbox.read(at.path, limit=65_536),
    "read_chunks": _chunks,
    "list_dir": lambda at: at.sandbox.list_dir(at.path),
    "download": _download,
    "a link": _read_through_link,
    "cwd": lambda at: at.sandbox.exec(["cat", "secret"], cwd=at.path, timeout=ANSWER),
}
# What writes only where the path leads, and takes away no more than one entry.
WRITING: Mapping[str, Verb] = {
    "append": lambda at: at.sandbox.write(at.path, b"written", append=True),
    "write": lambda at: at.sandbox.write(at.path, b"written"),
    "make_dir": lambda at: at.sandbox.make_dir(at.path + "/made", parents=True),
    "make_link": lambda at: at.sandbox.make_link(at.path + "-link", "nowhere"),
    "upload": _upload,
    "upload_archive": _upload_archive,
    "rename from": lambda at: at.sandbox.rename(at.path, "moved"),
    "rename to": lambda at: at.sandbox.rename("own", at.path),
    "remove": lambda at: at.sandbox.remove(at.path),
}


async def said(arena: Arena, call: Awaitable[object]) -> str:
    """``ok``, the name of an errno, the code of an error of ours; ``untyped NAME`` or ``no answer`` for what may not be.

    What came back, or the error's text, is searched for canaries.
    """
    try:
        async with asyncio.timeout(ANSWER):
            value = await call
    except TimeoutError:
        return "no answer"
    except OSError as error:
        arena.saw(str(error).encode("utf-8", "surrogatepass"))
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    except SandboxError as error:
        arena.saw(str(error).encode("utf-8", "surrogatepass"))
        return error.code
    except Exception as error:  # whatever else comes out is the finding
        return f"untyped {type(error).__name__}"
    arena.saw(value if isinstance(value, (bytes, ExecResult)) else repr(value).encode("utf-8", "surrogatepass"))
    return "ok"


async def until_there(sandbox: ISandbox, path: str) -> None:
    """Wait for a file that a program inside makes; the probe's own end is the end of the wait."""
    while not await sandbox.files.exists(path):  # noqa: ASYNC110 - nobody outside is told
        await asyncio.sleep(0.01)


def typed(answer: str) -> bool:
    """Whether a caller can do something with it."""
    return not answer.startswith("untyped") and answer != "no answer"


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, *, link: str = "", mode: int = 0o640) -> bytes:
    """One member of a tar archive, with a header that no library would write."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname, info.mode = kind, len(data), link, mode
    return info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)


def archive(*members: bytes) -> bytes:
    """A whole archive."""
    return b"".join(members) + bytes(1024)
