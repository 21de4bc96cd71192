import re

import pytest

from controlplane.apiserver.kinds.custom.cel import CelError, PlanError
from controlplane.apiserver.kinds.custom.cel.types import BOOL
from controlplane.apiserver.kinds.custom.rules import location
from controlplane.apiserver.schema import work
from controlplane.apiserver.schema.api_error import ApiError
from tests.apiserver.kinds.custom.cel.measured import MEASURED, program


def refusal(rule):
    try:
        found = program(rule)
    except PlanError as error:
        return f"program instantiation failed: {error}"
    except CelError as error:
        return f"compilation failed: {location(rule, error)}"
    return "" if found.gives is BOOL else "cel expression must evaluate to a bool"


@pytest.mark.parametrize(("rule", "said"), MEASURED["refused"])
def test_a_mistake_is_told_as_upstream_tells_it(rule, said):
    assert refusal(rule) == said


@pytest.mark.parametrize("rule", [rule for rule, *_ in MEASURED["rules"]])
def test_what_upstream_accepts_has_no_mistake(rule):
    assert refusal(rule) == ""


def test_a_field_named_as_a_reserved_word_is_reached_by_it():
    assert refusal("self.inner.namespace == 'd'") == ""
    assert re.search("reserved identifier: namespace", refusal("namespace == 'd'"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", ["||".join(["[]==[]"] * 12_000), "self.?hosts" + ".optMap(x, x)" * 40 + ".hasValue()"]
)
def test_a_rule_that_takes_too_long_to_check_is_interrupted(rule):
    work.on(work.Budget())
    try:
        with pytest.raises(ApiError) as caught:
            program(rule)
    finally:
        work.on(work.FREE)
    assert caught.value.code == 504
