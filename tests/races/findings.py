"""The first finding of each race, for all tests that begin with one."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from actors import Exploration, Finding
from controlplane.races import catalogue
from controlplane.scenarios.search.exploring import Campaign

FOUND_AT = json.loads((Path(__file__).parent / "found_at.json").read_text())
"""At which seed a search from seed 0 on finds a race, where that is not the first.

Random walks know nothing of each other: a race that shows at a seed below `race.schedules` is one that the
search finds, and the walks before need not be taken again to see that.
"""

QUICK = {"37725", "49992", "83911", "125578", "141568", "138324", "ep311", "kq9598", "ca5235"}
"""One race of each component, and the one that the documentation tells: quick tests find and replay them."""
EACH_RACE = [
    number if number in QUICK else pytest.param(number, marks=pytest.mark.slow)
    for number in catalogue.numbers()
]


@cache
def finding(number: str) -> tuple[Campaign, Finding]:
    """The search for a race without its fix, and what it finds first."""
    race = catalogue.find(number)
    campaign = Campaign(race.unfixed())
    found = searched(campaign, race.schedules, FOUND_AT.get(number, 0))
    assert found.findings, f"nothing broke in {found.schedules} schedules"
    return campaign, found.findings[0]


def searched(campaign: Campaign, schedules: int, known: int) -> Exploration:
    """What so many random walks find from seed 0 on, when the one with the seed `known` is thought to be the first."""
    assert known < schedules
    found = campaign.explore(1, seed=known)
    return found if found.findings else campaign.explore(schedules)  # it shows elsewhere now
