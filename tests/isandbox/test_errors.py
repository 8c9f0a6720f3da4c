"""The error tree: as drawn, with stable words, and able to travel between processes."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import Any

import pytest

import isandbox
from isandbox import ExecResult, errors

CLASSES: list[type[errors.SandboxError]] = [
    member for _, member in inspect.getmembers(errors, inspect.isclass) if issubclass(member, errors.SandboxError)
]
LINE = re.compile(r"^(?P<indent> *)[*x+] (?P<name>\w+)(?: \(also (?P<also>\w+)\))?")


def drawn() -> dict[str, tuple[str | None, str | None]]:
    """Name -> (parent, standard error) as the docstring of the module draws them."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := LINE.match(line):
            depth = len(match["indent"]) // 2
            del above[depth:]
            tree[match["name"]] = (above[-1] if above else None, match["also"])
            above.append(match["name"])
    return tree


def real() -> dict[str, tuple[str | None, str | None]]:
    tree: dict[str, tuple[str | None, str | None]] = {}
    for cls in CLASSES:
        ours = [base.__name__ for base in cls.__bases__ if issubclass(base, errors.SandboxError)]
        also = [base.__name__ for base in cls.__bases__ if not issubclass(base, errors.SandboxError) and base is not Exception]
        tree[cls.__name__] = (ours[0] if ours else None, also[0] if also else None)
    return tree


def make(cls: type[errors.SandboxError]) -> errors.SandboxError:
    if issubclass(cls, errors.ExecFailedError):
        return cls("it failed", ExecResult(3, stdout_bytes=b"out"))
    if issubclass(cls, errors.UnsupportedError):
        return cls("it cannot", option="quotas.disk", backend="local")
    return cls("it did not work")


def test_the_tree_is_the_one_that_is_drawn() -> None:
    """The picture at the top of the module is the classes, parents and standard errors included."""
    assert drawn() == real()
    assert len(drawn()) > 10


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_is_public(cls: type[errors.SandboxError]) -> None:
    """Whatever can be raised can be caught by its name in `isandbox`."""
    assert getattr(isandbox, cls.__name__) is cls
    assert cls.__name__ in isandbox.__all__
    assert cls.__doc__


@pytest.mark.parametrize("duplicate", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])  # noqa: S301
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_travels(cls: type[errors.SandboxError], duplicate: Any) -> None:
    """Type, message, fields, what was set on it and its notes come out of a pickle as they went in."""
    error = make(cls)
    error.retryable = True
    error.add_note("seen on the third try")
    back = duplicate(error)
    assert type(back) is cls
    assert (str(back), back.args, back.__dict__) == (str(error), error.args, error.__dict__)
    assert (back.code, back.retryable, back.outcome) == (cls.code, True, cls.outcome)
    assert back.__notes__ == ["seen on the third try"]


def test_codes_are_one_word_each() -> None:
    """A program that switches on `code` meets no two errors with the same one."""
    codes = [cls.code for cls in CLASSES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_outcome_and_retryable(cls: type[errors.SandboxError]) -> None:
    """Only what may have happened is unknown; only what may pass by itself is retryable."""
    error = make(cls)
    unknown = issubclass(cls, (errors.SandboxLostError, errors.ExecFailedError))
    assert error.outcome == ("unknown" if unknown else "none")
    assert error.retryable is issubclass(cls, errors.SandboxBusyError)


@pytest.mark.parametrize(
    ("cls", "standard"),
    [
        (errors.ConfigurationError, ValueError),
        (errors.SandboxNotFoundError, LookupError),
        (errors.PolicyDeniedError, PermissionError),
        (errors.ExecTimeoutError, TimeoutError),
    ],
)
def test_errors_that_are_the_standard_librarys_too(cls: type[errors.SandboxError], standard: type[Exception]) -> None:
    """Code that catches the standard error catches ours, with our message."""
    with pytest.raises(standard, match="it "):
        raise make(cls)


def test_an_exec_error_does_not_show_the_output() -> None:
    """A command's output may hold a secret: it is in `result`, not in message or repr."""
    error = errors.ExecTimeoutError("it took too long", ExecResult(137, stdout_bytes=b"s3cret"))
    assert "s3cret" not in str(error) + repr(error)
    assert error.result.stdout == "s3cret"
