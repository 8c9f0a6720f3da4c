"""Names that a careless program would take for something else."""

from __future__ import annotations

import errno

import pytest

from isandbox import ISandbox
from isandbox.testing.contract.base import Contract

HOSTILE_NAMES = ["-rf", "a b", "$(touch pwned)", "'; touch pwned #", "new\nline", "ünïcödé", "\udcff", "*", "~", "x" * 255]


class HostileNamePromises(Contract):
    """Hostile names through the file verbs."""

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

    async def test_hostile_directories_are_names(self, sandbox: ISandbox) -> None:
        """Directories with hostile names are made, listed, renamed and removed, and nothing beside them."""
        await sandbox.files.write("beside", "kept")
        for name in HOSTILE_NAMES:
            await sandbox.files.make_dir(f"dirs/{name}/inner")
            await sandbox.files.write(f"dirs/{name}/inner/-f", "1")
            await sandbox.files.rename(f"dirs/{name}", "dirs/plain")
            await sandbox.files.rename("dirs/plain", f"dirs/{name}")
            assert [entry.path for entry in await sandbox.files.list(f"dirs/{name}/inner")] == [f"dirs/{name}/inner/-f"]
            await sandbox.files.remove(f"dirs/{name}", recursive=True)
        assert await sandbox.files.list("dirs") == []
        assert await sandbox.files.read_text("beside") == "kept"

    async def test_a_name_that_is_too_long_is_the_kernels_error(self, sandbox: ISandbox) -> None:
        """A name of 256 bytes, in characters or not, is OSError (ENAMETOOLONG) for every verb, not a shortened one."""
        files = sandbox.files
        for name in ("x" * 256, "é" * 128):
            for attempt in (files.write(name, ""), files.read_bytes(name), files.make_dir(name), files.stat(name)):
                with pytest.raises(OSError) as caught:
                    await attempt
                assert caught.value.errno == errno.ENAMETOOLONG

    async def test_a_url_is_a_path(self, sandbox: ISandbox) -> None:
        """What looks like a URL or has escapes is a path like any other: not there, with all of it in the message."""
        path = "https:/en.wikipedia.org/wiki/%C5%81%2F..%2f?x=1#y"
        with pytest.raises(FileNotFoundError) as caught:
            await sandbox.files.read_bytes(path)
        assert path in str(caught.value)

    async def test_names_of_dots_are_names(self, sandbox: ISandbox) -> None:
        """Leading and trailing dots and blanks, backslashes and colons belong to a name."""
        names = ["...", "..a", ".hidden", "a.", " lead", "trail ", "back\\slash", "C:\\x", "c:", "a//b"]
        for name in names:
            await sandbox.files.write(f"dots/{name}", name)
            assert await sandbox.files.read_text(f"dots/{name}") == name
        listed = {entry.name for entry in await sandbox.files.list("dots")}
        assert listed == {*names[:-1], "a"}


class HostileNameCommandPromises(Contract):
    """Hostile names of what a command runs and where."""

    async def test_a_hostile_working_directory(self, sandbox: ISandbox) -> None:
        """cwd= takes any name of a directory literally."""
        for name in HOSTILE_NAMES:
            await sandbox.files.make_dir(f"cwd/{name}")
            result = await sandbox.exec(["pwd"], cwd=f"cwd/{name}")
            path = f"{sandbox.info.workspace}/cwd/{name}\n"
            assert result.stdout_bytes == path.encode("utf-8", "surrogateescape")
        assert not await sandbox.files.exists("pwned")

    async def test_a_hostile_program_name(self, sandbox: ISandbox) -> None:
        """A program with any name runs when it is named by its path, as itself."""
        for name in HOSTILE_NAMES:
            await sandbox.files.write(f"programs/{name}", "#!/bin/sh\necho ran\n", mode=0o755)
            assert (await sandbox.exec([f"programs/{name}"])).stdout == "ran\n"
        assert not await sandbox.files.exists("pwned")

    async def test_commands_and_verbs_agree_on_names(self, sandbox: ISandbox) -> None:
        """A name that a command gives a file is the one that the verbs list, and the other way round."""
        for name in HOSTILE_NAMES:
            await sandbox.exec(["touch", "--", f"./{name}"], check=True)
            assert (await sandbox.files.stat(f"./{name}")).kind == "file"
            await sandbox.files.rename(f"./{name}", "renamed")
            assert (await sandbox.exec(["mv", "--", "renamed", f"./{name}"])).ok
            await sandbox.files.remove(f"./{name}")
