"""What comes from inside is read as hostile input; what goes inside runs on any Python from 3.6 on."""

from __future__ import annotations

import ast
import asyncio
import json
import subprocess
import sys
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox import SandboxError
from isandbox.testing.containment import Arena, all_probes
from isandbox.testing.containment.inside import ANSWER_LIMIT, VALUE_LIMIT, UnusableAnswerError, parse, program
from isandbox.testing.containment.numbers import NUMBERS
from isandbox_backends.seccomp.syscalls import ARCHES

SCALARS = st.text() | st.integers() | st.floats(allow_nan=False) | st.booleans()
JSON = st.recursive(SCALARS | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


@given(st.binary(max_size=400))
def test_any_bytes_are_an_answer_or_unusable(output: bytes) -> None:
    """Nothing but an unusable answer comes of bytes."""
    with pytest.raises(UnusableAnswerError):
        parse(output)


@given(JSON)
def test_any_json_is_an_answer_or_unusable(answer: Any) -> None:
    """Whatever JSON there is: two flat maps of texts, or unusable."""
    try:
        parsed = parse(json.dumps(answer).encode())
    except UnusableAnswerError:
        return
    assert all(isinstance(one, str) for part in parsed for pair in part.items() for one in pair)


@given(
    st.dictionaries(st.text(max_size=100), SCALARS), st.dictionaries(st.text(max_size=100), SCALARS), st.binary(max_size=60)
)
def test_what_was_sent_is_read(out: dict[str, Any], controls: dict[str, Any], before: bytes) -> None:
    """The last line is the answer, whatever was printed before it; brackets and braces in texts are texts."""
    output = before + b"\n" + json.dumps({"out": out, "controls": controls}).encode() + b"\n"
    assert parse(output) == (texts(out), texts(controls))


def texts(given: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in given.items()}


@pytest.mark.parametrize(
    "output",
    [
        b"[" * 200_000,
        b'{"out":' * 200_000,
        b'{"out": {"a": [1]}, "controls": {}}',
        b'{"out": {"a": {"b": 1}}, "controls": {}}',
        b'{"out": {"a": null}, "controls": {}}',
        b'{"out": {}}',
        b'{"out": {}, "controls": []}',
        b'"out"',
        b'{"out": {"a": ' + b"9" * 5000 + b'}, "controls": {}}',
        b'{"out": {}, "controls": {}} trailing',
        b'{"out": {}, "controls": {}}\n.',
        b" " * (ANSWER_LIMIT + 1),
        b'"' + b"\\" * 100_001,
    ],
)
def test_hostile_answers(output: bytes) -> None:
    """Nesting, size, numbers, other types and what follows the answer make it unusable, at once."""
    with pytest.raises(UnusableAnswerError) as raised:
        parse(output)
    assert len(str(raised.value)) < 1000


def test_long_texts_are_cut() -> None:
    """Names and values have a limit."""
    answer = json.dumps({"out": {"n" * 1000: "v" * (VALUE_LIMIT + 5)}, "controls": {}}).encode()
    ((name, value),) = parse(answer)[0].items()
    assert (len(name), len(value)) == (200, VALUE_LIMIT)


VALUES = ["plain", 'it\'s "quoted"\\', "\n\0\ud800", {"a": [1, None, True]}, "'''", 3.5]


@pytest.mark.parametrize("value", VALUES)
def test_values_arrive_as_they_were(value: Any) -> None:
    """A variable of the program is what was given for it; no text of it becomes code."""
    tree = ast.parse(program("", {"given": value}))
    assigned = [node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "given"]
    assert isinstance(assigned[0], ast.Call)
    assert json.loads(ast.literal_eval(assigned[0].args[0])) == value


def test_long_files_of_the_kernel_are_read_whole() -> None:
    """A file of /proc comes a page at a time; what stands on its second page is seen too."""
    body = 'out["read"] = len(content("/proc/self/maps", 1 << 20)); out["cut"] = len(content("/proc/self/maps", 5000))'
    ran = subprocess.run([sys.executable, "-I", "-c", program(body, {})], capture_output=True, check=True, timeout=60)
    out, _ = parse(ran.stdout)
    assert int(out["read"]) > 5000
    assert out["cut"] == "5000"


@pytest.mark.parametrize("machine", sorted(NUMBERS))
def test_call_numbers_are_the_filters(machine: str) -> None:
    """Each number is the one of the table that the filter is made from; names newer than that table are the documented ones."""
    known = ARCHES[machine].numbers
    differing = {name: number for name, number in NUMBERS[machine].items() if known.get(name) != number}
    assert differing in ({}, {"open_tree_attr": 467})


@pytest.mark.parametrize("probe", [one for one in all_probes() if one.group != "interface"], ids=lambda probe: probe.id)
async def test_every_program_runs_on_old_pythons(probe: Any, scripted: Any) -> None:
    """What a probe sends is Python 3.6 and below the limit of one argument; where no command runs, nothing has held."""
    sent = []

    def script(command: Any) -> SandboxError:
        sent.append(command)
        return SandboxError("lost")

    async with AsyncExitStack() as outer, AsyncExitStack() as stack:
        with suppress(SandboxError, TimeoutError):
            async with asyncio.timeout(1):  # some would wait for what then happens on the host
                verdict = await probe.attempt(Arena(scripted(script), stack, outer))
                assert verdict.outcome not in ("BLOCKED", "CONTAINED")
    for command in sent:
        if isinstance(command, list) and command[0] == "python3" and "-c" in command:
            text = command[command.index("-c") + 1]
            ast.parse(text, feature_version=(3, 6))
            assert len(text.encode()) < 64 << 10
