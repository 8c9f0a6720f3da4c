"""Input."""

from __future__ import annotations

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
