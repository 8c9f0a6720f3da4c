"""Policies in files: a round trip, relative paths, and errors that name the file and the key and show no secret."""

from __future__ import annotations

import os
import re
import traceback
from dataclasses import fields
from enum import Enum
from pathlib import Path
from signal import Signals
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox import ConfigurationError, Mount, Policy, Quotas, Workspace
from isandbox._request import make_request
from isandbox.policy.text import LARGEST, build
from isandbox.sync import create_sandbox

SECRET = "hunter2-secret"
FIELDS = sorted({field.name for record in (Policy, Workspace, Mount, Quotas) for field in fields(record)})

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
paths = texts.filter(lambda text: 0 < len(text.encode()) < 4000 and not text.startswith("~"))
targets = st.lists(texts.map(lambda text: text.replace("/", "") or "x"), min_size=1, max_size=3).map(
    lambda parts: "/" + "/".join(part if part not in {".", ".."} else "x" for part in parts)
)
names = texts.map(lambda text: "".join(c for c in text if c not in "=\n\r").strip()).filter(bool)
sizes = st.none() | st.integers(1, (1 << 63) - 1)
quotas = st.builds(
    Quotas,
    cpus=st.none() | st.floats(0.001, 4096),
    cpu_time=st.none() | st.integers(1, 31_536_000) | st.floats(1e-300, 1),
    memory=sizes,
    disk=sizes,
    file_size=sizes,
    output=sizes,
    pids=st.none() | st.integers(1, 4_194_304),
    open_files=st.none() | st.just(1024),
)
policies = st.builds(
    Policy,
    workspace=st.none()
    | st.builds(Workspace, paths, st.sampled_from(["rw", "ro", "overlay", "copy"]), st.lists(texts, max_size=3).map(tuple)),
    mounts=st.lists(st.builds(Mount, paths, targets, st.sampled_from(["ro", "rw"])), max_size=3, unique_by=lambda m: m.target),
    env=st.dictionaries(names, texts, max_size=3),
    network=st.none() | st.lists(texts, max_size=3).map(tuple),
    quotas=st.just(Quotas()) | quotas,
    waive=st.frozensets(texts, max_size=3),
)


@given(policies)
def test_a_policy_comes_back_equal(policy: Policy) -> None:
    """Every policy that can be written is read back as it was, with what was asked for."""
    again = Policy.loads(policy.to_toml())
    assert again == policy
    assert again.quotas.asked() == policy.quotas.asked()
    assert list(again.env) == list(policy.env)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["none", "1MiB", "ro", "rw", "/a", "/b", 10**400, "~"])
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(FIELDS), values))
def test_whatever_a_file_holds(document: dict[str, Any]) -> None:
    """Any document is a policy or a ConfigurationError that begins with the file's name, and nothing else."""
    try:
        assert isinstance(build(document, "the file", "/there"), Policy)
    except ConfigurationError as error:
        assert str(error).startswith("the file: ")  # noqa: PT017 - many examples raise nothing


def test_the_default_policy_is_an_empty_file() -> None:
    """What nobody asked for is not written; an empty file is a plain policy."""
    assert Policy().to_toml() == ""
    assert Policy.loads("") == Policy()


WHOLE = """
network = ["api.example.org"]
waive = ["landlock"]

[workspace]
path = "src"
mode = "ro"
deny = [".env"]

[[mounts]]
source = "../data"
target = "/data"
mode = "rw"

[[mounts]]
source = "/usr"
target = "/host"

[env]
NAME = "value"

[quotas]
memory = "512MiB"
pids = "none"
cpus = 1.5
"""


def test_a_whole_file(tmp_path: Path) -> None:
    """Every field under its own name; relative paths begin at the file, wherever the process is."""
    file = tmp_path / "strict.toml"
    file.write_text(WHOLE)
    wanted = Policy(
        workspace=Workspace(f"{tmp_path}/src", "ro", (".env",)),
        mounts=(Mount(f"{tmp_path}/../data", "/data", "rw"), Mount("/usr", "/host")),
        env={"NAME": "value"},
        network=("api.example.org",),
        quotas=Quotas(memory="512MiB", pids=None, cpus=1.5),
        waive=frozenset({"landlock"}),
    )
    assert Policy.load(file) == Policy.load(str(file)) == wanted


