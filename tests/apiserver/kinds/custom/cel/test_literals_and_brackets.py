"""Literals and brackets that the grammar refuses, in the words of the parser."""

from __future__ import annotations

import pytest

from controlplane.apiserver.kinds.custom.cel import CelError, compile_rule


def mistake(source: str) -> str:
    with pytest.raises(CelError) as caught:
        compile_rule(source)
    return str(caught.value)


def test_the_smallest_integer_is_written_with_its_sign() -> None:
    compile_rule("self == -9223372036854775808")
    compile_rule("self == [-9223372036854775808][0]")
    assert mistake("self == 9223372036854775808") == "invalid int literal"
    assert mistake("self -9223372036854775808 == 1") == "invalid int literal"


@pytest.mark.parametrize("source", ["(self", "!(self == (1)", "size(self"])
def test_one_missing_bracket_is_named(source: str) -> None:
    assert mistake(source) == "Syntax error: missing ')' at '<EOF>'"


def test_more_missing_brackets_are_a_mismatch() -> None:
    assert mistake("((self").startswith("Syntax error: mismatched input '<EOF>' expecting {")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("self % 2 == 0", "no such overload: _%_"),
        ("self > 2", "no such overload: _>_"),
        ("2 % self == 0", "no such overload"),
        ("2 > self", "no such overload"),
    ],
)
def test_an_operator_is_named_where_its_first_value_has_none_such(source: str, text: str) -> None:
    with pytest.raises(CelError) as caught:
        compile_rule(source).run({"self": [1]})
    assert str(caught.value) == text
