"""Errors: one tree, words for programs, no secrets."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from isandbox import (
    ConfigurationError,
    ExecCancelledError,
    ExecFailedError,
    ISandbox,
    SandboxClosedError,
    SandboxError,
    UnsupportedError,
)
from isandbox.testing.contract.base import Contract, marker

SECRET = "isandbox-contract-secret-9c21"  # noqa: S105 - the value that must not be seen


class ErrorPromises(Contract):
    """What every error is, and what the file verbs raise; no command is needed."""

    async def test_every_error_speaks_to_programs(self, sandbox: ISandbox) -> None:
        """Each error of ours is a SandboxError with a code, retryable and an outcome, and is what its kind is in the library."""
        async for error, kind in self._errors(sandbox):
            assert type(error) is kind
            assert isinstance(error, SandboxError)
            assert error.code.replace("_", "").isalpha()
            assert error.code.islower()
            assert error.retryable is False
            assert error.outcome in ("none", "unknown")
            assert str(error)
        assert issubclass(ConfigurationError, ValueError)

    async def test_errors_pickle(self, sandbox: ISandbox) -> None:
        """An error crosses processes with its type, message and attributes."""
        async for error, kind in self._errors(sandbox):
            copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
            assert type(copy) is kind
            assert (str(copy), vars(copy)) == (str(error), vars(error))

    async def _errors(self, sandbox: ISandbox) -> Any:
        """``(error, its type)`` for what every backend raises."""
        closed = await self.create()
        await closed.close()
        unclaimed = next(v for v in ("pause", "snapshot", "fork", "detach") if v not in sandbox.info.capabilities.verbs)
        for attempt, kind in (
            (lambda: sandbox.exec(""), ConfigurationError),
            (lambda: sandbox.files.read_bytes(""), ConfigurationError),
            (getattr(sandbox, unclaimed), UnsupportedError),
            (closed.files.list, SandboxClosedError),
        ):
            with pytest.raises(kind) as caught:
                await attempt()
            yield caught.value, kind

    async def test_file_errors_carry_errno_and_path(self, sandbox: ISandbox) -> None:
        """For every verb a missing file is FileNotFoundError with errno, the path as it was given, and no error of ours."""
        files = sandbox.files
        verbs: tuple[Callable[[str], Awaitable[object]], ...] = (
            *(files.stat, files.read_bytes, files.read_text, files.list, files.remove),
            lambda path: files.rename(path, "elsewhere"),
            lambda path: files.make_dir(f"{path}/below", parents=False),
        )
        for verb in verbs:
            with pytest.raises(FileNotFoundError) as caught:
                await verb("is-not/there")
            error = caught.value
            assert (error.errno, str(error.filename).startswith("is-not/there")) == (2, True)
            assert not isinstance(error, SandboxError)

    async def test_a_file_in_the_way_is_not_a_directory(self, sandbox: ISandbox) -> None:
        """For every verb a path below a file is NotADirectoryError with the path in it."""
        await sandbox.files.write("a-file", "")
        files, path = sandbox.files, "a-file/below"
        for attempt in (files.stat(path), files.read_bytes(path), files.write(path, ""), files.list(path), files.remove(path)):
            with pytest.raises(NotADirectoryError, match="a-file/below"):
                await attempt

    async def test_a_refused_value_is_not_repeated(self, sandbox: ISandbox) -> None:
        """The message of a refused variable names it and never shows its value, in str, repr or traceback, chained ones too."""
        for env in ({"TOKEN": f"{SECRET}\0"}, {"TOKEN": SECRET * 10_000}, {"A=B": SECRET}, {" ": SECRET}):
            for attempt in (_call(self.create, env), _exec(sandbox, env)):
                with pytest.raises(ConfigurationError) as caught:
                    await attempt
                assert SECRET not in _everything(caught.value)

    async def test_a_record_shows_no_secret(self) -> None:
        """Repr of a creation, a sandbox and its info show no value of env=."""
        creation = self.create(env={"TOKEN": SECRET})
        async with creation as sandbox:
            assert SECRET not in repr((creation, sandbox, sandbox.info))


class ErrorCommandPromises(Contract):
    """Errors and results of commands."""

    async def test_no_secret_is_in_an_error_of_a_command(self, caplog: pytest.LogCaptureFixture) -> None:
        """Whatever becomes of a command, its env= and input stand in no error, result's repr or log line."""
        caplog.set_level(logging.DEBUG, logger="isandbox")
        async with self.create(env={"OF_SANDBOX": SECRET}) as sandbox:
            given: dict[str, Any] = {"env": {"OF_COMMAND": SECRET}, "input": SECRET}
            for command, options in (
                ("exit 3", {}),
                ("sleep 60", {"timeout": 0.2}),
                (["no-such-program"], {}),
                ("true", {"cwd": "no-such-directory"}),
                ("true", {"user": "no-such-user"}),
                ("kill -9 $$", {}),
            ):
                with pytest.raises((SandboxError, OSError)) as caught:
                    await sandbox.exec(command, check=True, **given, **options)
                assert SECRET not in _everything(caught.value)
            assert SECRET not in repr(await sandbox.exec("env; cat", **given))
        assert SECRET not in caplog.text

    async def test_commands_are_not_logged(self, sandbox: ISandbox, caplog: pytest.LogCaptureFixture) -> None:
        """At INFO the log holds no argv and no output."""
        caplog.set_level(logging.INFO)
        word = f"word-{marker()}"
        await sandbox.exec(["echo", word])
        await sandbox.exec([word])
        assert word not in caplog.text

    async def test_results_pickle_and_hide_output(self, sandbox: ISandbox) -> None:
        """A result with everything in it pickles to an equal one, and its repr shows no output."""
        result = await sandbox.exec(
            "echo never-shown; echo never-shown >&2; head -c 5000 /dev/zero; kill -9 $$", max_output=99
        )
        assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301 - our own bytes
        assert "never-shown" in result.stdout
        assert "never-shown" not in repr(result)

    async def test_check_says_what_happened(self, sandbox: ISandbox) -> None:
        """ExecFailedError names the exit code, the signal, or the program that did not start; it pickles with its result."""
        for command, says in ((["sh", "-c", "exit 41"], "41"), ("kill -TERM $$", "SIGTERM"), (["no-such-x"], "no-such-x")):
            with pytest.raises(ExecFailedError, match=says) as caught:
                await sandbox.exec(command, check=True)
            assert (type(caught.value), caught.value.code) == (ExecFailedError, "exec_failed")
            copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
            assert (copy.result, str(copy)) == (caught.value.result, str(caught.value))

    async def test_check_maps_a_kill(self, sandbox: ISandbox) -> None:
        """The result of a killed handle is ExecCancelledError to check, with the output so far."""
        async with await sandbox.start("echo so far; sleep 60") as process:
            assert (await anext(process.__aiter__())) == ("stdout", b"so far\n")
            await process.kill()
            with pytest.raises(ExecCancelledError) as caught:
                (await process.wait()).check()
        assert caught.value.result.stdout == "so far\n"


async def _call(create: Callable[..., Any], env: dict[str, str]) -> None:
    create(env=env)


async def _exec(sandbox: ISandbox, env: dict[str, str]) -> None:
    await sandbox.exec("true", env=env)


def _everything(error: BaseException) -> str:
    """All that a log or a crash report would show of an error."""

    def chain() -> Iterator[BaseException]:
        seen: BaseException | None = error
        while seen is not None:
            yield seen
            seen = seen.__cause__ or seen.__context__

    shown = "".join(traceback.format_exception(error))
    return shown + "".join(f"{e!s} {e!r} {e.args!r} {vars(e)!r}" for e in chain())
