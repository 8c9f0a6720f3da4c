"""The surface is declared and recorded: it does not change by accident."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import isandbox
import isandbox.sync
import isandbox.testing

HERE = Path(__file__).parent
MODULES = pytest.mark.parametrize("module", [isandbox, isandbox.sync, isandbox.testing], ids=lambda m: m.__name__)


@MODULES
def test_all_is_sorted_and_everything_in_it_is_there(module: ModuleType) -> None:
    """Each declared name can be had, once."""
    assert list(module.__all__) == sorted(module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(getattr(module, name) is not None for name in module.__all__)


@MODULES
def test_nothing_public_is_undeclared(module: ModuleType) -> None:
    """What a module shows without an underscore is declared, or a module, or a name of typing."""
    for name in module.__all__:
        getattr(module, name)  # what is lazy is loaded
    shown = {name for name, value in vars(module).items() if not name.startswith("_") and not isinstance(value, ModuleType)}
    assert shown - set(module.__all__) - {"annotations", "Any", "TYPE_CHECKING", "import_module"} == set()
    assert set(module.__all__) <= set(dir(module)) | set(vars(module))


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Laziness changes nothing about names that are not there."""
    for module in (isandbox, isandbox.testing):
        with pytest.raises(AttributeError, match="no_such_name"):
            module.no_such_name  # noqa: B018


def test_types_are_declared_for_checkers_too() -> None:
    """Each lazy name is imported under its own name where type checkers look."""
    text = Path(isandbox.__file__).read_text(encoding="utf-8")
    missing = [name for name in isandbox.__all__ if f"import {name} as {name}\n" not in text]
    assert missing == []


def test_the_api_is_the_recorded_one() -> None:
    """A change is meant when public_api.txt changes with it: python tests/architecture/public_api.py > .../public_api.txt."""
    now = subprocess.run(
        [sys.executable, str(HERE / "public_api.py")], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert now.splitlines() == (HERE / "public_api.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("package", ["isandbox", "isandbox_backends", "isandbox_keyvault"])
def test_packages_are_typed(package: str) -> None:
    """py.typed is there, so that a caller's type checker believes the annotations."""
    module = __import__(package)
    assert Path(str(module.__file__)).with_name("py.typed").exists()
