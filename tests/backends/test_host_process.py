"""What a sandbox owes the process that made it: fork, death, threads, signals, the garbage collector."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from isandbox import ConfigurationError, SandboxClosedError, create_sandbox, sync

pytestmark = [pytest.mark.native, pytest.mark.parametrize("backend", ["seccomp", "local"])]


@pytest.fixture
def leftovers() -> Iterator[None]:
    """Removes the directories that `local` leaves on disk when its host is killed."""
    yield
    for leftover in Path(tempfile.gettempdir()).glob("isandbox-*"):
        subprocess.run(["rm", "-rf", str(leftover)], check=True, timeout=20)


@contextlib.contextmanager
def host(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A host process of its own, ended whatever happens."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": tempfile.gettempdir()},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


@pytest.mark.usefixtures("leftovers")
def test_death_of_the_host_ends_everything_inside(backend: str, nap: Any) -> None:
    """SIGKILL of the host process ends every command and the helper, also what left its session."""
    script = """
        import sys, time
        from isandbox.sync import create_sandbox
        sandbox = create_sandbox(sys.argv[1])
        sandbox.start("setsid NAP & (NAP &) ; NAP".replace("NAP", sys.argv[2]))
        print("up", flush=True)
        time.sleep(60)
    """
    with host(script, backend, str(nap)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert nap.soon(3)
        process.kill()
        assert nap.soon(0)


@pytest.mark.usefixtures("leftovers")
def test_a_forked_child_holds_nothing(backend: str, nap: Any) -> None:
    """A child of the host made by os.fork does not keep the sandbox alive when the host is killed."""
    script = """
        import os, sys, time
        from isandbox.sync import create_sandbox
        sandbox = create_sandbox(sys.argv[1])
        sandbox.start(sys.argv[2])
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        print("up", flush=True)
        time.sleep(60)
    """
    with host(script, backend, str(nap)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert nap.soon(1)
        children = psutil.Process(process.pid).children()
        process.kill()
        try:
            assert nap.soon(0)
        finally:
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()


def test_a_handle_does_not_survive_fork(backend: str) -> None:
    """After os.fork the child's handle raises SandboxClosedError and never hangs; the parent's goes on."""
    with sync.create_sandbox(backend) as sandbox, sandbox.start("sleep 0.5; echo late") as process:
        pid = os.fork()
        if pid == 0:
            try:
                with contextlib.suppress(SandboxClosedError):
                    process.wait()
                    os._exit(3)
                sandbox.exec("true")
            except SandboxClosedError:
                os._exit(42)
            except BaseException:
                os._exit(1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
        assert sandbox.exec("echo parent").stdout == "parent\n"
        assert process.wait().stdout == "late\n"


def test_a_child_process_inherits_no_descriptor(backend: str) -> None:
    """A program that the host starts while a sandbox lives, with inherited descriptors, gets none of the sandbox's."""
    with sync.create_sandbox(backend) as sandbox, sandbox.start("sleep 60"):
        listing = subprocess.run(
            ["sh", "-c", "ls -l /proc/self/fd"], capture_output=True, text=True, close_fds=False, check=True, timeout=20
        ).stdout
    assert "socket:" not in listing
    assert "pidfd" not in listing


def test_an_exit_without_close_leaves_nothing(backend: str, nap: Any) -> None:
    """A script that ends with a sandbox open ends quietly, with its own exit code, and leaves nothing."""
    script = """
        import sys
        from isandbox.sync import create_sandbox
        sandbox = create_sandbox(sys.argv[1])
        sandbox.exec(f"{sys.argv[2]} >/dev/null 2>&1 & echo x > file")
        sys.exit(7)
    """
    with host(script, backend, str(nap)) as process:
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (7, "", "")
    assert nap.soon(0)