def test_relative_file_and_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file by a relative name means the same as by its whole name; a text has no place, so its paths stay."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "p.toml").write_text('[workspace]\npath = "."\nmode = "ro"\n')
    monkeypatch.chdir(tmp_path)
    found = Policy.load("deep/p.toml").workspace
    assert found is not None
    assert os.path.samefile(found.path, tmp_path / "deep")
    assert Policy.loads('[workspace]\npath = "."\n').workspace == Workspace(".")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("netwrok = []", "netwrok: no such key; did you mean network"),
        ("profile = 'x'", "profile: no such key"),
        ("workspace = '.'", "workspace: a table with a path, not a text"),
        ("[workspace]\nmode = 'ro'", "workspace: path is missing"),
        ("[workspace]\npath = 3", "workspace.path: a path, not a whole number"),
        ("[workspace]\npath = ''", "workspace.*empty path"),
        ("[workspace]\npath = '~/x'", r"workspace.path: '~' is not expanded.*\./~"),
        ("[workspace]\npath = '.'\nmode = 'r'", "workspace.*one of rw, ro, overlay, copy, not 'r'"),
        ("[workspace]\npath = '.'\ndeny = '.env'", "workspace.deny: a list.*not a text"),
        ("[workspace]\npath = '.'\ndeny = [3]", r"workspace.deny\[0\]: a text in quotes, not a whole number"),
        ("[workspace]\npath = '.'\nmdoe = 'ro'", "workspace: mdoe: no such key; did you mean mode"),
        ("mounts = '/a:/b'", r"mounts: tables, each under \[\[mounts\]\], not a text"),
        ("mounts = ['/a']", r"mounts\[0\]: a table with a source and a target, not a text"),
        ("[mounts]\nsource = '/a'", "mounts: tables.*not a table"),
        ("[[mounts]]\nsource = '/a'", r"mounts\[0\]: target is missing: an absolute path inside"),
        ("[[mounts]]\nsource = '/a'\ntarget = 'b'", r"mounts\[0\]: mount target: an absolute path"),
        ("[[mounts]]\nsource = '~'\ntarget = '/b'", r"mounts\[0\].source: '~' is not expanded"),
        ("[[mounts]]\nsource = '/a'\ntarget = '/b'\n[[mounts]]\nsource = '/c'\ntarget = '/b'", "two mounts at /b"),
        ("[env]\nPORT = 8080", "env.PORT: a text in quotes, not a whole number"),
        ("[env.A]\nB = 'c'", "env.A: a text in quotes, not a table"),
        ("env = ['A=1']", "env: a table of texts, not a list"),
        ("network = 'x.org'", "network: a list of hosts, not a text"),
        ("network = [true]", r"network\[0\]: a text in quotes, not true or false"),
        ("waive = 'disk'", "waive: a list of names, not a text"),
        ("quotas = 3", "quotas: a table, not a whole number"),
        ("[quotas]\nmemory = '5MB'", "quotas.memory: '5MB' is not a size"),
        ("[quotas]\npids = true", "quotas.pids: a number.*not true or false"),
        ("[quotas]\nmemory = 1979-05-27", "quotas.memory: a number.*not a date or time"),
        ("[quotas]\ncpu = 3", "quotas.cpu: no such key; did you mean cpu"),
    ],
)
def test_files_that_are_not_valid(tmp_path: Path, text: str, word: str) -> None:
    """The message begins with the file and has the key's path and what is allowed; a text says policy in its place."""
    file = tmp_path / "p.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=word) as caught:
        Policy.load(file)
    assert str(caught.value).startswith(f"{file}: ")
    with pytest.raises(ConfigurationError, match=rf"^policy: .*{word}"):
        Policy.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        f"[env]\nA = '{SECRET}'\n'B=C' = '{SECRET}'", f"[env]\nA = '{SECRET}'\nB = 3", f"[env]\nA = ['{SECRET}']",
        f"[env]\nA = '{SECRET}'\n[env]", f"[env]\nA = '{SECRET}", f"[env]\nA = {SECRET}", f'[env]\nA = "{SECRET}\\u0000"',
        f"[env]\nA = '{SECRET}'\n[quotas]\nmemory = 'x'", f"[env]\nA = '''{SECRET}{'x' * 140_000}'''", f"env = '{SECRET}'",
        f"[env]\nA = '{SECRET}'\nB = \"\\ud800\"",
    ],
    ids=range(11),
)  # fmt: skip
def test_no_error_shows_a_value_of_env(tmp_path: Path, text: str) -> None:
    """Neither the message nor the traceback nor what the error came from holds a variable's value."""
    file = tmp_path / "p.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        Policy.load(file)
    error: BaseException | None = caught.value
    shown = "".join(traceback.format_exception(caught.value))
    while error is not None:
        shown += repr(error) + str(error) + repr(vars(error))
        error = error.__context__
    assert SECRET not in shown


