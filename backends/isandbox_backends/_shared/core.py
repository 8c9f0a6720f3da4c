"""What both interfaces share of one native sandbox: its helper, what commands get, what goes in the end."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from isandbox._life import check_seconds
from isandbox.command import ProcessSpec
from isandbox.errors import SandboxClosedError, SandboxError, SandboxLostError, UnsupportedError
from isandbox.events import Event, EventKind
from isandbox.records import TerminalSize
from isandbox_backends._shared.answers import decode_status
from isandbox_backends._shared.endpoints import attach_command, enlarge, start_command
from isandbox_backends._shared.exchange import Exchange
from isandbox_backends._shared.host_process import log
from isandbox_backends._shared.protocol import ProtocolError
from isandbox_backends._shared.scratch import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from isandbox.events import EventSink
    from isandbox.records import Metrics, Offsets, SandboxInfo
    from isandbox_backends._shared.answers import KeptCommand, Status
    from isandbox_backends._shared.cgroups import SandboxGroup
    from isandbox_backends._shared.endpoints import Endpoints
    from isandbox_backends._shared.fileverbs import FileCall
    from isandbox_backends._shared.link import HelperLink

T = TypeVar("T")


@dataclass(slots=True, weakref_slot=True, eq=False)
class Core:
    """What both interfaces share: the helper, the environment of commands, what has to go in the end."""

    client: HelperLink
    info: SandboxInfo
    env: Mapping[str, str]
    cwd: str
    output_quota: int | None
    command_owner: int | None = None
    """uid and gid of commands on the host, where they are not ours."""
    group: SandboxGroup | None = None
    scratch: tuple[str, ...] = ()
    """Directories on the host that are removed on close."""
    on_event: EventSink | None = None
    life: bool = False
    """There is a lifetime, which can be renewed."""
    lost: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self, spec: ProcessSpec) -> tuple[dict[str, str], str]:
        """Environment and absolute working directory of a command."""
        self.refuse_user(spec.user)
        cwd = os.path.join(self.cwd, spec.cwd) if spec.cwd else self.cwd
        terminal = {"TERM": "xterm-256color"} if spec.terminal else {}
        return {**terminal, **self.env, "PWD": cwd, **spec.env}, cwd

    def refuse_user(self, user: str | None) -> None:
        if user is not None:
            raise UnsupportedError(
                f"user={user!r}: commands run as one user here; leave it out", option="user", backend=self.info.backend
            )

    def begin(self, spec: ProcessSpec) -> tuple[Endpoints, Exchange]:
        self.check_open()
        env, cwd = self.prepare(spec)
        relayed = spec.background or spec.terminal is not None
        quota = None if spec.background else self.output_quota  # of a kept command it is the helper's business
        exchange = Exchange(spec, time.monotonic(), output_quota=quota, relayed=relayed)
        with self.telling_of_a_loss():
            try:
                ends = start_command(
                    self.client, spec, env, cwd, owner=self.command_owner, group=self.group, quota=self.output_quota
                )
            except SandboxError:
                # Closed by another thread meanwhile, or ended by somebody else, who took the control group with it.
                self.check_open()
                self._check_there()
                raise
        try:
            self.emit("exec_started", id=ends.id)
        except BaseException:  # a Ctrl-C
            ends.give_up(self.client)
            raise
        return ends, exchange

    def begin_file(self, call: FileCall[T], user: str | None) -> tuple[Endpoints, Exchange]:
        self.check_open()
        self.refuse_user(user)
        kept = call.spec.max_output > 0
        exchange = Exchange(call.spec, time.monotonic(), output_quota=call.ceiling, keep_all=kept, to_the_end=True)
        with self.telling_of_a_loss():
            ends = start_command(self.client, call.spec, {}, self.cwd, operation=call.operation)
        if ends.stdin >= 0 and call.spec.stdin == "pipe":
            enlarge(ends.stdin)
        return ends, exchange

    def begin_attach(self, info: KeptCommand, since: Offsets, max_output: int) -> tuple[Endpoints, Exchange]:
        spec = ProcessSpec(
            argv=(info.name,),
            stdin="pipe",
            timeout=None,
            max_output=max_output,
            background=True,
            terminal=TerminalSize() if info.terminal else None,
        )
        exchange = Exchange(spec, time.monotonic(), relayed=True)
        with self.telling_of_a_loss():
            return attach_command(self.client, info.serial, since), exchange

    def check_file(self, call: FileCall[T], exchange: Exchange) -> None:
        """After its end: raise the error of an operation that failed."""
        number = exchange.file_error(closed=self.client.closed)
        if number:
            raise OSError(number, os.strerror(number), call.path)

    def file_answer(self, call: FileCall[T], exchange: Exchange) -> bytes:
        self.check_file(call, exchange)
        return exchange.result().stdout_bytes

    def file_value(self, call: FileCall[T], exchange: Exchange) -> T:
        with self.believing():
            return call.parse(self.file_answer(call, exchange))

    @contextlib.contextmanager
    def believing(self) -> Iterator[None]:
        """The helper's answer is read in here."""
        try:
            yield
        except ProtocolError as error:
            self.client.destroy()  # it is not believed any further
            raise SandboxLostError(f"sandbox {self.info.id} is lost: its helper broke the protocol: {error}") from error

    def check_open(self) -> None:
        if self.client.closed:
            raise SandboxClosedError(f"sandbox {self.info.id} is closed")

    def _check_there(self) -> None:
        """Raises `SandboxLostError` when the helper has ended."""
        if (why := self.client.ended()) is not None:
            raise SandboxLostError(f"the sandbox is gone: {why}")

    def metrics(self) -> Metrics:
        self.check_open()
        from isandbox_backends._shared.usage import tree_metrics  # psutil is only loaded for who asks

        found = None if self.client.pid is None or self.lost else tree_metrics(self.client.pid)
        if found is None:
            why = self.client.farewell() or "its first process has ended"
            self._tell_of_a_loss(why)
            raise SandboxLostError(f"sandbox {self.info.id} is gone: {why}")
        return found

    def hang_up(self) -> int | None:
        """End everything inside; the pidfd to wait for, ``None`` when somebody has closed it before."""
        if self.client.closed:  # also in a forked child, where nobody lets go of a lock that another thread had
            return None
        with self._lock:
            if self.client.closed:
                return None
            return self.client.hang_up()

    def let_go(self) -> None:
        """Give the sandbox up without ending it."""
        raise UnsupportedError(
            "detach: this sandbox ends with its owner; create it with detached=True and a lifetime, or close it",
            option="detach",
            backend=self.info.backend,
        )

    def takes_time(self) -> bool:
        """Whether `clean_up` does: a tree that a command left behind is removed, or the control group cannot go yet."""
        if any(map(_has_entries, self.scratch)):
            return True
        with contextlib.suppress(OSError):  # told by `clean_up`
            return self.group is not None and not self.group.remove_now()
        return False

    def clean_up(self) -> None:
        try:
            self.client.reap()
        finally:
            removals = [partial(remove_tree, path) for path in self.scratch]
            for remove in (*removals, *((self.group.remove,) if self.group is not None else ())):
                try:
                    remove()
                except OSError as error:  # close ends in "gone" also when a part of it fails
                    log.warning("sandbox %s: something could not be removed: %s", self.info.id, error)
            self.emit("closed")

    def ended(self, id: int, exchange: Exchange) -> None:
        """A command has come to its end, or the sandbox has under it."""
        if self.group is not None:
            self.group.end(id)
        if exchange.released:
            return
        if exchange.lost is None:
            self.emit("exec_ended", id=id)
        else:
            self._lost_under(exchange)

    def file_ended(self, exchange: Exchange) -> None:
        """The end of a file operation, or of a viewer of a command, is nobody's event, but what it finds lost is."""
        if exchange.lost is not None:
            self._lost_under(exchange)

    def _lost_under(self, exchange: Exchange) -> None:
        if not exchange.distrusted and (why := self.client.farewell()) is not None:
            exchange.lost = why
        self._tell_of_a_loss(exchange.lost or "")

    def _tell_of_a_loss(self, reason: str) -> None:
        if self.client.closed:  # as in `hang_up`
            return
        with self._lock:
            if self.client.closed or self.lost:
                return
            self.lost = True
        self.emit("lost", reason=reason)

    @contextlib.contextmanager
    def telling_of_a_loss(self) -> Iterator[None]:
        """Around what is the first to find out that the helper is gone."""
        try:
            yield
        except SandboxLostError:
            self._tell_of_a_loss(self.client.farewell() or "its first process does not answer")
            raise

    def emit(self, kind: EventKind, **data: str | float | bool | None) -> None:
        if self.on_event is None:
            return
        try:
            self.on_event(Event(kind, self.info.id, time.time(), MappingProxyType(data)))
        except Exception:
            log.exception("on_event of sandbox %s failed", self.info.id)

    def destroy(self) -> None:
        """Blocking: end everything and remove what was made."""
        if self.hang_up() is not None:
            self.clean_up()

    def end(self) -> None:
        """The interpreter goes down."""
        self.destroy()

    def __del__(self) -> None:
        if not self.client.closed:
            try:
                warnings.warn(f"sandbox {self.info.id} was never closed", ResourceWarning, source=self, stacklevel=2)
            finally:  # its processes end; what it left on disk may still be wanted, and stays
                self.client.hang_up()
                self.client.reap()
                if self.group is not None:
                    self.group.remove()

    def renewal(self, seconds: float) -> int:
        """Milliseconds for the helper. Raises `UnsupportedError` without a lifetime, `ConfigurationError`, `SandboxClosedError`."""
        self.check_open()
        if not self.life:
            raise UnsupportedError(
                "renew: this sandbox has no lifetime; it lives until it is closed", option="renew", backend=self.info.backend
            )
        return milliseconds(check_seconds(seconds, "renew"))

    def renewed(self, answer: bytes, seconds: float) -> None:
        """The helper has answered. Raises `SandboxLostError` for an answer that is none."""
        del seconds
        self.status(answer)

    def status(self, answer: bytes) -> Status:
        with self.believing():
            return decode_status(answer)


def milliseconds(seconds: float) -> int:
    """For a clock that counts them: at least one, for 0 is no end at all."""
    return max(1, round(seconds * 1000))


def _has_entries(path: str) -> bool:
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        return next(entries, None) is not None
    return False