def test_a_dropped_handle_warns(backend: str, nap: Any) -> None:
    """A sandbox that is dropped without close is a ResourceWarning, and its processes end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sandbox = sync.create_sandbox(backend)
        sandbox.exec(f"{nap} >/dev/null 2>&1 &")
        directories = sandbox._core.scratch  # type: ignore[attr-defined]
        client = sandbox._core.client  # type: ignore[attr-defined]
        del sandbox
        gc.collect()
    assert any(isinstance(entry.message, ResourceWarning) for entry in caught)
    client.hang_up()
    client.reap()
    for directory in directories:
        subprocess.run(["rm", "-rf", directory], check=True, timeout=20)
    assert nap.soon(0)


def test_many_threads_share_a_handle(backend: str) -> None:
    """A blocking handle is thread-safe: commands of sixteen threads do not mix, and close from another thread ends them."""
    results: dict[int, str] = {}
    errors: list[BaseException] = []
    with sync.create_sandbox(backend) as sandbox:

        def work(number: int) -> None:
            try:
                for _ in range(5):
                    results[number] = sandbox.exec(f"echo {number}; sleep 0.01; echo {number}").stdout
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert errors == []
    assert results == {number: f"{number}\n{number}\n" for number in range(16)}


def test_ctrl_c_ends_the_command(backend: str, nap: Any) -> None:
    """SIGINT during a blocking exec ends the command, then raises KeyboardInterrupt; the sandbox lives on."""
    script = """
        import sys
        from isandbox.sync import create_sandbox
        with create_sandbox(sys.argv[1]) as sandbox:
            try:
                sandbox.exec(f"echo started > flag; {sys.argv[2]} & {sys.argv[2]}", timeout=None, on_stdout=print)
            except KeyboardInterrupt:
                print("interrupted", sandbox.exec("echo alive").stdout.strip(), flush=True)
    """
    with host(script, backend, str(nap)) as process:
        assert nap.soon(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, "interrupted alive\n"), err
    assert nap.soon(0)


async def test_blocking_calls_refuse_a_running_loop(backend: str) -> None:
    """The blocking interface raises in a thread with a running event loop: the factory, and a handle made elsewhere."""
    with pytest.raises(ConfigurationError, match="event loop"):
        sync.create_sandbox(backend)
    sandbox = await asyncio.to_thread(sync.create_sandbox, backend)
    try:
        with pytest.raises(ConfigurationError, match="event loop"):
            sandbox.exec("true")
        with pytest.raises(ConfigurationError, match="event loop"):
            sandbox.files.exists("x")
    finally:
        await asyncio.to_thread(sandbox.close)


def test_an_async_handle_belongs_to_its_loop(backend: str) -> None:
    """An async handle used in another event loop raises instead of hanging."""

    async def make() -> object:
        return await create_sandbox(backend)

    async def use(sandbox: object) -> None:
        with pytest.raises(ConfigurationError, match="event loop"):
            await sandbox.exec("true")  # type: ignore[attr-defined]
        await sandbox.close()  # type: ignore[attr-defined]

    sandbox = asyncio.run(make())
    asyncio.run(use(sandbox))


async def test_the_loop_stays_responsive(backend: str) -> None:
    """While sandboxes are made, used with 50 MiB of input and closed, a ticker of the same loop keeps ticking."""
    ticks = 0

    async def ticker() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    task = asyncio.create_task(ticker())
    async with create_sandbox(backend) as sandbox:
        await sandbox.exec("cat; sleep 1", input=b"x" * (50 << 20), timeout=60)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert ticks > 20


def test_a_host_that_ignores_sigchld(backend: str) -> None:
    """A host that ignores SIGCHLD, and so never sees a zombie, gets results all the same."""
    script = """
        import signal, sys
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        from isandbox.sync import create_sandbox
        with create_sandbox(sys.argv[1]) as sandbox:
            print(sandbox.exec("echo fine; exit 3"). exit_code)
    """
    with host(script, backend) as process:
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, "3\n"), err


def test_errors_and_results_pickle_handles_do_not(backend: str) -> None:
    """What a worker process would send back can be sent; a live handle cannot."""
    with sync.create_sandbox(backend) as sandbox:
        result = sandbox.exec("echo x; exit 2")
        with pytest.raises(TypeError):
            pickle.dumps(sandbox)
    copy = pickle.loads(pickle.dumps(result))  # noqa: S301 - our own bytes
    assert copy == result
    assert copy.stdout == "x\n"
