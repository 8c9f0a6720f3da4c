"""From `create_sandbox`'s options to a backend and one checked `CreateRequest`. Nothing is started here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from isandbox._life import check_life, refuse_unsupported_life
from isandbox._registry import load_backend
from isandbox._settings import UnsetNumber, UnsetText, default_type, read_settings, trusted_files
from isandbox._text import plain, shown
from isandbox.backend import START_TIMEOUT_DEFAULT, CreateRequest
from isandbox.errors import BackendUnavailableError, ConfigurationError, UnsupportedError
from isandbox.policy import Policy, Quotas, as_mounts, as_workspace, meets
from isandbox.policy.mounts import check_texts

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from isandbox._settings import Settings
    from isandbox.backend import Backend
    from isandbox.events import EventSink
    from isandbox.policy import Capabilities, Isolation, Mount, Workspace

_OPTIONS = (
    *("workspace", "mounts", "env", "quotas", "network", "start_timeout"),
    *("labels", "min_isolation", "waive", "policy", "on_event"),
    *("lifetime", "idle_timeout", "detached", "idempotency_key"),
)
# What stands in a signature when nobody has said anything: a setting is stronger, and any value of the caller's stronger still.
_START_TIMEOUT: float = UnsetNumber(START_TIMEOUT_DEFAULT)
_MIN_ISOLATION: Isolation = UnsetText("none")  # type: ignore[assignment] # it is that text
P = ParamSpec("P")
R = TypeVar("R")


def takes(options: Callable[P, object]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """For type checkers and editors: the function has the parameters of ``options``, to which it hands them on."""
    del options
    return lambda function: function


def make_request(
    type: str | None = None,
    *,
    workspace: Workspace | str | os.PathLike[str] | None = None,
    mounts: Sequence[Mount] = (),
    env: Mapping[str, str] | None = None,
    quotas: Quotas | None = None,
    network: Iterable[str] | None = None,
    start_timeout: float = _START_TIMEOUT,
    labels: Mapping[str, str] | None = None,
    min_isolation: Isolation = _MIN_ISOLATION,
    waive: Iterable[str] = (),
    policy: Policy | str | os.PathLike[str] | None = None,
    on_event: EventSink | None = None,
    lifetime: float | None = None,
    idle_timeout: float | None = None,
    detached: bool = False,
    idempotency_key: str | None = None,
    **backend_options: Any,
) -> tuple[Backend, CreateRequest]:
    """Check every option against the backend that will have to honour it.

    What is not given is taken from the settings. Raises `ConfigurationError`, `UnsupportedError` (option, backend and a way out in
    the message) and `BackendUnavailableError`.
    """
    settings, origins = read_settings(), dict[str, str]()
    backend = load_backend(type) if type is not None else _default_backend(settings)
    if settings.values:
        from isandbox._settings.apply import applied

        now = applied(settings, quotas, start_timeout, min_isolation, whole=policy is not None)
        quotas, start_timeout, min_isolation, origins = now.quotas, now.start_timeout, now.min_isolation, now.origins
    request = _attributed(origins, request_for)(
        backend,
        workspace=workspace,
        mounts=mounts,
        env=env,
        quotas=quotas,
        network=network,
        start_timeout=start_timeout,
        labels=labels,
        min_isolation=min_isolation,
        waive=waive,
        policy=policy,
        on_event=on_event,
        lifetime=lifetime,
        idle_timeout=idle_timeout,
        detached=detached,
        idempotency_key=idempotency_key,
        **backend_options,
    )
    if trusted := trusted_files():
        _refuse_rewriting(backend, request.policy, trusted)
    return backend, request


def _refuse_rewriting(backend: Backend, policy: Policy, files: Sequence[str]) -> None:
    """Where there is isolation, code inside must not write the settings of the next sandbox, such as its type."""
    if backend.capabilities().isolation == "none":
        return
    from isandbox.policy.rewriting import refuse_rewriting

    for path in files:
        refuse_rewriting(policy, path, f"settings: {plain(path)}")


def _default_backend(settings: Settings) -> Backend:
    return _attributed(settings.origins, load_backend, "type")(default_type())


def _attributed(origins: Mapping[str, str], function: Callable[P, R], key: str = "") -> Callable[P, R]:
    """Its errors say who asked for what cannot be had, when the caller did not: a variable or a file."""
    if not origins:
        return function

    def attributed(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return function(*arguments, **options)
        except (UnsupportedError, ConfigurationError) as error:
            origin = origins.get(key or getattr(error, "option", ""))
            if origin is not None:
                error.args = (f"{error} (asked for by {origin})",)
            raise

    return attributed


def _load_policy(path: object) -> Policy:
    if not isinstance(path, str) and not hasattr(path, "__fspath__"):
        raise ConfigurationError(f"policy: a Policy record, or the path of a file, not {path.__class__.__name__}")
    return Policy.load(path)


def request_for(
    backend: Backend,
    *,
    workspace: Workspace | str | os.PathLike[str] | None = None,
    mounts: Sequence[Mount] = (),
    env: Mapping[str, str] | None = None,
    quotas: Quotas | None = None,
    network: Iterable[str] | None = None,
    start_timeout: float = START_TIMEOUT_DEFAULT,
    labels: Mapping[str, str] | None = None,
    min_isolation: Isolation = "none",
    waive: Iterable[str] = (),
    policy: Policy | str | os.PathLike[str] | None = None,
    on_event: EventSink | None = None,
    lifetime: float | None = None,
    idle_timeout: float | None = None,
    detached: bool = False,
    idempotency_key: str | None = None,
    **backend_options: Any,
) -> CreateRequest:
    """`make_request` for a backend that is at hand, and needs no name."""
    parts = workspace is not None or mounts or env or quotas or network is not None or waive
    if policy is not None and parts:
        raise ConfigurationError("policy= is the whole policy; give workspace, mounts, env, quotas, network or waive in it")
    if policy is None:
        policy = Policy(
            workspace=as_workspace(workspace),
            mounts=as_mounts(mounts),
            env={} if env is None else env,
            network=None if network is None else check_texts(network, "network", "hosts"),
            quotas=Quotas() if quotas is None else quotas,
            waive=frozenset(check_texts((waive,) if isinstance(waive, str) else waive, "waive", "names")),
        )
    elif not isinstance(policy, Policy):
        policy = _load_policy(policy)
    number = isinstance(start_timeout, (int, float)) and not isinstance(start_timeout, bool)
    if not number or not 0 < start_timeout <= 86_400:  # false for NaN too
        raise ConfigurationError(f"start_timeout: seconds above 0 and at most a day, not {shown(start_timeout)}")
    check_sink(on_event)
    check_life(lifetime, idle_timeout, detached, idempotency_key)
    options = _backend_options(backend, backend_options)
    reason = backend.unavailable()
    if reason is not None:
        raise BackendUnavailableError(f"the {backend.name} backend cannot run here: {reason}")
    _refuse_unsupported(backend, policy, min_isolation)
    if detached or lifetime is not None or idle_timeout is not None:
        refuse_unsupported_life(backend, lifetime, idle_timeout, detached)
    backend.check(policy, options)
    request = CreateRequest(
        policy=policy,
        options=options,
        start_timeout=start_timeout,
        labels=check_labels(labels),
        on_event=on_event,
        lifetime=lifetime,
        idle_timeout=idle_timeout,
        detached=detached,
        idempotency_key=idempotency_key,
    )
    backend.check_request(request)
    return request if idempotency_key is None else _with_digest(backend, request)


def _with_digest(backend: Backend, request: CreateRequest) -> CreateRequest:
    from isandbox._digest import digest_of  # hashlib costs more to import than a plain sandbox's checks take

    return replace(request, options_digest=digest_of(backend.name, request))


def check_labels(labels: object) -> Mapping[str, str]:
    if labels is None:
        return MappingProxyType({})
    if not isinstance(labels, Mapping):
        raise ConfigurationError(f"labels: a mapping of texts, not {shown(labels)}")
    given = dict(labels)
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigurationError(f"labels: names and values are texts; {shown(name)} is not so")
    return MappingProxyType(given)


def check_sink(on_event: object) -> None:
    if on_event is not None and not callable(on_event):
        raise ConfigurationError(f"on_event: a function of one event, not {shown(on_event)}")


def _backend_options(backend: Backend, given: Mapping[str, Any]) -> object:
    known = {f.name for f in fields(backend.options)}
    for name in given:
        if name not in known:
            names = ", ".join((*_OPTIONS, *sorted(known)))
            raise ConfigurationError(f"the {backend.name} backend has no option {name!r}; it has {names}")
    return backend.options(**given)


def _refuse_unsupported(backend: Backend, policy: Policy, min_isolation: Isolation) -> None:
    capabilities = backend.capabilities()
    if not meets(capabilities.isolation, min_isolation):
        raise UnsupportedError(
            f"min_isolation={min_isolation}: the {backend.name} backend gives {capabilities.isolation!r}; "
            "name a stronger type or lower the minimum",
            option="min_isolation",
            backend=backend.name,
        )
    _check_waivers(backend, capabilities, policy)
    for name in sorted(policy.quotas.asked() - policy.waive):
        _require(backend, f"quotas.{name}", capabilities.quota(name).kind, capabilities.quota(name).instead)
    for name in sorted(_asked_policies(policy) - policy.waive):
        _require(backend, name, capabilities.policy(name).kind, capabilities.policy(name).instead)


def _asked_policies(policy: Policy) -> set[str]:
    """Names of what the policy asks for, in the capability record's words."""
    asked = set()
    if policy.workspace is not None:
        asked.add(f"workspace.{policy.workspace.mode}")
        if policy.workspace.deny:
            asked.add("workspace.deny")
    if policy.mounts:
        asked.add("mounts")
    if policy.network is not None:
        asked.add("network.hosts" if policy.network else "network.none")
    return asked


def _check_waivers(backend: Backend, capabilities: Capabilities, policy: Policy) -> None:
    known = {*(f.name for f in fields(Quotas)), *capabilities.policies, *backend.waivable}
    for name in sorted(policy.waive - known):
        raise ConfigurationError(
            f"waive: the {backend.name} backend has no {name!r} to waive; it has {', '.join(sorted(known))}"
        )


def _require(backend: Backend, option: str, kind: str, instead: str) -> None:
    if kind == "unsupported":
        raise UnsupportedError(
            f"{option}: the {backend.name} backend cannot enforce this; {instead}", option=option, backend=backend.name
        )
