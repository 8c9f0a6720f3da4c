"""Which backend is asked for a sandbox that is there already, and what becomes of its answers; both interfaces."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import isandbox
import isandbox.sync
from isandbox import (
    Backend,
    BackendUnavailableError,
    ConfigurationError,
    CreateRequest,
    ISandbox,
    ReapReport,
    SandboxSummary,
    UnsupportedError,
    _registry,
)
from isandbox._life import backend_of_id, check_life, check_seconds
from isandbox.policy import Capabilities
from isandbox.testing import FakeSandbox

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def summary(id: str, seconds: int = 0, **labels: str) -> SandboxSummary:
    return SandboxSummary(id, id.partition("-")[0], "running", True, NOW + timedelta(seconds=seconds), labels)


class Moon(Backend):
    """Holds what it is given, and writes down what it is asked."""

    name = "moon"

    def __init__(self, *there: SandboxSummary, leftovers: tuple[str, ...] = (), failure: Exception | None = None) -> None:
        self.there, self.leftovers, self.failure = there, leftovers, failure
        self.asked: list[str] = []

    def unavailable(self) -> str | None:
        return None

    def capabilities(self) -> Capabilities:
        return Capabilities("none")

    async def create(self, request: CreateRequest) -> ISandbox:
        raise NotImplementedError

    async def connect(self, id: str, on_event: Any = None) -> ISandbox:
        self.asked.append(f"connect {id}")
        return FakeSandbox(name=id)

    def list(self) -> Any:
        self.asked.append("list")
        return self.there

    def kill(self, id: str) -> bool:
        self.asked.append(f"kill {id}")
        return True

    def reap(self) -> ReapReport:
        self.asked.append("reap")
        if self.failure is not None:
            raise self.failure
        return ReapReport(self.leftovers)


@pytest.fixture
def moon() -> Iterator[Moon]:
    backend = Moon(summary("moon-2", 2, a="1"), summary("moon-1", 1, a="1", b="2"), leftovers=("z", "a"))
    with _registry.stand_in("moon", backend):
        yield backend


@pytest.mark.parametrize("id", ["moon-0123", "moon-a-b-c", f"moon-{'a' * 195}"])
async def test_a_prefix_chooses_the_backend(moon: Moon, id: str) -> None:
    """connect and kill_sandbox ask the backend whose name the id begins with, and no other."""
    await isandbox.connect(id)
    assert await isandbox.kill_sandbox(id) is True
    assert moon.asked == [f"connect {id}", f"kill {id}"]


def test_the_longest_prefix_wins() -> None:
    """A backend whose name begins with another's has its own ids."""
    assert backend_of_id("moon-base-1", ["moon", "moon-base", "sun"]) == "moon-base"
    assert backend_of_id("moon-bases-1", ["moon", "moon-base", "sun"]) == "moon"
    assert backend_of_id("mars-1", ["moon"]) is None


@pytest.mark.parametrize(
    "id",
    ["", "-", "moon", "moon-", "-moon-1", "moon--1", "Moon-1", "moon-1\n", " moon-1", "moon-1/..", "../moon-1", "moon-1\0",
     "moon-\u0661", "moon_1", "moon-" + "a" * 196, 5, None, b"moon-1"],
)  # fmt: skip
def test_what_is_no_id_is_looked_up_nowhere(moon: Moon, id: Any) -> None:
    """ConfigurationError from the call itself, and no backend has heard of it: an id becomes a file name."""
    for attempt in (isandbox.connect, isandbox.sync.connect, isandbox.sync.kill_sandbox):
        with pytest.raises(ConfigurationError, match=r"^id: "):
            attempt(id)
    with pytest.raises(ConfigurationError, match=r"^id: "):
        asyncio.run(isandbox.kill_sandbox(id))
    assert moon.asked == []


def test_an_unknown_prefix_lists_the_known_ones() -> None:
    """The error has every prefix that there is; an alias is none."""
    for unknown in ("nosuch-1", "node-1"):
        with pytest.raises(ConfigurationError, match="local-, seccomp-"):
            isandbox.connect(unknown)


