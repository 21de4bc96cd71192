"""Patterns are Go's: linear in the text, and refused in Go's words."""

import pytest

from controlplane.apiserver.schema import work
from controlplane.apiserver.schema.go_regexp import PatternError, compiled
from controlplane.apiserver.schema.status import ApiError


@pytest.fixture(autouse=True)
def _begun():
    work.on(work.Budget())
    yield
    work.on(work.FREE)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("+", "missing argument to repetition operator: `+`"),
        (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ],
)
def test_what_is_no_pattern_of_go_is_refused_in_its_words(pattern, problem):
    with pytest.raises(PatternError) as error:
        compiled(pattern)
    assert str(error.value) == f"error parsing regexp: {problem}"


@pytest.mark.parametrize(
    "pattern", ["a?" * 100_000, "a{1000}" * 1000, "((a{100}){100}){100}", "(" * 10**6]
)
def test_what_is_too_large_is_refused(pattern):
    with pytest.raises(PatternError, match=r"expression too large|invalid repeat count"):
        compiled(pattern)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "^(a|a?)+$", "(.*a){20}b"])
def test_nothing_backtracks(pattern):
    assert not compiled(pattern).found("a" * 5000 + "!")


def test_the_end_is_the_end_and_digits_are_ascii():
    assert not compiled("^a$").found("a\n")
    assert not compiled(r"^\d$").found("\u0661")
    assert compiled("é+").search("aéé") == "éé"
    assert list(compiled("a+").each("baabca")) == ["aa", "a"]


def test_searches_that_take_long_in_the_worst_case_are_interrupted():
    pattern = compiled("(a|b)*a(a|b){500}")
    with pytest.raises(ApiError) as error:
        pattern.found("ab" * 10**5)
    assert error.value.code == 504
