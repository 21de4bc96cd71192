"""CEL against cel-cpp, by its Python package: well-typed expressions come to the same values, or fail in both.

Upstream's cel-go and cel-cpp are kept equal by one conformance suite, so no difference is expected.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.apiserver.kinds.custom.cel import CelError, compile_rule

cel = pytest.importorskip("cel_expr_python.cel")

ENV = cel.NewEnv(variables={"n": cel.Type.INT, "s": cel.Type.STRING, "m": cel.Type.DYN})
GIVEN = {"n": 3, "s": "ab-c", "m": {"a": 1, "b": {"c": "x"}, "l": [3, 1, 2]}}
FAILED = "fails"

NUMBERS = st.integers(-3, 5).map(lambda n: f"({n})" if n < 0 else str(n)) | st.sampled_from(
    ["n", "m.a", "m.l[1]", "m.l[7]", "m.none", "9223372036854775807"]
)
TEXTS = st.sampled_from(["s", "''", "'ab'", "'x\\ty'", "m.b.c", "'é😀'"])
TRUTHS = st.sampled_from(["true", "false", "has(m.a)", "has(m.none)", "'a' in m", "'z' in m"])


def _numbers(inner: Any) -> Any:
    numbers, texts, truths = inner
    return st.one_of(
        st.tuples(numbers, st.sampled_from("+-*/%"), numbers).map(lambda p: f"({' '.join(p)})"),
        texts.map(lambda text: f"size({text})"),
        st.tuples(truths, numbers, numbers).map(lambda p: f"({p[0]} ? {p[1]} : {p[2]})"),
        numbers.map(lambda number: f"(-({number}))"),
        numbers.map(lambda number: f"[1, 2, 3].map(i, i * {number})[1]"),
        numbers.map(lambda number: f"[1, 2, 3].filter(i, i > {number}).size()"),
    )


def _texts(inner: Any) -> Any:
    numbers, texts, truths = inner
    return st.one_of(
        st.tuples(texts, texts).map(lambda p: f"({p[0]} + {p[1]})"),
        numbers.map(lambda number: f"string({number})"),
        st.tuples(truths, texts, texts).map(lambda p: f"({p[0]} ? {p[1]} : {p[2]})"),
    )


def _truths(inner: Any) -> Any:
    numbers, texts, truths = inner
    compared = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    return st.one_of(
        st.tuples(numbers, compared, numbers).map(lambda p: f"({' '.join(p)})"),
        st.tuples(texts, compared, texts).map(lambda p: f"({' '.join(p)})"),
        st.tuples(truths, st.sampled_from(["&&", "||", "=="]), truths).map(
            lambda p: f"({' '.join(p)})"
        ),
        truths.map(lambda truth: f"!({truth})"),
        st.tuples(texts, st.sampled_from(["startsWith", "endsWith", "contains"]), texts).map(
            lambda p: f"{p[0]}.{p[1]}({p[2]})"
        ),
        st.tuples(st.sampled_from(["all", "exists", "exists_one"]), truths, numbers).map(
            lambda p: f"[1, 2, 3].{p[0]}(i, {p[1]} && i >= {p[2]})"
        ),
    )


LEVEL_0 = (NUMBERS, TEXTS, TRUTHS)
LEVEL_1 = tuple(base | make(LEVEL_0) for base, make in zip(LEVEL_0, (_numbers, _texts, _truths)))
LEVEL_2 = tuple(base | make(LEVEL_1) for base, make in zip(LEVEL_1, (_numbers, _texts, _truths)))
EXPRESSIONS = st.one_of(*LEVEL_2, *(make(LEVEL_2) for make in (_numbers, _texts, _truths)))


def ours(text: str) -> Any:
    try:
        value = compile_rule(text, frozenset(GIVEN)).run(dict(GIVEN))
    except CelError:
        return FAILED
    return type(value).__name__, value


def theirs(text: str) -> Any:
    try:
        value = ENV.compile(text).eval(data=GIVEN)
    except Exception:  # the package has no type of its own
        return FAILED
    if value.type() == cel.Type.ERROR:
        return FAILED
    plain = value.plain_value()
    return type(plain).__name__, plain


@pytest.mark.slow
@settings(max_examples=300)
@given(EXPRESSIONS)
def test_expressions_come_to_the_same(text):
    assert ours(text) == theirs(text)


def test_the_comparison_can_fail():
    assert theirs("n + 1") == ("int", 4)
    assert theirs("m.none") == theirs("1 / 0") == FAILED
