"""The port: what a backend implements, and what everybody uses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self

from isandbox._aio import call
from isandbox.capture import TextDecoder
from isandbox.command import MAX_OUTPUT_DEFAULT, TIMEOUT_DEFAULT, Command, ProcessSpec, StderrMode, make_spec
from isandbox.errors import UnsupportedError
from isandbox.files.comfort import Files

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
    from types import TracebackType

    from isandbox.events import EventKind
    from isandbox.process import IProcess
    from isandbox.records import ExecResult, FileInfo, Metrics, Offsets, ProcessInfo, SandboxInfo, TerminalSize


class ISandbox(ABC):
    """One sandbox.

    A backend implements the abstract verbs; everything else is written once on top of them. Use it as a context manager:
    leaving it closes it, or lets go of it when the handle is ``connected``. An async handle belongs to its event loop, a blocking one is thread-safe; neither survives
    ``os.fork`` nor pickles.

    Paths are POSIX; relative ones start at the workspace. File verbs act in the sandbox's own view, as the user that
    commands run as or as ``user``, and raise the standard library's errors with the path in them. Where users cannot be
    chosen, ``user=`` is `UnsupportedError`, before anything is done.
    """

    connected: bool = False
    """`isandbox.connect` made this handle: leaving its context detaches instead of closing."""

    @property
    @abstractmethod
    def info(self) -> SandboxInfo:
        """What was really made: id, backend, isolation, workspace, enforced layers, waivers."""

    @abstractmethod
    async def spawn(self, spec: ProcessSpec) -> IProcess:
        """Start one command. Its failure to start is a result (126, 127), not an error.

        Raises `SandboxClosedError`, `SandboxLostError`, `SandboxError` for want of descriptors or memory, `UnsupportedError`
        for ``user=`` where users cannot be chosen, and `FileNotFoundError` or `NotADirectoryError` from the process's ``wait``
        when ``cwd`` is not there.
        """

    @abstractmethod
    async def stat(self, path: str, *, user: str | None = None) -> FileInfo:
        """One entry; a link is described, not followed."""

    @abstractmethod
    async def read(self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None) -> bytes:
        """Bytes of a regular file from ``offset``, at most ``limit``. Links are followed inside the sandbox's view.

        Without a ``limit`` a file may have 256 MiB; more is `OSError` (EFBIG): code inside can make files of any size.
        `read_chunks` has no such bound.
        """

    @abstractmethod
    def read_chunks(
        self, path: str, *, offset: int = 0, limit: int | None = None, user: str | None = None
    ) -> AsyncIterator[bytes]:
        """The same as a stream of chunks, in bounded memory: a slow reader slows the reading.

        Nothing is done before the first chunk is asked for; that is where errors come from. Ending the iteration early, or
        cancelling it, ends the operation. What comes is what one opened file had while it was read; a failure in the middle
        is an error, never a shorter file.
        """

    @abstractmethod
    async def write(
        self,
        path: str,
        data: bytes | AsyncIterable[bytes],
        *,
        mode: int | None = None,
        append: bool = False,
        user: str | None = None,
    ) -> None:
        """Create or overwrite a file; missing parents are made. ``mode`` sets the permission bits exactly.

        ``data`` is bytes, or a source of them for files of any size: it is asked for more as fast as it is written, and
        memory stays bounded. The file is written in place, as ``open(path, "wb")`` does: links are followed inside the
        sandbox's view, other names of the file see the same, and who must never see half of it writes to another name and
        renames. When the source raises, or the call is cancelled, the writing ends and the error comes out; the file is left
        with a beginning of the data, or as it was when nothing had been written yet.
        """

    @abstractmethod
    async def list_dir(self, path: str, *, user: str | None = None) -> list[FileInfo]:
        """The entries of a directory, sorted by name. More than fit into 64 MiB of an answer are `OSError` (EFBIG)."""

    @abstractmethod
    async def make_dir(self, path: str, *, parents: bool = False, mode: int | None = None, user: str | None = None) -> None:
        """Make a directory; with ``parents`` also what is missing above it, and an existing one is no error.

        ``mode`` sets the permission bits of a directory that is made, exactly; those of an existing one stay.
        """

    @abstractmethod
    async def remove(self, path: str, *, recursive: bool = False, user: str | None = None) -> None:
        """Remove a file, a link (never what it points to) or an empty directory; with ``recursive`` a whole tree."""

    @abstractmethod
    async def rename(self, path: str, target: str, *, user: str | None = None) -> None:
        """Rename; an existing file at ``target`` is replaced."""

    @abstractmethod
    async def metrics(self) -> Metrics:
        """Processes, CPU time and memory right now."""

    @abstractmethod
    async def renew(self, seconds: float) -> None:
        """Let the sandbox live ``seconds`` from now, above 0 and at most 30 days (`ConfigurationError`), whatever was left.

        A shorter time than was left shortens its life. ``idle_timeout`` stays as it is. `UnsupportedError` where it has no
        lifetime to renew.
        """

    @abstractmethod
    async def close(self) -> None:
        """End every process and remove what the sandbox made. Idempotent; ends in "gone" also when a part of it fails.

        A detached sandbox ends for all who use it: their handles are `SandboxLostError` then.
        """

    async def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        input: str | bytes | None = None,
        timeout: float | None = TIMEOUT_DEFAULT,
        max_output: int = MAX_OUTPUT_DEFAULT,
        stderr: StderrMode = "separate",
        user: str | None = None,
        check: bool = False,
        text: bool = True,
        on_stdout: Callable[[Any], Any] | None = None,
        on_stderr: Callable[[Any], Any] | None = None,
        on_output: Callable[[Any, Any], Any] | None = None,
    ) -> ExecResult:
        """Run a command to its end.

        **Command.** A text runs through ``/bin/sh -c`` (at most 1 MiB); a sequence is argv, without a shell (1 MiB in all,
        each element below 128 KiB).

        **Input.** The command reads ``input``, then EOF; without it EOF at once. Unlike `subprocess.run`, nothing is
        inherited from the host: not stdin, environment, open files, working directory, umask or signal dispositions.

        **Output.** At most ``max_output`` bytes a stream are kept, head and tail; reading goes on, so that a talkative
        command neither blocks nor fills memory. Callbacks see everything, as texts or, with ``text=False``, bytes:
        ``on_stdout(chunk)``, ``on_stderr(chunk)``, ``on_output(stream, chunk)``. ``stderr="merge"`` interleaves both
        streams on stdout.

        **End.** Returns when the command has exited and its output is drained, idle for 100 ms, or 1 s has passed since
        the exit; ``lingering`` then says that a background child lives. ``timeout`` (seconds, ``None`` for the sandbox's
        life) ends every process that the command started; the sandbox lives on and the output so far is in the result.

        **Errors.** A non-zero exit, a fault or a program that does not start is a result; ``check=True`` raises
        `ExecFailedError` or the error of the fault instead. `ConfigurationError` for a command that cannot be passed,
        `FileNotFoundError` or `NotADirectoryError` for a ``cwd`` that is not there, `SandboxClosedError`,
        `SandboxLostError`.

        **Cancellation** ends the command's processes, then goes on.
        """
        process = await self.spawn(
            make_spec(
                command,
                cwd=cwd,
                env=env,
                input=input,
                timeout=timeout,
                max_output=max_output,
                stderr=stderr,
                user=user,
            )
        )
        try:
            if on_stdout or on_stderr or on_output:
                await _deliver(process, text, {"stdout": on_stdout, "stderr": on_stderr}, on_output)
            result = await process.wait()
        except BaseException:
            await process.kill()
            raise
        return result.check() if check else result

    async def start(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        max_output: int = MAX_OUTPUT_DEFAULT,
        stderr: StderrMode = "separate",
        user: str | None = None,
        background: bool = False,
        terminal: TerminalSize | None = None,
    ) -> IProcess:
        """Start a command and return its handle, with stdin open for `IProcess.write_stdin`. No time-out unless given.

        **Background.** With ``background=True`` the command is kept: it lives until it ends, the sandbox does, or somebody kills
        it, whatever becomes of this handle. The sandbox reads its output and keeps the last ``max_output`` bytes of each stream
        (4 KiB to 16 MiB), also after its end; it is never slowed by who reads. `processes` lists it, `attach` reaches it again.
        At most 64 are kept, 32 of them ended ones, and 64 MiB of output in all: the oldest ended ones go first. Where nothing
        can go the start fails, as a result with ``start_error``.

        **Terminal.** With ``terminal=TerminalSize()`` the command's standard streams are a terminal of its own, its controlling
        one, of that size, which `IProcess.resize` changes. All output arrives as stdout, input is as typed (Ctrl-C is byte 3),
        and ``TERM`` is ``xterm-256color`` unless ``env`` says another. A slow reader slows the command, and letting go of the
        handle hangs the terminal up, unless ``background=True``.

        `UnsupportedError` where the backend cannot do one of them.
        """
        spec = make_spec(
            command,
            cwd=cwd,
            env=env,
            stdin="pipe",
            timeout=timeout,
            max_output=max_output,
            stderr=stderr,
            user=user,
            want_pid=True,
            background=background,
            terminal=terminal,
        )
        if background:
            self._require("attach", "background")
        if terminal:
            self._require("terminal")
        return await self.spawn(spec)

    async def processes(self) -> list[ProcessInfo]:
        """The kept commands, running and ended ones, in the order of their start. Optional, with the verb ``attach``."""
        self._refuse("attach")

    async def attach(self, id: int, *, since: Offsets | None = None, max_output: int = MAX_OUTPUT_DEFAULT) -> IProcess:
        """One more handle on a kept command, running or ended. Optional, with the verb ``attach``.

        **Output** begins at ``since``, or at the oldest byte of each stream that is still kept; `IProcess.offsets` says where.
        What is past the end is the end. Several handles may be open at once, each sees everything. Where a handle is read more
        slowly than new output replaces the old, bytes are left out, and the result's ``omitted`` counts them.

        **Input** of all handles reaches the command; closing stdin by one closes it for all.

        Leaving the handle as a context manager lets go of the command. Raises `ProcessLookupError` for a command that there
        is not, or not any more, and `ConfigurationError` for an ``id`` that is no number.
        """
        self._refuse("attach")

    @cached_property
    def files(self) -> Files:
        """Comfort over the file verbs."""
        return Files(self)

    def notify(self, kind: EventKind, data: Mapping[str, str | float | bool | None]) -> None:
        """Tell the sandbox's ``on_event`` about what is written on top of the verbs. A backend that has one overrides this."""

    async def make_link(self, path: str, target: str, *, user: str | None = None) -> None:
        """Make a symbolic link at ``path`` that says ``target``. Optional: `UnsupportedError` where the backend cannot."""
        self._refuse("make_link")

    async def pause(self) -> None:
        """Stop every process without ending it. Optional: `UnsupportedError` where the backend cannot."""
        self._refuse("pause")

    async def resume(self) -> None:
        """Let a paused sandbox go on. Optional."""
        self._refuse("resume")

    async def snapshot(self) -> str:
        """Keep the state of the file system under an id. Optional."""
        self._refuse("snapshot")

    async def fork(self) -> Self:
        """A second sandbox that starts from this one's state. Optional."""
        self._refuse("fork")

    async def expose(self, port: int) -> str:
        """An address under which a port inside can be reached. Optional."""
        self._refuse("expose")

    async def detach(self) -> None:
        """Let go of a detached sandbox without ending it. Optional; `UnsupportedError` for an owned one, which has nobody else.

        Commands that this handle runs end (fault ``cancelled``), kept ones go on. The handle is closed afterwards, and closing
        it again ends nothing. Idempotent; nothing happens to a handle that is closed already.
        """
        self._refuse("detach")

    def _require(self, verb: str, option: str | None = None) -> None:
        """Raise `UnsupportedError` unless the capability record claims ``verb``, which ``option`` needs."""
        if verb not in self.info.capabilities.verbs:
            self._refuse(option or verb)

    def _refuse(self, verb: str) -> NoReturn:
        backend = self.info.backend
        raise UnsupportedError(f"{verb}: the {backend} backend cannot do this", option=verb, backend=backend)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.connected:
            await self.detach()
        else:
            await self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is a live handle and cannot be pickled")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.info.id}>"


async def _deliver(
    process: IProcess,
    text: bool,
    sinks: Mapping[str, Callable[[Any], Any] | None],
    on_output: Callable[[Any, Any], Any] | None,
) -> None:
    """Hand every chunk to the callbacks, in order; a slow callback slows the command."""
    decoders = {"stdout": TextDecoder(), "stderr": TextDecoder()}

    async def hand_over(stream: str, chunk: str | bytes) -> None:
        if not chunk:
            return
        sink = sinks[stream]
        if sink is not None:
            await call(sink, chunk)
        if on_output is not None:
            await call(on_output, stream, chunk)

    async for stream, chunk in process:
        await hand_over(stream, decoders[stream].decode(chunk) if text else chunk)
    for name, decoder in decoders.items():
        await hand_over(name, decoder.decode(b"", final=True))