async def test_a_list_is_sorted_and_filtered(moon: Moon) -> None:
    """Oldest first, and with labels those that have all of them; labels that are no texts are refused."""
    assert [s.id for s in await isandbox.list_sandboxes("moon")] == ["moon-1", "moon-2"]
    assert [s.id for s in await isandbox.list_sandboxes(labels={"a": "1"})] == ["moon-1", "moon-2"]
    assert [s.id for s in await isandbox.list_sandboxes(labels={"a": "1", "b": "2"})] == ["moon-1"]
    assert await isandbox.list_sandboxes(labels={"a": "2"}) == []
    with pytest.raises(ConfigurationError, match="labels"):
        await isandbox.list_sandboxes(labels={"a": 1})  # type: ignore[dict-item]
    with pytest.raises(ConfigurationError, match="valid are"):
        await isandbox.list_sandboxes("nosuch")


def test_the_blocking_names_do_the_same(moon: Moon) -> None:
    """isandbox.sync has the four without await."""
    assert [s.id for s in isandbox.sync.list_sandboxes("moon", {"b": "2"})] == ["moon-1"]
    assert isandbox.sync.kill_sandbox("moon-1") is True
    assert isandbox.sync.reap() == ReapReport(("a", "z"))
    with isandbox.sync.connect("moon-1") as sandbox:
        assert sandbox.info.id == "moon-1"
    assert moon.asked == ["list", "kill moon-1", "reap", "connect moon-1"]


async def test_blocking_in_a_running_loop_is_refused(moon: Moon) -> None:
    """All four: each would stop everything else in the loop."""
    functions: Any = isandbox.sync
    for call in (
        lambda: functions.connect("moon-1"),
        functions.list_sandboxes,
        lambda: functions.kill_sandbox("moon-1"),
        functions.reap,
    ):
        with pytest.raises(ConfigurationError, match="event loop"):
            call()
    assert moon.asked == []


