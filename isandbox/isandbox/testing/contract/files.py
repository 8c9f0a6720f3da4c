"""File verbs."""

from __future__ import annotations

import errno

import pytest

from isandbox import ConfigurationError, ISandbox
from isandbox.testing.contract.base import Contract

HOSTILE_NAMES = ["-rf", "a b", "$(touch pwned)", "'; touch pwned #", "new\nline", "ünïcödé", "\udcff", "*", "~", "x" * 255]


class FilePromises(Contract):
    """The verbs by themselves."""

    async def test_text_and_bytes_come_back(self, sandbox: ISandbox) -> None:
        """What is written is read back exactly: text, every byte value, nothing at all."""
        await sandbox.files.write("text.txt", "naïve\r\n中文")
        assert await sandbox.files.read_text("text.txt") == "naïve\r\n中文"
        for data in (bytes(range(256)), b""):
            await sandbox.files.write("data.bin", data)
            assert await sandbox.files.read_bytes("data.bin") == data

    async def test_a_large_file_comes_back(self, sandbox: ISandbox) -> None:
        """20 MiB are written and read back; offset and limit read a part."""
        data = bytes(range(256)) * (80 << 10)
        await sandbox.files.write("large.bin", data)
        assert await sandbox.files.read_bytes("large.bin") == data
        assert await sandbox.files.read_bytes("large.bin", offset=255, limit=3) == b"\xff\x00\x01"
        assert await sandbox.files.read_bytes("large.bin", offset=len(data)) == b""

    async def test_parents_are_made(self, sandbox: ISandbox) -> None:
        """Writing makes the directories above, relative to the workspace or absolute."""
        await sandbox.files.write("p/q/r.txt", "1")
        await sandbox.files.write(f"{sandbox.info.workspace}/p/s/t.txt", "2")
        assert await sandbox.files.read_text("p/q/r.txt") + await sandbox.files.read_text("p/s/t.txt") == "12"

    async def test_overwrite_append_and_mode(self, sandbox: ISandbox) -> None:
        """Writing replaces, append=True adds, mode= sets the bits exactly."""
        await sandbox.files.write("o.txt", "long content")
        await sandbox.files.write("o.txt", "short", mode=0o640)
        await sandbox.files.write("o.txt", "er", append=True)
        assert await sandbox.files.read_text("o.txt") == "shorter"
        assert (await sandbox.files.stat("o.txt")).mode == 0o640

    async def test_errors_are_the_standard_ones(self, sandbox: ISandbox) -> None:
        """Missing, directory, not a directory: the standard library's errors, with the path in them."""
        await sandbox.files.write("plain", "")
        with pytest.raises(FileNotFoundError, match=r"missing\.txt"):
            await sandbox.files.read_bytes("missing.txt")
        with pytest.raises(IsADirectoryError, match="/usr"):
            await sandbox.files.read_bytes("/usr")
        with pytest.raises(IsADirectoryError, match="/tmp"):
            await sandbox.files.write("/tmp", "")
        with pytest.raises(NotADirectoryError, match="plain"):
            await sandbox.files.list("plain")
        with pytest.raises(FileNotFoundError, match="gone"):
            await sandbox.files.remove("gone")

    async def test_impossible_paths_are_refused(self, sandbox: ISandbox) -> None:
        """An empty path, a NUL and 5,000 bytes are ConfigurationError, for every verb alike."""
        for path in ("", "a\0b", "x" * 5000):
            for verb in (sandbox.files.read_bytes, sandbox.files.stat, sandbox.files.remove, sandbox.files.list):
                with pytest.raises(ConfigurationError):
                    await verb(path)

    async def test_hostile_names_are_names(self, sandbox: ISandbox) -> None:
        """Names with dashes, quotes, newlines, substitutions or bytes that are no UTF-8 are taken literally."""
        for name in HOSTILE_NAMES:
            await sandbox.files.write(f"hostile/{name}", name.encode("utf-8", "surrogateescape"))
            assert await sandbox.files.read_bytes(f"hostile/{name}") == name.encode("utf-8", "surrogateescape")
        assert {entry.name for entry in await sandbox.files.list("hostile")} == set(HOSTILE_NAMES)
        for name in HOSTILE_NAMES:
            await sandbox.files.remove(f"hostile/{name}")
        assert await sandbox.files.list("hostile") == []
        assert not await sandbox.files.exists("pwned")

    async def test_rename_replaces_a_file(self, sandbox: ISandbox) -> None:
        """Rename moves, and replaces a file that is there."""
        await sandbox.files.write("from", "new")
        await sandbox.files.write("to", "old")
        await sandbox.files.rename("from", "to")
        assert await sandbox.files.read_text("to") == "new"
        assert not await sandbox.files.exists("from")

    async def test_make_dir_with_and_without_parents(self, sandbox: ISandbox) -> None:
        """With parents what is missing is made and an existing directory is fine; without, neither."""
        await sandbox.files.make_dir("m/n/o")
        await sandbox.files.make_dir("m/n/o")
        with pytest.raises(FileNotFoundError):
            await sandbox.files.make_dir("mm/nn", parents=False)
        with pytest.raises(FileExistsError):
            await sandbox.files.make_dir("m", parents=False)


