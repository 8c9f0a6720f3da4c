"""What a command gets, and what it does not get from the host."""

from __future__ import annotations

import os
import tempfile

import pytest

from isandbox import ConfigurationError, ISandbox
from isandbox.testing.contract.base import Contract, host_command_lines, marker

SECRET = "isandbox-contract-secret-7f3a"  # noqa: S105 - the value that must not be seen


class InheritancePromises(Contract):
    async def test_the_hosts_environment_is_hidden(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No variable of the host process is in a command's environment or in what it can read of its parents'."""
        monkeypatch.setenv("SECRET_OF_THE_CONTRACT", SECRET)
        async with self.create() as sandbox:
            result = await sandbox.exec("env; cat /proc/self/environ /proc/$PPID/environ 2>/dev/null; true")
        assert "PATH=" in result.stdout
        assert SECRET not in result.stdout

    async def test_the_world_inside_is_the_documented_one(self, sandbox: ISandbox) -> None:
        """PATH, HOME, USER, LANG, TZ and TMPDIR are set; HOME and TMPDIR can be written to; TERM is not set."""
        result = await sandbox.exec('touch "$HOME/a" "$TMPDIR/a" && echo "$USER $LANG $TZ ${TERM-none}"')
        assert result.stdout == "user C.UTF-8 UTC none\n", result.stderr

    async def test_values_arrive_exactly(self, sandbox: ISandbox) -> None:
        """env= values reach the program byte for byte: spaces, quotes, newlines, other scripts, nothing."""
        env = {"A": "two  words", "B": "'\"`$x\\", "C": "line\nline", "D": "naïve 中文 😀", "E": "", "with.dot": "x=y"}
        script = "import os, json, sys; print(json.dumps({k: os.environ[k] for k in sys.argv[1:]}))"
        if (await sandbox.exec(["python3", "-c", "pass"])).ok:
            result = await sandbox.exec(["python3", "-c", script, *env], env=env, check=True)
            import json

            assert json.loads(result.stdout) == env
        for name in "ABCDE":
            shown = await sandbox.exec(f'printf "%s" "${name}"', env=env)
            assert shown.stdout == env[name]

    async def test_a_commands_environment_does_not_stay(self, sandbox: ISandbox) -> None:
        """env= of one command is not seen by the next."""
        assert (await sandbox.exec("echo $ONCE", env={"ONCE": "1"})).stdout == "1\n"
        assert (await sandbox.exec("echo ${ONCE-gone}")).stdout == "gone\n"

    async def test_impossible_names_are_refused(self, sandbox: ISandbox) -> None:
        """An environment name that is empty or holds '=', NUL, a newline or outer white space is ConfigurationError."""
        for name in ("", "A=B", "A\0", "A\nB", " A", "A "):
            with pytest.raises(ConfigurationError):
                await sandbox.exec("true", env={name: "x"})

    async def test_the_hosts_descriptors_are_closed(self) -> None:
        """Descriptors that the host holds open and inheritable are not there: a command has 0, 1 and 2."""
        with tempfile.TemporaryFile() as file:
            os.set_inheritable(file.fileno(), True)
            high = os.dup2(file.fileno(), 200, inheritable=True)
            try:
                async with self.create() as sandbox:
                    result = await sandbox.exec("for f in /proc/self/fd/*; do [ -e $f ] && echo ${f##*/}; done")
            finally:
                os.close(high)
        assert result.stdout.split() == ["0", "1", "2"]

    async def test_signals_are_as_after_boot(self, sandbox: ISandbox) -> None:
        """No signal is ignored or blocked: a writer whose reader is gone dies by SIGPIPE."""
        result = await sandbox.exec("grep -E '^Sig(Blk|Ign):' /proc/self/status; yes | head -n 1", timeout=30)
        assert result.exit_code == 0
        lines = result.stdout.split()
        glibcs_own = 1 << 31 | 1 << 32  # 32 and 33: glibc's posix_spawn leaves them ignored, no program can use them
        assert int(lines[1], 16) == int(lines[3], 16) & ~glibcs_own == 0
        assert lines[4] == "y"

    async def test_the_umask_is_022(self, sandbox: ISandbox) -> None:
        """The umask inside is 022 whatever the host's is."""
        before = os.umask(0o077)
        try:
            result = await sandbox.exec("umask; touch masked; ls -l masked | cut -c1-10")
        finally:
            os.umask(before)
        assert result.stdout.split() == ["0022", "-rw-r--r--"]

    async def test_there_are_no_core_files(self, sandbox: ISandbox) -> None:
        """The core file size is 0 and cannot be raised."""
        result = await sandbox.exec("ulimit -c; ulimit -c unlimited 2>/dev/null || echo refused")
        assert result.stdout.split() == ["0", "refused"]

    async def test_every_byte_of_a_value_arrives(self, sandbox: ISandbox) -> None:
        """A value of every byte but NUL, UTF-8 or not, is the program's; so is a value of 100,000 bytes."""
        data = bytes(range(1, 256))
        result = await sandbox.exec(["printenv", "ODD"], env={"ODD": data.decode("utf-8", "surrogateescape")})
        assert result.stdout_bytes == data + b"\n"
        assert (await sandbox.exec("printf %s ${#LONG}", env={"LONG": "x" * 100_000})).stdout == "100000"

    async def test_a_secret_is_in_no_command_line(self) -> None:
        """Values of env= and input never stand in an argv of the machine, which every user can read."""
        secret = f"{SECRET}-{marker()}"
        script = 'test -n "$OF_COMMAND" && echo has; sleep 60'
        async with (
            self.create(env={"OF_SANDBOX": secret}) as sandbox,
            await sandbox.start(script, env={"OF_COMMAND": secret}) as process,
        ):
            await process.write_stdin(secret.encode())
            assert (await anext(process.__aiter__())) == ("stdout", b"has\n")
            lines = host_command_lines()
        assert [line for line in lines if secret in line] == []
        assert any("python" in line for line in lines), "our own is not seen: nothing was looked at"