def test_bytes_that_are_no_text_show_nothing(tmp_path: Path) -> None:
    """A file that is not UTF-8 is refused by the place of the first such byte."""
    file = tmp_path / "p.toml"
    file.write_bytes(b"[env]\nA = '" + SECRET.encode() + b"\xff'")
    with pytest.raises(ConfigurationError, match=r"byte 25 is not UTF-8") as caught:
        Policy.load(file)
    assert caught.value.__context__ is None


def test_what_toml_cannot_hold_is_not_written() -> None:
    """Bytes that are not UTF-8, and a path that reading would refuse, are an error without the value."""
    with pytest.raises(ConfigurationError, match=r"env\.A: character 14 is a lone surrogate") as caught:
        Policy(env={"A": f"{SECRET}\udc80"}).to_toml()
    assert SECRET not in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"mounts\[0\]\.source: ~/x begins with '~'"):
        Policy(mounts=(Mount("~/x", "/x"),)).to_toml()


def test_no_file_of_any_kind(tmp_path: Path) -> None:
    """A file that is missing, too large, a directory or a FIFO is ConfigurationError; a FIFO is not waited for."""
    large, fifo = tmp_path / "large.toml", tmp_path / "fifo"
    large.write_text("#" * (LARGEST + 1))
    os.mkfifo(fifo)
    for path, word in (
        (tmp_path / "none", "policy: .*none does not exist"), (large, "over the limit"), (tmp_path, "not a regular file"),
        (fifo, "not a regular file"), ("", "policy: an empty path"), ("a\0b", "NUL"), (b"x", "text path"),
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match=word):
            Policy.load(path)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="a text of TOML, not bytes"):
        Policy.loads(b"")  # type: ignore[arg-type]


def test_a_file_is_a_whole_policy(tmp_path: Path) -> None:
    """policy= takes the path of a file; parts beside it are refused, as they are beside a record."""
    file = tmp_path / "p.toml"
    file.write_text("[quotas]\nmemory = '1MiB'\n")
    for policy in (file, str(file)):
        assert make_request("local", policy=policy)[1].policy.quotas.size("memory") == 1 << 20
    with pytest.raises(ConfigurationError, match="policy= is the whole policy"):
        make_request("local", policy=file, env={"A": "1"})
    with pytest.raises(ConfigurationError, match=r"a Policy record, or the path of a file, not dict"):
        make_request("local", policy={"env": {}})  # type: ignore[arg-type]


