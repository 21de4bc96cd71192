"""The first finding of each race, for all tests that begin with one."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from actors import Finding
from controlplane.races import catalogue
from controlplane.scenarios.exploring import Campaign

FOUND_AT = json.loads((Path(__file__).parent / "found_at.json").read_text())
"""At which seed a search from seed 0 on finds a race, where that is not the first.

Random walks know nothing of each other: a race that shows at a seed below `race.schedules` is one that the
search finds, and the walks before need not be taken again to see that.
"""


@cache
def finding(number: str) -> tuple[Campaign, Finding]:
    """The search for a race without its fix, and what it finds first."""
    race = catalogue.find(number)
    campaign = Campaign(race.unfixed())
    seed = FOUND_AT.get(number, 0)
    assert seed < race.schedules
    found = campaign.explore(1, seed=seed)
    if not found.findings:  # it shows elsewhere now
        found = campaign.explore(race.schedules)
    assert found.findings, f"nothing broke in {found.schedules} schedules"
    return campaign, found.findings[0]
