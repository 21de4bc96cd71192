import pytest

from controlplane.apiserver.kinds.custom.cel import compiled
from controlplane.apiserver.kinds.custom.cel.amounts import UNBOUNDED
from controlplane.apiserver.kinds.custom.cel.declared import declared
from controlplane.apiserver.kinds.custom.cel.estimates import estimate
from tests.apiserver.kinds.custom.cel.measured import DECLARED, MEASURED, program

COSTS = [(rule, cost) for rule, cost, _, _ in MEASURED["rules"]]


@pytest.mark.parametrize(("rule", "cost"), COSTS)
def test_an_expression_may_cost_as_much_as_upstream_says(rule, cost):
    assert estimate(program(rule).checked, DECLARED).high == cost


def cost(schema, rule):
    kind = declared(schema)
    return estimate(compiled(rule, {"self": kind.type, "oldSelf": kind.type}).checked, kind).high


def test_a_text_made_of_a_number_has_no_bound():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert cost(schema, "string(self.a) + 'x' == '1a'") > UNBOUNDED // 10


def test_the_bound_of_a_list_bounds_what_goes_through_it():
    text = {"type": "string", "maxLength": 10}
    bounded = {"type": "array", "items": text, "maxItems": 5}
    rule = "self.all(x, x != 'z')"
    assert cost(bounded, rule) == 2 + 5 * (2 + 1 + 2) + 0
    assert cost({"type": "array", "items": text}, rule) > 10_000 * cost(bounded, rule)


def listed(most):
    return {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": most}}


def within(names, schema):
    for name in names:
        schema = {"type": "object", "properties": {name: schema}}
    return schema


LITERAL = f"z == '{'a' * 60}'"


@pytest.mark.parametrize(
    ("condition", "most"),
    [(LITERAL, 47), (f"{LITERAL} && y.r.size() > 1", 71), (f"y.r.size() > 1 && {LITERAL}", 101)],
)
def test_a_path_made_longer_writes_over_another_that_was_made_of_it(condition, most):
    """In the last rule `z` is then taken for an element of `r`, whose texts are longer."""
    inner = {"type": "object", "properties": {"p": listed(1), "r": listed(400)}}
    schema = within(("l", "b", "a"), {"type": "array", "maxItems": 2, "items": inner})
    assert cost(schema, f"self.a.b.l.all(y, y.p.all(z, {condition}))") == most
