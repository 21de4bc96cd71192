"""The pytest fixture `operator_under_test`: an operator of any kind, unmodified, under perturbation plans.

    @pytest.mark.operator("operator.yaml", seconds=60)
    def test_the_operator_survives(operator_under_test):
        operator_under_test.check()

The marker names the description, relative to the test's file; what follows are fields of `Limits`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from controlplane.operators.campaign import Result
    from controlplane.operators.observation import Record

__all__ = ["OperatorUnderTest", "operator_under_test"]


class OperatorUnderTest:
    """An operator and its workload, as a description has them."""

    def __init__(self, description: Path, folder: Path | None = None, **limits: Any) -> None:
        """Read the description. `folder`: where a campaign leaves findings; `limits` are fields of `Limits`.

        Raises UsageError.
        """
        from controlplane.operators import read

        self.operator = read(description)
        self._folder = folder
        self._limits = limits

    def run(self, *plan: str, settle_s: float = 0.5) -> Record:
        """Perform the workload once, under the lines of a plan; return what the run left."""
        from controlplane.operators import Conditions, performed

        return performed(self.operator, Conditions(plan, settle_s=settle_s))

    def explore(self, **limits: Any) -> Result:
        """Try plans, and return what was found."""
        from controlplane.operators import Limits, explore

        return explore(self.operator, Limits(**{**self._limits, **limits}), folder=self._folder)

    def check(self, **limits: Any) -> Result:
        """Try plans; fail with the report if something is wrong."""
        from controlplane.operators import as_text

        result = self.explore(**limits)
        if not result.ok:
            pytest.fail(as_text(result), pytrace=False)
        return result


@pytest.fixture
def operator_under_test(request: pytest.FixtureRequest) -> OperatorUnderTest:
    """Return the operator that the marker `operator` names."""
    mark = request.node.get_closest_marker("operator")
    if mark is None or len(mark.args) != 1:
        raise pytest.UsageError("expected a marker: @pytest.mark.operator(FILE, seconds=60)")
    return OperatorUnderTest(request.path.parent / mark.args[0], **mark.kwargs)
