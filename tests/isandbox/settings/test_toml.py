"""TOML that a stranger wrote: bounded before it is parsed."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isandbox import ConfigurationError
from isandbox._toml import key_literal, parse, text_literal

DEEP = [
    "a = " + "[" * 17 + "]" * 17, "a = " + "[" * 30_000, "a = " + "{b = " * 17, "a." * 17 + "b = 1", "a." * 30_000 + "b = 1",
    "[" + "a." * 17 + "b]", "[[" + "a . " * 30_000 + "b]]", 'x = """a""""\n' + "a." * 30_000 + "b = 1",
    "x = '''a'''''\n" + "a = " + "[" * 30_000, '"a#" = 1\na = ' + "[" * 17, "a = {" + "b." * 17 + "c = 1}",
    'a = "\\"" # "\nb = ' + "[" * 17, '"a"."b".' * 9 + "c = 1", "a = [\n" * 17,
]  # fmt: skip


@pytest.mark.parametrize("text", DEEP, ids=lambda text: text[:12])
def test_deep_nesting_is_refused(text: str) -> None:
    """Brackets and dotted keys past 16 are refused before the parser, which recurses and takes quadratic time, sees them."""
    with pytest.raises(ConfigurationError, match=r"^x: line \d+: nested deeper than 16"):
        parse(text, "x")


SHALLOW = [
    "a = " + "[" * 16 + "]" * 16, "[a.b.c]\nd.e = 1.5\n", 'a = "' + "[" * 100 + "." * 100 + '"', "a = '" + "{" * 100 + "'",
    "# " + "[" * 100 + "\na = 1", 'a = """\n' + "[.\n" * 100 + '"""', "a = [" + "'x.y.z', " * 1000 + "]", "a = [[1, 2], [3]]\n" * 1,
    "a = '''" + "[" * 100 + "''''", 'a = "\\"[[[[[[[[[[[[[[[[[[[["', 'a = """""["[""[\\"[\\\\"""""\nb = ' + "[" * 16 + "]" * 16,
]  # fmt: skip


@pytest.mark.parametrize("text", SHALLOW, ids=lambda text: text[:12])
def test_brackets_in_texts_and_comments_do_not_count(text: str) -> None:
    """Only nesting counts: what the parser would take is taken, and what it would not is its own error."""
    try:
        wanted = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(ConfigurationError, match="not valid TOML"):
            parse(text, "x")
    else:
        assert parse(text, "x") == wanted


def test_a_long_unfinished_string_ends_quickly() -> None:
    """Quotes that never end are left to the parser at once, in whichever number."""
    for text in ('a = "' + '\\"' * 30_000, "a = '''" + "''\n" * 20_000, 'a = """' + '""\\' * 20_000):
        with pytest.raises(ConfigurationError, match="not valid TOML"):
            parse(text, "x")


def test_numbers_of_many_digits() -> None:
    """Python's own refusal of a long number is the same error."""
    with pytest.raises(ConfigurationError, match="not valid TOML"):
        parse("a = " + "9" * 5000, "x")


def test_the_parsers_error_is_not_kept() -> None:
    """An error in a document with a secret has its line, and nothing in its context that could hold the document."""
    with pytest.raises(ConfigurationError, match="line 2") as caught:
        parse('A = "s3cret"\nB = s3cret\n', "x")
    assert "s3cret" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_can_be_written(key: str, text: str) -> None:
    """Keys and values of any characters come back as they were."""
    assert parse(f"{key_literal(key, 'x')} = {text_literal(text, 'x')}\n", "x") == {key: text}


def test_a_lone_surrogate_cannot() -> None:
    """Bytes that are no UTF-8 have no place in TOML; the text is not shown."""
    with pytest.raises(ConfigurationError, match="x: character 6 is a lone surrogate") as caught:
        text_literal("s3cret\udc80", "x")
    assert "s3cret" not in str(caught.value)
    assert caught.value.__context__ is None
