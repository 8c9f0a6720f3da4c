"""Input."""

from __future__ import annotations

import pytest

from isandbox import ISandbox
from isandbox.testing.contract.base import Contract


class StdinPromises(Contract):
    async def test_without_input_stdin_is_at_its_end(self, sandbox: ISandbox) -> None:
        """A command that reads without input= sees EOF at once; it never waits for the host's terminal."""
        result = await sandbox.exec("cat; read x; echo $?", timeout=30)
        assert (result.stdout, result.fault) == ("1\n", None)

    async def test_empty_input_is_eof_too(self, sandbox: ISandbox) -> None:
        """input="" and input=b"" are EOF."""
        for value in ("", b""):
            assert (await sandbox.exec("wc -c", input=value, timeout=30)).stdout.strip() == "0"

    async def test_input_arrives_byte_for_byte(self, sandbox: ISandbox) -> None:
        """Every byte value, and text with shell characters, passes through stdin unchanged."""
        data = bytes(range(256)) + b"$HOME `id` 'x' \"y\" \\z\n"
        assert (await sandbox.exec(["cat"], input=data)).stdout_bytes == data
        assert (await sandbox.exec(["cat"], input="café €100\n")).stdout == "café €100\n"

    async def test_fifty_mebibytes_of_input(self, sandbox: ISandbox) -> None:
        """50 MiB of input are counted exactly."""
        result = await sandbox.exec(["wc", "-c"], input=b"x" * (50 << 20), timeout=60)
        assert result.stdout.strip() == str(50 << 20)

    async def test_input_and_output_at_once_do_not_block(self, sandbox: ISandbox) -> None:
        """50 MiB in while 50 MiB come out: neither waits for the other."""
        result = await sandbox.exec(["cat"], input=b"y" * (50 << 20), timeout=60, max_output=1000)
        assert result.ok
        assert result.omitted.stdout == (50 << 20) - 1000

    async def test_input_that_nobody_reads_is_no_error(self, sandbox: ISandbox) -> None:
        """A command that ends without reading its input has its own exit code."""
        result = await sandbox.exec("exit 4", input=b"z" * (10 << 20), timeout=60)
        assert (result.exit_code, result.fault) == (4, None)

    async def test_a_command_may_read_a_part_of_its_input(self, sandbox: ISandbox) -> None:
        """A command that reads the beginning of a large input and ends has its own output and exit code."""
        result = await sandbox.exec("head -c 5; exit 3", input=b"start" + b"z" * (10 << 20), timeout=60)
        assert (result.stdout, result.exit_code, result.fault) == ("start", 3, None)

    async def test_a_time_out_does_not_wait_for_input_to_go(self, sandbox: ISandbox) -> None:
        """A command that never reads an input larger than any pipe is ended by its time-out."""
        result = await sandbox.exec("sleep 60", input=b"z" * (10 << 20), timeout=0.3)
        assert result.fault == "timeout"

    async def test_texts_keep_their_bytes(self, sandbox: ISandbox) -> None:
        """A text is UTF-8, line ends untouched; bytes that are no UTF-8 pass as surrogateescape has them."""
        result = await sandbox.exec(["cat"], input="a\r\nb\n\udcff\x00é")
        assert result.stdout_bytes == b"a\r\nb\n\xff\x00\xc3\xa9"

    async def test_bytes_like_input_is_taken(self, sandbox: ISandbox) -> None:
        """Bytearray and memoryview are bytes too."""
        for value in (bytearray(b"a\0b"), memoryview(b"xa\0bx")[1:4]):
            assert (await sandbox.exec(["cat"], input=value)).stdout_bytes == b"a\0b"  # type: ignore[arg-type]

    async def test_a_write_waits_for_its_reader(self, sandbox: ISandbox) -> None:
        """A write that is larger than any pipe waits until the command reads, and all of it arrives."""
        async with await sandbox.start("sleep 0.2; wc -c") as process:
            await process.write_stdin(b"x" * (3 << 20))
            await process.close_stdin()
            assert (await process.wait()).stdout.strip() == str(3 << 20)

    async def test_a_write_that_nobody_can_read_is_a_broken_pipe(self, sandbox: ISandbox) -> None:
        """Writing to a command that has closed its stdin, or after close_stdin, is BrokenPipeError; the command goes on."""
        async with await sandbox.start("exec <&-; echo closed; sleep 0.5; exit 3") as process:
            assert (await anext(process.__aiter__())) == ("stdout", b"closed\n")
            with pytest.raises(BrokenPipeError):
                await process.write_stdin(b"x" * (3 << 20))
            assert (await process.wait()).exit_code == 3
        async with await sandbox.start("cat; sleep 0.2; exit 4") as process:
            await process.close_stdin()
            with pytest.raises(BrokenPipeError):
                await process.write_stdin(b"x")
            assert (await process.wait()).exit_code == 4
