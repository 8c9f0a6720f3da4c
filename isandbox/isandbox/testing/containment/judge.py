"""From what happened inside to a verdict."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from isandbox.testing.containment.records import DETAIL_LIMIT, Outcome, Verdict

# The answers of a kernel, or of a filter, that would not (rule R8). Any other, EINVAL for instance, says that it was reached.
REFUSED = frozenset({"EPERM", "EACCES", "ENOSYS", "EROFS", "ENOENT", "ENOTDIR", "EXDEV", "ESRCH", "EAFNOSUPPORT"})
_BY = {
    "ENOSYS": "system call filter",
    "EROFS": "read-only mount",
    "ENOENT": "not in the mount view",
    "ENOTDIR": "not in the mount view",
    "ESRCH": "pid namespace",
    "EAFNOSUPPORT": "system call filter",
    "EPERM": "no privilege",
    "EACCES": "no permission",
    "EXDEV": "separate mounts",
}


def judge(
    answers: Mapping[str, str],
    controls: Mapping[str, str],
    *,
    refused: Collection[str] = REFUSED,
    by: Mapping[str, str] | None = None,
    stopped: Outcome = "BLOCKED",
) -> Verdict:
    """Every answer must be a refusal and every control ``ok``, ``yes`` or ``True``.

    ``by``: errno to the mechanism that gives it, where this probe knows better than the general table. Without any control
    there is no verdict but ``VACUOUS`` (rule R3).
    """
    failed = [f"{name}: {value}" for name, value in controls.items() if value not in ("ok", "yes", "True")]
    if failed or not controls or not answers:
        return Verdict("VACUOUS", detail=shown(failed) or "no positive control, or nothing tried")
    leaks = [f"{name}: {value}" for name, value in answers.items() if value not in refused]
    if leaks:
        return Verdict("LEAK", detail=shown(leaks))
    table = {**_BY, **(by or {})}
    found = sorted({table.get(value, value) for value in answers.values()})
    return Verdict(stopped, ", ".join(found), shown(f"{len(answers)} attempts: {', '.join(sorted(set(answers.values())))}"))


def shown(text: str | Collection[str]) -> str:
    """For a line of a table: printable, and not long."""
    joined = text if isinstance(text, str) else "; ".join(text)
    clean = "".join(c if c.isprintable() else "?" for c in joined)
    return clean if len(clean) <= DETAIL_LIMIT else clean[: DETAIL_LIMIT - 3] + "..."
