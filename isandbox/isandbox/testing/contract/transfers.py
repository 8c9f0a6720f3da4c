"""Streams, and files and trees on their way between host and sandbox."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import stat
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from isandbox import ConfigurationError, Event, ISandbox, Transfer, TransferRefusedError, UnsupportedError
from isandbox.testing.contract.base import Contract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MIB = 1 << 20
STREAM = 64 * MIB
GROWTH = 32 * MIB


async def source(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def tree(top: Path) -> None:
    """A small tree with what matters: depth, an empty directory, modes, every byte, names that are odd."""
    (top / "src" / "deep" / "er").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "empty").chmod(0o750)
    (top / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (top / "run.sh").chmod(0o755)
    (top / "src" / "all.bin").write_bytes(bytes(range(256)))
    (top / "src" / "secret").write_bytes(b"")
    (top / "src" / "secret").chmod(0o600)
    (top / "src" / "deep" / "er" / "-rf $(x) 'q'\n").write_text("odd")
    (top / "large").write_bytes(bytes(range(256)) * (12 << 10))


def described(top: Path) -> dict[str, tuple[str, int, bytes]]:
    """Path -> kind, mode and content of everything below ``top``."""
    found = {}
    for path in sorted(top.rglob("*")):
        info = path.lstat()
        if stat.S_ISLNK(info.st_mode):
            found[str(path.relative_to(top))] = ("symlink", 0, os.readlink(path).encode())
        elif path.is_dir():
            found[str(path.relative_to(top))] = ("directory", stat.S_IMODE(info.st_mode), b"")
        else:
            found[str(path.relative_to(top))] = ("file", stat.S_IMODE(info.st_mode), path.read_bytes())
    return found


def member(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", link: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname, info.mode = kind, len(data), link, 0o640
    return info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)


def archive(*members: bytes) -> bytes:
    return b"".join(members) + bytes(1024)


HOSTILE_ARCHIVES: dict[str, tuple[str, bytes]] = {
    "..": ("path", archive(member("../x", data=b"x"))),
    ".. inside": ("path", archive(member("a/../../x", data=b"x"))),
    "absolute": ("path", archive(member("/abs/x", data=b"x"))),
    "drive letter": ("path", archive(member("C:x", data=b"x"))),
    "backslash": ("name", archive(member("a\\..\\x", data=b"x"))),
    "a link out": ("link", archive(member("l", tarfile.SYMTYPE, link="../../etc"))),
    "an absolute link": ("link", archive(member("l", tarfile.SYMTYPE, link="/etc"))),
    "through a link": ("duplicate", archive(member("l", tarfile.SYMTYPE, link="d"), member("l/p", data=b"x"))),
    "a hard link out": ("link", archive(member("h", tarfile.LNKTYPE, link="etc/passwd"))),
    "a device": ("special", archive(member("dev", tarfile.CHRTYPE))),
    "a FIFO": ("special", archive(member("fifo", tarfile.FIFOTYPE))),
    "a bomb": ("ratio", gzip.compress(archive(member("zeros", data=bytes(STREAM))))),
    "cut off": ("truncated", archive(member("f", data=bytes(600)))[:700]),
}


class TransferPromises(Contract):
    """By the verbs alone: what holds wherever there are files."""

    async def test_a_stream_is_written_and_read(self, sandbox: ISandbox) -> None:
        """Chunks of any size, and none at all, are written in order; a file comes back in chunks, also a part of it."""
        chunks = [b"", b"a", bytes(range(256)) * 1000, b"z" * (3 * MIB), b"end"]
        await sandbox.files.write("s/stream.bin", source(*chunks), mode=0o600)
        whole = b"".join(chunks)
        assert b"".join([c async for c in sandbox.files.read_chunks("s/stream.bin")]) == whole
        part = [c async for c in sandbox.files.read_chunks("s/stream.bin", offset=255, limit=3)]
        assert b"".join(part) == whole[255:258]
        assert (await sandbox.files.stat("s/stream.bin")).mode == 0o600
        await sandbox.files.write("s/stream.bin", source(b"added"), append=True)
        assert (await sandbox.files.read_bytes("s/stream.bin", offset=len(whole))) == b"added"
        await sandbox.files.write("s/stream.bin", source())
        assert await sandbox.files.read_bytes("s/stream.bin") == b""

    async def test_a_source_that_fails_ends_the_writing(self, sandbox: ISandbox) -> None:
        """The source's own error comes out, the file holds a beginning of what it gave, and the sandbox goes on."""

        async def failing() -> AsyncIterator[bytes]:
            yield bytes(range(256)) * (8 << 10)
            raise LookupError("the source is broken")

        with pytest.raises(LookupError, match="the source is broken"):
            await sandbox.files.write("failing.txt", failing())
        if await sandbox.files.exists("failing.txt"):
            assert (bytes(range(256)) * (8 << 10)).startswith(await sandbox.files.read_bytes("failing.txt"))
        with pytest.raises(ConfigurationError, match="bytes"):
            await sandbox.files.write("failing.txt", source(b"x", "text"))  # type: ignore[arg-type]

    async def test_a_stream_fails_like_its_verb(self, sandbox: ISandbox) -> None:
        """Missing and directory: the standard library's errors, from the first chunk, and whatever the source still has."""
        with pytest.raises(FileNotFoundError, match="missing"):
            [c async for c in sandbox.files.read_chunks("missing")]
        with pytest.raises(IsADirectoryError, match="/usr"):
            [c async for c in sandbox.files.read_chunks("/usr")]
        with pytest.raises(IsADirectoryError, match="/tmp"):
            await sandbox.files.write("/tmp", source(*[b"x" * MIB] * 4))

    async def test_a_reading_can_be_left_early(self, sandbox: ISandbox) -> None:
        """Who stops after the first chunk ends the operation; the file and the sandbox are as before."""
        await sandbox.files.write("early.bin", bytes(4 * MIB))
        for _ in range(3):
            async for chunk in sandbox.files.read_chunks("early.bin"):
                assert chunk
                break
        assert (await sandbox.files.stat("early.bin")).size == 4 * MIB

    async def test_cancelling_ends_a_stream(self, sandbox: ISandbox) -> None:
        """A cancelled write ends, and the next one has the file to itself."""
        given = asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield b"so far"
            given.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(sandbox.files.write("cancelled.txt", slow()))
        await given.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sandbox.files.write("cancelled.txt", "next")
        assert await sandbox.files.read_text("cancelled.txt") == "next"

    async def test_a_tree_goes_in_and_comes_back(self, sandbox: ISandbox, tmp_path: Path) -> None:
        """Upload and download keep names, contents, empty directories and modes, and count what they moved."""
        (tmp_path / "tree").mkdir()
        tree(tmp_path / "tree")
        sent = await sandbox.files.upload(tmp_path / "tree", "tree")
        assert (sent.files, sent.bytes, sent.skipped) == (5, sent.total_bytes, ())
        assert (await sandbox.files.stat("tree/run.sh")).mode == 0o755
        assert (await sandbox.files.stat("tree/src/secret")).mode == 0o600
        assert (await sandbox.files.stat("tree/empty")).mode == 0o750
        assert (await sandbox.files.read_bytes("tree/large")) == bytes(range(256)) * (12 << 10)
        got = await sandbox.files.download("tree", tmp_path / "back")
        assert (got.files, got.bytes) == (sent.files, sent.bytes)
        assert described(tmp_path / "back") == described(tmp_path / "tree")

    async def test_a_single_file_goes_in_and_comes_back(self, sandbox: ISandbox, tmp_path: Path) -> None:
        """A file is uploaded under the name given, and a download replaces a file, or a link itself, on the host."""
        (tmp_path / "one").write_bytes(b"one")
        await sandbox.files.upload(str(tmp_path / "one"), "uploaded-one/renamed")
        (tmp_path / "kept").write_bytes(b"kept")
        (tmp_path / "link").symlink_to("kept")
        await sandbox.files.download("uploaded-one/renamed", tmp_path / "link")
        assert not (tmp_path / "link").is_symlink()
        assert ((tmp_path / "link").read_bytes(), (tmp_path / "kept").read_bytes()) == (b"one", b"kept")
        with pytest.raises(IsADirectoryError):
            await sandbox.files.download("uploaded-one/renamed", tmp_path)

    async def test_a_download_that_fails_leaves_nothing(self, sandbox: ISandbox, tmp_path: Path) -> None:
        """Over a bound, onto something that is there, without a directory to land in: the host is as before."""
        await sandbox.files.write("bounds/a/b/c", bytes(100))
        await sandbox.files.write("bounds/d", bytes(100))
        for bound, rule in (({"max_files": 3}, "members"), ({"max_bytes": 199}, "bytes"), ({"max_depth": 2}, "depth")):
            with pytest.raises(TransferRefusedError) as caught:
                await sandbox.files.download("bounds", tmp_path / "new", **bound)  # type: ignore[arg-type]
            assert caught.value.rule == rule
        (tmp_path / "there").mkdir()
        before = sorted(os.listdir(tmp_path))
        with pytest.raises(FileExistsError):
            await sandbox.files.download("bounds", tmp_path / "there")
        with pytest.raises(FileNotFoundError):
            await sandbox.files.download("bounds", tmp_path / "no" / "where")
        with pytest.raises(FileNotFoundError):
            await sandbox.files.download("no-such-tree", tmp_path / "new")
        assert sorted(os.listdir(tmp_path)) == before == ["there"]
        assert (await sandbox.files.download("bounds", tmp_path / "new", max_files=4, max_bytes=200, max_depth=3)).files == 2

    async def test_an_upload_over_a_bound_writes_nothing(self, sandbox: ISandbox, tmp_path: Path) -> None:
        """Bounds are checked on the whole tree first; a special file and a link that leads out are refused by name."""
        tree(tmp_path)
        for bound, rule in (({"max_files": 5}, "members"), ({"max_bytes": 1000}, "bytes"), ({"max_depth": 3}, "depth")):
            with pytest.raises(TransferRefusedError) as caught:
                await sandbox.files.upload(tmp_path, "refused", **bound)  # type: ignore[arg-type]
            assert caught.value.rule == rule
        (tmp_path / "out").symlink_to("/etc")
        os.mkfifo(tmp_path / "fifo")
        with pytest.raises(TransferRefusedError):
            await sandbox.files.upload(tmp_path, "refused")
        assert not await sandbox.files.exists("refused")
        sent = await sandbox.files.upload(tmp_path, "rest", unsafe="skip")
        assert set(sent.skipped) == {"out", "fifo"}
        assert [entry.name for entry in await sandbox.files.list("rest")] == ["empty", "large", "run.sh", "src"]

    async def test_an_archive_is_unpacked(self, sandbox: ISandbox, tmp_path: Path) -> None:
        """A tar archive, plain or gzip, by path or as a stream, becomes a tree; a hard link a file of its own."""
        raw = archive(
            member("./d", tarfile.DIRTYPE), member("./d/f", data=b"content"), member("h", tarfile.LNKTYPE, link="d/f")
        )
        (tmp_path / "a.tgz").write_bytes(gzip.compress(raw))
        given: list[Any] = [tmp_path / "a.tgz", io.BytesIO(raw)]
        for number, value in enumerate(given):
            moved = await sandbox.files.upload_archive(value, f"unpacked/{number}")
            assert (moved.files, moved.bytes) == (2, 14)
            assert await sandbox.files.read_text(f"unpacked/{number}/d/f") == "content"
            assert await sandbox.files.read_text(f"unpacked/{number}/h") == "content"
            assert (await sandbox.files.stat(f"unpacked/{number}/h")).mode == 0o640

    @pytest.mark.parametrize("attack", HOSTILE_ARCHIVES)
    async def test_a_hostile_archive_is_refused_as_a_whole(self, sandbox: ISandbox, attack: str) -> None:
        """One member that would lead out, is no file, or is not what it says, and nothing of the archive is written."""
        rule, raw = HOSTILE_ARCHIVES[attack]
        good = member("good", data=b"x")
        mixed = gzip.compress(good + gzip.decompress(raw)) if raw[:2] == b"\x1f\x8b" else good + raw
        with pytest.raises(TransferRefusedError) as caught:
            await sandbox.files.upload_archive(io.BytesIO(mixed), "attacked/here")
        assert caught.value.rule == rule
        assert not await sandbox.files.exists("attacked")

    async def test_progress_is_told(self, tmp_path: Path) -> None:
        """Callback and on_event see how far a transfer is, the last time with its end, and no file's name."""
        events: list[Event] = []
        told: list[Transfer] = []
        (tmp_path / "secret-name").write_bytes(bytes(20 * MIB))
        async with self.create(on_event=events.append) as sandbox:
            result = await sandbox.files.upload(tmp_path, "up", on_progress=told.append)
            await sandbox.files.download("up", tmp_path / "back")
        assert told[-1] == result == Transfer(1, 20 * MIB, 1, 20 * MIB)
        assert len(told) >= 3
        assert [t.bytes for t in told] == sorted(t.bytes for t in told)
        moves = [event.data for event in events if event.kind == "transfer"]
        ends = [data for data in moves if data["done"]]
        assert [(data["direction"], data["files"], data["bytes"]) for data in ends] == [
            ("upload", 1, 20 * MIB),
            ("download", 1, 20 * MIB),
        ]
        assert len(moves) >= 6
        assert "secret-name" not in repr(events)

    async def test_another_user_is_honoured_or_refused(self, sandbox: ISandbox, tmp_path: Path) -> None:
        """user= acts as that user, or is UnsupportedError that names it, before anything is done."""
        refused: UnsupportedError | None = None
        try:
            await sandbox.files.write("as-another", "x", user="nobody")
        except UnsupportedError as error:
            refused = error
        if refused is None:
            theirs = await sandbox.files.stat("as-another")
            await sandbox.files.write("as-myself", "x")
            assert theirs.uid != (await sandbox.files.stat("as-myself")).uid
            return
        assert (refused.option, refused.backend) == ("user", sandbox.info.backend)
        (tmp_path / "f").write_text("x")
        for attempt in (
            sandbox.files.upload(tmp_path, "as-another", user="nobody"),
            sandbox.files.download(".", tmp_path / "new", user="nobody"),
            sandbox.files.make_dir("as-another", user="nobody"),
            sandbox.files.list(user="nobody"),
        ):
            with pytest.raises(UnsupportedError, match="nobody"):
                await attempt
        assert not await sandbox.files.exists("as-another")


