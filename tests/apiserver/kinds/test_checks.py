"""The small rules that the rules of kinds are made of."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from controlplane.apiserver import kinds
from controlplane.apiserver.kinds import checks, names
from controlplane.apiserver.schema.field_errors import invalid, required

WORDS = ("b", "a")
UNSUPPORTED = 'p: Unsupported value: "x": supported values: "a", "b"'


def said(errors):
    return [str(error) for error in errors]


def test_an_error_is_made_only_where_the_condition_holds():
    made = []

    def error(path, detail):
        made.append(path)
        return required(path, detail)

    assert checks.when(0, error, "p", "d") == []
    assert made == []
    assert said(checks.when([0], error, "p", "d")) == ["p: Required value: d"]
    assert said(checks.when(True, invalid, "p", 1, "bad")) == ["p: Invalid value: 1: bad"]


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        (checks.one_of, "a", []),
        (checks.one_of, "x", [UNSUPPORTED]),
        (checks.one_of, None, ['p: Unsupported value: null: supported values: "a", "b"']),
        (checks.optional_one_of, None, []),
        (checks.optional_one_of, "", ['p: Unsupported value: "": supported values: "a", "b"']),
        (checks.needed_one_of, None, ["p: Required value"]),
        (checks.needed_one_of, "", ['p: Unsupported value: "": supported values: "a", "b"']),
        (checks.word, None, ["p: Required value"]),
        (checks.word, "", ["p: Required value"]),
        (checks.word, "x", [UNSUPPORTED]),
    ],
)
def test_rules_for_words_differ_in_empty_and_missing_values(rule, value, expected):
    assert said(rule(value, "p", WORDS)) == expected


def test_words_can_be_listed_in_the_order_of_upstream():
    assert said(checks.one_of("x", "p", WORDS, sort=False)) == [
        'p: Unsupported value: "x": supported values: "b", "a"'
    ]


def test_a_name_is_missing_or_wrong_but_not_both():
    assert said(checks.name_at("", "p", names.dns_label, detail="d")) == ["p: Required value: d"]
    assert [error.reason for error in checks.name_at("A", "p", names.dns_label)] == [
        "FieldValueInvalid"
    ]
    assert checks.named({"k": "a.b"}, "k", "p") == []
    assert said(checks.named({}, "k", "p")) == ["p.k: Required value"]
    assert said(checks.present({}, "k", "")) == ["k: Required value"]


def test_limits_count_items_and_characters():
    assert checks.at_most(None, "p", 1) == []
    assert said(checks.at_most([1, 2], "p", 1)) == ["p: Too many: 2: must have at most 1 item"]
    assert checks.no_longer("ab", "p", 2) == []
    assert said(checks.no_longer("abc", "p", 2)) == ["p: Too long: may not be more than 2 bytes"]


def test_entries_pair_an_item_with_its_place():
    assert list(checks.entries({"k": ["a", "b"]}, "k", "p")) == [("a", "p.k[0]"), ("b", "p.k[1]")]
    assert list(checks.entries({"k": ["a"]}, "k", "")) == [("a", "k[0]")]
    assert list(checks.entries({"k": None}, "k", "p")) == []


def hidden(source: str) -> list[str]:
    """The functions of a module in which a local variable hides a rule that they call."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            nodes = list(ast.walk(function))
            local = {node.arg for node in nodes if isinstance(node, ast.arg)}
            local |= {
                node.id
                for node in nodes
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            called = {
                node.func.id
                for node in nodes
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
            if local & called & set(checks.__all__):
                found.append(function.name)
    return found


@pytest.mark.slow
def test_no_local_variable_hides_a_rule():
    """Type checking does not see it where the variable has any type."""
    assert hidden("def f(t):\n    when = t.get('w')\n    return when(t, required, 'p')") == ["f"]
    root = Path(kinds.__file__).parent
    assert {
        path: hidden(path.read_text()) for path in root.rglob("*.py") if hidden(path.read_text())
    } == {}
