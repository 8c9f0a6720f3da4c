"""`isandbox create`: a sandbox that stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from isandbox.cli._output import say_object
from isandbox.cli._prepare import prepare
from isandbox.cli._streams import STDERR, say
from isandbox.cli.life.durations import spoken
from isandbox.cli.life.edge import guarded
from isandbox.cli.life.terminal import is_terminal

if TYPE_CHECKING:
    from isandbox.cli._options import RunOptions
    from isandbox.sync import ISandbox

LIFETIME_DEFAULT = 3_600.0


@dataclass(frozen=True, slots=True)
class CreateOptions:
    """``run``: what `isandbox run` takes too. Seconds."""

    run: RunOptions
    lifetime: float | None = None
    idle_timeout: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    idempotency_key: str | None = field(default=None, repr=False)
    json: bool = False

    def whole_lifetime(self) -> float:
        """What was asked for, also where that is nothing and will be refused; else the default."""
        return LIFETIME_DEFAULT if self.lifetime is None else self.lifetime

    def life(self) -> dict[str, Any]:
        """Those of `create_sandbox`'s options that say how long it lives and what it is called."""
        return {"lifetime": self.lifetime, "idle_timeout": self.idle_timeout, "labels": dict(self.labels)}


def create_command(options: CreateOptions) -> int:
    """0 when it is there, 125 when not."""
    return guarded(lambda: _create(options), as_json=options.json)


def _create(options: CreateOptions) -> int:
    from isandbox.sync import create_sandbox

    what = prepare(options.run)
    life = {**options.life(), "lifetime": options.whole_lifetime()}
    key = options.idempotency_key
    sandbox = create_sandbox(what.type, **what.sandbox, **life, detached=True, idempotency_key=key)
    told = False
    try:
        code = _tell(sandbox, options)
        told = code == 0
    finally:
        if told or key is not None:
            sandbox.detach()
        else:
            sandbox.close()  # nobody knows its id
    return code


def _tell(sandbox: ISandbox, options: CreateOptions) -> int:
    info, lifetime = sandbox.info, options.whole_lifetime()
    if options.json:
        return say_object(
            {
                "id": info.id,
                "type": info.backend,
                "isolation": info.isolation,
                "workspace": info.workspace,
                "created_at": info.created_at.isoformat(),
                "lifetime": lifetime,
                "idle_timeout": options.idle_timeout,
                "labels": dict(info.labels),
                "waived": sorted(info.waived),
            }
        )
    code = say(info.id, 0)
    if code == 0 and options.lifetime is None and is_terminal(STDERR):
        say(f"isandbox: it ends in {spoken(lifetime)}; --lifetime says otherwise", 0, STDERR)
    return code
