"""The direction rules, and who touches the outside world: closed lists, so that a new entry is a decision."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHELVES = {"isandbox": ROOT / "isandbox", "isandbox_backends": ROOT / "backends", "isandbox_keyvault": ROOT / "keyvault"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package, shelf in SHELVES.items():
        for path in sorted((shelf / package).rglob("*.py")):
            name = ".".join(path.relative_to(shelf).with_suffix("").parts)
            if not name.startswith(("isandbox.testing.contract", "isandbox.testing.containment")):  # tests that ship
                yield name, ast.parse(path.read_text(encoding="utf-8"))


MODULES = list(modules())

# What may be touched where. A prefix that ends with a dot is a package.
ALLOWED: dict[str, tuple[str, ...]] = {
    "os.environ": ("isandbox._settings.variables", "isandbox.cli.", "isandbox_backends.local.python_helper"),
    "subprocess": (),
    "ctypes": ("isandbox.files._openat2", "isandbox_backends.local.py_helper.system"),
    "random": ("isandbox_backends.seccomp.claims",),
    "secrets": (
        "isandbox._state.places",
        "isandbox.files.host",
        "isandbox_backends._shared.cgroups.owner",
        "isandbox_backends._shared.scratch",
        "isandbox_backends._shared.start",
    ),
    "time": (
        "isandbox._state.clock",
        "isandbox.cli.",
        "isandbox.testing.",
        "isandbox_backends._shared.aio",
        "isandbox_backends._shared.asking",
        "isandbox_backends._shared.blocking",
        "isandbox_backends._shared.cgroups.group",
        "isandbox_backends._shared.detached.",
        "isandbox_backends._shared.drain",
        "isandbox_backends._shared.link",
        "isandbox_backends._shared.core",
        "isandbox_backends._shared.spawn",
        "isandbox_backends._shared.start",
        "isandbox_backends.local.py_helper.",
        "isandbox_backends.seccomp.identity",
        "isandbox_backends.seccomp.space",
    ),
    "datetime": (
        "isandbox.cli.",
        "isandbox.testing.",
        "isandbox_backends._shared.detached.",
        "isandbox_backends._shared.kept",
        "isandbox_backends._shared.start",
    ),
    "threading": (
        "isandbox.cli.",
        "isandbox.sync._bridge",
        "isandbox.testing.fake_life",
        "isandbox_backends._shared.blocking",
        "isandbox_backends._shared.drain",
        "isandbox_backends._shared.link",
        "isandbox_backends._shared.core",
        "isandbox_backends.seccomp.view",
        "isandbox_backends.local.py_helper.",
        "isandbox_backends.seccomp.space",
    ),
    "socket": (
        "isandbox_backends._shared.asking",
        "isandbox_backends._shared.client",
        "isandbox_backends._shared.detached.",
        "isandbox_backends._shared.link",
        "isandbox_backends.local.py_helper.",
    ),
    "signal": (
        "isandbox.cli.",
        "isandbox.records",
        "isandbox_backends._shared.cgroups.members",
        "isandbox_backends._shared.client",
        "isandbox_backends._shared.detached.",
        "isandbox_backends.local.py_helper.",
        "isandbox_backends.seccomp.space",
    ),
    "psutil": (
        "isandbox_backends._shared.usage",
        "isandbox_backends.local.python_helper",
        "isandbox_backends.local.py_helper.",
    ),
    "tempfile": (
        "isandbox.files.archive.reader",
        "isandbox_backends._shared.portable",
        "isandbox_backends._shared.scratch",
        "isandbox_backends.seccomp.session",
    ),
}


def touched(tree: ast.Module) -> set[str]:
    """Top-level modules that are imported, but for type checkers only; and os.environ in any spelling."""
    found: set[str] = set()
    checked_only = {
        inner for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }  # fmt: skip
    for node in ast.walk(tree):
        if node in checked_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
            if node.module == "os" and {alias.name for alias in node.names} & {"environ", "environb", "getenv", "putenv"}:
                found.add("os.environ")
        elif isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv", "putenv", "unsetenv"}:
            found.add("os.environ")
    return found


def permitted(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == name or (name.endswith(".") and f"{module}.".startswith(name)) for name in allowed)


@pytest.mark.parametrize("thing", ALLOWED)
def test_the_outside_world_is_touched_in_named_modules(thing: str) -> None:
    """Environment, processes, clocks, chance, threads, sockets: each in the modules of the list and nowhere else."""
    users = [name for name, tree in MODULES if thing in touched(tree)]
    assert [name for name in users if not permitted(name, ALLOWED[thing])] == []


@pytest.mark.parametrize("thing", ALLOWED)
def test_the_lists_are_not_longer_than_the_truth(thing: str) -> None:
    """A module that stopped using something leaves the list; packages that are still to come may stay."""
    users = {name for name, tree in MODULES if thing in touched(tree)}
    assert [name for name in ALLOWED[thing] if not name.endswith(".") and name not in users] == []


# Calls that run what they are given, or build whatever objects it names; and the modules whose readers do.
EVALUATING = frozenset({
    *("eval", "exec", "compile", "__import__", "breakpoint"),
    *("os.system", "os.popen"),
    *("runpy.run_path", "runpy.run_module", "code.interact", "yaml.load", "yaml.unsafe_load", "numpy.load", "np.load"),
})  # fmt: skip
UNPICKLING = frozenset(
    {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "multiprocessing"}
)


def evaluations(tree: ast.Module) -> set[str]:
    """Calls in a module that evaluate data, in any spelling of the import, and modules that it imports to do so."""
    names = {
        alias.asname or alias.name: f"{node.module}.{alias.name}" for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module for alias in node.names
    }  # fmt: skip
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            spelled = ast.unparse(node.func)
            called = names.get(spelled, spelled.removeprefix("builtins."))
            if called in EVALUATING or any(word.arg == "allow_pickle" for word in node.keywords):
                found.add(called)
    return found | (touched(tree) & UNPICKLING)


def test_nothing_is_evaluated() -> None:
    """What a sandbox said is never code to us: no module evaluates, unpickles or loads tagged documents."""
    found = {(name, call) for name, tree in MODULES for call in evaluations(tree)}
    assert found == set()


@pytest.mark.parametrize(
    "line",
    [
        *("eval(x)", "import builtins; builtins.exec(x)", "import pickle", "from pickle import loads", "import marshal as m"),
        *("import yaml; yaml.load(x)", "from yaml import load; load(x)", "from os import system as s; s(x)"),
        *("import multiprocessing.connection", "import numpy; numpy.load(x)", "f(x, allow_pickle=True)"),
    ],
)
def test_every_spelling_is_seen(line: str) -> None:
    """The rule sees a call however its module was imported."""
    assert evaluations(ast.parse(line))


def test_the_harmless_is_not() -> None:
    """Parsing JSON, a method of the same name and a compiled pattern are no evaluation."""
    assert evaluations(ast.parse("import json, re\njson.loads(x)\nre.compile(x)\nsandbox.exec(x)\nyaml.safe_load(x)")) == set()


def test_no_asserts_hold_a_promise() -> None:
    """With -O they are gone: outside `testing` each one is excused by name."""
    lines = [
        (name, node.lineno) for name, tree in MODULES if not name.startswith("isandbox.testing")
        for node in ast.walk(tree) if isinstance(node, ast.Assert)
    ]  # fmt: skip
    assert len(lines) <= 1, lines


def test_import_rules() -> None:
    """The contracts of pyproject.toml hold."""
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_tests_are_no_packages() -> None:
    """An __init__.py below tests would shadow the package that it mirrors."""
    assert [str(path) for path in (ROOT / "tests").rglob("__init__.py")] == []


def test_tests_say_what_they_hold() -> None:
    """Each test has a docstring: the promise it keeps."""
    silent = []
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_test = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
            if is_test and not ast.get_docstring(node):
                silent.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert silent == []


def test_nobody_parses_with_open_by_path() -> None:
    """Files of the host are opened by path in few modules, none of which opens what a sandbox can write."""
    users = {
        name for name, tree in MODULES for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"open", "io.open"}
    }  # fmt: skip
    assert users <= {
        "isandbox.cli.doctor.read",  # of /proc, /sys and /etc, from a list
        "isandbox_backends.seccomp.backend",
        "isandbox_backends.seccomp.space",
        "isandbox_backends.seccomp.subordinate",
    }
