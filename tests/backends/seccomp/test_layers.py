"""What the policy requires of the layers against what a helper says: a table, without a kernel."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from isandbox import BackendUnavailableError
from isandbox_backends._shared.protocol import Hello, Layer, Report, Verdict
from isandbox_backends.seccomp.layers import WAIVABLE, OfIds, expected, landlock_rights, told, verified

FILTER = 4711
SPLIT = OfIds(True, "enforced", "enforced")
ONE_ID = OfIds(False, "absent (one id: no others)", "absent (all of a user's sandboxes have its id)")


def hello(changed: Mapping[Layer, Report | None] | None = None, *, filter: int = FILTER, abi: int = 7) -> Hello:
    layers = {layer: Report(Verdict.ENFORCED) for layer in Layer} | dict(changed or {})
    return Hello(4, 1, abi, filter, {layer: report for layer, report in layers.items() if report is not None})


def test_all_in_force() -> None:
    """A helper that found every layer in force is believed, and each layer is told by its name."""
    words = verified(expected(SPLIT, filter=FILTER), hello())
    assert set(words) == {*(layer.word for layer in Layer), "distinct_ids"}
    assert words["landlock"] == "enforced (ABI 7)"
    assert words["seccomp"] == "enforced (profile default)"
    assert {word for name, word in words.items() if name not in ("landlock", "seccomp")} == {"enforced"}


@pytest.mark.parametrize(
    "report", [Report(Verdict.NOT_PLANNED), None, *(Report(Verdict.NOT_IN_EFFECT, n) for n in range(1, 7))]
)
@pytest.mark.parametrize("layer", Layer)
def test_each_missing_layer_is_named(layer: Layer, report: Report | None) -> None:
    """Left out of the plan, not in force or not spoken of: refused with the layer's name, and the waiver where there is one."""
    with pytest.raises(BackendUnavailableError, match=f"the layer {layer.word} is not in force: ") as caught:
        verified(expected(SPLIT, filter=FILTER), hello({layer: report}))
    assert (f"waive={{'{layer.word}'}}" in str(caught.value)) == (layer in WAIVABLE)


@pytest.mark.parametrize("layer", sorted(WAIVABLE))
def test_a_waiver_is_for_one_layer(layer: Layer) -> None:
    """What is waived may be missing and is told so; the same waiver helps no other layer."""
    wanted = expected(SPLIT, filter=FILTER, waived=frozenset({layer.word}))
    gone = Report(Verdict.NOT_PLANNED)
    assert verified(wanted, hello({layer: gone}))[layer.word] == "absent (waived)"
    for other in set(Layer) - {layer}:
        with pytest.raises(BackendUnavailableError, match=f"the layer {other.word} "):
            verified(wanted, hello({layer: gone, other: gone}))


def test_what_the_rest_stands_on_is_never_waived() -> None:
    """A name among the waivers does nothing for a layer that cannot be waived."""
    everything = frozenset(layer.word for layer in Layer)
    for layer in set(Layer) - WAIVABLE:
        with pytest.raises(BackendUnavailableError, match=f"the layer {layer.word} "):
            verified(expected(SPLIT, filter=FILTER, waived=everything), hello({layer: Report(Verdict.NOT_PLANNED)}))


def test_another_filter_is_not_the_policys() -> None:
    """A filter that is on, and passes the probes, but is not the one that the policy compiles to: refused."""
    with pytest.raises(BackendUnavailableError, match="the layer seccomp is not in force: the filter that was loaded"):
        verified(expected(SPLIT, filter=FILTER), hello(filter=FILTER + 1))


def test_an_ordinary_user_has_one_id() -> None:
    """The two layers that need a second id are not required where there is none, and told with the reason."""
    gone = Report(Verdict.NOT_PLANNED)
    words = verified(expected(ONE_ID, filter=FILTER), hello({Layer.GROUPS: gone, Layer.SPLIT_UID: gone}))
    assert words["split_uid"] == words["groups"] == "absent (one id: no others)"
    assert words["distinct_ids"] == "absent (all of a user's sandboxes have its id)"


@pytest.mark.parametrize(
    ("abi", "missing"),
    [
        (1, "refer, truncate, ioctl_dev, scope_abstract_unix_socket, scope_signal"),
        (2, "truncate, ioctl_dev, scope_abstract_unix_socket, scope_signal"),
        (3, "ioctl_dev, scope_abstract_unix_socket, scope_signal"),
        (4, "ioctl_dev, scope_abstract_unix_socket, scope_signal"),
        (5, "scope_abstract_unix_socket, scope_signal"),
        (6, ""),
    ],
)
def test_an_older_landlock_says_what_it_lacks(abi: int, missing: str) -> None:
    """`info.layers` names the rights that this kernel's Landlock does not know."""
    assert landlock_rights(abi) == f"ABI {abi}" + (f", without {missing}" if missing else "")
    words = told(expected(SPLIT, filter=FILTER), hello(abi=abi))
    assert words["landlock"] == f"enforced ({landlock_rights(abi)})"
