"""Who ran out of what: each fault and each limit is told apart, truly, and charged to the command that met it."""

from __future__ import annotations

import asyncio

import pytest

from isandbox import ExecCpuError, ExecMemoryError, ExecResult, ISandbox, Quotas, UnsupportedError
from isandbox.testing.contract.base import Contract, marker, processes

# Touches memory for ever; the interpreter that every image of ours has. Never more than 3 GiB, whatever the quota does.
HOG = "import time\nkept = [bytearray(b'x' * (1 << 20)) for _ in range(3 << 10)]\ntime.sleep(30)"
# A moment in which a limit stays used up, long enough for a look.
HOLD = 0.4


class LimitPromises(Contract):
    """Faults and limits, told apart; each is asked of a backend that enforces the quota, and refused by another."""

    async def _limited(self, name: str, value: object, script: str, **options: object) -> ExecResult | None:
        """The result of a script under one quota; ``None`` where that is unsupported, which was refused by name."""
        try:
            creation = self.create(quotas=Quotas(**{name: value}))  # type: ignore[arg-type]
        except UnsupportedError as error:
            if error.option != f"quotas.{name}":
                raise
            return None
        async with creation as sandbox:
            told = sandbox.info.capabilities.quota(name).told
            result: ExecResult = await sandbox.exec(script, **options)
            assert (await sandbox.exec("echo fine")).stdout == "fine\n"
            if not told:
                assert name not in result.limits_hit
            return result if told else None

    async def test_memory_over_the_quota_is_oom(self) -> None:
        """A command whose processes use more memory than the quota ends with fault oom, and check maps it."""
        async with self.create(quotas=Quotas(memory="64MiB")) as sandbox:
            result = await sandbox.exec(["python3", "-c", HOG], timeout=60)
            assert (result.fault, result.ok) == ("oom", False)
            with pytest.raises(ExecMemoryError):
                await sandbox.exec(["python3", "-c", HOG], timeout=60, check=True)
            assert (await sandbox.exec("echo fine")).stdout == "fine\n"

    async def test_a_child_out_of_memory_ends_the_whole_command(self) -> None:
        """When a grandchild is over the memory quota, all of its command ends: no shell goes on as if nothing had been."""
        nap = marker()
        async with self.create(quotas=Quotas(memory="64MiB")) as sandbox:
            await sandbox.files.write("hog.py", HOG)
            result = await sandbox.exec(f"(python3 hog.py); sleep {nap}; echo went on", timeout=60)
            assert (result.fault, result.stdout) == ("oom", "")
            assert await processes(sandbox, nap) == []

    async def test_oom_ends_the_command_that_used_the_memory(self) -> None:
        """A small command beside it lives on, and has no fault."""
        async with self.create(quotas=Quotas(memory="96MiB")) as sandbox:
            small = asyncio.create_task(sandbox.exec("until [ -e go ]; do sleep 0.05; done; echo survived", timeout=60))
            await asyncio.sleep(0.1)
            result = await sandbox.exec(["python3", "-c", HOG], timeout=60)
            assert result.fault == "oom"
            await sandbox.files.write("go", "")
            other = await small
            assert (other.stdout, other.fault) == ("survived\n", None)

    async def test_memory_below_the_quota_is_no_fault(self) -> None:
        """A command that uses half of the quota, and one that kills itself as the kernel would, have no fault."""
        async with self.create(quotas=Quotas(memory="256MiB")) as sandbox:
            half = await sandbox.exec(["python3", "-c", "x = b'x' * (128 << 20); print(len(x))"], timeout=60)
            assert (half.stdout, half.fault) == (f"{128 << 20}\n", None)
            own = await sandbox.exec("kill -9 $$")
            assert (own.exit_code, own.fault) == (137, None)

    async def test_cpu_time_of_all_its_children_counts(self) -> None:
        """Processes that burn CPU one after the other add up to fault cpu, which check maps; sleeping costs nothing."""
        async with self.create(quotas=Quotas(cpu_time=0.3)) as sandbox:
            burn = "sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'"
            result = await sandbox.exec(f"while :; do {burn}; done", timeout=60)
            assert result.fault == "cpu"
            with pytest.raises(ExecCpuError):
                await sandbox.exec("while :; do :; done", timeout=60, check=True)
            assert (await sandbox.exec("sleep 0.4; echo idle")).stdout == "idle\n"

    async def test_a_refused_process_is_told(self) -> None:
        """A command that was refused a process goes on; its result names pids."""
        script = f"n=0; while [ $n -lt 40 ]; do sleep {HOLD} & n=$((n+1)); done; wait"
        result = await self._limited("pids", 16, f"sh -c '{script}' || sleep {HOLD}", timeout=60)
        if result is not None:
            assert (result.fault, set(result.limits_hit)) == (None, {"pids"})

    async def test_a_full_disk_is_told(self) -> None:
        """A command that was refused room goes on; its result names disk."""
        result = await self._limited("disk", "1MiB", "head -c 5000000 /dev/zero > full; echo $?; rm -f full", timeout=60)
        if result is not None:
            assert result.stdout != "0\n"
        result = await self._limited("disk", "1MiB", f"head -c 5000000 /dev/zero > full; sleep {HOLD}; rm full", timeout=60)
        if result is not None:
            assert (result.fault, set(result.limits_hit)) == (None, {"disk"})

    async def test_too_many_open_files_are_told(self) -> None:
        """A command that was refused a descriptor goes on; its result names open_files."""
        script = (
            "import time, errno\nkept = []\ntry:\n    while True: kept.append(open('/dev/null'))\n"
            f"except OSError as error:\n    assert error.errno == errno.EMFILE\n    time.sleep({HOLD})\n"
            "    kept.clear()\n    print('refused')"
        )
        result = await self._limited("open_files", 32, f'python3 -c "{script}"', timeout=60)
        if result is not None:
            assert (result.stdout, result.fault, set(result.limits_hit)) == ("refused\n", None, {"open_files"})

    async def test_a_file_that_is_too_large_is_told(self) -> None:
        """A command that dies because it wrote past the largest file size has that signal, no fault, and names file_size."""
        result = await self._limited("file_size", "64KiB", "exec head -c 100000 /dev/zero > large", timeout=60)
        if result is not None:
            assert (result.signal, result.exit_code) == (25, 153)
            assert (result.fault, set(result.limits_hit)) == (None, {"file_size"})

    async def test_what_nobody_refused_is_not_told(self, sandbox: ISandbox) -> None:
        """A plain command has an empty limits_hit, and so has one that fails by itself with the same errors or signals."""
        for script in ("true", "ulimit -n 8; exec 9</dev/null", "echo full >&2; exit 28", "kill -XFSZ $$"):
            assert (await sandbox.exec(script)).limits_hit == frozenset(), script
