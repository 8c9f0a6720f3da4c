"""Argument, variable, project file, user's file, default: which word counts."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest

from isandbox import ConfigurationError, Quotas, UnsupportedError
from isandbox._request import make_request
from isandbox._settings import default_type, read_settings
from isandbox._settings.table import BY_KEY, BY_VARIABLE, SETTINGS
from isandbox._settings.variables import PREFIX
from isandbox.backend import START_TIMEOUT_DEFAULT

MIB = 1 << 20


def quotas(**options: Any) -> Quotas:
    return make_request("local", **options)[1].policy.quotas


def test_nothing_set_is_nothing_changed(world: Any) -> None:
    """Without files and variables the defaults are those of the records, and not asked for."""
    request = make_request("local")[1]
    assert request.policy.quotas == Quotas()
    assert request.policy.quotas.asked() == frozenset()
    assert request.start_timeout == START_TIMEOUT_DEFAULT
    assert read_settings().values == {}


def test_each_source_is_stronger_than_the_next(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default, user's file, project file, variable, argument: each counts over those before it."""
    seen = [quotas().open_files]
    world.user.write_text("[quotas]\nopen_files = 200\n")
    world.forget()
    seen.append(quotas().open_files)
    world.project.write_text("[quotas]\nopen_files = 100\n")
    world.forget()
    seen.append(quotas().open_files)
    monkeypatch.setenv("ISANDBOX_QUOTAS_OPEN_FILES", "400")
    seen.append(quotas().open_files)
    seen.append(quotas(quotas=Quotas(open_files=500)).open_files)
    assert seen == [1024, 200, 100, 400, 500]


