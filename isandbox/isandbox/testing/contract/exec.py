"""Commands, exit codes, failures to start, working directory."""

from __future__ import annotations

import pytest

from isandbox import ConfigurationError, ExecFailedError, ISandbox
from isandbox.testing.contract.base import Contract


class ExecPromises(Contract):
    async def test_a_sequence_runs_without_a_shell(self, sandbox: ISandbox) -> None:
        """A sequence is argv: no element is expanded, split or quoted."""
        elements = ["$HOME", "`id`", "$(id)", "a b", "'", '"', "*", ";", "-n", ""]
        result = await sandbox.exec(["printf", "<%s>\n", *elements])
        assert result.stdout == "".join(f"<{element}>\n" for element in elements)

    async def test_a_text_runs_through_sh(self, sandbox: ISandbox) -> None:
        """A text runs through /bin/sh -c, with pipes, variables and substitutions."""
        result = await sandbox.exec("x=2; printf '%s-' a b | tr a-z A-Z; echo $((x + 1)) $0")
        assert result.stdout == "A-B-3 /bin/sh\n"

    async def test_the_exit_code_is_the_commands_own(self, sandbox: ISandbox) -> None:
        """Every exit code from 0 to 125 comes back as it was, with no fault."""
        for code in (0, 1, 2, 70, 125):
            result = await sandbox.exec(f"exit {code}")
            assert (result.exit_code, result.signal, result.fault) == (code, None, None)
            assert result.ok is (code == 0)

    async def test_check_raises_for_a_failure_with_the_result(self, sandbox: ISandbox) -> None:
        """With check=True a non-zero exit raises ExecFailedError, which carries the whole result."""
        with pytest.raises(ExecFailedError) as caught:
            await sandbox.exec("echo out; exit 3", check=True)
        assert caught.value.result.exit_code == 3
        assert caught.value.result.stdout == "out\n"
        assert (await sandbox.exec("exit 0", check=True)).ok

    async def test_a_missing_program_is_127(self, sandbox: ISandbox) -> None:
        """A program that is not there is exit code 127 with a start_error that names it, by name and by path."""
        for program in ("no-such-program-at-all", "/no/such/program"):
            result = await sandbox.exec([program])
            assert result.exit_code == 127
            assert result.start_error is not None
            assert program in result.start_error

    async def test_a_file_that_is_not_executable_is_126(self, sandbox: ISandbox) -> None:
        """A file without the execute bit is exit code 126 with a start_error."""
        await sandbox.files.write("not-executable", "#!/bin/sh\necho ran\n", mode=0o644)
        result = await sandbox.exec(["./not-executable"])
        assert (result.exit_code, result.stdout) == (126, "")
        assert result.start_error is not None

    async def test_a_directory_is_126(self, sandbox: ISandbox) -> None:
        """A directory as a program is exit code 126 with a start_error."""
        result = await sandbox.exec(["/usr"])
        assert result.exit_code == 126
        assert result.start_error is not None

    async def test_an_executable_script_runs(self, sandbox: ISandbox) -> None:
        """A file with the execute bit and a #! line runs by its relative path."""
        await sandbox.files.write("script.sh", '#!/bin/sh\necho "ran $1"\n', mode=0o755)
        assert (await sandbox.exec(["./script.sh", "it"])).stdout == "ran it\n"

    async def test_death_by_a_signal_is_128_plus_n(self, sandbox: ISandbox) -> None:
        """A command that dies by signal n has exit code 128 + n, signal n and no fault."""
        for number in (1, 2, 6, 9, 15):
            result = await sandbox.exec(f"kill -{number} $$", timeout=30)
            assert (result.exit_code, result.signal, result.fault) == (128 + number, number, None)

    async def test_an_empty_command_is_refused(self, sandbox: ISandbox) -> None:
        """An empty or blank command is ConfigurationError, not a result."""
        for command in ("", "  \n", [], [""]):
            with pytest.raises(ConfigurationError):
                await sandbox.exec(command)

    async def test_a_nul_is_refused(self, sandbox: ISandbox) -> None:
        """A NUL in a command, argument, working directory or environment is ConfigurationError."""
        with pytest.raises(ConfigurationError):
            await sandbox.exec("echo a\0b")
        with pytest.raises(ConfigurationError):
            await sandbox.exec(["echo", "a\0b"])
        with pytest.raises(ConfigurationError):
            await sandbox.exec("pwd", cwd="a\0b")
        with pytest.raises(ConfigurationError):
            await sandbox.exec("env", env={"A": "a\0b"})

    async def test_a_mebibyte_of_arguments_arrives(self, sandbox: ISandbox) -> None:
        """One MiB of arguments in all reaches the program exactly."""
        elements = [str(n % 10) * 65_000 for n in range(16)]
        result = await sandbox.exec(["printf", "%s", *elements], max_output=2 << 20)
        assert result.stdout == "".join(elements)

    async def test_an_element_that_cannot_be_passed_is_refused(self, sandbox: ISandbox) -> None:
        """An argument of 128 KiB, or two MiB of them, is ConfigurationError, and the sandbox goes on."""
        with pytest.raises(ConfigurationError, match="131072"):
            await sandbox.exec(["printf", "x" * 131_072])
        with pytest.raises(ConfigurationError):
            await sandbox.exec(["printf", *["x" * 65_000] * 32])
        assert (await sandbox.exec("echo alive")).stdout == "alive\n"

    async def test_a_long_script_runs(self, sandbox: ISandbox) -> None:
        """A script up to 1 MiB runs like a short one: same $0, no descriptor more, its exit code; a longer one is refused."""
        padding = "# " + "x" * 900_000
        result = await sandbox.exec(f"{padding}\necho $0; cat <<E\nhere\nE\ntest -e /proc/self/fd/3 || echo closed\nexit 5")
        assert (result.exit_code, result.stdout) == (5, "/bin/sh\nhere\nclosed\n")
        with pytest.raises(ConfigurationError):
            await sandbox.exec("# " + "x" * (1 << 20))

    async def test_the_default_directory_is_the_workspace(self, sandbox: ISandbox) -> None:
        """Commands start in info.workspace, which is absolute and writable."""
        result = await sandbox.exec("pwd; touch here && rm here")
        assert result.exit_code == 0, result.stderr
        assert result.stdout.strip() == sandbox.info.workspace
        assert sandbox.info.workspace.startswith("/")

    async def test_cwd_is_relative_to_the_workspace(self, sandbox: ISandbox) -> None:
        """A relative cwd starts at the workspace, an absolute one is itself; $PWD says the same."""
        await sandbox.files.make_dir("inner/most")
        result = await sandbox.exec("pwd; echo $PWD", cwd="inner/most")
        assert result.stdout.split() == [f"{sandbox.info.workspace}/inner/most"] * 2
        assert (await sandbox.exec(["printenv", "PWD"], cwd="/usr")).stdout == "/usr\n"

    async def test_a_missing_directory_is_the_standard_error(self, sandbox: ISandbox) -> None:
        """A cwd that is not there is FileNotFoundError, a file NotADirectoryError, each with the path in it."""
        with pytest.raises(FileNotFoundError, match="no-such-dir"):
            await sandbox.exec("pwd", cwd="no-such-dir")
        await sandbox.files.write("a-file", "")
        with pytest.raises(NotADirectoryError, match="a-file"):
            await sandbox.exec("pwd", cwd="a-file")
