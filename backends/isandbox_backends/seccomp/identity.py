"""The ids of the next sandbox: chosen, locked, and given back when it does not start."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from isandbox.errors import BackendUnavailableError, SandboxError, UnsupportedError
from isandbox_backends._shared.plan import IdUse
from isandbox_backends._shared.spawn import CLAIM_FD, OUTER_FD
from isandbox_backends.seccomp import ids
from isandbox_backends.seccomp.claims import Claim, claim
from isandbox_backends.seccomp.space import Space, known, space
from isandbox_backends.seccomp.subordinate import Grant, Refused, find_grant, given_to_others

if TYPE_CHECKING:
    from collections.abc import Mapping

    from isandbox.policy import Policy
    from isandbox_backends._shared.cgroups import Place
    from isandbox_backends.seccomp.options import SeccompOptions

_ROOT_DIRECTORY = "/run/isandbox"
_USER_DIRECTORY = ".local/state/isandbox"  # below the home directory of the password file: no variable moves it


@dataclass(frozen=True, slots=True)
class Identity:
    """``inherited``: descriptors for the helper. ``told``: about the uid of the helper, and how far from other sandboxes."""

    ids: ids.Ids
    split: str
    distinct: str
    claim: Claim | None = None
    inherited: Mapping[int, int] = field(default_factory=dict)

    def close(self) -> None:
        if self.claim is not None:
            self.claim.close()


def check(options: SeccompOptions, group: Place | None) -> None:
    """Refuse ids that cannot be had, as far as it can be told without trying. Raises `UnsupportedError`."""
    if os.geteuid() == 0:
        if options.ids == "single":
            raise _refused("root's sandboxes have ids of their own, for commands must not be root; leave it out", options)
    elif options.ids == "subordinate":
        found = look(options, group)
        if isinstance(found, Refused):
            raise _refused(found.why, options)


def look(options: SeccompOptions, group: Place | None) -> Grant | Refused | None:
    """What this process may map beside its own id for a sandbox whose control group is made there; ``None`` where that is not
    the question.
    """
    if os.geteuid() == 0 or options.ids == "single":
        return None
    if group is not None and group.version == "v1":
        # The kernel asks for the uid of whoever opened the file: cgroup1_procs_write in kernel/cgroup/cgroup-v1.c.
        return Refused("a control group of version 1 takes the user's own id only; cgroup='never' has quotas watched instead")
    return find_grant()


def is_ready(found: Grant | Refused | None) -> bool:
    """Whether `identify` will not need programs to be run first."""
    return not isinstance(found, Grant) or known(found) is not None


def make_ready(found: Grant | Refused | None, timeout: float) -> tuple[Grant | Refused | None, float]:
    """Run them. Blocking. Returns what came of it, and what is left of ``timeout``, half of which it may take."""
    began = time.monotonic()
    if isinstance(found, Grant) and isinstance(made := space(found, timeout / 2), Refused):
        found = made
    return found, timeout - (time.monotonic() - began)


def identify(policy: Policy, options: SeccompOptions, found: Grant | Refused | None) -> Identity:
    """The ids of one sandbox, locked until `Identity.close` and the end of the helper that inherits the lock.

    Raises `UnsupportedError` for ``ids="subordinate"`` where there are none, `BackendUnavailableError` where no range of root's
    is free.
    """
    if os.geteuid() == 0:
        return _of_root()
    if found is None:
        return _single("ids='single'")
    outer = known(found) if isinstance(found, Grant) else found
    if isinstance(found, Grant) and isinstance(outer, Space):
        return _subordinate(found, outer, own=policy.workspace is not None or bool(policy.mounts))
    why = outer.why if isinstance(outer, Refused) else "the namespace for subordinate ids has gone; try again"
    if options.ids == "subordinate":
        raise _refused(why, options)
    return _single(why)


def _of_root() -> Identity:
    ranges = ids.ROOT_RANGES
    try:
        locked = claim(_ROOT_DIRECTORY, ranges, given_to_others(ranges[0], ranges[-1] + ids.LENGTH - 1))
    except LookupError as error:
        raise BackendUnavailableError(f"the seccomp backend has no ids: {error} by /etc/subuid or /etc/subgid") from error
    except OSError as error:
        raise SandboxError(f"the sandbox did not start: the ids of others cannot be looked up: {error}") from error
    use, inherited = _use(locked)
    return Identity(ids.of_range(locked.first, use), "enforced", _distinct(locked), locked, inherited)


def _subordinate(grant: Grant, outer: Space, *, own: bool) -> Identity:
    locked = claim(os.path.join(grant.home, _USER_DIRECTORY), ids.pairs(grant))
    use, inherited = _use(locked)
    distinct = _distinct(locked)
    if own and locked.fd >= 0:
        distinct = "of the helper only (commands have your id, as the mounted files have)"
    found = ids.subordinate(grant, locked.first, own=own, use=use)
    return Identity(found, "enforced (subordinate ids)", distinct, locked, {**inherited, OUTER_FD: outer.fd})


def _single(why: str) -> Identity:
    found = ids.single(os.geteuid(), os.getegid())
    return Identity(found, f"absent (one id: {why})", "absent (all of a user's sandboxes have its id)")


def _use(locked: Claim) -> tuple[IdUse, dict[int, int]]:
    return (IdUse.CLAIM, {CLAIM_FD: locked.fd}) if locked.fd >= 0 else (IdUse.NONE, {})


def _distinct(locked: Claim) -> str:
    return "enforced" if locked.fd >= 0 else f"absent (chosen by chance: {locked.why})"


def _refused(why: str, options: SeccompOptions) -> UnsupportedError:
    return UnsupportedError(f"ids={options.ids!r}: {why}", option="ids", backend="seccomp")
