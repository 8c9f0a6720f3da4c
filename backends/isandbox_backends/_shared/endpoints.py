"""The descriptors of one command on the host's side, and starting a command over them."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from isandbox.command import ProcessSpec
from isandbox.errors import SandboxError
from isandbox_backends._shared.host_process import forget, remember
from isandbox_backends._shared.portable import anonymous_file, descriptor_path, enlarge_pipe
from isandbox_backends._shared.protocol import StartFlag
from isandbox_backends._shared.requests import KEEP_MOST, Relaying, encode_attach

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from isandbox.records import Offsets, Stream
    from isandbox_backends._shared.cgroups import CommandGroup, SandboxGroup
    from isandbox_backends._shared.link import HelperLink

# Linux: what a pipe holds unless told otherwise, and what it may be told without privileges (fs.pipe-max-size).
PIPE_DEFAULT = 65_536
PIPE_LARGE = 1 << 20
# A script that is longer than one element of argv may be is sourced from a descriptor.
_SCRIPT_INLINE = 131_000


@dataclass(slots=True, weakref_slot=True, eq=False)
class Endpoints:
    """``status``: where the command's reports arrive. ``outputs``: open streams. ``stdin``: -1 when closed or not ours;
    ``pending``: input still to be written to it. ``relayed``: the other ends are the helper's, not the command's.
    """

    id: int = 0
    status: int = -1
    outputs: dict[int, Stream] = field(default_factory=dict)
    stdin: int = -1
    pending: memoryview = field(default_factory=lambda: memoryview(b""))
    relayed: bool = False

    def close_status(self) -> None:
        fd, self.status = self.status, -1  # first, here and below: a number that is closed may soon be another file's
        if fd >= 0:
            os.close(fd)

    def close_output(self, fd: int) -> None:
        del self.outputs[fd]
        os.close(fd)

    def close_stdin(self) -> None:
        self.pending = memoryview(b"")
        fd, self.stdin = self.stdin, -1
        if fd >= 0:
            os.close(fd)

    def feed_stdin(self) -> bool:
        """Write what fits at once; true while more is pending. One write and no more: a command that reads as fast as we write
        would keep an event loop here for all of the input. A command that does not read any more is no error.
        """
        try:
            if self.pending:
                self.pending = self.pending[os.write(self.stdin, self.pending) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            self.pending = memoryview(b"")
        if self.pending:
            return True
        self.close_stdin()
        return False

    def end_stdin(self, client: HelperLink) -> None:
        """Close stdin, and let that be the end of the command's input. The helper takes the end of its pipe alone for that of
        a client, with which nothing need end.
        """
        if self.relayed and self.stdin >= 0:
            client.stdin_eof(self.id)
        self.close_stdin()

    def give_rest_to(self, drain: Callable[[list[int]], None]) -> None:
        """Nobody reads the output any more. A background child that still writes must not block or fail; the helper can tell
        when its reader has gone.
        """
        if self.outputs and not self.relayed:
            drain(list(self.outputs))
            self.outputs.clear()

    def abandon(self) -> None:
        """In a forked child: a copy of our end of stdin would keep it open when the parent closes it."""
        self.close()

    def give_up(self, client: HelperLink) -> None:
        """Nobody will have a handle on this command: end it, whether it has started or not."""
        if self.id:
            client.kill(self.id, "cancelled")
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        forget(self)
        self.close_status()
        self.close_stdin()
        for fd in list(self.outputs):
            self.close_output(fd)


class OutputReader:
    """Reads a command's pipes into one buffer that is used again, and larger ones for a command that talks much."""

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(PIPE_DEFAULT))

    def read(self, ends: Endpoints, fd: int) -> memoryview | None:
        """What there is, valid until the next read; empty at the end; ``None`` for nothing after all.

        Nothing, though poll had promised something: a command can open its own end for reading.
        """
        try:
            count = os.readv(fd, [self._buffer])
        except BlockingIOError:
            return None
        data = self._buffer[:count]
        if count == PIPE_DEFAULT == len(self._buffer):
            self._buffer = memoryview(bytearray(PIPE_LARGE))
            for output in ends.outputs:
                enlarge(output)
        return data


