"""Probes of group B that no mutant of the sandbox turns red: what they ask about is on the host's side, or not on this machine."""

from __future__ import annotations

import struct
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from isandbox.testing.containment import BackendTarget, all_probes, run_probe
from isandbox.testing.containment.processes import kernel, lifetime
from isandbox_backends.seccomp import backend, layers

pytestmark = pytest.mark.native

PROBES = {one.id: one for one in all_probes()}


class Forgetful(BackendTarget):
    """A backend that takes every option and holds none."""

    def create(self, **options: Any) -> AbstractAsyncContextManager[Any]:
        return super().create(**{name: value for name, value in options.items() if name == "type"})


async def test_options_that_are_left_out_are_seen() -> None:
    """B27 is red where what the record does not have is accepted in silence."""
    target = Forgetful("seccomp")
    await target.look()
    finding = await run_probe(PROBES["B27"], target)
    assert finding.outcome == "LEAK"
    assert "ran" in finding.detail


# A holder that has left all that it has open to a program, the sandbox's control socket too, which ends when its input does.
_LEAVES_A_CHILD = lifetime._HOLDER.replace(
    '    print("held", flush=True)\n',
    "    import os, subprocess\n"
    '    kept = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2 and os.path.exists(f"/proc/self/fd/{name}")]\n'
    '    subprocess.Popen(["cat"], pass_fds=kept)\n'
    '    print("held", flush=True)\n',
)


@pytest.mark.full
async def test_a_sandbox_that_outlives_its_holder_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """B19 is red where the end of the program that holds a sandbox is not noticed: somebody else still holds it."""
    assert _LEAVES_A_CHILD != lifetime._HOLDER
    monkeypatch.setattr(lifetime, "_HOLDER", _LEAVES_A_CHILD)
    monkeypatch.setattr(lifetime, "_PATIENCE", 2.0)
    target = BackendTarget("seccomp")
    await target.look()
    finding = await run_probe(PROBES["B19"], target)
    assert finding.outcome == "LEAK"
    assert "outlived the program that held it" in finding.detail


_X32_ANSWERED = (
    (0x20, 0, 0, 0),  # load the number
    (0x45, 0, 1, 0x40000000),  # with the bit of x32
    (0x06, 0, 0, 0x00050000),  # SECCOMP_RET_ERRNO with 0: done
)


async def test_x32_numbers_that_are_answered_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """B12 is red where a call with the bit of the x32 ABI is let through; here a filter says so, in place of a kernel that has it."""
    compiled = backend.compile_filter
    prefix = b"".join(struct.pack("<HBBI", *step) for step in _X32_ANSWERED)
    monkeypatch.setattr(backend, "compile_filter", lambda *args, **options: prefix + compiled(*args, **options))
    monkeypatch.setattr(backend, "verified", layers.told)
    monkeypatch.setattr(kernel, "_host_has_x32", lambda: True)
    target = BackendTarget("seccomp")
    await target.look()
    finding = await run_probe(PROBES["B12"], target)
    if finding.outcome == "VACUOUS":
        pytest.skip(f"a machine whose processes have no second ABI: {finding.detail}")
    assert finding.outcome == "LEAK"
    assert "mount: ok" in finding.detail
