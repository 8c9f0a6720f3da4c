"""Two gigabytes of output: read to the end, kept in part, and the host hardly grows."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.native

# The peak is reset after the imports and a first command, so that only the flood counts.
MEASURE = """
import asyncio, re, sys
from pathlib import Path
import isandbox
from isandbox.sync import create_sandbox

FLOOD = "head -c 2000000000 /dev/zero; exit 3"

def grown(before):
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) - before

def resident():
    Path("/proc/self/clear_refs").write_text("5")
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def show(result, before):
    print(result.exit_code, result.omitted.stdout, grown(before))

def blocking():
    with create_sandbox(sys.argv[2]) as sandbox:
        sandbox.exec("true")
        before = resident()
        show(sandbox.exec(FLOOD), before)

async def asynchronous():
    async with isandbox.create_sandbox(sys.argv[2]) as sandbox:
        await sandbox.exec("true")
        before = resident()
        show(await sandbox.exec(FLOOD), before)

blocking() if sys.argv[1] == "sync" else asyncio.run(asynchronous())
"""


@pytest.mark.parametrize("interface", ["sync", "async"])
@pytest.mark.parametrize("backend", ["seccomp", "local"])
def test_a_flood_does_not_fill_the_host(interface: str, backend: str) -> None:
    """2 GB on stdout grow the host process by 32 MiB at most; the omitted bytes are exact and the exit code is real."""
    command = [sys.executable, "-c", MEASURE, interface, backend]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    code, omitted, grown_kib = map(int, result.stdout.split())
    assert (code, omitted) == (3, 2_000_000_000 - (1 << 20))
    assert grown_kib <= 32 << 10