def start_command(
    client: HelperLink,
    spec: ProcessSpec,
    env: Mapping[str, str],
    cwd: str,
    *,
    operation: int = 0,
    owner: int | None = None,
    group: SandboxGroup | None = None,
    quota: int | None = None,
) -> Endpoints:
    """Make the pipes and send START. ``quota``: bytes of output after which the helper ends a kept command. ``owner``: the uid (and gid) of commands as the host sees it, where it is another than
    ours; the pipes are opened to it, so that a command can open its own /dev/stderr. ``group``: the command gets a group of its
    own in it, which `Endpoints.id` names. Raises `SandboxLostError`,
    `SandboxClosedError`, and `SandboxError` for want of descriptors or memory.
    """
    ours = Endpoints()
    remember(ours)
    theirs: list[int] = []
    own: CommandGroup | None = None
    try:
        try:
            flags = _open_pipes(ours, theirs, spec)
            if owner is not None and not ours.relayed:
                for fd in theirs[1:]:  # not the status pipe
                    _give(fd, owner)
            argv = spec.argv
            if spec.script is not None:
                argv, script_fd = _script(spec.script)
                if script_fd >= 0:
                    flags |= StartFlag.SCRIPT
                    theirs.append(script_fd)
            ours.id = client.new_id()
            if group is not None:
                own = group.begin(ours.id)
                theirs += own.descriptors()
            client.start(
                ours.id,
                argv,
                env,
                cwd,
                theirs,
                flags=flags,
                timeout=spec.timeout,
                operation=operation,
                group=own,
                relay=_relaying(spec, quota) if ours.relayed else None,
            )
            if ours.relayed and isinstance(spec.stdin, bytes) and flags & StartFlag.STDIN:
                client.stdin_eof(ours.id)
        finally:
            deque(map(os.close, theirs), maxlen=0)  # one step for the interpreter: no Ctrl-C in the middle
    except OSError as error:
        ours.close()
        what = "control group" if group is not None and ours.id and own is None else "pipes"
        raise SandboxError(f"the command was not started: this process cannot make its {what}: {error}") from error
    except BaseException:  # also a Ctrl-C, whatever has been sent by then
        ours.give_up(client)
        raise
    return ours


def _relaying(spec: ProcessSpec, quota: int | None) -> Relaying:
    size = spec.terminal
    return Relaying(
        keep=min(spec.max_output, KEEP_MOST),
        rows=size.rows if size else 0,
        columns=size.columns if size else 0,
        output_quota=quota or 0 if spec.background else 0,
    )


def attach_command(client: HelperLink, serial: int, since: Offsets) -> Endpoints:
    """Make pipes and send ATTACH for a kept command. Raises as `start_command`."""
    ours = Endpoints(relayed=True)
    remember(ours)
    theirs: list[int] = []
    try:
        try:
            _open_pipes(ours, theirs, ProcessSpec(stdin="pipe"))
            ours.id = client.new_id()
            frame = encode_attach(
                ours.id,
                serial,
                flags=StartFlag.STDIN,
                since_out=since.stdout,
                since_err=since.stderr,
                descriptors=len(theirs),
            )
            client.send(frame, theirs)
        finally:
            deque(map(os.close, theirs), maxlen=0)  # as in start_command
    except OSError as error:
        ours.close()
        raise SandboxError(f"the command was not attached to: this process cannot make its pipes: {error}") from error
    except BaseException:
        ours.close()
        raise
    return ours


def _give(fd: int, owner: int) -> None:
    """Only root can give it away. An ordinary user opens it to all: nobody who is not let into our /proc/PID/fd gets there."""
    if os.geteuid() == 0:
        os.fchown(fd, owner, owner)
    else:
        os.fchmod(fd, 0o666)


def _open_pipes(ours: Endpoints, theirs: list[int], spec: ProcessSpec) -> StartFlag:
    flags = StartFlag.WANT_STARTED if spec.want_pid else StartFlag(0)
    if spec.background:
        flags |= StartFlag.KEPT
    if spec.terminal is not None:
        flags |= StartFlag.TERMINAL
    ours.relayed = ours.relayed or bool(flags & (StartFlag.KEPT | StartFlag.TERMINAL))
    ours.status, end = os.pipe()
    theirs.append(end)
    streams: tuple[Stream, ...] = ("stdout",) if spec.stderr == "merge" else ("stdout", "stderr")
    for stream in streams:
        fd, end = os.pipe()
        os.set_blocking(fd, False)  # a command can open its own end for reading and take what poll had promised us
        ours.outputs[fd] = stream
        theirs.append(end)
    if spec.stderr == "merge":
        flags |= StartFlag.MERGE
    if spec.stdin is not None and spec.stdin != b"":
        end, ours.stdin = os.pipe()
        theirs.append(end)
        os.set_blocking(ours.stdin, False)
        flags |= StartFlag.STDIN
    if isinstance(spec.stdin, bytes) and spec.stdin:
        ours.pending = memoryview(spec.stdin)
        if len(spec.stdin) > PIPE_DEFAULT:
            enlarge(ours.stdin)
        ours.feed_stdin()  # a small input is in the pipe before the command starts
    return flags


def enlarge(fd: int) -> None:
    """A pipe of 1 MiB where the user's share allows it: three times the throughput of the default."""
    enlarge_pipe(fd, PIPE_LARGE)


def _script(script: str) -> tuple[tuple[str, ...], int]:
    """Argv for a script, and a descriptor that the command gets as fd 3 when the script is too long for argv.

    The shell sources the descriptor and closes it first thing, so that its children do not inherit it.
    """
    raw = script.encode("utf-8", "surrogateescape")
    if len(raw) <= _SCRIPT_INLINE:
        return ("/bin/sh", "-c", script), -1
    content = b"exec 3<&-; " + raw + b"\n"
    return ("/bin/sh", "-c", f". {descriptor_path(3)}"), anonymous_file("isandbox-script", content, mode=0o444)
