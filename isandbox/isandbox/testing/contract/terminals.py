"""Commands with a terminal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

import pytest

from isandbox import ConfigurationError, TerminalSize
from isandbox.testing.contract.base import Contract

if TYPE_CHECKING:
    from isandbox import IProcess, ISandbox

_WAIT = 60


class Screen:
    """What a terminal has shown, for a test that types and looks."""

    def __init__(self, process: IProcess) -> None:
        self.process, self.text = process, ""
        self._output = process.__aiter__()

    async def shows(self, text: str) -> None:
        """Until it does, after what was found before; what came until then is forgotten."""
        async with asyncio.timeout(_WAIT):
            while text not in self.text:
                stream, chunk = await anext(self._output)
                assert stream == "stdout"
                self.text += chunk.decode()
        self.text = self.text.partition(text)[2]

    async def types(self, text: str) -> None:
        await self.process.write_stdin(text.encode())


class TerminalPromises(Contract):
    verbs: ClassVar[tuple[str, ...]] = ("terminal",)

    async def test_the_standard_streams_are_a_terminal(self, sandbox: ISandbox) -> None:
        """All three are a terminal of the size asked for, TERM says of what kind, and stderr arrives as stdout."""
        script = 'for i in 0 1 2; do test -t $i || echo "$i is none"; done; stty size; echo $TERM; echo error >&2'
        result = await (await sandbox.start(script, terminal=TerminalSize(30, 100))).wait()
        assert result.stdout == "30 100\r\nxterm-256color\r\nerror\r\n"
        assert result.stderr == ""
        result = await (await sandbox.start("echo $TERM", terminal=TerminalSize(), env={"TERM": "dumb"})).wait()
        assert result.stdout == "dumb\r\n"
        assert (await sandbox.exec("echo ${TERM-none}; test -t 1")).stdout == "none\n"

    async def test_it_is_the_controlling_terminal(self, sandbox: ISandbox) -> None:
        """/dev/tty is the command's own terminal; without one there is none, whatever the host's process has."""
        result = await (await sandbox.start("echo here > /dev/tty", terminal=TerminalSize())).wait()
        assert (result.exit_code, result.stdout) == (0, "here\r\n")
        assert not (await sandbox.exec("true < /dev/tty")).ok

    async def test_its_settings_can_be_changed(self, sandbox: ISandbox) -> None:
        """Stty reads and sets the terminal as on any other: echo off shows nothing of what is typed."""
        screen = Screen(await sandbox.start("stty -echo; echo ready; read x; stty echo; echo got $x", terminal=TerminalSize()))
        await screen.shows("ready\r\n")
        await screen.types("hidden\n")
        await screen.shows("got hidden\r\n")
        assert (await screen.process.wait()).stdout == "ready\r\ngot hidden\r\n"

    async def test_resize_is_seen_at_once(self, sandbox: ISandbox) -> None:
        """Resize changes the size that the command sees and sends it SIGWINCH; an impossible size is ConfigurationError."""
        script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done"
        async with await sandbox.start(script, terminal=TerminalSize()) as process:
            screen = Screen(process)
            await screen.shows("ready")
            await process.resize(11, 222)
            await screen.shows("11 222\r\n")
            for rows, columns in ((0, 80), (24, 65_536), (-1, 80)):
                with pytest.raises(ConfigurationError):
                    await process.resize(rows, columns)

    async def test_keys_are_signals(self, sandbox: ISandbox) -> None:
        """Ctrl-C, byte 3, interrupts what runs in the foreground; its death is told as by any signal."""
        async with await sandbox.start("echo ready; exec sleep 60", terminal=TerminalSize()) as process:
            screen = Screen(process)
            await screen.shows("ready")
            await screen.types("\x03")
            result = await asyncio.wait_for(process.wait(), _WAIT)
            assert (result.exit_code, result.signal, result.fault) == (130, 2, None)

    async def test_jobs_are_controlled(self, sandbox: ISandbox) -> None:
        """A shell stops a job at Ctrl-Z, lists it, brings it back, and goes on after Ctrl-C has ended it."""
        async with await sandbox.start(["sh", "-i"], terminal=TerminalSize(), env={"PS1": "prompt> ", "ENV": ""}) as process:
            screen = Screen(process)
            await screen.shows("prompt> ")
            await screen.types("cat\n")
            await screen.shows("cat\r\n")
            await screen.types("one\n")
            await screen.shows("one\r\none\r\n")  # what is typed, and what cat makes of it
            await screen.types("\x1a")
            await screen.shows("Stopped")
            await screen.shows("prompt> ")
            await screen.types("jobs\n")
            await screen.shows("Stopped")
            await screen.shows("prompt> ")
            await screen.types("fg\n")
            await screen.shows("cat\r\n")
            await screen.types("two\n")
            await screen.shows("two\r\ntwo\r\n")
            await screen.types("\x03")
            await screen.shows("prompt> ")
            await screen.types("echo still $((20 + 22)); exit 9\n")
            await screen.shows("still 42\r\n")
            assert (await asyncio.wait_for(process.wait(), _WAIT)).exit_code == 9

    async def test_the_end_of_input_is_typed(self, sandbox: ISandbox) -> None:
        """close_stdin ends a program that reads lines, also in the middle of one, after all that was written before."""
        for typed in (b"one\ntwo\n", b"one\ntwo", b""):
            process = await sandbox.start("stty -echo; echo ready; cat; echo end", terminal=TerminalSize())
            screen = Screen(process)
            await screen.shows("ready\r\n")
            await process.write_stdin(typed)
            await process.close_stdin()
            result = await asyncio.wait_for(process.wait(), _WAIT)
            assert result.stdout == "ready\r\n" + typed.decode().replace("\n", "\r\n") + "end\r\n"
            with pytest.raises(BrokenPipeError):
                await process.write_stdin(b"late")

    async def test_all_of_a_large_output_arrives(self, sandbox: ISandbox) -> None:
        """Ten megabytes through a terminal arrive complete, in order, and before the result."""
        process = await sandbox.start("stty raw; seq 1400000", terminal=TerminalSize(), max_output=32 << 20)
        seen = bytearray()
        async for _, chunk in process:
            seen += chunk
        assert (await process.wait()).exit_code == 0
        assert bytes(seen) == b"".join(b"%d\n" % number for number in range(1, 1_400_001))

    async def test_the_last_words_arrive(self, sandbox: ISandbox) -> None:
        """What a command writes right before its end is in the result, time after time."""
        for number in range(20):
            result = await (await sandbox.start(f"printf 'last {number}'; exit {number}", terminal=TerminalSize())).wait()
            assert (result.exit_code, result.stdout) == (number, f"last {number}")

    async def test_a_terminal_that_is_let_go_hangs_up(self, sandbox: ISandbox) -> None:
        """Leaving the handle of a terminal that is not kept ends the command; kill ends one that ignores the hang-up."""
        async with await sandbox.start(
            "trap '' HUP; echo ready; while :; do sleep 0.05; done", terminal=TerminalSize()
        ) as process:
            await Screen(process).shows("ready")
        assert (await process.wait()).fault == "cancelled"

    async def test_a_program_that_does_not_start_has_a_result(self, sandbox: ISandbox) -> None:
        """A missing program is 127 with a terminal too."""
        result = await (await sandbox.start(["no-such-program"], terminal=TerminalSize())).wait()
        assert (result.exit_code, result.stdout) == (127, "")
        assert result.start_error is not None


class KeptTerminalPromises(Contract):
    verbs: ClassVar[tuple[str, ...]] = ("attach", "terminal")

    async def test_a_kept_terminal_is_found_again(self, sandbox: ISandbox) -> None:
        """Who attaches to a kept terminal sees what it has shown, types, resizes, and hangs nothing up by leaving."""
        process = await sandbox.start(
            "while read x; do echo got $x; stty size; done", terminal=TerminalSize(), background=True
        )
        await Screen(process).types("one\n")
        await process.detach()
        assert process.id is not None
        async with await sandbox.attach(process.id) as second:
            screen = Screen(second)
            await screen.shows("got one\r\n24 80\r\n")
            await second.resize(50, 60)
            await screen.types("two\n")
            await screen.shows("got two\r\n50 60\r\n")
        [info] = [info for info in await sandbox.processes() if info.id == process.id]
        assert (info.running, info.terminal) == (True, True)
        third = await sandbox.attach(process.id, since=info.written)
        await third.close_stdin()
        assert (await asyncio.wait_for(third.wait(), _WAIT)).exit_code == 0
