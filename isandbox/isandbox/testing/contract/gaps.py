"""The closed table of permitted gaps: promises that a backend of this project is known not to keep.

A row makes the promise a strict expected failure for that backend, so that one which is kept after all has to leave the
table. A row needs a decision record that says why the gap cannot be closed. There is no other way past a promise.
"""

from __future__ import annotations

from dataclasses import dataclass

# What no decision can excuse.
NEVER_A_GAP = frozenset(
    {
        "without_input_stdin_is_at_its_end",
        "empty_input_is_eof_too",
        "bytes_are_exact",
        "streams_stay_separate",
        "a_missing_program_is_127",
        "a_file_that_is_not_executable_is_126",
        "a_directory_is_126",
        "death_by_a_signal_is_128_plus_n",
        "a_timeout_is_a_fault_with_the_output_so_far",
        "the_sandbox_survives_a_timeout",
        "the_hosts_environment_is_hidden",
        "a_lost_sandbox_is_an_error_not_a_result",
        "every_quota_is_enforced_or_refused",
    }
)


@dataclass(frozen=True, slots=True)
class Gap:
    """``backend`` does not keep ``promise`` (a test's name without ``test_``) because of ``reason``.

    ``decision`` is the file name of the decision record in ``docs/decisions``; a third party names its own document.
    """

    backend: str
    promise: str
    reason: str
    decision: str

    def __post_init__(self) -> None:
        if self.promise in NEVER_A_GAP:
            raise ValueError(f"{self.promise} is never waived")
        if not self.reason or not self.decision:
            raise ValueError(f"the gap {self.promise} of {self.backend} needs a reason and a decision record")


GAPS: tuple[Gap, ...] = ()


def gaps_of(backend: str) -> tuple[Gap, ...]:
    return tuple(gap for gap in GAPS if gap.backend == backend)