def test_every_setting_reaches_a_sandbox(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The type, the least isolation, the time to start and each quota arrive in the request, as asked for."""
    world.user.write_text('type = "local"\nstart_timeout = 7\n[quotas]\nmemory = "64MiB"\nopen_files = 64\n')
    backend, request = make_request()
    assert (backend.name, request.start_timeout) == ("local", 7.0)
    assert (request.policy.quotas.memory, request.policy.quotas.open_files) == (64 * MIB, 64)
    assert request.policy.quotas.asked() == {"memory", "open_files"}
    monkeypatch.setenv("ISANDBOX_MIN_ISOLATION", "os")
    with pytest.raises(UnsupportedError, match=r"min_isolation=os.*asked for by ISANDBOX_MIN_ISOLATION"):
        make_request()
    assert make_request(min_isolation="none")[0].name == "local"


def test_sandbox_type_is_stronger_than_the_users_file(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """SANDBOX_TYPE counts over the file; empty it does not count at all."""
    world.user.write_text('type = "local"\n')
    assert default_type() == "local"
    monkeypatch.setenv("SANDBOX_TYPE", "seccomp")
    assert default_type() == "seccomp"
    monkeypatch.setenv("SANDBOX_TYPE", "")
    assert default_type() == "local"
    assert read_settings().origins["type"] == str(world.user)


def test_an_unknown_type_in_a_file_names_the_file(world: Any) -> None:
    """Who reads the error learns where the word stands."""
    world.user.write_text('type = "dokcer"\n')
    with pytest.raises(ConfigurationError, match=rf"'dokcer'.*asked for by {re.escape(str(world.user))}"):
        make_request()


def test_quotas_count_one_by_one(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller's quota leaves a setting of another one in force; a default that the caller takes away stays away."""
    monkeypatch.setenv("ISANDBOX_QUOTAS_MEMORY", "1GiB")
    monkeypatch.setenv("ISANDBOX_QUOTAS_OPEN_FILES", "9")
    found = quotas(quotas=Quotas(cpu_time=3))
    assert (found.memory, found.pids, found.cpu_time, found.open_files) == (1024 * MIB, 256, 3, 9)
    assert quotas(quotas=Quotas(open_files=5)).open_files == 5
    assert quotas(quotas=Quotas(open_files=None)).open_files is None


def test_a_whole_policy_is_an_argument(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quotas of a policy are those in it, whatever is set."""
    from isandbox import Policy

    monkeypatch.setenv("ISANDBOX_QUOTAS_MEMORY", "1GiB")
    monkeypatch.setenv("ISANDBOX_START_TIMEOUT", "5")
    request = make_request("local", policy=Policy())[1]
    assert (request.policy.quotas, request.start_timeout) == (Quotas(), 5.0)


def test_none_is_no_limit(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The word lifts a default, in a file and in a variable."""
    world.user.write_text('[quotas]\npids = "none"\n')
    monkeypatch.setenv("ISANDBOX_QUOTAS_OPEN_FILES", "none")
    assert (quotas().pids, quotas().open_files) == (None, None)


@pytest.mark.parametrize("options", [{"start_timeout": START_TIMEOUT_DEFAULT}, {"start_timeout": 60}, {"start_timeout": 60.0}])
def test_the_default_written_by_a_caller_is_the_callers(world: Any, monkeypatch: Any, options: dict[str, Any]) -> None:
    """The same number as the default counts over a setting when somebody wrote it."""
    monkeypatch.setenv("ISANDBOX_START_TIMEOUT", "5")
    assert make_request("local", **options)[1].start_timeout == 60
    assert make_request("local")[1].start_timeout == 5


def test_what_a_setting_asks_in_vain_names_who_asked(world: Any) -> None:
    """A quota that the backend cannot hold is refused with the file that asks for it."""
    world.project.write_text('[quotas]\ndisk = "1GiB"\n')
    with pytest.raises(UnsupportedError, match=rf"quotas\.disk.*asked for by {re.escape(str(world.project))}") as caught:
        make_request("local")
    assert caught.value.option == "quotas.disk"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        *((f"ISANDBOX_QUOTAS_{f.name.upper()}", "x-secret") for f in fields(Quotas)),
        ("ISANDBOX_QUOTAS_MEMORY", "512MB"), ("ISANDBOX_QUOTAS_PIDS", "1.5"), ("ISANDBOX_QUOTAS_PIDS", "0"),
        ("ISANDBOX_QUOTAS_PIDS", "True"), ("ISANDBOX_QUOTAS_CPUS", "nan"), ("ISANDBOX_QUOTAS_CPUS", "1e3"),
        ("ISANDBOX_START_TIMEOUT", "86401"), ("ISANDBOX_START_TIMEOUT", "-1"), ("ISANDBOX_START_TIMEOUT", "1 2"),
        ("ISANDBOX_MIN_ISOLATION", "VM"), ("ISANDBOX_MIN_ISOLATION", "unknown"),
    ],
)  # fmt: skip
def test_a_variable_that_is_not_valid(world: Any, monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    """The message is the variable and what is allowed; its value is nowhere, not in the context either."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError) as caught:
        make_request("local")
    assert str(caught.value) == f"{variable}: {BY_VARIABLE[variable].allowed}"
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("name", "hint"),
    [("ISANDBOX_QUOTAS_MEMROY", "did you mean ISANDBOX_QUOTAS_MEMORY?"), ("ISANDBOX_TYPE", "did you mean SANDBOX_TYPE?"),
     ("ISANDBOX_", "did you mean "), ("ISANDBOX_ZZZZZZZZZ", "there are SANDBOX_TYPE, "), ("ISANDBOX_\x1b[2J", "knows no such variable")],
)  # fmt: skip
def test_an_unknown_variable_is_refused(world: Any, monkeypatch: pytest.MonkeyPatch, name: str, hint: str) -> None:
    """It is named, harmless for a terminal, with the nearest one that there is; also when it is empty."""
    for value in ("secret-value", ""):
        monkeypatch.setenv(name, value)
        with pytest.raises(ConfigurationError, match=re.escape(hint)) as caught:
            read_settings()
        assert "secret-value" not in str(caught.value)
        assert str(caught.value).isprintable()


def test_what_changes_in_the_environment_counts_at_once(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long-lived host that sets, changes and removes a variable sees that at its next call; one of equal number too."""
    monkeypatch.setenv("ISANDBOX_QUOTAS_OPEN_FILES", "9")
    assert quotas().open_files == 9
    monkeypatch.setenv("ISANDBOX_QUOTAS_OPEN_FILES", "8")
    assert quotas().open_files == 8
    monkeypatch.delenv("ISANDBOX_QUOTAS_OPEN_FILES")
    monkeypatch.setenv("ISANDBOX_QUOTAS_OUTPUT", "7")
    assert (quotas().open_files, quotas().output) == (1024, 7)


def test_another_kind_of_environment_is_read_as_well(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where os.environ is another mapping, what is in it counts, and what changes in it too."""
    replaced = {"HOME": "/nonexistent", "ISANDBOX_QUOTAS_OUTPUT": "7"}
    monkeypatch.setattr(os, "environ", replaced)
    assert read_settings().values == {"quotas.output": 7}
    replaced["ISANDBOX_QUOTAS_OUTPUT"] = "8"
    assert read_settings().values == {"quotas.output": 8}


def test_a_plain_create_reads_nothing_twice(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without files a process looks for two of them, once, and loads no parser."""
    looked = []
    real = os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda path: looked.append(str(path)) or real(path))
    for _ in range(3):
        make_request("local")
    assert looked == ["isandbox.toml", str(world.user)]
    code = """
import sys
from isandbox._request import make_request
make_request("local")
print(sorted({"tomllib", "difflib", "isandbox._toml", "isandbox._settings.table"} & set(sys.modules)))
"""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_the_table_is_complete() -> None:
    """Each quota has a row; keys and variables are in it once; each variable but SANDBOX_TYPE has the prefix."""
    assert {key.partition(".")[2] for key in BY_KEY if "." in key} == {f.name for f in fields(Quotas)}
    assert len(BY_VARIABLE) == len(SETTINGS)
    assert {name for name in BY_VARIABLE if not name.startswith(PREFIX)} == {"SANDBOX_TYPE"}
    plain = set(BY_KEY) - {key for key in BY_KEY if "." in key}
    assert plain <= set(inspect.signature(make_request).parameters)


def test_what_the_table_calls_unset_is_the_default(world: Any) -> None:
    """The value to which a project file is compared is the one that holds without it."""
    request = make_request("local")[1]
    assert BY_KEY["start_timeout"].unset == request.start_timeout
    assert {f.name: BY_KEY[f"quotas.{f.name}"].unset for f in fields(Quotas)} == {
        f.name: getattr(Quotas(), f.name) for f in fields(Quotas)
    }
