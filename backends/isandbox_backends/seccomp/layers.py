"""What the policy requires of the layers, and what the helper's hello says of them. Pure.

The helper reports what it found when it tried each layer on itself (verify.c); here that is compared with what was asked for,
not with the plan: a plan that lost a layer on its way is refused as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from isandbox.errors import BackendUnavailableError
from isandbox_backends._shared.protocol import Hello, Layer, Verdict

# Without one of these the rest still holds what it promises: they hide something, or say it a second time. The user, mount, pid
# and net namespaces, the mounts, ids, capabilities, no_new_privs and the filter are what the rest stands on.
WAIVABLE = frozenset(
    {Layer.IPC_NAMESPACE, Layer.UTS_NAMESPACE, Layer.CGROUP_NAMESPACE, Layer.KEYRING, Layer.LANDLOCK},
)
WAIVABLE_NAMES = frozenset(layer.word for layer in WAIVABLE)
# Only where commands have another uid than the helper.
_NEED_IDS = frozenset({Layer.GROUPS, Layer.SPLIT_UID})

# What a newer ABI of Landlock brought (Documentation/userspace-api/landlock.rst): the first that has it, and its name.
_RIGHTS = ((2, "refer"), (3, "truncate"), (5, "ioctl_dev"), (6, "scope_abstract_unix_socket"), (6, "scope_signal"))

# (layer, detail of its report) -> what got through
_FOUND = {
    (Layer.PID_NAMESPACE, 2): "its first process is not number 1, or /proc is another's",
    (Layer.IDS, 1): "the user id is another",
    (Layer.IDS, 2): "the group id is another",
    (Layer.GROUPS, 1): "the caller's groups are still there",
    (Layer.SPLIT_UID, 1): "commands would be the helper's user",
    (Layer.CAPABILITIES, 1): "the effective, permitted or inheritable set is not as planned",
    (Layer.CAPABILITIES, 2): "the bounding set is not empty",
    (Layer.CAPABILITIES, 3): "the ambient set is not empty",
    (Layer.CAPABILITIES, 4): "the secure bits are not set",
    (Layer.KEYRING, 1): "the session keyring is the caller's",
    (Layer.LANDLOCK, 1): "a device node could be made",
    (Layer.LANDLOCK, 2): "there was no place to try it",
    (Layer.SECCOMP, 1): "there is no filter",
    (Layer.SECCOMP, 2): "unshare was not refused",
    (Layer.SECCOMP, 3): "clone3 was not refused",
    (Layer.SECCOMP, 4): "keyctl was not refused",
    (Layer.SECCOMP, 5): "a socket of a forbidden family was not refused",
}
_NAMESPACES = frozenset(layer for layer in Layer if layer.word.endswith("_namespace"))


@dataclass(frozen=True, slots=True)
class OfIds:
    """``split``: commands have another uid than the helper. ``told`` and ``distinct``: the words for that, and for how far the ids
    are the sandbox's own, which is a lock of the host's and nothing that the helper could see.
    """

    split: bool
    told: str
    distinct: str


@dataclass(frozen=True, slots=True)
class Expected:
    """``layers`` that must be in force, and the hash of the one right ``filter``, which ``profile`` is the name of. ``waived``: the
    policy's waivers.
    """

    layers: frozenset[Layer]
    ids: OfIds
    filter: int
    waived: frozenset[str] = frozenset()
    profile: str = "default"


# These two cost 40 us without it, and most sandboxes of a process say the same.
@lru_cache(maxsize=32)
def expected(ids: OfIds, *, filter: int, waived: frozenset[str] = frozenset(), profile: str = "default") -> Expected:
    away = {layer for layer in WAIVABLE if layer.word in waived} | (frozenset() if ids.split else _NEED_IDS)
    return Expected(frozenset(Layer) - away, ids, filter, waived, profile)


@lru_cache(maxsize=32)
def verified(wanted: Expected, hello: Hello) -> Mapping[str, str]:
    """The words of ``info.layers``. Raises `BackendUnavailableError`, which names the first layer that is missing."""
    for layer in sorted(wanted.layers):
        report = hello.layers.get(layer)
        if report is None or report.verdict is not Verdict.ENFORCED:
            raise _missing(layer.word, found(layer, hello), waivable=layer in WAIVABLE)
    if hello.filter != wanted.filter:
        raise _missing(Layer.SECCOMP.word, "the filter that was loaded is not the policy's", waivable=False)
    return told(wanted, hello)


def told(wanted: Expected, hello: Hello) -> Mapping[str, str]:
    """The words of ``info.layers``, without a judgement."""
    words = {layer.word: _word(layer, wanted, hello) for layer in Layer}
    return MappingProxyType({**words, "distinct_ids": wanted.ids.distinct})


def _word(layer: Layer, wanted: Expected, hello: Hello) -> str:
    report = hello.layers.get(layer)
    verdict = None if report is None else report.verdict
    if verdict is Verdict.ENFORCED:
        if layer is Layer.SPLIT_UID:
            return wanted.ids.told
        more = {Layer.LANDLOCK: landlock_rights(hello.landlock_abi), Layer.SECCOMP: f"profile {wanted.profile}"}.get(layer)
        return f"enforced ({more})" if more else "enforced"
    if layer in _NEED_IDS and verdict is Verdict.NOT_PLANNED and not wanted.ids.split:
        return wanted.ids.told
    return f"absent ({'waived' if layer.word in wanted.waived else found(layer, hello)})"


def found(layer: Layer, hello: Hello) -> str:
    """Why a layer is not in force."""
    report = hello.layers.get(layer)
    if report is None:
        return "the helper does not speak of it"
    if report.verdict is Verdict.NOT_PLANNED:
        return "it is not in the plan"
    if layer in _NAMESPACES and report.detail == 1:
        return "it is the host's"
    if layer is Layer.MOUNTS:
        return f"{report.detail} mounts are not as planned"
    if layer is Layer.DESCRIPTORS:
        return f"descriptor {report.detail - 1} is not as planned"
    return _FOUND.get((layer, report.detail), "it is not in effect")


def landlock_rights(abi: int) -> str:
    """``ABI 7``, and what this kernel's Landlock does not know yet."""
    missing = [name for since, name in _RIGHTS if abi < since]
    return f"ABI {abi}" + (f", without {', '.join(missing)}" if missing else "")


def _missing(name: str, why: str, *, waivable: bool) -> BackendUnavailableError:
    instead = f"waive={{'{name}'}} runs without that layer" if waivable else "nothing was started; use another backend here"
    return BackendUnavailableError(f"the seccomp backend cannot run here: the layer {name} is not in force: {why}; {instead}")
