"""The digest of a creation's options: equal for equal wishes, everywhere; different for different ones; silent about secrets."""

from __future__ import annotations

import enum
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from isandbox import ConfigurationError, CreateRequest, Mount, Policy, Quotas, Workspace, _digest
from isandbox._digest import digest_of

REQUEST = CreateRequest(
    Policy(workspace=Workspace("/w", deny=("x",)), mounts=(Mount("/usr", "/data"),), env={"TOKEN": "secret", "A": "1"}),
    lifetime=60.0,
    detached=True,
    labels={"job": "1", "b": "2"},
    idempotency_key="key",
)


@dataclass(frozen=True)
class Options:
    names: Any = ()
    nested: dict[str, Any] = field(default_factory=dict)


def with_options(**values: Any) -> CreateRequest:
    return replace(REQUEST, options=Options(**values))


def test_it_is_the_recorded_one() -> None:
    """The digest of these options is the same in every version: a register outlives the program that wrote it."""
    assert digest_of("seccomp", REQUEST) == "d66b69f296028b59859560b5150fe8a35e0fb4054a224c91b258efb1c9a7a00a"


def test_it_is_the_same_in_another_process() -> None:
    """Another interpreter, with another hash seed, finds the same digest."""
    program = "import test_digest as t; print(t.digest_of('x', t.with_options(names=frozenset('abcdef'))))"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True, text=True, timeout=60, check=True, cwd=Path(__file__).parent,
            env={"PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"},
        ).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip
    assert found == {digest_of("x", with_options(names=frozenset("abcdef")))}


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, lifetime=60),
        replace(REQUEST, labels={"b": "2", "job": "1"}),
        replace(REQUEST, start_timeout=5.0),
        replace(REQUEST, on_event=print),
        replace(REQUEST, policy=replace(REQUEST.policy, env={"A": "1", "TOKEN": "secret"})),
        replace(REQUEST, policy=replace(REQUEST.policy, quotas=Quotas(pids=256))),
    ],
    ids=["whole number", "order of labels", "start_timeout", "on_event", "order of env", "a default that is said"],
)
def test_what_makes_no_difference(other: CreateRequest) -> None:
    """The same wish in other words, how long the caller waits, and who is told, are no other options."""
    assert digest_of("seccomp", other) == digest_of("seccomp", REQUEST)


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, lifetime=61),
        replace(REQUEST, idle_timeout=60),
        replace(REQUEST, labels={}),
        replace(REQUEST, options=Options(names=("x",))),
        replace(REQUEST, idempotency_key="another"),
        *(
            replace(REQUEST, policy=replace(REQUEST.policy, **part))
            for part in (
                *({"env": {"TOKEN": "Secret", "A": "1"}}, {"env": {"TOKEN": "secret"}}, {"workspace": None}, {"mounts": ()}),
                *({"workspace": Workspace("/w", "ro", deny=("x",))}, {"workspace": Workspace("/v", deny=("x",))}),
                *({"quotas": Quotas(pids=255)}, {"quotas": Quotas(memory=1 << 20)}, {"network": ()}, {"waive": {"disk"}}),
            )
        ),
    ],
)
def test_what_makes_a_difference(other: CreateRequest) -> None:
    """Whatever decides what is made does, each option by itself."""
    assert digest_of("seccomp", other) != digest_of("seccomp", REQUEST)
    assert digest_of("local", REQUEST) != digest_of("seccomp", REQUEST)


def test_values_of_one_text_but_another_kind_differ() -> None:
    """A list is no set, a number no text, a mapping no list of pairs, nothing no zero."""
    values = [
        ["a"],
        {"a"},
        "a",
        b"a",
        {"a": 1},
        [["a", 1]],
        1,
        "1",
        1.5,
        None,
        False,
        True,
        {},
        Options(names="a"),
        float("inf"),
    ]
    digests = [digest_of("x", with_options(names=value)) for value in values]
    assert len(set(digests)) == len(digests)
    assert digest_of("x", with_options(names=Path("/a"))) == digest_of("x", with_options(names="/a"))


def test_a_relative_path_is_that_of_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The same text from two directories is two workspaces; its absolute form is the same one."""

    def digest(path: str) -> str:
        return digest_of("x", replace(REQUEST, policy=Policy(workspace=Workspace(path), mounts=(Mount(path, "/data"),))))

    monkeypatch.chdir(tmp_path)
    here, absolute = digest("w"), digest(str(tmp_path / "w"))
    monkeypatch.chdir("/")
    assert here == absolute != digest("w")


def test_no_value_of_a_variable_goes_in_raw(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is digested holds a keyed digest where an environment has a value, so that nothing can be tried without the key."""
    digested: list[bytes] = []
    keyed = _digest._keyed

    def seen(key: bytes, data: bytes) -> str:
        assert key == b"key"
        digested.append(data)
        return keyed(key, data)

    monkeypatch.setattr(_digest, "_keyed", seen)
    digest_of("seccomp", REQUEST)
    assert b"secret" in digested
    assert b"TOKEN" in digested[-1]
    assert b"secret" not in digested[-1]


def test_what_cannot_be_compared_is_refused() -> None:
    """An option that has no lasting form is ConfigurationError with its place and kind, never with its value."""
    for value in (object(), print, enum.Enum("Secret", "secret").secret, [{"deep": object()}]):  # type: ignore[attr-defined]
        with pytest.raises(ConfigurationError, match=r"options\.options\.nested\.thing") as caught:
            digest_of("x", with_options(nested={"thing": value}))
        assert "secret" not in str(caught.value)
