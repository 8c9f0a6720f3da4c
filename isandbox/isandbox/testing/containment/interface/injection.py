"""Texts that would be commands, templates, records or terminal controls to somebody who is careless with them."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Awaitable, Mapping
from pathlib import Path

from isandbox.errors import SandboxError
from isandbox.policy import Mount
from isandbox.sandbox import ISandbox
from isandbox.testing.containment.arena import Arena
from isandbox.testing.containment.checks import Checks
from isandbox.testing.containment.interface.verbs import READING, WRITING, Place, said, typed
from isandbox.testing.containment.records import Verdict
from isandbox.testing.containment.registry import probe
from isandbox.testing.containment.resources.logs import Logged


def commands(marker: str) -> Mapping[str, str]:
    """Texts that make a file called ``marker`` when a shell sees them."""
    return {
        "a semicolon": f"x; touch {marker}; x",
        "an ampersand": f"x & touch {marker} & x",
        "a pipe": f"x | touch {marker}",
        "a substitution": f"$(touch {marker})",
        "backticks": f"`touch {marker}`",
        "a newline": f"x\ntouch {marker}\nx",
        "a single quote": f"x'; touch {marker}; '",
        "a double quote": f'x"; touch {marker}; "',
        "an escaped newline": f"x\\\ntouch {marker}\n",
        "an expansion": f"${{x:-$(touch {marker})}}",
        "a redirection": f"x > {marker}",
    }


def calls(arena: Arena, sandbox: ISandbox, text: str) -> Mapping[str, Awaitable[object]]:
    """The text in every parameter that is no command."""
    argv = ["true"]
    found: dict[str, Awaitable[object]] = {
        "a name in env": sandbox.exec(argv, env={text: "x"}, timeout=20.0),
        "a value in env": sandbox.exec(argv, env={"NAME": text}, timeout=20.0),
        "user": sandbox.exec(argv, user=text, timeout=20.0),
        "input": sandbox.exec(["cat"], input=text, timeout=20.0),
        "an argument": sandbox.exec(["true", text], timeout=20.0),
        "the program": sandbox.exec([text], timeout=20.0),
        "rename": sandbox.rename(text, text + "2"),
        "user of a verb": sandbox.read("own", user=text),
    }
    verbs = {**READING, **WRITING}
    return {**found, **{name: verb(Place(arena, sandbox, text)) for name, verb in verbs.items()}}


@probe("F11", "No text but a command is ever run", claim="interface")
async def injection(arena: Arena) -> Verdict:
    """Shell syntax in every string of every verb leaves no trace, inside or on the host; as a command it would."""
    sandbox, checks = await arena.sandbox(), Checks()
    marker = f"marker-{os.urandom(8).hex()}"
    control = await sandbox.exec(commands(marker)["a semicolon"], timeout=20.0)
    made = await sandbox.files.exists(marker)
    checks.control("as a command it leaves a trace", made, control.stderr[-200:])
    await sandbox.remove(marker)
    tried = 0
    for what, text in commands(marker).items():
        await sandbox.write("own", b"own")
        for name, call in calls(arena, sandbox, text).items():
            answer = await said(arena, call)
            checks.hold(f"{name}, {what}", typed(answer), answer)
            tried += 1
    for place in (".", "/tmp", "/", "~"):
        path = f"{place}/{marker}" if place != "~" else marker
        checks.hold(f"no trace in {place}", not await sandbox.files.exists(path))
    found = [str(place) for place in (Path.cwd(), Path("/"), Path(tempfile.gettempdir())) if _there(place, marker)]
    checks.hold("no trace on the host", not found, found)
    return checks.verdict("CONTAINED", "argument vectors, no shell", f"{tried} calls")


def _there(place: Path, marker: str) -> bool:
    return os.path.lexists(place / marker)


# What a terminal, an editor of bidirectional text or a log viewer would act on.
CONTROLS = "\x1b[2J\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x1b\\\x1bP1$r\x1b\\\x9b31m\x9d8;;x\x9c\rover\a\b\x00\u202e\u2028\x7f"
_HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@probe("F16", "What a person reads holds no control characters", claim="interface")
async def escapes(arena: Arena) -> Verdict:
    """Output keeps every byte; messages of errors, records as text and log lines that speak of hostile names show none raw."""
    sandbox, checks = await arena.sandbox(), Checks()
    text = CONTROLS.replace("\0", "")
    raw = CONTROLS.encode("utf-8")
    await sandbox.write("raw", raw)
    result = await sandbox.exec(["cat", "raw"], timeout=20.0)
    checks.control("output keeps every byte", result.stdout_bytes == raw, result.stdout_bytes)
    shown = {"a result": repr(result), "a listing": ""}
    await sandbox.write(f"odd/{text.replace('/', '')}", b"x")
    shown["a listing"] = repr(await sandbox.list_dir("odd"))
    shown["no program"] = repr(await sandbox.exec([text], timeout=20.0))
    started = await sandbox.exec([f"/no/{text}"], timeout=20.0)
    shown["why it did not start"] = started.start_error or ""
    with Logged() as logged:
        for name, call in calls(arena, sandbox, f"missing/{text}").items():
            shown[name] = await _message(call)
        options = {
            "labels": {text: 1},
            "waive": {text},
            f"no_such_{text}": 1,
            "env": {f"N{text}".replace("\r", ""): "\0"},
            "workspace": f"/no/{text}",
            "mounts": [Mount(f"/no/{text}", "/mnt/x")],
        }
        for name, value in options.items():
            shown[f"create: {name[:8]}"] = await _refused(arena, {name: value})
    shown["the log"] = "\n".join(logged.lines)
    messages = [message for message in shown.values() if message]
    checks.control("there were messages", len(messages) > 8, len(messages))
    for name, message in shown.items():
        found = _HARMFUL.search(message)
        checks.hold(name, found is None, repr(message[:120]))
    return checks.verdict("CONTAINED", "messages show names in quoted form", f"{len(messages)} messages")


async def _message(call: Awaitable[object]) -> str:
    try:
        await call
    except (SandboxError, OSError, ValueError) as error:
        return f"{error} {error!r}"
    return ""


async def _refused(arena: Arena, options: dict[str, object]) -> str:
    try:
        async with asyncio.timeout(20):
            await arena.create(**options)
    except (SandboxError, ValueError, TypeError) as error:
        return str(error)
    return ""


TEMPLATES = [
    "%s%n%d",
    "{0.__class__.__mro__}",
    "{{7*7}}",
    "${jndi:x}",
    "$HOME",
    "%(name)s",
    "x\nERROR forged",
    "a\u2028b",
    "' OR 1=1 --",
]


@probe("F17", "Labels, names and arguments are not templates", claim="interface")
async def templates(arena: Arena) -> Verdict:
    """Format syntax and forged records in labels, commands, names and values come back as they were; a log line is one line."""
    checks = Checks()
    labels = {text: text for text in TEMPLATES}
    with Logged() as logged:
        sandbox = await arena.sandbox(labels=labels)
        checks.control("labels come back as they were", dict(sandbox.info.labels) == labels, sandbox.info.labels)
        for text in TEMPLATES:
            result = await sandbox.exec(["printenv", "NAME"], env={"NAME": text}, timeout=20.0)
            checks.hold(f"a value {text!r}", result.stdout == f"{text}\n", result.stdout)
            result = await sandbox.exec(["printf", "%s", text], timeout=20.0)
            checks.hold(f"an argument {text!r}", result.stdout == text, result.stdout)
            name = text.replace("/", "")
            await sandbox.write(name, text.encode())
            checks.hold(f"a name {text!r}", (await sandbox.stat(name)).name == name)
            checks.hold(f"a missing program {text!r}", (await sandbox.exec([text], timeout=20.0)).exit_code in {126, 127})
    forged = [line for line in logged.lines if "\n" in line or "forged" in line]
    checks.hold("no record is forged", not forged, forged)
    return checks.verdict("CONTAINED", "texts are values")
