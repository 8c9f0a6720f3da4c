"""Which program runs, and what one command leaves for the next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from isandbox import ConfigurationError, ExecResult, ISandbox, UnsupportedError
from isandbox.testing.contract.base import Contract


class ProgramPromises(Contract):
    async def test_nothing_of_a_shell_stays(self, sandbox: ISandbox) -> None:
        """The cd, umask, variables and limits of one command are gone in the next."""
        await sandbox.exec("cd /; umask 077; export STAYS=1; ulimit -n 20", check=True)
        result = await sandbox.exec("pwd; umask; echo ${STAYS-gone}; ulimit -n")
        assert result.stdout.split()[:3] == [sandbox.info.workspace, "0022", "gone"]
        assert result.stdout.split()[3] != "20"

    async def test_a_shell_that_dies_harms_nobody(self, sandbox: ISandbox) -> None:
        """After commands that exit, replace or kill their shell, or the whole of their group, the next one runs."""
        for script in ("exit 0", "exec true", "kill -9 $$", "kill -9 0", "exit 255"):
            await sandbox.exec(script, timeout=30)
            assert (await sandbox.exec("echo ok")).stdout == "ok\n", script

    async def test_arguments_of_any_bytes_arrive(self, sandbox: ISandbox) -> None:
        """Control characters and bytes that are no UTF-8 (surrogateescape) reach the program as they are."""
        data = bytes(byte for byte in range(1, 256))
        result = await sandbox.exec(["printf", "%s", data.decode("utf-8", "surrogateescape")])
        assert result.stdout_bytes == data

    async def test_a_script_keeps_its_bytes(self, sandbox: ISandbox) -> None:
        """A text with a here-document, a continued line, bytes that are no UTF-8 and no newline at its end runs as it is."""
        result = await sandbox.exec("cat <<'E'\n $x \udcff\\\nE\nprintf '%s' a\\\nb # no newline")
        assert result.stdout_bytes == b" $x \xff\\\nab"

    async def test_a_broken_script_is_the_shells_own_failure(self, sandbox: ISandbox) -> None:
        """A syntax error is the shell's exit code and its message on stderr, with no fault and no start_error."""
        result = await sandbox.exec("if then")
        assert (result.exit_code, result.fault, result.start_error) == (2, None, None)
        assert "yntax" in result.stderr

    async def test_an_own_exit_126_or_127_is_no_start_error(self, sandbox: ISandbox) -> None:
        """A program that ran and exits 126, 127 or 255 has that exit code and no start_error."""
        for code in (126, 127, 255):
            result = await sandbox.exec(f"exit {code}")
            assert (result.exit_code, result.start_error, result.signal) == (code, None, None)

    async def test_a_text_without_a_hash_bang_is_126(self, sandbox: ISandbox) -> None:
        """An executable file that the kernel cannot run is 126 with a start_error: no shell is tried on it."""
        await sandbox.files.write("no-hash-bang", "echo ran\n", mode=0o755)
        result = await sandbox.exec(["./no-hash-bang"])
        assert (result.exit_code, result.stdout) == (126, "")
        assert "no-hash-bang" in (result.start_error or "")

    async def test_a_missing_interpreter_is_a_start_error(self, sandbox: ISandbox) -> None:
        """A script whose interpreter is not there does not start: 127 with a start_error, and nothing was run."""
        await sandbox.files.write("no-interpreter", "#!/no/such/interpreter\necho ran\n", mode=0o755)
        result = await sandbox.exec(["./no-interpreter"])
        assert (result.exit_code, result.stdout) == (127, "")
        assert result.start_error is not None

    async def test_a_relative_program_starts_at_cwd(self, sandbox: ISandbox) -> None:
        """A path with a slash starts at cwd=; a bare name is never looked up there."""
        await sandbox.files.write("tools/mine-alone", "#!/bin/sh\necho mine\n", mode=0o755)
        assert (await sandbox.exec(["./mine-alone"], cwd="tools")).stdout == "mine\n"
        assert (await sandbox.exec(["tools/mine-alone"])).stdout == "mine\n"
        assert (await sandbox.exec(["mine-alone"], cwd="tools")).exit_code == 127

    async def test_programs_are_found_by_the_commands_path(self, sandbox: ISandbox) -> None:
        """A bare name is looked up in the PATH of env=, where it has one, in its order."""
        for place in ("first", "second"):
            await sandbox.files.write(f"{place}/in-path", f"#!/bin/sh\necho {place}\n", mode=0o755)
        path = f"{sandbox.info.workspace}/first:{sandbox.info.workspace}/second:/usr/bin:/bin"
        for command in (["in-path"], "in-path"):
            assert (await sandbox.exec(command, env={"PATH": path})).stdout == "first\n"
        assert (await sandbox.exec(["in-path"])).exit_code == 127
        assert (await sandbox.exec(["ls"], env={"PATH": "/no/such/place"})).exit_code == 127

    async def test_a_planted_program_is_not_ours(self, sandbox: ISandbox) -> None:
        """Programs that stand first in PATH under the names of tools are not run on our behalf, by commands or file verbs."""
        tools = ("sh", "timeout", "env", "cat", "setsid", "tar", "stat", "rm", "kill", "ps", "python3")
        for name in tools:
            await sandbox.files.write(f"planted/{name}", "#!/bin/sh\necho $0 >> planted/ran\n", mode=0o755)
        path = f"{sandbox.info.workspace}/planted:/usr/bin:/bin"
        assert (await sandbox.exec("echo real", env={"PATH": path}, timeout=30)).stdout == "real\n"
        assert (await sandbox.exec("while :; do :; done", env={"PATH": path}, timeout=0.2)).fault == "timeout"
        await sandbox.files.write("planted/data", "x")
        await sandbox.files.stat("planted/data")
        await sandbox.files.remove("planted/data")
        assert not await sandbox.files.exists("planted/ran")
        assert (await sandbox.exec("cat", env={"PATH": path})).ok, "the trap itself works"
        assert await sandbox.files.exists("planted/ran")

    async def test_what_is_no_command_is_refused(self, sandbox: ISandbox) -> None:
        """Bytes, numbers, None and sequences of anything but texts are ConfigurationError."""
        for command in (b"echo x", 3, None, ["echo", 3], ["echo", b"x"], {"echo"}):
            with pytest.raises(ConfigurationError):
                await sandbox.exec(command)  # type: ignore[arg-type]

    async def test_impossible_options_are_refused(self, sandbox: ISandbox) -> None:
        """An option of another type or out of its range is ConfigurationError, and nothing runs."""
        bad: tuple[dict[str, Any], ...] = (
            *({"max_output": value} for value in (-1, 1.5, True, "1")),
            *({"stderr": value} for value in ("both", None)),
            *({"cwd": value} for value in ("", 3, "x" * 5000)),
            *({"input": value} for value in (3, ["x"])),
            *({"env": value} for value in ([("A", "b")], {"A": 1}, {1: "a"})),
        )
        for options in bad:
            with pytest.raises(ConfigurationError):
                await sandbox.exec("touch must-not-run", **options)
        assert not await sandbox.files.exists("must-not-run")

    async def test_a_user_is_honoured_or_refused(self, sandbox: ISandbox) -> None:
        """user= runs the command as that user, or is UnsupportedError that names it; an unknown user is never ignored."""
        for user in ("root", "nobody"):
            end = (await asyncio.gather(sandbox.exec("id -un", user=user), return_exceptions=True))[0]
            if isinstance(end, ExecResult):
                assert end.stdout == f"{user}\n"
                continue
            assert isinstance(end, UnsupportedError)
            assert (end.option, end.backend) == ("user", sandbox.info.backend)
            assert user in str(end)
        with pytest.raises((UnsupportedError, ConfigurationError), match="no-such-user"):
            await sandbox.exec("touch must-not-run", user="no-such-user")
        assert not await sandbox.files.exists("must-not-run")
