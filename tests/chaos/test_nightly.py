"""The nightly command names campaigns that exist, and its table tells which did not hold."""

from __future__ import annotations

import importlib.util

import pytest

from tests.chaos.nightly import CAMPAIGNS, Outcome, table


@pytest.mark.parametrize("campaign", CAMPAIGNS, ids=lambda each: each.name)
def test_every_campaign_is_a_module_and_is_scaled(campaign):
    command = campaign.command(0.01, 7)
    assert importlib.util.find_spec(command[2]) is not None
    assert not {"{n}", "{seed}"} & set(command)
    if "--runs" in command:
        assert command[command.index("--runs") + 1] == "100"
        assert command[command.index("--seed") + 1] == "7"


def test_the_table_says_what_held():
    told = table(
        [Outcome(CAMPAIGNS[0], 5, 0, "5 kills", 1.0), Outcome(CAMPAIGNS[1], 1, 1, "1 slow", 2.0)]
    )
    first, second = told.splitlines()[1:]
    assert "held" in first
    assert "exit 1" in second
    assert second.endswith("1 slow")
