"""Errors of fields count when they are made."""

import pytest

from controlplane.apiserver.schema import work
from controlplane.apiserver.schema.field_errors import invalid, required
from controlplane.apiserver.schema.status import ApiError


@pytest.fixture(autouse=True)
def _free():
    yield
    work.on(work.FREE)


def test_a_request_with_too_many_mistakes_ends_before_all_are_made():
    work.on(work.Budget(1000))
    made = []
    with pytest.raises(ApiError, match="Timeout"):
        while len(made) < 1001:
            made.append(required("spec.x"))
    assert 100 < len(made) < 1000


def test_an_error_with_a_long_text_counts_more():
    def left(detail):
        budget = work.Budget(10_000)
        work.on(budget)
        assert invalid("spec.x", 1, detail).body
        return budget.left

    assert left("x" * 10_000) < left("x") - 300
