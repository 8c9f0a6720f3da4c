"""Sandboxes for attacks, and mutants of them: the same sandbox with one mechanism switched off."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from isandbox.sync import create_sandbox
from isandbox_backends._shared.plan import Record
from isandbox_backends.seccomp import backend

Edit = Callable[[list[Record]], list[Record]]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"isandbox_security_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def probes() -> ModuleType:
    return load(Path(__file__).parent / "probes.py")


@pytest.fixture(scope="session")
def hostile() -> ModuleType:
    """Sandboxes of either interface to put hostile commands to."""
    return load(Path(__file__).parent / "hostile.py")


FILTER_TESTS = Path(__file__).parents[1] / "backends" / "seccomp"


@pytest.fixture(scope="session")
def bpf() -> ModuleType:
    """The simulator of the filter's instructions."""
    return load(FILTER_TESTS / "bpf.py")


@pytest.fixture(scope="session")
def vectors() -> ModuleType:
    """Arguments worth trying with the calls that the filter checks."""
    return load(FILTER_TESTS / "vectors.py")


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, sandbox_tmp: Path) -> Iterator[Callable[..., Any]]:
    """``make(**options)``: a seccomp sandbox. ``filter``: a function in place of `compile_filter`. ``edit``: a function on
    the plan's records. Closed at the end of the test.
    """
    compile_plan = backend.compile_plan
    with ExitStack() as stack:

        def open_sandbox(*, filter: Callable[..., bytes] | None = None, edit: Edit | None = None, **options: Any) -> Any:
            with monkeypatch.context() as patch:
                if filter is not None:
                    patch.setattr(backend, "compile_filter", filter)
                if edit is not None:
                    change = edit
                    patch.setattr(backend, "compile_plan", lambda *args, **more: change(compile_plan(*args, **more)))
                return stack.enter_context(create_sandbox("seccomp", **options))

        yield open_sandbox


@pytest.fixture
def box(make: Callable[..., Any]) -> Any:
    """A sandbox with all its defaults."""
    return make()
