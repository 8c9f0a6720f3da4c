"""The keys that let go of a command."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox.cli.life.keys import DETACH_DEFAULT, DetachKeys, parse_keys
from isandbox.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (DETACH_DEFAULT, b"\x10\x11"),
        ("", b""),
        ("x", b"x"),
        ("ctrl-a,d", b"\x01d"),
        ("Ctrl-Z", b"\x1a"),
        ("ctrl-@,ctrl-[,ctrl-],ctrl-^,ctrl-_", b"\x00\x1b\x1d\x1e\x1f"),
    ],
)
def test_forms(text, keys):
    """Keys are written as docker takes them."""
    assert parse_keys(text) == keys


@pytest.mark.parametrize("text", ["ctrl-", "ctrl-1", "ctrl-ab", "xy", ",", "a,", "ctrl-ä", "ä", "\n", "alt-x"])
def test_other_forms(text):
    """Anything else is refused, with an example."""
    with pytest.raises(ConfigurationError, match="ctrl-p,ctrl-q"):
        parse_keys(text)


def test_first_key_waits():
    """What may be the sequence waits for the next key, and goes on when that is another one."""
    keys = DetachKeys(b"\x10\x11")
    assert keys.feed(b"a\x10") == (b"a", False)
    assert keys.feed(b"b") == (b"\x10b", False)
    assert keys.feed(b"\x10") == (b"", False)
    assert keys.feed(b"\x10") == (b"\x10", False)
    assert keys.feed(b"\x11c") == (b"", True)


def test_no_keys():
    """Without a sequence every key passes at once."""
    assert DetachKeys(b"").feed(b"\x10\x11") == (b"\x10\x11", False)


@given(st.binary(min_size=1, max_size=4), st.lists(st.binary(max_size=5), max_size=8))
def test_however_keys_come(sequence, pieces):
    """Where the typed bytes are split changes nothing: all that stands before the sequence passes, in order."""
    keys, passed, found = DetachKeys(sequence), b"", False
    for piece in pieces:
        for_command, found = keys.feed(piece)
        passed += for_command
        if found:
            break
    typed = b"".join(pieces)
    at = typed.find(sequence)
    assert found == (at >= 0)
    if found:
        assert passed == typed[:at]
    else:
        assert typed.startswith(passed)
        assert sequence.startswith(typed[len(passed) :])
