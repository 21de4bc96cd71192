"""The fixture for operators of any kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.testing.operators import OperatorUnderTest

EXAMPLES = Path(__file__).parents[2] / "examples" / "operators"


@pytest.mark.operator("../../examples/operators/shelves.yaml", seconds=5)
def test_the_marker_names_the_description(operator_under_test):
    assert operator_under_test.operator.name == "shelves"


@pytest.mark.slow
def test_a_check_fails_with_the_report():
    tried = OperatorUnderTest(EXAMPLES / "shelves-broken.yaml", pairs=False, repeats=1)
    with pytest.raises(pytest.fail.Exception, match="crash after create secrets default/a-key"):
        tried.check(plans=8, seconds=60)
