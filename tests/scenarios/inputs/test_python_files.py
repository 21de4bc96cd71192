"""Python files are no manifests."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.scenarios.inputs.reading import load


def test_a_scenario_given_as_a_manifest_is_pointed_to_its_command(tmp_path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("SCENARIO = None\n")
    with pytest.raises(
        UsageError, match=r"found Python: for a scenario, controlplane explore \S+mine.py"
    ):
        load([path])
