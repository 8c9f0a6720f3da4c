"""Callbacks: who is called with what, and what becomes of the command when one of them fails."""

from __future__ import annotations

import asyncio

import pytest

from isandbox import ISandbox
from isandbox.testing.contract.base import Contract, marker, processes


class CallbackPromises(Contract):
    async def test_callbacks_see_everything(self, sandbox: ISandbox) -> None:
        """Callbacks get every byte, of which the result keeps only max_output."""
        seen: list[bytes] = []
        result = await sandbox.exec("head -c 3000000 /dev/zero", max_output=10, text=False, on_stdout=seen.append)
        assert sum(map(len, seen)) == 3_000_000
        assert result.omitted.stdout == 3_000_000 - 10

    async def test_callbacks_get_their_own_stream(self, sandbox: ISandbox) -> None:
        """on_stdout and on_stderr get their stream, on_output both with its name."""
        out: list[str] = []
        err: list[str] = []
        both: list[tuple[str, str]] = []
        await sandbox.exec(
            "echo o; echo e >&2",
            on_stdout=out.append,
            on_stderr=err.append,
            on_output=lambda stream, chunk: both.append((stream, chunk)),
        )
        assert ("".join(out), "".join(err)) == ("o\n", "e\n")
        assert sorted(both) == [("stderr", "e\n"), ("stdout", "o\n")]

    async def test_a_character_is_not_split_between_chunks(self, sandbox: ISandbox) -> None:
        """A character whose bytes arrive apart reaches a callback as one character."""
        seen: list[str] = []
        await sandbox.exec("printf 'caf\\303'; sleep 0.3; printf '\\251!'", on_stdout=seen.append)
        assert "".join(seen) == "café!"

    async def test_chunks_arrive_before_the_end(self, sandbox: ISandbox) -> None:
        """A callback is called while the command still runs: it can make the file that the command waits for."""

        async def answer(chunk: str) -> None:
            if "ready" in chunk:
                await sandbox.files.write("go", "")

        result = await sandbox.exec(
            "echo ready; n=0; while [ ! -e go ] && [ $n -lt 200 ]; do sleep 0.05; n=$((n+1)); done; test -e go",
            on_stdout=answer,
            timeout=30,
        )
        await sandbox.files.remove("go")
        assert result.ok

    async def test_a_slow_callback_slows_the_command(self, sandbox: ISandbox) -> None:
        """A callback that waits holds the command back and loses nothing, also when it is slower than the drain's second."""
        seen = calls = 0

        async def slow(chunk: bytes) -> None:
            nonlocal seen, calls
            seen, calls = seen + len(chunk), calls + 1
            if calls <= 3:
                await asyncio.sleep(0.5)

        result = await sandbox.exec("head -c 3000000 /dev/zero", text=False, on_stdout=slow, timeout=60)
        assert (seen, result.ok, result.lingering) == (3_000_000, True, False)

    async def test_each_stream_has_its_own_decoder(self, sandbox: ISandbox) -> None:
        """A character that arrives in pieces is whole although the other stream speaks between them."""
        out: list[str] = []
        err: list[str] = []
        script = "printf '\\303'; sleep 0.1; printf x >&2; sleep 0.1; printf '\\251'"
        await sandbox.exec(script, on_stdout=out.append, on_stderr=err.append)
        assert ("".join(out), "".join(err)) == ("é", "x")

    async def test_an_unfinished_character_is_handed_over(self, sandbox: ISandbox) -> None:
        """A character that never comes to its end reaches the callback as a replacement, after all else."""
        seen: list[str] = []
        await sandbox.exec("printf 'a\\342\\202'", on_stdout=seen.append)
        assert "".join(seen) == "a\ufffd"

    async def test_merged_output_has_one_callback(self, sandbox: ISandbox) -> None:
        """With stderr="merge" on_stdout sees both in the order of writing, on_stderr is never called."""
        out: list[str] = []
        err: list[str] = []
        await sandbox.exec("echo 1; echo 2 >&2; echo 3", stderr="merge", on_stdout=out.append, on_stderr=err.append)
        assert ("".join(out), err) == ("1\n2\n3\n", [])

    async def test_chunks_keep_their_order(self, sandbox: ISandbox) -> None:
        """on_output gets the chunks of a stream in order, each after on_stdout has had it, also when that one waits."""
        told: list[tuple[str, str]] = []

        async def slowly(chunk: str) -> None:
            await asyncio.sleep(0.01)
            told.append(("own", chunk))

        await sandbox.exec(
            "for i in 1 2 3 4 5; do echo $i; sleep 0.02; done",
            on_stdout=slowly,
            on_output=lambda _, chunk: told.append(("both", chunk)),
        )
        assert [kind for kind, _ in told] == ["own", "both"] * (len(told) // 2)
        assert [chunk for kind, chunk in told if kind == "own"] == [chunk for kind, chunk in told if kind == "both"]
        assert "".join(chunk for kind, chunk in told if kind == "both") == "1\n2\n3\n4\n5\n"

    async def test_a_callback_that_raises_ends_the_command(self, sandbox: ISandbox) -> None:
        """What a callback raises comes out of the call as it is, and every process of the command is gone by then."""
        nap = marker()

        def fail(_: str) -> None:
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            await sandbox.exec(f"setsid sleep {nap} & echo ready; sleep {nap}", on_stdout=fail)
        assert await processes(sandbox, nap) == []
