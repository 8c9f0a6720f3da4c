"""From options to a backend and a checked request: the registry, the settings and the refusals."""

from __future__ import annotations

import inspect
import sys
import types
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import pytest

from isandbox import (
    Backend,
    BackendUnavailableError,
    Capabilities,
    ConfigurationError,
    CreateRequest,
    Enforcement,
    ISandbox,
    Mount,
    Policy,
    Quotas,
    UnsupportedError,
    Workspace,
    _registry,
    backend_names,
)
from isandbox._request import _OPTIONS, make_request
from isandbox._settings import default_type, read_settings
from isandbox.policy import KERNEL, unsupported
from isandbox.testing import FakeSandbox


@dataclass(frozen=True, slots=True)
class ToyOptions:
    colour: str = "red"


class Toy(Backend):
    name = "toy"
    options = ToyOptions
    why: str | None = None

    def unavailable(self) -> str | None:
        return self.why

    def capabilities(self) -> Capabilities:
        quotas = {"pids": KERNEL, "cpus": Enforcement("kernel", note="affinity"), "disk": unsupported("buy a disk")}
        return Capabilities("container", quotas=quotas, policies={"workspace.rw": KERNEL})

    async def create(self, request: CreateRequest) -> ISandbox:
        return FakeSandbox()


class Plain(Toy):
    name = "plain"
    options = Backend.options


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Backends as another distribution would bring them."""
    module = types.ModuleType("toy_backends")
    module.Toy, module.Plain, module.LocalBackend = Toy, Plain, Toy  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy_backends", module)
    targets = {
        "toy": "toy_backends:Toy", "plain": "toy_backends:Plain", "local": "toy_backends:LocalBackend", "node": "toy_backends:Toy",
        "typo": "toy_backends:Nothing", "gone": "no_such_module:Thing", "extra": "toy_backends:Toy [fast]",
    }  # fmt: skip
    entries = [metadata.EntryPoint(name, value, "isandbox.backends") for name, value in targets.items()]

    def entry_points(*, group: str, name: str | None = None) -> list[metadata.EntryPoint]:
        assert group == "isandbox.backends"
        return [entry for entry in entries if name in (None, entry.name)]

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    return module


def test_the_built_in_names() -> None:
    """Names and aliases, sorted."""
    names = backend_names()
    assert names == sorted(names)
    assert {"local", "node", "seccomp"} <= set(names)


def test_an_unknown_type_lists_the_valid_ones(monkeypatch: pytest.MonkeyPatch, toys: object) -> None:
    """Whether it came by argument or by variable, installed ones are in the list."""
    monkeypatch.setenv("SANDBOX_TYPE", "dokcer")
    with pytest.raises(ConfigurationError, match=r"'dokcer'.*local, node, plain, seccomp, toy"):
        make_request()
    for name in ("", "LOCAL", " local", "seccomp\n", "os:system"):
        with pytest.raises(ConfigurationError, match="valid are"):
            make_request(name)


@pytest.mark.parametrize("name", [5, b"local", ["local"], ("local",), {}])
def test_a_type_is_a_text(name: Any) -> None:
    """Anything else is a ConfigurationError too, not a TypeError from inside."""
    with pytest.raises(ConfigurationError, match="local"):
        make_request(name)


def test_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """SANDBOX_TYPE decides; empty counts as unset; without it the platform's native backend, else an error."""
    monkeypatch.setenv("SANDBOX_TYPE", "local")
    assert default_type() == "local"
    monkeypatch.setenv("SANDBOX_TYPE", "")
    assert read_settings().sandbox_type is None
    monkeypatch.setattr(sys, "platform", "linux")
    assert default_type() == "seccomp"
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(BackendUnavailableError, match="win32"):
        default_type()


def test_node_is_local() -> None:
    """The alias of the original design."""
    assert make_request("node")[0].name == "local"


def test_an_entry_point_cannot_take_over_a_built_in_name(toys: object) -> None:
    """A package that calls itself local, or node, is not what local means."""
    assert make_request("local")[0].name == "local"
    assert make_request("node")[0].name == "local"
    assert make_request("toy")[0].name == "toy"
    assert make_request("extra")[0].name == "toy"


def test_broken_backends_say_what_is_missing(toys: object) -> None:
    """A missing module, a missing class: BackendUnavailableError with the name."""
    with pytest.raises(BackendUnavailableError, match="no_such_module"):
        make_request("gone")
    with pytest.raises(BackendUnavailableError, match="Nothing"):
        make_request("typo")


