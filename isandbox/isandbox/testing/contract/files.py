"""File verbs."""

from __future__ import annotations

import errno

import pytest

from isandbox import ConfigurationError, ISandbox
from isandbox.testing.contract.base import Contract


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
        """50 MiB are written and read back; offset and limit read a part."""
        data = bytes(range(256)) * (200 << 10)
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

    async def test_two_mebibytes_of_text_come_back(self, sandbox: ISandbox) -> None:
        """A long text of characters of every width is read back as it was written."""
        text = "aé€😀\n" * 210_000
        await sandbox.files.write("long.txt", text)
        assert await sandbox.files.read_text("long.txt") == text

    async def test_bytes_that_are_no_text_are_told(self, sandbox: ISandbox) -> None:
        """read_text of bytes that are no UTF-8 is UnicodeDecodeError, unless errors= says otherwise; read_bytes has them."""
        await sandbox.files.write("no-text", b"\xc3\x28")
        with pytest.raises(UnicodeDecodeError):
            await sandbox.files.read_text("no-text")
        assert await sandbox.files.read_text("no-text", errors="replace") == "\ufffd("
        assert await sandbox.files.read_bytes("no-text") == b"\xc3\x28"

    async def test_a_part_of_a_file_is_read(self, sandbox: ISandbox) -> None:
        """limit=0 is nothing, an offset past the end is nothing, and a negative one of either is ConfigurationError."""
        await sandbox.files.write("part", "0123456789")
        read = sandbox.files.read_bytes
        assert await read("part", limit=0) == b""
        assert await read("part", offset=8, limit=100) == b"89"
        assert await read("part", offset=1 << 40) == b""
        with pytest.raises(ConfigurationError):
            await read("part", offset=-1)
        with pytest.raises(ConfigurationError):
            await read("part", limit=-1)

    async def test_what_is_no_content_is_refused(self, sandbox: ISandbox) -> None:
        """Writing None, a number or a list, or with an impossible mode, is ConfigurationError and makes no file."""
        for data in (None, 3, ["x"]):
            with pytest.raises(ConfigurationError):
                await sandbox.files.write("refused", data)  # type: ignore[arg-type]
        for mode in (-1, 0o10000, "rw", True):
            with pytest.raises(ConfigurationError):
                await sandbox.files.write("refused", "x", mode=mode)  # type: ignore[arg-type]
        assert not await sandbox.files.exists("refused")

    async def test_modes_of_new_and_old_files(self, sandbox: ISandbox) -> None:
        """A new file has mode 644; writing again without mode= leaves the mode that is there."""
        await sandbox.files.write("mode", "1")
        assert (await sandbox.files.stat("mode")).mode == 0o644
        await sandbox.files.write("mode", "2", mode=0o600)
        await sandbox.files.write("mode", "3")
        assert (await sandbox.files.stat("mode")).mode == 0o600

    async def test_append_makes_a_file(self, sandbox: ISandbox) -> None:
        """append=True to a file that is not there makes it, its directories too."""
        await sandbox.files.write("appended/new", "a", append=True)
        assert await sandbox.files.read_text("appended/new") == "a"

    async def test_stat_tells_what_is_there(self, sandbox: ISandbox) -> None:
        """Stat gives path as asked, name, kind, size in bytes, mode bits and time of change of a file and of a directory."""
        await sandbox.files.write("told/about", "é" * 10, mode=0o604)
        file = await sandbox.files.stat("told/about")
        assert (file.path, file.name, file.kind, file.size, file.mode) == ("told/about", "about", "file", 20, 0o604)
        assert 1.7e9 < file.mtime < 1e11
        directory = await sandbox.files.stat("told")
        assert (directory.path, directory.name, directory.kind) == ("told", "told", "directory")
        assert (await sandbox.files.list("told"))[0] == file

    async def test_exists_is_a_plain_answer(self, sandbox: ISandbox) -> None:
        """Exists is False for what is not there and below a file, True for files and directories, and no error for any."""
        await sandbox.files.write("there", "")
        found = [await sandbox.files.exists(path) for path in ("there", ".", "/usr", "absent", "there/below", "absent/below")]
        assert found == [True, True, True, False, False, False]

    async def test_a_directory_moves_with_what_is_in_it(self, sandbox: ISandbox) -> None:
        """Renaming a directory moves the whole tree."""
        await sandbox.files.write("tree/a/b", "1")
        await sandbox.files.rename("tree", "moved")
        assert await sandbox.files.read_text("moved/a/b") == "1"
        assert not await sandbox.files.exists("tree")

    async def test_rename_refuses_what_it_would_destroy(self, sandbox: ISandbox) -> None:
        """A file does not replace a directory, nor a directory a full one or a file; nothing is changed by the attempt."""
        await sandbox.files.write("full/x", "x")
        await sandbox.files.write("other/y", "y")
        await sandbox.files.write("single", "s")
        for source, target, error in (
            ("single", "full", IsADirectoryError),
            ("other", "full", OSError),
            ("other", "single", NotADirectoryError),
            ("absent", "single", FileNotFoundError),
        ):
            with pytest.raises(error):
                await sandbox.files.rename(source, target)
        found = [await sandbox.files.read_text(path) for path in ("full/x", "other/y", "single")]
        assert found == ["x", "y", "s"]

    async def test_make_dir_over_a_file_is_an_error(self, sandbox: ISandbox) -> None:
        """A directory is not made in the place of a file (FileExistsError) nor below one (NotADirectoryError)."""
        await sandbox.files.write("in-the-way", "kept")
        for parents in (True, False):
            with pytest.raises(FileExistsError):
                await sandbox.files.make_dir("in-the-way", parents=parents)
            with pytest.raises(NotADirectoryError):
                await sandbox.files.make_dir("in-the-way/below", parents=parents)
        assert await sandbox.files.read_text("in-the-way") == "kept"


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
        """A tree of eighteen hundred levels is removed."""
        down = "p=$(printf 'd/%.0s' $(seq 900))"
        made = await sandbox.exec(f"{down}; mkdir -p deep/$p && cd deep/$p && mkdir -p $p && cd $p && touch at-the-bottom")
        assert made.ok, made.stderr
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

    async def test_a_link_is_followed_by_read_and_write(self, sandbox: ISandbox) -> None:
        """Reading and writing through a link act on the file it points to; the link stays one."""
        await sandbox.exec("echo old > pointed; ln -s pointed pointer", check=True)
        assert await sandbox.files.read_text("pointer") == "old\n"
        await sandbox.files.write("pointer", "new")
        assert (await sandbox.exec("cat pointed; test -L pointer")).stdout == "new"
        assert (await sandbox.files.stat("pointer")).kind == "symlink"

    async def test_a_loop_of_links_is_an_error(self, sandbox: ISandbox) -> None:
        """Links that lead in a circle are OSError (ELOOP) to read and write, and can be removed."""
        await sandbox.exec("ln -s round circle; ln -s circle round", check=True)
        for attempt in (sandbox.files.read_bytes("circle"), sandbox.files.write("circle", "x")):
            with pytest.raises(OSError) as caught:
                await attempt
            assert caught.value.errno == errno.ELOOP
        await sandbox.files.remove("circle")
        await sandbox.files.remove("round")

    async def test_a_device_is_no_file(self, sandbox: ISandbox) -> None:
        """Reading an endless device fails at once, with a limit too: only regular files have contents."""
        for attempt in (sandbox.files.read_bytes("/dev/zero"), sandbox.files.read_bytes("/dev/zero", limit=10)):
            with pytest.raises(OSError):
                await attempt

    async def test_a_large_directory_is_listed_whole(self, sandbox: ISandbox) -> None:
        """A thousand entries with long names are listed, each once, sorted."""
        padding = "n" * 200
        await sandbox.exec(f"mkdir many && cd many && seq 1000 1999 | sed 's/$/{padding}/' | xargs touch", check=True)
        names = [entry.name for entry in await sandbox.files.list("many")]
        assert names == [f"{n}{padding}" for n in range(1000, 2000)]

    async def test_permissions_hold_for_verbs(self, sandbox: ISandbox) -> None:
        """Verbs act as the user of the commands: what that user may not read or write is PermissionError with its path."""
        root = (await sandbox.exec("id -u")).stdout == "0\n"
        await sandbox.files.write("closed", "kept", mode=0o000)
        await sandbox.files.make_dir("closed-dir")
        await sandbox.exec("chmod 0 closed-dir", check=True)
        attempts = (
            lambda: sandbox.files.read_bytes("closed"),
            lambda: sandbox.files.write("closed", "text"),
            lambda: sandbox.files.write("closed", b"bytes"),
            lambda: sandbox.files.write("closed-dir/x", "x"),
        )
        for attempt in attempts:
            if root:  # nothing is closed to root
                await attempt()
                continue
            with pytest.raises(PermissionError, match="closed"):
                await attempt()
        await sandbox.exec("chmod 700 closed-dir", check=True)
        assert (await sandbox.files.stat("closed")).size == (5 if root else 4)
