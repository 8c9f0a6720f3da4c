"""`Policy.explain`: the verdict and the line, without looking anything up."""

from __future__ import annotations

import os
import pickle
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import isandbox.policy
from isandbox import ConfigurationError, Mount, Policy, Workspace
from isandbox.policy.explain import split_host

RW = Workspace("/home/ann/project")
RO = Workspace("/home/ann/project", "ro")


def policy(**parts: Any) -> Policy:
    return Policy(**parts)


FILES = [
    (Policy(), "read", "a.txt", True, "workspace"),
    (Policy(), "write", "/workspace/a/b", True, "workspace"),
    (Policy(), "write", "/workspace", True, "workspace"),
    (Policy(), "read", "/etc/passwd", None, ""),
    (Policy(), "write", "../etc/passwd", None, ""),
    (Policy(), "read", "/workspace2", None, ""),
    (Policy(), "read", "/", None, ""),
    (policy(workspace=RW), "write", "a", True, "workspace"),
    (policy(workspace=RO), "read", "a", True, "workspace"),
    (policy(workspace=RO), "write", "a", False, "workspace.mode"),
    (policy(workspace=RO, waive={"workspace.ro"}), "write", "a", None, "workspace.mode"),
    (policy(workspace=Workspace("/p", "overlay")), "write", "a", True, "workspace"),
    (policy(workspace=Workspace("/p", "copy")), "write", "a", True, "workspace"),
    (policy(mounts=[Mount("/srv", "/data")]), "read", "/data/x", True, "mounts[0]"),
    (policy(mounts=[Mount("/srv", "/data")]), "read", "/data", True, "mounts[0]"),
    (policy(mounts=[Mount("/srv", "/data")]), "write", "/data/x", False, "mounts[0].mode"),
    (policy(mounts=[Mount("/srv", "/data")]), "write", "/data/../workspace/x", True, "workspace"),
    (policy(mounts=[Mount("/srv", "/data"), Mount("/srv2", "/data/in", "rw")]), "write", "/data/in/x", True, "mounts[1]"),
    (policy(workspace=RO, mounts=[Mount("/out", "/workspace/out", "rw")]), "write", "out/x", True, "mounts[0]"),
    (policy(workspace=RO, mounts=[Mount("/out", "/workspace/out", "rw")]), "write", "outer", False, "workspace.mode"),
]


@pytest.mark.parametrize(("record", "operation", "target", "allowed", "by"), FILES)
def test_files(record: Policy, operation: Any, target: str, allowed: bool | None, by: str) -> None:
    """The innermost place that shows a path decides; where none does the backend."""
    found = record.explain(operation, target)
    assert (found.allowed, found.by) == (allowed, by), found.reason


def denying(*patterns: str, **parts: Any) -> Policy:
    return policy(workspace=Workspace("/p", deny=patterns), **parts)


DENIED = [
    (denying(".env"), ".env", False, "workspace.deny[0]"),
    (denying(".env"), ".env/below", False, "workspace.deny[0]"),
    (denying(".env"), "sub/.env", True, "workspace"),
    (denying(".env"), ".environment", True, "workspace"),
    (denying("a", "b/c"), "b/c/d", False, "workspace.deny[1]"),
    (denying("./b//c/"), "b/c", False, "workspace.deny[0]"),
    (denying("**/.env"), ".env", False, "workspace.deny[0]"),
    (denying("**/.env"), "x/y/.env", False, "workspace.deny[0]"),
    (denying("secret/**"), "secret/x/y", False, "workspace.deny[0]"),
    (denying("secret/**"), "secret", True, "workspace"),
    (denying("a/**/**/b"), "a/b", False, "workspace.deny[0]"),
    (denying("a/**/b"), "a/x/y/b", False, "workspace.deny[0]"),
    (denying("a/**/b"), "ab", True, "workspace"),
    (denying("*.key"), "a.key", False, "workspace.deny[0]"),
    (denying("*.key"), "x/a.key", True, "workspace"),
    (denying("a?c"), "abc", False, "workspace.deny[0]"),
    (denying("[a].key"), "a.key", True, "workspace"),
    (denying("a.b"), "axb", True, "workspace"),
    (denying(".env", waive={"workspace.deny"}), ".env", None, "workspace.deny[0]"),
    (denying("s", mounts=[Mount("/p", "/all")]), "/all/s/x", False, "workspace.deny[0]"),
    (denying("s", mounts=[Mount("/", "/all")]), "/all/p/s/x", False, "workspace.deny[0]"),
    (denying("s", mounts=[Mount("/p/s", "/shown")]), "/shown/x", True, "mounts[0]"),
    (denying("s", mounts=[Mount("/p/s/in", "/shown")]), "/shown/x", True, "mounts[0]"),
    (denying("s/in", mounts=[Mount("/p/s", "/shown")]), "/shown/in", False, "workspace.deny[0]"),
    (denying("s", mounts=[Mount("/other", "/shown")]), "/shown/s", True, "mounts[0]"),
    (denying("s", mounts=[Mount("/p/s", "/workspace/s")]), "s/x", True, "mounts[0]"),
]