def test_a_missing_dependency_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module that is missing and the command that fixes it; the original error is the cause."""

    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'dockerlib'", name="dockerlib")

    monkeypatch.setattr(_registry, "import_module", missing)
    with pytest.raises(BackendUnavailableError, match=r"dockerlib.*pip install --force-reinstall isandbox") as caught:
        make_request("seccomp")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_another_error_of_a_backends_import_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in a backend is not "not installed"."""

    def broken(name: str) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(_registry, "import_module", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        make_request("seccomp")


def test_options_of_a_backend(toys: object) -> None:
    """Its own are taken; an unknown one is refused with the list of all that there are."""
    assert make_request("toy", colour="blue")[1].options == ToyOptions("blue")
    with pytest.raises(ConfigurationError, match=r"toy.*'size'.*colour"):
        make_request("toy", size=1)
    with pytest.raises(
        ConfigurationError,
        match=r"plain.*'colour'.*workspace, mounts, env, quotas,.*on_event, lifetime, idle_timeout, detached, idempotency_key$",
    ):
        make_request("plain", colour="blue")
    with pytest.raises(ConfigurationError, match="'memory'"):
        make_request("local", memory="1GiB")


def test_the_list_of_options_is_the_signature() -> None:
    """What the message about an unknown option lists is what `make_request` takes."""
    named = [p.name for p in inspect.signature(make_request).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert list(_OPTIONS) == named


@pytest.mark.parametrize("options", [{"labels": 3}, {"labels": ["a"]}, {"on_event": 3}])
def test_labels_and_sinks_are_checked(toys: object, options: dict[str, Any]) -> None:
    """Labels are a mapping and a sink can be called, else ConfigurationError: not later, and not silently."""
    with pytest.raises(ConfigurationError, match=f"^{next(iter(options))}: "):
        make_request("toy", **options)


@pytest.mark.parametrize("name", ["mounts", "network", "waive", "quotas", "env", "workspace", "policy"])
@pytest.mark.parametrize("value", [5, 0, False, 1.5, object(), b"x", [5], [[]]], ids=lambda value: type(value).__name__)
def test_an_option_of_another_type_is_refused(toys: object, name: str, value: Any) -> None:
    """What is no list, record or mapping is ConfigurationError that names the option, also where it counts as false."""
    with pytest.raises(ConfigurationError, match=name):
        make_request("toy", **{name: value})


def test_a_backend_that_cannot_run_here(toys: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reason is the message."""
    monkeypatch.setattr(Toy, "why", "start the toy service: systemctl start toy")
    with pytest.raises(BackendUnavailableError, match="systemctl start toy"):
        make_request("toy")


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"quotas": Quotas(disk="1GiB")}, "quotas.disk"),
        ({"quotas": Quotas(open_files=1024)}, "quotas.open_files"),
        ({"workspace": Workspace("/w", "ro")}, "workspace.ro"),
        ({"workspace": Workspace("/w", deny=("x",))}, "workspace.deny"),
        ({"mounts": [Mount("/usr", "/data")]}, "mounts"),
        ({"network": []}, "network.none"),
        ({"network": ["x.org"]}, "network.hosts"),
        ({"min_isolation": "vm"}, "min_isolation"),
    ],
)
def test_what_cannot_be_enforced_is_refused(toys: object, options: dict[str, Any], option: str) -> None:
    """UnsupportedError names option and backend, in the message and in fields, and ends with a way out."""
    with pytest.raises(UnsupportedError) as caught:
        make_request("toy", **options)
    assert (caught.value.option, caught.value.backend) == (option, "toy")
    assert "toy" in str(caught.value)
    assert "; " in str(caught.value)


@pytest.mark.parametrize("waive", ["disk", ["disk"], {"disk", "pids"}])
def test_a_waiver_is_by_name_and_recorded(toys: object, waive: Any) -> None:
    """What is waived is not required, and the request says so."""
    request = make_request("toy", quotas=Quotas(disk="1GiB"), waive=waive)[1]
    assert "disk" in request.policy.waive
    with pytest.raises(UnsupportedError):
        make_request("toy", quotas=Quotas(disk="1GiB"), waive={"pids"})


def test_defaults_are_not_required(toys: object) -> None:
    """A plain sandbox works where the default of open_files cannot be held."""
    assert make_request("toy")[1].policy.quotas.open_files == 1024


@pytest.mark.parametrize(
    "part", [{"workspace": "/w"}, {"workspace": ""}, {"mounts": [Mount("/usr", "/a")]}, {"env": {"A": "1"}}, {"quotas": Quotas()},
             {"network": ()}, {"waive": "disk"}],
)  # fmt: skip
def test_a_whole_policy_excludes_its_parts(part: dict[str, Any]) -> None:
    """Two sources for one thing are refused."""
    with pytest.raises(ConfigurationError, match="policy="):
        make_request("local", policy=Policy(), **part)


def test_a_whole_policy(toys: object) -> None:
    """It is taken as it is; something else is refused."""
    policy = Policy(env={"A": "1"})
    assert make_request("toy", policy=policy)[1].policy is policy
    with pytest.raises(ConfigurationError, match="Policy record"):
        make_request("toy", policy={"env": {}})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -1, True, "60", None, float("nan"), float("inf"), 86_401, 10**400])
def test_start_timeout(value: Any) -> None:
    """Seconds above 0 and at most a day."""
    with pytest.raises(ConfigurationError, match="start_timeout"):
        make_request("local", start_timeout=value)


def test_labels_are_copied(toys: object) -> None:
    """A dict that is changed afterwards changes no request."""
    labels = {"job": "1"}
    request = make_request("toy", labels=labels)[1]
    labels["job"] = "2"
    assert request.labels == {"job": "1"}


def test_labels_are_texts(toys: object) -> None:
    """Labels are texts by texts; they are kept as they were given, not the caller's own mapping."""
    labels = {"job": "17"}
    request = make_request("toy", labels=labels)[1]
    labels["job"] = "18"
    assert dict(request.labels) == {"job": "17"}
    for bad in ({"job": 17}, {1: "x"}):
        with pytest.raises(ConfigurationError, match="labels"):
            make_request("toy", labels=bad)  # type: ignore[arg-type]
