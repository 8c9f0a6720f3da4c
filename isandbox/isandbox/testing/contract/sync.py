"""The blocking interface itself: what `isandbox.sync` adds to the promises that hold for both."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from isandbox import ConfigurationError, ExecResult, ISandbox, SandboxClosedError, sync
from isandbox.testing.contract.base import Contract, in_forked_child


class SyncPromises(Contract):
    def test_blocking_calls_are_plain_calls(self, blocking: sync.ISandbox) -> None:
        """Commands, files and handles work without an event loop, with the same results."""
        result = blocking.exec("cat; echo e >&2; exit 3", input="in")
        assert (result.stdout, result.stderr, result.exit_code) == ("in", "e\n", 3)
        blocking.files.write("sync/a", "é")
        assert [entry.path for entry in blocking.files.list("sync")] == ["sync/a"]
        with blocking.start("read x; echo $x; read x") as process:
            process.write_stdin(b"line\n")
            assert next(iter(process)) == ("stdout", b"line\n")
            process.close_stdin()
            assert process.wait().exit_code == 1

    def test_callbacks_run_in_the_callers_thread(self, blocking: sync.ISandbox) -> None:
        """Callbacks are called in the thread that made the call, and may use the sandbox themselves."""
        threads: list[int] = []

        def on_stdout(chunk: str) -> None:
            threads.append(threading.get_ident())
            blocking.files.write("from-a-callback", chunk)

        assert blocking.exec("echo x", on_stdout=on_stdout).ok
        assert threads == [threading.get_ident()]
        assert blocking.files.read_text("from-a-callback") == "x\n"

    def test_an_async_callback_is_refused(self, blocking: sync.ISandbox) -> None:
        """A coroutine function as a callback is ConfigurationError, and the command is ended."""

        async def on_stdout(chunk: str) -> None:
            raise AssertionError(chunk)

        with pytest.raises(ConfigurationError, match="async"):
            blocking.exec("echo $$ > pid-of-callback; echo x; sleep 60", on_stdout=on_stdout)
        pid = blocking.files.read_text("pid-of-callback").strip()
        assert not blocking.exec(f"kill -0 {pid}").ok

    def test_a_blocking_callback_that_raises_ends_the_command(self, blocking: sync.ISandbox) -> None:
        """What a callback raises comes out as it is, and the command is gone."""

        def fail(_: str) -> None:
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            blocking.exec("echo $$ > pid-of-failure; echo x; sleep 60", on_stdout=fail)
        pid = blocking.files.read_text("pid-of-failure").strip()
        assert not blocking.exec(f"kill -0 {pid}").ok

    async def test_a_running_loop_is_refused(self, blocking: sync.ISandbox) -> None:
        """In a thread that runs an event loop every blocking call is ConfigurationError instead of stopping the loop."""
        for call in (
            *(lambda: blocking.exec("true"), lambda: blocking.start("true")),
            *(lambda: blocking.files.read_bytes("x"), blocking.files.list),
        ):
            with pytest.raises(ConfigurationError, match="loop"):
                call()

    async def test_a_callback_of_the_async_interface_does_not_block(self, sandbox: ISandbox, blocking: sync.ISandbox) -> None:
        """A blocking call from a callback of an async exec is ConfigurationError, which comes out of that exec."""
        with pytest.raises(ConfigurationError, match="loop"):
            await sandbox.exec("echo x; sleep 60", on_stdout=lambda _: blocking.exec("true"))

    def test_threads_share_a_handle(self, blocking: sync.ISandbox) -> None:
        """Eight threads with one sandbox: each gets its own output, at the same time."""
        results: dict[int, ExecResult] = {}
        script = "touch shared-{n}; until [ $(ls shared-* | wc -l) = 8 ]; do sleep 0.02; done; echo {n}"

        def work(n: int) -> None:
            results[n] = blocking.exec(script.format(n=n), timeout=60)

        _threads(work, range(8))
        assert {n: result.stdout for n, result in results.items()} == {n: f"{n}\n" for n in range(8)}

    def test_close_from_another_thread_ends_a_call(self) -> None:
        """A call that waits while another thread closes the sandbox raises SandboxClosedError; it does not hang."""
        sandbox = self.create_sync()
        raised: list[BaseException] = []
        started = threading.Event()

        def work(_: int) -> None:
            try:
                sandbox.exec("echo x; sleep 60", on_stdout=lambda _: started.set())
            except SandboxClosedError as error:
                raised.append(error)

        def close(_: int) -> None:
            assert started.wait(30)
            sandbox.close()

        _threads(lambda n: (work, close)[n](n), range(2))
        assert [type(error) for error in raised] == [SandboxClosedError]
        with pytest.raises(SandboxClosedError):
            sandbox.exec("true")

    def test_close_from_another_thread_ends_the_draining(self) -> None:
        """A command that has exited has its result when another thread closes the sandbox while a child's output is drained."""
        for _ in range(3):
            sandbox = self.create_sync()
            exited = threading.Event()
            codes: list[int] = []

            def work(_: int, sandbox: Any = sandbox, exited: Any = exited, codes: Any = codes) -> None:
                writes = "(while :; do echo x; sleep 0.02; done) & exit 3"
                codes.append(sandbox.exec(writes, on_stdout=lambda _: exited.set()).exit_code)

            def close(_: int, sandbox: Any = sandbox, exited: Any = exited) -> None:
                assert exited.wait(30)
                time.sleep(0.3)  # the exit is reported by now, and a second of draining is not over
                sandbox.close()

            _threads(lambda n, work=work, close=close: (work, close)[n](n), range(2))
            assert codes == [3]

    def test_ctrl_c_ends_the_command(self, blocking: sync.ISandbox) -> None:
        """KeyboardInterrupt comes out of the call that waits, the command is gone by then, and the sandbox is of use."""
        ready = threading.Event()

        def interrupt(_: int) -> None:
            assert ready.wait(30)
            os.kill(os.getpid(), signal.SIGINT)

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        thread = threading.Thread(target=interrupt, args=(0,))
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                blocking.exec("echo $$ > pid-of-interrupt; echo x; sleep 60", on_stdout=lambda _: ready.set())
        finally:
            thread.join(30)
            signal.signal(signal.SIGINT, before)
        pid = blocking.files.read_text("pid-of-interrupt").strip()
        assert not blocking.exec(f"kill -0 {pid}").ok

    def test_after_a_fork_a_blocking_handle_is_closed(self, blocking: sync.ISandbox) -> None:
        """In a forked child every call is SandboxClosedError, at once; the parent's handle goes on."""
        process = blocking.start("read x; echo got $x")
        calls: tuple[Any, ...] = (lambda: blocking.exec("true"), blocking.files.list, process.wait)
        for call in calls:
            assert in_forked_child(call) == "SandboxClosedError"
        process.write_stdin(b"on\n")
        assert process.wait().stdout == "got on\n"

    def test_leaving_a_blocking_context_closes(self) -> None:
        """Leaving `with` closes, also when the body raises, and closing again is nothing."""
        with pytest.raises(LookupError, match="mine"), self.create_sync() as sandbox:
            raise LookupError("mine")
        sandbox.close()
        with pytest.raises(SandboxClosedError):
            sandbox.files.list()

    async def test_an_async_handle_belongs_to_its_loop(self, sandbox: ISandbox) -> None:
        """Another thread's event loop cannot use an async handle: ConfigurationError, not a hang."""
        import asyncio

        def elsewhere() -> None:
            asyncio.run(sandbox.exec("true"))

        with pytest.raises(ConfigurationError, match="loop"):
            await asyncio.to_thread(elsewhere)


def _threads(work: Any, numbers: range) -> None:
    """Run ``work`` of each number in a thread of its own and wait for all, a minute at the most."""
    failed: list[BaseException] = []

    def guarded(n: int) -> None:
        try:
            work(n)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(n,), daemon=True) for n in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a call hangs"
    if failed:
        raise failed[0]
