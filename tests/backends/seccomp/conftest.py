"""Tools of these tests that are modules of their own: test directories are no packages."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def bpf() -> ModuleType:
    """The simulator."""
    return load(Path(__file__).with_name("bpf.py"), "isandbox_test_bpf")


@pytest.fixture(scope="session")
def vectors() -> ModuleType:
    """Arguments worth trying."""
    return load(Path(__file__).with_name("vectors.py"), "isandbox_test_vectors")
