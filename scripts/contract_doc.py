"""Write docs/contract.md, the promises by name, and docs/contract-sources.md; with --check only say whether they are up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from isandbox.testing.contract import GROUPS, promises
from isandbox.testing.contract.sources import INSPECT_CHECKS, REPORTS, RULES

DOCS = Path(__file__).resolve().parent.parent / "docs"
HEAD = """# The contract

What every backend promises, one test each, in `isandbox.testing.SandboxContract`; the groups whose names begin with `Detached`
are in `DetachedContract`, which a backend that claims `detach` keeps too, and with them Lifecycle, LifecycleCommand and
Cancellation by detached sandboxes. A name here is the test's name without `test_`. Groups whose names end with
`CommandPromises`, and `FileViewPromises`, take commands to hold; `FakeSandbox` keeps the others among File, HostileName,
Transfer, Lifecycle, Owned, Cancellation, Error and Detached. Where the promises come from is in
[contract-sources.md](contract-sources.md), which backend does not keep one in [backends.md](backends.md).
Written by `python scripts/contract_doc.py`.
"""


def document() -> str:
    parts = [HEAD]
    total = 0
    for group in GROUPS:
        module = sys.modules[group.__module__]
        title = (group.__doc__ if "__doc__" in vars(group) and group.__doc__ else module.__doc__) or group.__name__
        lines = [f"- **{name}**: {sentence}" for name, sentence in promises(group)]
        total += len(lines)
        parts.append(f"## {group.__name__}\n\n{title.splitlines()[0]}\n\n" + "\n".join(lines) + "\n")
    parts.append(f"{total} promises.\n")
    return "\n".join(parts)


SOURCES_HEAD = """# What the contract answers to

Which promise of [the contract](contract.md) holds which rule, which check of inspect_ai, and which bug that others have
reported. From `isandbox/testing/contract/sources.py`, written by `python scripts/contract_doc.py`.
"""


def sources() -> str:
    parts = [SOURCES_HEAD]
    for title, table in (
        ("Rules", RULES),
        ("Checks of inspect_ai 0.3.285 (`util/_sandbox/self_check.py`)", INSPECT_CHECKS),
        ("Bugs that others have reported", REPORTS),
    ):
        rows = [f"| {source} | {', '.join(f'`{name}`' for name in names)} |" for source, names in table.items()]
        parts.append(f"## {title}\n\n| | held by |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def main() -> int:
    stale = 0
    for name, wanted in (("contract.md", document()), ("contract-sources.md", sources())):
        target = DOCS / name
        if "--check" not in sys.argv:
            target.write_text(wanted)
        elif not target.exists() or target.read_text() != wanted:
            print(f"docs/{name} is out of date; run python scripts/contract_doc.py")
            stale = 1
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
