"""Output: bytes, bounds, background children."""

from __future__ import annotations

import asyncio

from isandbox import ISandbox
from isandbox.testing.contract.base import Contract


class OutputPromises(Contract):
    async def test_streams_stay_separate(self, sandbox: ISandbox) -> None:
        """Stdout and stderr do not mix, and nothing is stripped or added."""
        result = await sandbox.exec("printf ' a \\n\\n'; printf 'b' >&2; printf 'c'")
        assert (result.stdout, result.stderr) == (" a \n\nc", "b")

    async def test_bytes_are_exact(self, sandbox: ISandbox) -> None:
        """All 256 byte values come through both streams."""
        data = bytes(range(256))
        result = await sandbox.exec("tee /dev/stderr", input=data)
        assert (result.stdout_bytes, result.stderr_bytes) == (data, data)

    async def test_text_is_utf8_with_replacement(self, sandbox: ISandbox) -> None:
        """Bytes that are no UTF-8 are replaced in the text and kept in the bytes."""
        result = await sandbox.exec(["printf", "\\377\\376A\\303\\251"])
        assert result.stdout_bytes == b"\xff\xfeA\xc3\xa9"
        assert result.stdout == "��Aé"

    async def test_merged_stderr_interleaves(self, sandbox: ISandbox) -> None:
        """stderr="merge" puts both streams on stdout in the order they were written."""
        result = await sandbox.exec("echo 1; echo 2 >&2; echo 3; echo 4 >&2", stderr="merge")
        assert (result.stdout, result.stderr) == ("1\n2\n3\n4\n", "")

    async def test_head_and_tail_are_kept(self, sandbox: ISandbox) -> None:
        """Past max_output the head and the tail are kept and the number of bytes left out is exact."""
        result = await sandbox.exec("echo HEAD; head -c 5000000 /dev/zero; echo TAIL", max_output=1000)
        assert result.truncated
        assert result.omitted.stdout == 5 + 5_000_000 + 5 - 1000
        assert result.stdout.startswith("HEAD\n")
        assert result.stdout.endswith("TAIL\n")
        assert len(result.stdout_bytes) < 1100
        assert f"{result.omitted.stdout} bytes omitted" in result.stdout

    async def test_output_just_at_the_bound_is_whole(self, sandbox: ISandbox) -> None:
        """max_output bytes are kept whole; one more is truncation, of exactly one byte."""
        whole = await sandbox.exec("head -c 1000 /dev/zero", max_output=1000)
        assert (len(whole.stdout_bytes), whole.truncated) == (1000, False)
        assert (await sandbox.exec("head -c 1001 /dev/zero", max_output=1000)).omitted.stdout == 1
        assert (await sandbox.exec("echo x", max_output=0)).omitted.stdout == 2

    async def test_one_endless_line_is_bounded(self, sandbox: ISandbox) -> None:
        """A line of 100 MiB is read to its end, kept in part, and the exit code is the command's."""
        result = await sandbox.exec("head -c 104857600 /dev/zero; exit 3", timeout=60)
        assert result.exit_code == 3
        assert result.omitted.stdout == 104_857_600 - (1 << 20)

    async def test_two_full_streams_do_not_block(self, sandbox: ISandbox) -> None:
        """Megabytes on stdout and stderr at once arrive whole."""
        result = await sandbox.exec(
            "head -c 4000000 /dev/zero & head -c 4000000 /dev/zero >&2; wait", max_output=5_000_000, timeout=60
        )
        assert (len(result.stdout_bytes), len(result.stderr_bytes)) == (4_000_000, 4_000_000)

    async def test_a_background_child_does_not_hold_the_call(self, sandbox: ISandbox) -> None:
        """A child that keeps the pipe open lives on; the call returns with the output so far and says lingering."""
        result = await sandbox.exec("echo hi; sleep 40 & exit 0", timeout=30)
        assert (result.stdout, result.exit_code, result.fault, result.lingering) == ("hi\n", 0, None, True)
        assert result.duration < 20

    async def test_a_silent_background_child_is_told_of(self, sandbox: ISandbox) -> None:
        """A child that let go of the pipes is told of as well, and a later command can find and end it."""
        result = await sandbox.exec("sleep 41 </dev/null >/dev/null 2>&1 & echo $!")
        assert result.lingering
        pid = result.stdout.strip()
        assert (await sandbox.exec(f"kill -0 {pid} && kill -9 {pid}")).ok

    async def test_nothing_lingers_after_a_plain_command(self, sandbox: ISandbox) -> None:
        """A command whose children have all ended does not linger."""
        for _ in range(20):
            assert not (await sandbox.exec("true & (true; true) | cat; wait")).lingering

    async def test_a_lingering_childs_output_is_drained(self, sandbox: ISandbox) -> None:
        """What a background child writes after the call has returned is read and dropped: it never blocks on its pipe."""
        result = await sandbox.exec("(sleep 0.5; head -c 3000000 /dev/zero; touch drained) & exit 0")
        assert result.lingering
        waited = await sandbox.exec(
            "n=0; while [ ! -e drained ] && [ $n -lt 200 ]; do sleep 0.05; n=$((n+1)); done; test -e drained"
        )
        assert waited.ok

    async def test_a_few_bytes_are_head_and_tail(self, sandbox: ISandbox) -> None:
        """Any small max_output keeps that many bytes, the first half of them from the front, and counts the rest."""
        for limit in (0, 1, 2, 3, 7, 9):
            result = await sandbox.exec(["printf", "0123456789"], max_output=limit)
            assert (result.truncated, result.omitted.stdout) == (True, 10 - limit)
            head, middle, tail = result.stdout.partition(f"\n[... {10 - limit} bytes omitted ...]\n")
            assert middle
            assert (head, tail) == ("0123456789"[: (limit + 1) // 2], "0123456789"[10 - limit // 2 :])

    async def test_each_stream_has_its_own_bound(self, sandbox: ISandbox) -> None:
        """What one stream leaves out is counted for that stream; the other is whole."""
        result = await sandbox.exec("printf 0123456789; head -c 5000 /dev/zero >&2", max_output=1000)
        assert (result.stdout, result.omitted.stdout, result.omitted.stderr) == ("0123456789", 0, 4000)
        assert result.truncated

    async def test_a_cut_character_is_replaced(self, sandbox: ISandbox) -> None:
        """Text that was cut in the middle of a character is still text; the bytes are as they were."""
        result = await sandbox.exec(["printf", "ééé"], max_output=2)
        assert result.stdout_bytes.startswith(b"\xc3\n")
        assert result.stdout_bytes.endswith(b"\n\xa9")
        assert result.stdout.startswith("\ufffd")

    async def test_closing_its_output_does_not_end_a_command(self, sandbox: ISandbox) -> None:
        """A command that closes stdout and stderr is still waited for; its exit code is its own."""
        result = await sandbox.exec("exec >&- 2>&-; sleep 0.4; exit 5")
        assert (result.exit_code, result.stdout, result.lingering) == (5, "", False)

    async def test_streams_can_be_opened_again_by_name(self, sandbox: ISandbox) -> None:
        """/dev/stdout, /dev/stderr and /proc/self/fd name the command's streams, also for another process of it."""
        result = await sandbox.exec("sh -c 'echo o > /dev/stdout'; echo e > /dev/stderr; echo p > /proc/self/fd/1")
        assert (result.stdout, result.stderr) == ("o\np\n", "e\n")

    async def test_unread_output_is_not_lost(self, sandbox: ISandbox) -> None:
        """A handle that nobody reads from for a while holds the command back; a later wait gets every byte."""
        process = await sandbox.start("head -c 3000000 /dev/zero; echo end", max_output=4_000_000)
        await asyncio.sleep(0.2)
        result = await process.wait()
        assert len(result.stdout_bytes) == 3_000_004
        assert result.stdout_bytes.endswith(b"end\n")
