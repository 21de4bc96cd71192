"""What a request may compute is its own, and what it has written is answered."""

import pytest

from controlplane.apiserver.schema import work
from controlplane.apiserver.schema.status import ApiError


@pytest.fixture(autouse=True)
def _free():
    yield
    work.on(work.FREE)


def test_a_budget_ends():
    work.on(work.Budget(10))
    work.spend(10)
    with pytest.raises(ApiError) as error:
        work.spend(1)
    assert (error.value.code, error.value.reason) == (504, "Timeout")


def test_work_is_done_on_the_budget_that_was_named_last():
    first, second = work.Budget(10), work.Budget(10)
    for _ in range(3):
        work.on(first)
        work.spend(3)
        work.on(second)
        work.spend(2)
    assert (first.left, second.left) == (1, 4)


def test_what_is_no_request_has_no_limit():
    for _ in range(3):
        work.spend(1 << 60)
        work.FREE.lift()