class TransferViewPromises(Contract):
    """What takes commands, links or a real machine."""

    async def test_streams_need_little_memory(self, sandbox: ISandbox) -> None:
        """64 MiB go in and come back while this process grows by less than 32 MiB."""
        process = psutil.Process()
        before = process.memory_info().rss
        peak = before

        async def zeros() -> AsyncIterator[bytes]:
            nonlocal peak
            for _ in range(STREAM // MIB):
                yield bytes(MIB)
                peak = max(peak, process.memory_info().rss)

        await sandbox.files.write("big.bin", zeros())
        count = 0
        async for chunk in sandbox.files.read_chunks("big.bin"):
            count += len(chunk)
            peak = max(peak, process.memory_info().rss)
        await sandbox.files.remove("big.bin")
        assert count == STREAM
        assert peak - before < GROWTH

    async def test_what_is_uploaded_belongs_to_commands(self, sandbox: ISandbox, tmp_path: Path) -> None:
        """A command can append to an uploaded file, change its mode, run it, and write into an uploaded directory."""
        tree(tmp_path)
        await sandbox.files.upload(tmp_path, "mine")
        script = (
            "echo more >> src/secret && chmod 700 src/secret && ./run.sh && touch empty/x && stat -c %u . src/secret; id -u"
        )
        result = await sandbox.exec(script, cwd="mine")
        assert result.stdout.splitlines()[0] == "ran", result
        assert len(set(result.stdout.split()[1:])) == 1

    async def test_links_inside_a_tree_stay_links(self, sandbox: ISandbox, tmp_path: Path) -> None:
        """A link that stays inside its tree is a link on the other side, in both directions and out of an archive."""
        (tmp_path / "t" / "d").mkdir(parents=True)
        (tmp_path / "t" / "f").write_text("content")
        (tmp_path / "t" / "d" / "l").symlink_to("../f")
        (tmp_path / "t" / "again").symlink_to("d/l")
        (tmp_path / "t" / "dangling").symlink_to("nowhere")
        for _ in range(2):  # a link that is there already is replaced
            await sandbox.files.upload(tmp_path / "t", "links")
        assert (await sandbox.exec("cat links/again; readlink links/d/l")).stdout == "content../f\n"
        await sandbox.files.download("links", tmp_path / "back")
        assert described(tmp_path / "back") == described(tmp_path / "t")
        # The second is in a directory that nothing else names.
        raw = archive(
            member("l", tarfile.SYMTYPE, link="f"),
            member("o/p/l", tarfile.SYMTYPE, link="../../f"),
            member("f", data=b"content"),
        )
        await sandbox.files.upload_archive(io.BytesIO(raw), "unpacked-links")
        assert (await sandbox.exec("cat unpacked-links/l unpacked-links/o/p/l")).stdout == "contentcontent"

    async def test_a_hostile_tree_is_not_downloaded(self, sandbox: ISandbox, tmp_path: Path) -> None:
        """A link out of the tree or a FIFO refuses all of it, or is left out and named; set-id bits never reach the host."""
        attacks = {
            "ln -s /etc/passwd x": "link",
            "ln -s ../../../../../../../../etc/passwd x": "link",
            "mkdir d && ln -s .. d/up && ln -s d/up/.. x": "link",
            "mkfifo x": "special",
        }
        for script, rule in attacks.items():
            await sandbox.exec(f"rm -rf evil; mkdir evil; cd evil; echo good > good; chmod 6777 good; {script}", check=True)
            with pytest.raises(TransferRefusedError) as caught:
                await sandbox.files.download("evil", tmp_path / "got")
            assert (caught.value.rule, caught.value.member) == (rule, "x")
            assert os.listdir(tmp_path) == []
        got = await sandbox.files.download("evil", tmp_path / "got", unsafe="skip")
        assert (got.skipped, os.listdir(tmp_path / "got")) == (("x",), ["good"])
        found = (tmp_path / "got" / "good").stat()
        assert (found.st_mode & 0o7000, found.st_uid) == (0, os.geteuid())
        await sandbox.exec("ln -sfn evil link-to-tree", check=True)
        with pytest.raises(TransferRefusedError):
            await sandbox.files.download("link-to-tree", tmp_path / "more")

    async def test_an_endless_file_is_not_downloaded(self, sandbox: ISandbox, tmp_path: Path) -> None:
        """A sparse file of many GiB is refused by its size, before a byte of it is moved."""
        await sandbox.exec("mkdir endless && truncate -s 100G endless/f", check=True)
        told: list[Transfer] = []
        with pytest.raises(TransferRefusedError) as caught:
            await sandbox.files.download("endless", tmp_path / "got", on_progress=told.append)
        assert (caught.value.rule, told, os.listdir(tmp_path)) == ("bytes", [], [])
        await sandbox.files.remove("endless", recursive=True)