async def test_the_loop_goes_on_while_a_backend_blocks(moon: Moon, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend's blocking answer is waited for in a thread."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def kill(id: str) -> bool:
        asyncio.run_coroutine_threadsafe(asked.wait(), loop).result(30)
        return True

    monkeypatch.setattr(moon, "kill", kill)
    task = asyncio.create_task(isandbox.kill_sandbox("moon-1"))
    await asyncio.sleep(0)
    asked.set()
    assert await task is True


async def test_a_service_is_asked_when_it_is_named_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a type list_sandboxes and reap ask the backends of this machine, and no installed one."""
    loaded: list[str] = []

    def load(name: str) -> Backend:
        loaded.append(name)
        return Moon()

    monkeypatch.setattr("isandbox._finding.load_backend", load)
    await isandbox.list_sandboxes()
    await isandbox.reap()
    assert loaded == ["local", "seccomp"] * 2
    await isandbox.list_sandboxes("cloud")
    assert loaded[4:] == ["cloud"]


async def test_a_backend_of_another_platform_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one cannot be loaded there are none of its sandboxes; named, the error says why."""

    def load(name: str) -> Backend:
        if name == "seccomp":
            raise BackendUnavailableError("needs Linux")
        return Moon(summary("local-1"))

    monkeypatch.setattr("isandbox._finding.load_backend", load)
    assert [s.id for s in await isandbox.list_sandboxes()] == ["local-1"]
    with pytest.raises(BackendUnavailableError, match="Linux"):
        await isandbox.list_sandboxes("seccomp")


async def test_one_failing_backend_stops_no_reaping() -> None:
    """The others' leftovers are removed, then the failure comes out."""
    broken, whole = Moon(failure=OSError("disk")), Moon(leftovers=("x",))
    with _registry.stand_in("a-broken", broken), _registry.stand_in("b-whole", whole), pytest.raises(OSError, match="disk"):
        await isandbox.reap()
    assert (broken.asked, whole.asked) == (["reap"], ["reap"])


async def test_a_backend_that_has_none_of_it_refuses_by_name() -> None:
    """The defaults of a backend: nothing to list or to reap, and connect and kill are UnsupportedError with their names."""

    class Plain(Moon):
        name = "plain"
        connect, list, kill, reap = Backend.connect, Backend.list, Backend.kill, Backend.reap

    with _registry.stand_in("plain", Plain()):
        assert await isandbox.list_sandboxes("plain") == []
        assert await isandbox.reap() == ReapReport()
        for verb, attempt in (("connect", isandbox.connect("plain-1")), ("kill", isandbox.kill_sandbox("plain-1"))):
            with pytest.raises(UnsupportedError) as caught:
                await attempt
            assert (caught.value.option, caught.value.backend) == (verb, "plain")
        for options in ({"lifetime": 5}, {"idle_timeout": 5}, {"detached": True, "lifetime": 5}):
            with pytest.raises(UnsupportedError) as caught:
                isandbox.create_sandbox("plain", **options)
            assert (caught.value.option, caught.value.backend) == (next(iter(options)), "plain")


def test_a_stand_in_takes_no_name_that_is_taken(moon: Moon) -> None:
    """A built-in name, an alias, another stand-in: ConfigurationError; and it is gone with its context."""
    for name in ("local", "node", "moon"):
        with pytest.raises(ConfigurationError, match=name), _registry.stand_in(name, Moon()):
            raise AssertionError("not reached")
    with _registry.stand_in("sun", Moon()):
        assert "sun" in isandbox.backend_names()
    assert "sun" not in isandbox.backend_names()


async def test_a_connection_shows_itself_and_takes_a_sink(moon: Moon) -> None:
    """Its repr has the id; what is no function as on_event is refused in the call; until it is awaited nothing is asked."""
    assert repr(isandbox.connect("moon-1")) == "<Connection to moon-1>"
    with pytest.raises(ConfigurationError, match="on_event"):
        isandbox.connect("moon-1", on_event=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="async with"), isandbox.connect("moon-1"):  # type: ignore[attr-defined]
        raise AssertionError("not reached")
    assert moon.asked == []


def test_records_pickle() -> None:
    """A summary and a report survive the way to another process, and their labels cannot be changed."""
    one = summary("moon-1", a="1")
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - our own bytes
    with pytest.raises(TypeError):
        one.labels["a"] = "2"  # type: ignore[index]
    report = ReapReport(("a",))
    assert pickle.loads(pickle.dumps(report)) == report  # noqa: S301


@pytest.mark.parametrize(
    "value", [0, -1, 0.0, True, False, "60", None, float("nan"), float("inf"), 2_592_001, 10**400, b"1", []]
)
def test_seconds_of_a_life(value: Any) -> None:
    """Above 0 and at most 30 days; anything else is ConfigurationError with the option's name."""
    with pytest.raises(ConfigurationError, match=r"^renew: "):
        check_seconds(value, "renew")
    if value is not None:
        for name, options in (("lifetime", (value, None)), ("idle_timeout", (None, value))):
            with pytest.raises(ConfigurationError, match=f"^{name}: "):
                check_life(*options, detached=False, idempotency_key=None)
    assert check_seconds(2_592_000, "renew") == 2_592_000.0


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "\0", "\ud800", 50, b"key", True])
def test_a_key_is_short_and_printable(key: Any) -> None:
    """1 to 255 printable characters; the message never holds the key."""
    with pytest.raises(ConfigurationError, match=r"^idempotency_key: ") as caught:
        check_life(60, None, detached=True, idempotency_key=key)
    assert not key or str(key) not in str(caught.value).removeprefix("idempotency_key")


def test_options_that_go_together() -> None:
    """Detached needs a lifetime, a key needs detached, and detached is a truth value."""
    check_life(60, None, detached=True, idempotency_key="k" * 255)
    check_life(None, 5, detached=False, idempotency_key=None)
    with pytest.raises(ConfigurationError, match="lifetime=SECONDS"):
        check_life(None, 60, detached=True, idempotency_key=None)
    with pytest.raises(ConfigurationError, match="detached=True"):
        check_life(60, None, detached=False, idempotency_key="k")
    for value in (1, 0, None, "yes"):
        with pytest.raises(ConfigurationError, match="True or False"):
            check_life(60, None, value, None)
