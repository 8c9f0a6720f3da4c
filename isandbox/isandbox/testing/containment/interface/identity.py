"""Ids: nobody guesses one, and none comes twice."""

from __future__ import annotations

import math
import re
from itertools import pairwise

from isandbox.sandbox import ISandbox
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe

BITS = 122  # of a random UUID


@probe("F19", "Ids cannot be guessed", claim="interface")
async def ids(arena: Arena) -> Verdict:
    """Ids differ, have at least 122 bits of chance, and follow neither time nor order. What connecting with a foreign id says is
    a gateway's business.
    """
    found = []
    for _ in range(arena.rounds(24, 500)):
        async with arena.target.create() as sandbox:
            assert isinstance(sandbox, ISandbox)
            found.append(sandbox.info.id)
    checks = Checks()
    checks.control("there are many", len(found) >= 24)
    checks.hold("none came twice", len(set(found)) == len(found))
    tails = [re.split(r"[-_]", one, maxsplit=1)[-1] for one in found]
    alphabet = len(set("".join(tails)))
    shortest = min(map(len, tails))
    bits = int(shortest * math.log2(max(alphabet, 2)))
    checks.hold(f"{BITS} bits of chance at least", bits >= BITS, f"{bits} bits: {shortest} of {alphabet} characters")
    alike = max(_common(one, other) for at, one in enumerate(tails) for other in tails[:at])
    checks.hold("no common beginning", alike < shortest // 3, f"{alike} characters")
    rising = sum(one < other for one, other in pairwise(tails))
    checks.hold("no order", 0 < rising < len(tails) - 1, rising)
    return checks.verdict("BLOCKED", "random ids", f"{bits} bits")


def _common(one: str, other: str) -> int:
    """Characters that both begin with."""
    at = 0
    while at < min(len(one), len(other)) and one[at] == other[at]:
        at += 1
    return at
