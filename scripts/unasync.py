"""Write isandbox/sync from the async sources, token by token; with --check only say whether it is up to date.

As httpcore does: the blocking interface is real, readable, type-checked code, and nobody writes it twice.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "isandbox" / "isandbox"
# Source, as a module below isandbox -> module below isandbox.sync.
MODULES = {
    "files.comfort": "files",
    "files.transfers": "transfers",
    **{name: name for name in ("oneshot", "process", "sandbox")},
}
HEADER = "# Made by scripts/unasync.py from isandbox/{path}: change that one.\n"

SUBSTITUTIONS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"from isandbox\._aio import", "from isandbox.sync._blocking import"),
        *(
            (rf"from isandbox\.{re.escape(source)} import", f"from isandbox.sync.{target} import")
            for source, target in {**MODULES, "factory": "factory"}.items()
        ),
        (r"\bawait ", ""),
        (r"\basync (def|with|for)\b", r"\1"),
        (r"\bAsync(Iterator|Iterable)\b", r"\1"),
        (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
        (r"``async with``", "``with``"),
    ]
]


def convert(name: str) -> str:
    path = f"{name.replace('.', '/')}.py"
    text = (PACKAGE / path).read_text()
    for pattern, replacement in SUBSTITUTIONS:
        text = pattern.sub(replacement, text)
    text = HEADER.format(path=path) + text
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", path, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main() -> int:
    stale = []
    for name, made in MODULES.items():
        target = PACKAGE / "sync" / f"{made}.py"
        wanted = convert(name)
        if target.exists() and target.read_text() == wanted:
            continue
        stale.append(target.name)
        if "--check" not in sys.argv:
            target.write_text(wanted)
    if stale and "--check" in sys.argv:
        print(f"out of date: {', '.join(stale)}; run python scripts/unasync.py")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