RW = "[workspace]\npath = '.'\n"
MOUNT = "[[mounts]]\nsource = '{}'\ntarget = '/m'\nmode = '{}'\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (RW, "workspace"),
        (RW + "deny = ['other.toml']\n", "workspace"),
        (RW + "deny = ['p.toml']\n", None),
        (RW + "deny = ['*.toml']\n", None),
        ("waive = ['workspace.deny']\n" + RW + "deny = ['p.toml']\n", "workspace"),
        (RW + "mode = 'ro'\n", None),
        (RW + "mode = 'copy'\n", None),
        ("[workspace]\npath = '..'\n", "workspace"),
        ("[workspace]\npath = 'sub'\n", None),
        ("[workspace]\npath = 'to-here'\n", "workspace"),
        (MOUNT.format(".", "rw"), "mounts[0]"),
        (MOUNT.format("p.toml", "rw"), "mounts[0]"),
        (MOUNT.format(".", "ro"), None),
        (RW + "deny = ['p.toml']\n" + MOUNT.format(".", "rw"), None),
        (RW + "deny = ['p.toml']\n" + MOUNT.format("p.toml", "rw"), "mounts[0]"),
        (RW + "[[mounts]]\nsource = 'p.toml'\ntarget = '/workspace/p.toml'\n", None),
    ],
)
def test_a_file_that_code_inside_could_rewrite(tmp_path: Path, text: str, line: str | None) -> None:
    """A policy that makes its own file writable is refused by the line that does, unless it denies or covers the file."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "to-here").symlink_to(".")
    (here / "p.toml").write_text(text)
    if line is None:
        assert Policy.load(here / "p.toml")
    else:
        with pytest.raises(ConfigurationError, match=rf"p\.toml: {re.escape(line)} lets code inside write to this file"):
            Policy.load(here / "p.toml")


@pytest.mark.parametrize("inside", ["file", "link"])
def test_a_link_to_a_policy_counts_at_both_ends(tmp_path: Path, inside: str) -> None:
    """Whether the link or what it leads to is in a writable place: either lets code inside decide."""
    for name in ("file", "link"):
        (tmp_path / name).mkdir()
    (tmp_path / "file" / "p.toml").write_text(f"[workspace]\npath = '{tmp_path}/{inside}'\n")
    (tmp_path / "link" / "p.toml").symlink_to(tmp_path / "file" / "p.toml")
    with pytest.raises(ConfigurationError, match="lets code inside write to this file"):
        Policy.load(tmp_path / "link" / "p.toml")


@pytest.mark.parametrize(
    "way", ["ws/conf/p.toml", "mine/p.toml", "ws/in/../../safe/p.toml", "mine/deep/p.toml", "mine/file.toml"]
)
def test_every_step_to_a_policy_counts(tmp_path: Path, way: str) -> None:
    """A link, or a directory that is left again by ``..``, in a writable place lets code inside decide which file is read."""
    for name in ("ws/in", "safe", "mine"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "safe" / "p.toml").write_text(f"[workspace]\npath = '{tmp_path}/ws'\n")
    (tmp_path / "ws" / "conf").symlink_to(tmp_path / "safe")
    (tmp_path / "ws" / "middle.toml").symlink_to("../safe/p.toml")
    (tmp_path / "mine" / "p.toml").symlink_to("../ws/middle.toml")
    (tmp_path / "mine" / "deep").symlink_to("../ws/conf")
    (tmp_path / "mine" / "file.toml").symlink_to("deep/p.toml")
    assert Policy.load(tmp_path / "safe" / "p.toml").workspace == Workspace(f"{tmp_path}/ws")
    with pytest.raises(ConfigurationError, match="lets code inside write to this file"):
        Policy.load(f"{tmp_path}/{way}")


def test_a_way_out_of_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory that a relative path begins at is open already: that it lies in the workspace decides nothing."""
    (tmp_path / "ws" / "in").mkdir(parents=True)
    (tmp_path / "p.toml").write_text("[workspace]\npath = 'ws'\n")
    monkeypatch.chdir(tmp_path / "ws" / "in")
    assert Policy.load("../../p.toml").workspace
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(ConfigurationError):
        Policy.load(tmp_path / "round")


class _Odd(float):
    def __repr__(self) -> str:
        return "odd(1.5)"


class _Mode(str, Enum):  # noqa: UP042 - of such a one the form is not its value
    RW = "rw"


def test_values_of_kinds_of_their_own_come_back() -> None:
    """Numbers and words of a subclass, whose own form is no TOML, are written as what they are."""
    mode: Any = _Mode.RW
    policy = Policy(Workspace("/w", mode), (Mount("/a", "/b", mode),), quotas=Quotas(cpus=_Odd(1.5), pids=Signals.SIGTERM))
    assert Policy.loads(policy.to_toml()) == policy


def test_a_sandbox_by_a_file(tmp_path: Path) -> None:
    """The real thing: a command sees the variable and the workspace of the file."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "hello.txt").write_text("from the host")
    (tmp_path / "p.toml").write_text("[workspace]\npath = 'work'\n[env]\nNAME = 'by file'\n")
    with create_sandbox("local", policy=tmp_path / "p.toml") as sandbox:
        result = sandbox.exec('echo "$NAME"; cat hello.txt')
    assert (result.stdout, result.exit_code) == ("by file\nfrom the host", 0)


@pytest.mark.native
def test_an_isolated_sandbox_by_a_file(tmp_path: Path, sandbox_tmp: Any) -> None:
    """The same where the file is enforced: what it makes read-only, and what it denies, is so."""
    work = sandbox_tmp / f"policy-{tmp_path.name}"
    work.mkdir()
    try:
        (work / "hello.txt").write_text("hello")
        (work / ".env").write_text(SECRET)
        (work / "p.toml").write_text("[workspace]\npath = '.'\nmode = 'ro'\ndeny = ['.env']\n")
        policy = Policy.load(work / "p.toml")
        with create_sandbox("seccomp", policy=policy) as sandbox:
            said = {
                operation: sandbox.exec(command).ok
                for operation, command in (
                    ("read", "cat hello.txt"),
                    ("write", "echo x > new"),
                    ("denied", "grep hunter .env"),
                )
            }
        assert said == {
            "read": policy.explain("read", "hello.txt").allowed,
            "write": policy.explain("write", "new").allowed,
            "denied": policy.explain("read", ".env").allowed,
        }
        assert said == {"read": True, "write": False, "denied": False}
    finally:
        for entry in work.iterdir():
            entry.unlink()
        work.rmdir()
