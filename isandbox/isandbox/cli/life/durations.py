"""Spans of time on the command line. Pure."""

from __future__ import annotations

import re

import click

_FORM = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(s|m|h|d)?\Z")
_SECONDS = {None: 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


def parse_duration(text: str) -> float:
    """Seconds: a number, or one with ``s``, ``m``, ``h`` or ``d`` after it. Raises `click.BadParameter`."""
    found = _FORM.match(text)
    if found is None:
        raise click.BadParameter(
            f"{text!r} is no number of seconds, nor one with s, m, h or d after it, such as 90, 30m or 2h"
        )
    return float(found[1]) * _SECONDS[found[2]]


def spoken(seconds: float) -> str:
    """``1 h``, ``90 s``: the largest unit that says it exactly."""
    for factor, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= factor and seconds % factor == 0:
            return f"{seconds / factor:g} {unit}"
    return f"{seconds:g} s"
