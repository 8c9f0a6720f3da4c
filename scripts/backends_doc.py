"""Write docs/backends.md from the capability records and the table of gaps; with --check only say whether it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

from isandbox.policy import Capabilities, Enforcement, Quotas
from isandbox.testing.contract.gaps import GAPS, NEVER_A_GAP, Gap
from isandbox_backends._shared.holding import with_groups
from isandbox_backends.local import LocalBackend
from isandbox_backends.seccomp.capabilities import CAPABILITIES

TARGET = Path(__file__).resolve().parent.parent / "docs" / "backends.md"
POLICIES = (
    *("workspace.rw", "workspace.ro", "workspace.overlay", "workspace.copy", "workspace.deny"),
    *("mounts", "network.none", "network.hosts"),
)
VERBS = ("pause", "resume", "snapshot", "fork", "expose", "detach", "lifetime", "renew")
HEAD = """# Backends

What each backend enforces, from its capability record (`info.capabilities`), and which promises of
[the contract](contract.md) it is known not to keep. Written by `python scripts/backends_doc.py`.

`kernel`: nothing can pass it. `watched`: looked at again and again, at the interval given; what happens between two looks can
overshoot it. In brackets how a result learns of a limit that was met (`limits_hit`): `counted` by the kernel, `looked` for while
the command runs, told by its `exit`. `refused`: asking for it is `UnsupportedError` when the sandbox is created. There is no fourth.

A column with `cgroup` is for a machine where control groups can be made; what this very machine can do, `isandbox doctor` says.
"""


def document(records: dict[str, Capabilities], gaps: tuple[Gap, ...]) -> str:
    names = list(records)
    parts = [HEAD]
    for title, rows in (("Quotas", [f.name for f in fields(Quotas)]), ("Policies", POLICIES)):
        cells = [(row, [cell(_entry(records[name], title, row)) for name in names]) for row in rows]
        parts.append(f"## {title}\n\n" + "\n".join(_table(names, cells)) + "\n")
    verbs = [(verb, ["yes" if verb in records[name].verbs else "refused" for name in names]) for verb in VERBS]
    isolation: list[tuple[str, list[str]]] = [("isolation", [records[name].isolation for name in names])]
    parts.append("## Isolation and optional verbs\n\n" + "\n".join(_table(names, [*isolation, *verbs])) + "\n")
    parts.append("## Notes\n\n" + "\n".join(_notes(records)) + "\n")
    for name, record in records.items():
        if "," in name:  # control groups take away none of them
            continue
        parts.append(f"## Weaknesses of {name}\n\n" + "\n".join(f"- {text}" for text in record.weaknesses) + "\n")
    parts.append("## Permitted gaps\n\n" + "\n".join(_gaps(gaps)) + "\n")
    return "\n".join(parts)


def records() -> dict[str, Capabilities]:
    """The same on every machine: each native backend as it is without control groups, and with all that can help it."""
    local, plain = LocalBackend(), frozenset[str]()
    groups = frozenset({"memory", "pids", "cpu", "cpuacct"})
    return {
        "local": local._capabilities(python=False, controllers=plain),  # noqa: SLF001 - as pure as the others
        "local, cgroup": local._capabilities(python=False, controllers=groups),  # noqa: SLF001
        "seccomp": CAPABILITIES,
        "seccomp, cgroup": replace(CAPABILITIES, quotas=with_groups(CAPABILITIES.quotas, groups)),
    }


def cell(entry: Enforcement) -> str:
    if entry.kind == "unsupported":
        return "refused"
    kind = f"watched, {entry.period:g} s" if entry.kind == "watched" else entry.kind
    return f"{kind} ({entry.told})" if entry.told else kind


def _entry(record: Capabilities, title: str, name: str) -> Enforcement:
    return record.quota(name) if title == "Quotas" else record.policy(name)


def _table(names: list[str], rows: list[tuple[str, list[str]]]) -> Iterator[str]:
    yield f"| | {' | '.join(f'`{name}`' for name in names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for row, cells in rows:
        yield f"| `{row}` | {' | '.join(cells)} |"


def _notes(records: dict[str, Capabilities]) -> Iterator[str]:
    told = set()
    for name, record in records.items():
        for what, entry in {**record.quotas, **record.policies}.items():
            said = "; ".join(text for text in (entry.note, entry.instead and f"instead: {entry.instead}") if text)
            if said and (name.partition(",")[0], what, said) not in told:
                told.add((name, what, said))
                yield f"- `{name}`, `{what}`: {said}"


def _gaps(gaps: tuple[Gap, ...]) -> Iterator[str]:
    yield "The table is closed: a promise that a backend does not keep is a strict expected failure that stands here, with a"
    yield "decision record that says why it cannot be helped. `tests/contract/test_gaps.py` holds that there is no other. These"
    yield f"promises can never be in it: {', '.join(f'`{name}`' for name in sorted(NEVER_A_GAP))}."
    yield ""
    if not gaps:
        yield "No gaps: every backend keeps every promise."
        return
    yield "| backend | promise | reason | decision |"
    yield "|---|---|---|---|"
    for gap in gaps:
        yield f"| `{gap.backend}` | `{gap.promise}` | {gap.reason} | [{gap.decision}](decisions/{gap.decision}) |"


def main() -> int:
    wanted = document(records(), GAPS)
    if "--check" in sys.argv:
        if TARGET.exists() and TARGET.read_text() == wanted:
            return 0
        print("docs/backends.md is out of date; run python scripts/backends_doc.py")
        return 1
    TARGET.write_text(wanted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
