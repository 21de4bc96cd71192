import pytest

from controlplane.apiserver.kinds.custom.cel import compiled
from controlplane.apiserver.kinds.custom.cel.costs import UNBOUNDED, Costs, estimate
from controlplane.apiserver.kinds.custom.cel.types import of_schema

TEXT = {"type": "string", "maxLength": 10}
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"}, "s": TEXT, "free": {"type": "string"},
        "l": {"type": "array", "items": TEXT, "maxItems": 5},
        "open": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": TEXT, "maxProperties": 3},
        "d": {"type": "string", "format": "duration"},
    },
}  # fmt: skip


def program(rule):
    kind = of_schema(SCHEMA)
    return compiled(rule, {"self": kind, "oldSelf": kind})


def cost(rule):
    return estimate(program(rule).tree, {"self": SCHEMA, "oldSelf": SCHEMA})


@pytest.mark.parametrize(
    "rule",
    ["self.a + 1 == 2", "self.l.all(x, x != 'z')", "self.m.all(k, k.size() < 3)",
     "duration('1s') + duration(self.d) < duration('1h')", "size(self.l) + size(self.m) < 7",
     "self.l.isSorted() && self.s.startsWith('a')", "self.free.size() < 3"],
)  # fmt: skip
def test_what_the_schema_bounds_is_within_the_limit(rule):
    assert not Costs().observed(program(rule), SCHEMA, 1, "p", "rule")


def test_a_text_made_of_a_number_has_no_bound_and_may_not_be_joined_with_others():
    assert cost("string(self.a) + self.s == '1a'") >= UNBOUNDED // 10
    costs = Costs()
    found = costs.observed(program("string(self.a) + 'x' == '1a'"), SCHEMA, 1, "p", "rule")
    assert found[0].detail.startswith(
        "estimated rule cost exceeds budget by factor of more than 100x"
    )
    assert [error.field for error in costs.total_problems("whole")] == ["p", "whole"]


def test_macros_cost_as_often_as_they_may_run():
    once = cost("self.l.all(x, x != 'z')")
    assert cost("self.open.all(x, x != 'z')") > 10_000 * once
    nested = "self.open.all(x, self.open.all(y, x == y))"
    assert Costs().observed(program(nested), SCHEMA, 1, "p", "rule")


def test_a_rule_costs_as_often_as_its_part_stands_in_an_object():
    rule = program("self.l.exists(x, self.s.contains(x))")
    one, many, open_ended = Costs(), Costs(), Costs()
    one.observed(rule, SCHEMA, 1, "p", "rule")
    many.observed(rule, SCHEMA, 40, "p", "rule")
    open_ended.observed(rule, SCHEMA, None, "p", "rule")
    assert many.total == 40 * one.total
    assert open_ended.total > 100_000 * one.total
