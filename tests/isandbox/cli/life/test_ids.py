"""Which sandbox a beginning of an id means."""

import pytest

from isandbox.cli.life.ids import match_id
from isandbox.errors import ConfigurationError

IDS = ("seccomp-aaaa1111", "seccomp-aaaa2222", "seccomp-bbbb3333", "local-aaaa1111", "my-own-cccc4444")


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("seccomp-bbbb", "seccomp-bbbb3333"),
        ("seccomp-aaaa1", "seccomp-aaaa1111"),
        ("seccomp-aaaa1111", "seccomp-aaaa1111"),
        ("local-aaaa", "local-aaaa1111"),
        ("my-own-cccc", "my-own-cccc4444"),
    ],
)
def test_a_beginning(text, id):
    """A whole id, and the beginning of just one with four characters behind the backend's name, are found."""
    assert match_id(text, IDS) == id


def test_a_whole_id_that_begins_another():
    """A whole id is itself, whatever else begins so."""
    assert match_id("seccomp-aaaa", ("seccomp-aaaa", "seccomp-aaaabbbb")) == "seccomp-aaaa"


def test_ambiguous():
    """Of several the error names all."""
    with pytest.raises(ConfigurationError, match="seccomp-aaaa1111, seccomp-aaaa2222"):
        match_id("seccomp-aaaa", IDS)


@pytest.mark.parametrize("text", ["s", "seccomp", "seccomp-", "seccomp-bbb", "my-own-ccc", ""])
def test_too_short(text):
    """A beginning that could soon be another's is refused also where it is the only one, and the error has a longer one."""
    with pytest.raises(ConfigurationError, match="4 characters or more"):
        match_id(text, IDS)


@pytest.mark.parametrize("text", ["seccomp-cccc", "aaaa1111", "seccomp-bbbb33334"])
def test_none(text):
    """What no id begins with is nobody's: neither the middle of an id nor more than one."""
    assert match_id(text, IDS) is None