class FileViewPromises(Contract):
    """What takes a command to set up or to look at: links, special files, what commands and verbs see of each other."""

    async def test_commands_and_verbs_see_one_file_system(self, sandbox: ISandbox) -> None:
        """A command reads what a verb wrote, may change and execute it, and the other way round."""
        await sandbox.files.write("shared.txt", "from outside\n")
        result = await sandbox.exec("cat shared.txt; echo more >> shared.txt; chmod 700 shared.txt; echo x > made.txt")
        assert (result.stdout, result.stderr) == ("from outside\n", "")
        assert await sandbox.files.read_text("shared.txt") == "from outside\nmore\n"
        assert await sandbox.files.read_text("made.txt") == "x\n"

    async def test_listing_tells_kinds(self, sandbox: ISandbox) -> None:
        """A listing is sorted by name and tells files, directories, links and the rest apart."""
        await sandbox.exec("mkdir -p kinds/d; echo abc > kinds/f; ln -s /etc/passwd kinds/l; mkfifo kinds/p", check=True)
        entries = await sandbox.files.list("kinds")
        assert [(e.name, e.kind) for e in entries] == [("d", "directory"), ("f", "file"), ("l", "symlink"), ("p", "other")]
        by_name = {entry.name: entry for entry in entries}
        assert (by_name["f"].size, by_name["f"].path, by_name["l"].target) == (4, "kinds/f", "/etc/passwd")

    async def test_a_link_is_described_and_removed_not_followed(self, sandbox: ISandbox) -> None:
        """Stat and remove act on a link itself; what it points to stays."""
        await sandbox.exec(
            "mkdir -p target; echo keep > target/kept; ln -sfn target link; ln -sfn nowhere dangling", check=True
        )
        assert (await sandbox.files.stat("link")).kind == "symlink"
        assert await sandbox.files.exists("dangling")
        await sandbox.files.remove("link", recursive=True)
        await sandbox.files.remove("dangling")
        assert await sandbox.files.read_text("target/kept") == "keep\n"

    async def test_a_fifo_does_not_block(self, sandbox: ISandbox) -> None:
        """Reading or writing a FIFO fails at once instead of waiting for its other end."""
        await sandbox.exec("mkfifo pipe", check=True)
        for attempt in (sandbox.files.read_bytes("pipe"), sandbox.files.write("pipe", "x")):
            with pytest.raises(OSError):
                await attempt

    async def test_removing_a_full_directory_needs_recursive(self, sandbox: ISandbox) -> None:
        """A directory that is not empty stays unless recursive=True; an empty one goes."""
        await sandbox.exec("mkdir -p full/inner; touch full/inner/x; ln -s / full/root; mkdir empty", check=True)
        with pytest.raises(OSError) as caught:
            await sandbox.files.remove("full")
        assert caught.value.errno == errno.ENOTEMPTY
        await sandbox.files.remove("full", recursive=True)
        await sandbox.files.remove("empty")
        assert not await sandbox.files.exists("full")
        assert (await sandbox.exec("test -e /etc/passwd")).ok

    async def test_a_deep_tree_is_removed(self, sandbox: ISandbox) -> None:
        """A tree of two thousand levels is removed."""
        await sandbox.exec(
            "mkdir deep && cd deep && n=0; while [ $n -lt 2000 ]; do mkdir d && cd d; n=$((n+1)); done", check=True
        )
        await sandbox.files.remove("deep", recursive=True)
        assert not await sandbox.files.exists("deep")

    async def test_an_endless_file_is_refused(self, sandbox: ISandbox) -> None:
        """A sparse file of many GiB is EFBIG without a limit, and read in part with one."""
        await sandbox.files.write("sparse", "head")
        made = await sandbox.exec("truncate -s 100G sparse")
        assert made.ok, made.stderr
        with pytest.raises(OSError) as caught:
            await sandbox.files.read_bytes("sparse")
        assert caught.value.errno == errno.EFBIG
        assert await sandbox.files.read_bytes("sparse", limit=6) == b"head\0\0"
        await sandbox.files.remove("sparse")