@pytest.mark.parametrize(("record", "target", "allowed", "by"), DENIED)
def test_denied_places(record: Policy, target: str, allowed: bool | None, by: str) -> None:
    """What is denied is so by every way to the same tree, but by a mount of the place itself."""
    found = record.explain("read", target)
    assert (found.allowed, found.by) == (allowed, by), found.reason


# Each would take longer than the age of the world where one star's choice is gone back to for the next one's.
SLOW = [
    ("*" * 1000 + "y", "p.toml", False),
    ("*a" * 300 + "y", "a" * 250, False),
    ("a*" * 250 + "?", "a" * 251, True),
    ("**/a/" * 500 + "y", "a/" * 1000 + "a", False),
    ("**/*a/" * 500 + "**/y", "a/" * 1000 + "y", True),
]


@pytest.mark.parametrize(("pattern", "target", "denied"), SLOW, ids=range(5))
def test_no_pattern_takes_long(pattern: str, target: str, denied: bool) -> None:
    """Patterns of a stranger's file are matched in bounded time, and still mean what they say."""
    assert (denying(pattern).explain("read", target).allowed is False) is denied


def by_going_back(parts: list[str], names: list[str]) -> bool:
    """The meaning of a pattern, written as plainly as can be."""
    if not parts or not names:
        return not parts and not names
    if parts[0] != "**":
        return fnmatchcase(names[0], parts[0].replace("[", "[[]")) and by_going_back(parts[1:], names[1:])
    if len(parts) == 1:
        return True
    return by_going_back(parts[1:], names) or by_going_back(parts, names[1:])


NAME = st.text("ab*?.[", min_size=1, max_size=4).filter(lambda name: set(name) != {"."})


@given(st.lists(NAME | st.just("**"), min_size=1, max_size=5), st.lists(NAME, min_size=1, max_size=5))
def test_patterns_mean_what_they_say(parts: list[str], names: list[str]) -> None:
    """Against a matcher of few lines, for any pattern and path: what is named, and all that is in it, is denied."""
    stars = [part for at, part in enumerate(parts) if part != "**" or parts[at - 1 : at] != ["**"]]
    wanted = any(by_going_back(stars, names[: end + 1]) for end in range(len(names)))
    assert (denying("/".join(parts)).explain("read", "/".join(names)).allowed is False) is wanted


HOSTS = [
    (None, "a.org", None, ""),
    ((), "a.org", False, "network"),
    (("a.org", "b.org"), "b.org", True, "network[1]"),
    (("a.org",), "A.ORG.", True, "network[0]"),
    (("a.org",), "a.org:443", True, "network[0]"),
    (("a.org",), "sub.a.org", False, "network"),
    (("a.org",), "a.org.evil", False, "network"),
    (("a.org:443",), "a.org:443", True, "network[0]"),
    (("a.org:443",), "a.org:80", False, "network"),
    (("a.org:443",), "a.org", False, "network"),
    (("::1",), "[::1]:80", True, "network[0]"),
    (("[::1]:80",), "[::1]:81", False, "network"),
]


@pytest.mark.parametrize(("network", "target", "allowed", "by"), HOSTS)
def test_hosts(network: tuple[str, ...] | None, target: str, allowed: bool | None, by: str) -> None:
    """A host that is listed, with its port where the line has one; nothing that merely looks like it."""
    found = Policy(network=network).explain("connect", target)
    assert (found.allowed, found.by) == (allowed, by), found.reason


def test_a_waived_network() -> None:
    """What waive says may be missing is not promised."""
    assert Policy(network=(), waive=frozenset({"network.none"})).explain("connect", "a.org").allowed is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a:1", ("a", "1")), ("a", ("a", None)), ("a:", ("a:", None)), ("a:x", ("a:x", None)), ("::1", ("::1", None)),
     ("[::1]", ("::1", None)), ("[::1]:1", ("::1", "1")), ("a:123456", ("a:123456", None)), ("::1:80", ("::1:80", None))],
)  # fmt: skip
def test_host_and_port(text: str, parts: tuple[str, str | None]) -> None:
    """An IPv6 address is not taken for a host with a port."""
    assert split_host(text) == parts


def test_nothing_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call of the operating system is made for an answer."""
    record = denying("s", mounts=[Mount("/p", "/all")])
    for name in ("stat", "lstat", "open", "scandir", "readlink", "getcwd"):
        monkeypatch.setattr(os, name, None)
    found = [record.explain("read", "s"), record.explain("write", "/all/x"), record.explain("connect", "x")]
    monkeypatch.undo()
    assert [one.allowed for one in found] == [False, False, None]


@pytest.mark.parametrize(
    ("operation", "target"), [("exec", "x"), (None, "x"), ("read", ""), ("read", "a\0"), ("connect", " "), ("connect", 3)]
)
def test_questions_that_are_none(operation: Any, target: Any) -> None:
    """Another operation, no path and no host are ConfigurationError."""
    with pytest.raises(ConfigurationError):
        Policy().explain(operation, target)


def test_an_explanation_is_plain_data() -> None:
    """It pickles, and its sentence holds no control character of a path."""
    found = Policy().explain("read", "/x/\x1b[2J")
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301
    assert found.reason.isprintable()
    assert isinstance(found, isandbox.policy.Explanation)
