"""`Files.upload`, `upload_archive` and `download`, written on the port's verbs alone: every backend has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isandbox._aio import call, each, in_thread
from isandbox._verbs import LARGEST
from isandbox.errors import UnsupportedError
from isandbox.files.host import PIECE, Entry, HostTree, Landing, Plan, children, permissions
from isandbox.files.names import refuse
from isandbox.policy import check_path
from isandbox.records import Transfer

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator
    from typing import BinaryIO

    from isandbox.files.archive.reader import Archive
    from isandbox.files.host import Content
    from isandbox.files.limits import Options
    from isandbox.records import FileInfo
    from isandbox.sandbox import ISandbox

# How often progress is told.
_TELL_BYTES, _TELL_FILES = 8 << 20, 256
# Files on their way at a time: a small file costs a process inside and a round trip, most of which is waiting.
_AT_ONCE = 4


class _Progress:
    """Counts, and tells callback and event sink about it: by amounts, not by the clock."""

    def __init__(self, sandbox: ISandbox, direction: str, plan: Plan, options: Options) -> None:
        self.sandbox, self.plan, self.user = sandbox, plan, options.user
        self._direction, self._on_progress = direction, options.on_progress
        self._total_files, self._total_bytes = len(plan.of_kind("file")), plan.bytes
        self._files = self._told_files = self._bytes = self._told_bytes = 0

    async def moved(self, size: int, *, files: int = 0) -> None:
        self._bytes += size
        self._files += files
        if self._bytes > self.plan.limits.bytes:  # more than was announced
            refuse("bytes", "", f"more than {self.plan.limits.bytes} bytes")
        if self._bytes - self._told_bytes >= _TELL_BYTES or self._files - self._told_files >= _TELL_FILES:
            await self._tell(done=False)

    async def finish(self) -> Transfer:
        return await self._tell(done=True)

    async def _tell(self, *, done: bool) -> Transfer:
        self._told_bytes, self._told_files = self._bytes, self._files
        skipped = tuple(self.plan.skipped) if done else ()
        now = Transfer(self._files, self._bytes, self._total_files, self._total_bytes, skipped)
        self.sandbox.notify(
            "transfer",
            {
                "direction": self._direction,
                "files": now.files,
                "bytes": now.bytes,
                "total_files": now.total_files,
                "total_bytes": now.total_bytes,
                "done": done,
            },
        )
        if self._on_progress is not None:
            await call(self._on_progress, now)
        return now


async def upload(
    sandbox: ISandbox,
    source: str | os.PathLike[str],
    target: str,
    options: Options,
) -> Transfer:
    check_path(target, "target")
    tree = await in_thread(HostTree, source, options)
    try:
        return await _send(tree, target, _Progress(sandbox, "upload", tree.plan, options))
    finally:
        await in_thread(tree.close)


async def upload_archive(
    sandbox: ISandbox,
    archive: str | os.PathLike[str] | BinaryIO,
    target: str,
    options: Options,
) -> Transfer:
    from isandbox.files.archive.reader import ArchiveSource

    check_path(target, "target")
    source = await in_thread(ArchiveSource, archive, options.limits)
    try:
        while await in_thread(source.take):
            pass
        accepted = await in_thread(source.accepted)
        await sandbox.make_dir(target, parents=True, user=options.user)
        return await _send(accepted, target, _Progress(sandbox, "upload", accepted.plan, options))
    finally:
        await in_thread(source.close)


async def _send(tree: HostTree | Archive, target: str, progress: _Progress) -> Transfer:
    """Write the entries of an accepted tree below ``target``."""
    sandbox, user = progress.sandbox, progress.user
    if tree.plan.of_kind("symlink") and "make_link" not in sandbox.info.capabilities.verbs:
        backend = sandbox.info.backend
        raise UnsupportedError(
            f"upload: the {backend} backend makes no links; take them out of the tree", option="make_link", backend=backend
        )
    for entry in tree.plan.of_kind("directory"):
        await sandbox.make_dir(_below(target, entry), parents=True, mode=entry.mode, user=user)

    async def send(entry: Entry) -> None:
        await _send_file(tree, entry, _below(target, entry), progress)

    await each(send, tree.plan.of_kind("file"), at_once=_AT_ONCE)
    for entry in tree.plan.of_kind("symlink"):
        await _send_link(sandbox, _below(target, entry), entry.target, user)
    return await progress.finish()


def _below(top: str, entry: Entry) -> str:
    return f"{top.rstrip('/')}/{entry.path}" if entry.path else top


async def _send_link(sandbox: ISandbox, path: str, target: str, user: str | None) -> None:
    try:
        await sandbox.make_link(path, target, user=user)
    except FileNotFoundError:  # an archive's directory that it does not name and that no file was written to
        await sandbox.make_dir(path.rpartition("/")[0], parents=True, user=user)
        await sandbox.make_link(path, target, user=user)
    except FileExistsError:
        if (await sandbox.stat(path, user=user)).kind == "directory":
            raise
        await sandbox.remove(path, user=user)
        await sandbox.make_link(path, target, user=user)


async def _send_file(tree: HostTree | Archive, entry: Entry, path: str, progress: _Progress) -> None:
    sandbox = progress.sandbox
    if entry.size <= PIECE:
        data = await in_thread(_whole, tree, entry)
        await sandbox.write(path, data, mode=entry.mode, user=progress.user)
        await progress.moved(len(data), files=1)
        return
    content = await in_thread(tree.open, entry)
    try:
        await sandbox.write(path, _pieces(content, progress), mode=entry.mode, user=progress.user)
    finally:
        await in_thread(content.close)
    await progress.moved(0, files=1)


def _whole(tree: HostTree | Archive, entry: Entry) -> bytes:
    content = tree.open(entry)
    try:
        return b"".join(iter(content.read, b""))
    finally:
        content.close()


async def _pieces(content: Content, progress: _Progress) -> AsyncIterator[bytes]:
    while piece := await in_thread(content.read):
        yield piece
        await progress.moved(len(piece))


async def download(
    sandbox: ISandbox,
    path: str,
    target: str | os.PathLike[str],
    options: Options,
) -> Transfer:
    plan = Plan(options.limits, options.unsafe)
    await _scan(sandbox, path, plan, options.user)
    progress = _Progress(sandbox, "download", plan, options)
    landing = await in_thread(_landing, target, plan)
    try:
        await in_thread(landing.make_dirs, plan)

        async def receive(entry: Entry) -> None:
            await _receive(landing, entry, _below(path, entry), progress)

        await each(receive, plan.of_kind("file"), at_once=_AT_ONCE)
        await in_thread(landing.make_links, plan)
        await in_thread(landing.commit)
    finally:
        await in_thread(landing.close)
    return await progress.finish()


def _landing(target: str | os.PathLike[str], plan: Plan) -> Landing:
    return Landing(target, tree=plan.entries[0].kind == "directory")


async def _scan(sandbox: ISandbox, top: str, plan: Plan, user: str | None) -> None:
    """List the tree at ``top`` as the sandbox tells it, and check all that it says."""
    found = await sandbox.stat(top, user=user)
    if found.kind == "symlink":
        refuse("link", top, "a link; name what it points to")
    if found.kind == "other":
        refuse("special", top, "neither file nor directory")
    if found.kind == "file":
        plan.add(_entry("", found))
        return
    plan.entries.append(_entry("", found))
    waiting = [""]
    while waiting:
        directory = waiting.pop()
        inside = await sandbox.list_dir(f"{top.rstrip('/')}/{directory}" if directory else top, user=user)
        waiting.extend(reversed(await in_thread(_add_listing, plan, directory, inside)))


def _add_listing(plan: Plan, directory: str, inside: list[FileInfo]) -> list[str]:
    """The directories among them. In a thread, as there may be very many."""
    below = []
    for child, info in zip(children(directory, (info.name for info in inside)), inside, strict=True):
        if info.kind == "other":
            plan.add_special(child)
            continue
        plan.add(_entry(child, info))
        if info.kind == "directory":
            below.append(child)
    return below


def _entry(path: str, info: FileInfo) -> Entry:
    if info.kind == "symlink":
        return Entry(path, "symlink", 0o777, target=info.target or "")
    if info.kind == "directory":
        return Entry(path, "directory", permissions(info.mode, "directory"))
    return Entry(path, "file", permissions(info.mode, "file"), max(0, info.size))


async def _receive(landing: Landing, entry: Entry, path: str, progress: _Progress) -> None:
    sandbox, room = progress.sandbox, min(progress.plan.limits.bytes + 1, LARGEST)
    if entry.size <= PIECE:
        data = await sandbox.read(path, limit=min(PIECE + 1, room), user=progress.user)
        if len(data) <= PIECE:
            await in_thread(landing.put, entry.path, entry.mode, data)
            await progress.moved(len(data), files=1)
            return
    file = await in_thread(landing.create, entry.path, entry.mode)
    try:
        async for chunk in sandbox.read_chunks(path, limit=room, user=progress.user):
            await in_thread(file.write, chunk)
            await progress.moved(len(chunk))
    finally:
        await in_thread(file.close)
    await progress.moved(0, files=1)
