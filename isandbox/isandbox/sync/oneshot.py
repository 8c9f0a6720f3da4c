# Made by scripts/unasync.py from isandbox/oneshot.py: change that one.
"""`run`: one command in a sandbox of its own."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from isandbox.command import TIMEOUT_DEFAULT, Command
from isandbox.errors import SandboxError
from isandbox.sync.factory import create_sandbox
from isandbox.records import ExecResult, RunResult

if TYPE_CHECKING:
    from isandbox.sync.sandbox import ISandbox

# What one run may bring back; more belongs into a sandbox's own file verbs, with streams.
_COLLECT_LIMIT = 64 << 20
_COLLECT_DEPTH = 32


def run(
    command: Command,
    *,
    type: str | None = None,
    files: Mapping[str, str | bytes] | None = None,
    collect: Sequence[str] = (),
    timeout: float | None = TIMEOUT_DEFAULT,
    input: str | bytes | None = None,
    check: bool = False,
    **options: Any,
) -> RunResult:
    """One shot: make a sandbox, write ``files``, run the command, read back what ``collect`` matches, close.

    ``files`` maps paths in the workspace to contents; ``collect`` holds patterns (``*``, ``?``, ``[...]``, matched against
    whole relative paths) of regular files, at most 64 MiB in all (`SandboxError` past that). The other options are those of
    `create_sandbox`. The result is an `ExecResult` with the collected ``files``.
    """
    with create_sandbox(type, **options) as sandbox:
        for path, data in (files or {}).items():
            sandbox.files.write(path, data)
        result = sandbox.exec(command, timeout=timeout, input=input, check=check)
        collected = _collect(sandbox, collect) if collect else {}
    return RunResult(**{f.name: getattr(result, f.name) for f in fields(ExecResult)}, files=collected)


def _collect(sandbox: ISandbox, patterns: Sequence[str]) -> dict[str, bytes]:
    collected: dict[str, bytes] = {}
    room = _COLLECT_LIMIT
    for path in _walk(sandbox, "", 0):
        if not any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns):
            continue
        data = sandbox.read(path, limit=room + 1)
        room -= len(data)
        if room < 0:
            raise SandboxError(f"collect: more than {_COLLECT_LIMIT} bytes match {list(patterns)}")
        collected[path] = data
    return collected


def _walk(sandbox: ISandbox, directory: str, depth: int) -> Iterator[str]:
    """Regular files below the workspace; links are not followed, and neither is a depth past 32."""
    for entry in sandbox.list_dir(directory or "."):
        path = f"{directory}/{entry.name}" if directory else entry.name
        if entry.kind == "file":
            yield path
        elif entry.kind == "directory" and depth < _COLLECT_DEPTH:
            for inner in _walk(sandbox, path, depth + 1):
                yield inner
