"""A user's controller in the world: the example's stale read is found, and absent when it is careful."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from controlplane.cli.main import cli

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "operator.py")


def explored(*more: str):
    return CliRunner().invoke(cli, ["explore", EXAMPLE, "--schedules", "60", *more])


@pytest.mark.slow
def test_exploration_finds_the_stale_read_of_the_example():
    done = explored()
    assert "one config map each: the widget has 2" in done.output


@pytest.mark.slow
def test_a_careful_operator_makes_one_of_each():
    done = explored("--careful")
    assert "nothing broke" in done.output
