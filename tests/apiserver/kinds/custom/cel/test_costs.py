import pytest

from controlplane.apiserver.kinds.custom.cel.amounts import UNBOUNDED
from controlplane.apiserver.kinds.custom.cel.costs import Costs, cost_of_all, repeated
from controlplane.apiserver.kinds.custom.cel.declared import declared


@pytest.mark.parametrize(
    ("cost", "factor"),
    [(10_000_001, "1.000000x"), (14_000_000, "1.400000x"), (15_000_000, "1.5x"),
     (63_000_000, "6.3x"), (1_000_000_000, "100.0x"), (1_000_000_001, "more than 100x")],
)  # fmt: skip
def test_an_expression_above_the_limit_is_refused_by_how_much_it_is(cost, factor):
    (error,) = Costs().observed(cost, "p", "rule")
    assert error.detail.startswith(f"estimated rule cost exceeds budget by factor of {factor} (try")


def test_an_expression_at_the_limit_is_not_refused():
    assert Costs().observed(10_000_000, "p", "rule") == []


def test_the_dearest_four_expressions_are_told_with_the_total():
    costs = Costs()
    for index, cost in enumerate(
        (60_000_000, 999_999, 30_000_000, 9_000_000, 2_000_000, 1_000_000)
    ):
        costs.observed(cost, f"p{index}", "rule")
    fields = [error.field for error in costs.total_problems("whole")]
    assert fields == ["p0", "p2", "p3", "p4", "whole"]
    assert "by factor of 1.030000x" in costs.total_problems("whole")[-1].detail


def test_a_total_at_the_limit_is_not_told():
    costs = Costs()
    costs.observed(100_000_000, "p", "rule")
    assert costs.total_problems("whole") == []


@pytest.mark.parametrize(
    ("schema", "many"),
    [({"type": "array", "maxItems": 3}, 6), ({"type": "array"}, None), ({"type": "object"}, 2),
     ({"type": "object", "additionalProperties": {}, "maxProperties": 4}, 8),
     ({"type": "object", "additionalProperties": {}}, None),
     ({"type": "array", "maxItems": UNBOUNDED}, UNBOUNDED)],
)  # fmt: skip
def test_parts_stand_as_often_as_lists_and_maps_around_allow(schema, many):
    assert repeated(2, schema) == many


def test_without_a_bound_a_value_stands_as_often_as_a_request_has_room():
    text = declared({"type": "string"})
    assert cost_of_all(7, None, text) == 7 * (3 * 1024 * 1024 // 3)
    assert cost_of_all(7, 5, text) == 35
