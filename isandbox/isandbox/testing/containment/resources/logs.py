"""Logs: what a flood of refusals writes on the host."""

from __future__ import annotations

import logging
from typing import Self

from isandbox.errors import SandboxError
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

BYTES_EACH = 256

_DENIED = """
refused = 0
for number in range(count):
    name = "/no-such-%d-" % number + "x" * 200
    refused += attempt(os.execv, name, [name]) != "ok"
    refused += attempt(os.open, "/proc/sys/kernel/core_pattern-%d" % number, os.O_WRONLY) != "ok"
    link = socket.socket()
    refused += attempt(link.connect, ("127.0.0.1", 1)) != "ok"
    link.close()
out["tried"] = refused
"""


class Logged(logging.Handler):
    """Everything that the package logs, as text."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    def __enter__(self) -> Self:
        self._logger = logging.getLogger("isandbox")
        self._level = self._logger.level
        self._logger.addHandler(self)
        self._logger.setLevel(logging.DEBUG)
        return self

    def __exit__(self, *details: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)


@probe("C18", "A flood of refusals does not fill the host's log", claim="interface")
async def log_flood(arena: Arena) -> Verdict:
    """Thousands of refused calls inside and many commands that do not start leave few bytes each, and no argument."""
    box, checks = await arena.box(), Checks()
    rounds = arena.rounds(30, 1000)
    with Logged() as logged:
        logging.getLogger("isandbox").warning("control")
        answers, _ = await arena.attack(_DENIED, count=arena.rounds(500, 15_000), timeout=120.0)
        for number in range(rounds):
            name = f"/no-such-program/{arena.canaries.new()}/{number}" + "x" * 300
            try:
                result = await box.exec([name], timeout=20.0)
            except SandboxError:
                continue
            checks.hold("it does not start", result.exit_code in (126, 127), result.exit_code)
    checks.control("what is logged is seen", logged.lines[:1] == ["control"], logged.lines[:1])
    checks.control("many were refused", int(answers["tried"]) > 1000, answers["tried"])
    text = "\n".join(logged.lines[1:])
    arena.saw(text.encode())
    checks.hold("few bytes each", len(text) <= BYTES_EACH * (rounds + 2), f"{len(text)} bytes for {rounds} commands")
    return checks.verdict("CONTAINED", "arguments are not logged", f"{len(text)} bytes for {rounds} commands")
