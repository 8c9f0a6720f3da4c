"""Write docs/contract.md, the promises by name, from the suite itself; with --check only say whether it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from isandbox.testing.contract import GROUPS, promises

TARGET = Path(__file__).resolve().parent.parent / "docs" / "contract.md"
HEAD = """# The contract

What every backend promises, one test each, in `isandbox.testing.SandboxContract`. A name here is the test's name without
`test_`. Written by `python scripts/contract_doc.py`.
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


def main() -> int:
    wanted = document()
    if "--check" in sys.argv:
        if TARGET.exists() and TARGET.read_text() == wanted:
            return 0
        print("docs/contract.md is out of date; run python scripts/contract_doc.py")
        return 1
    TARGET.write_text(wanted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
