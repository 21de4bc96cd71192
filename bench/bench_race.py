"""Schedules per second of the first race, on one core."""

from __future__ import annotations

from collections.abc import Iterator

from bench.harness import Row, rate
from controlplane.races import catalogue
from controlplane.scenarios.search.exploring import Campaign

SCHEDULES = 300


def rows(repeat: int) -> Iterator[Row]:
    race = catalogue.find("138324")
    for title, plan in (("fixed", race.repaired()), ("without the fix", race.unfixed())):
        campaign = Campaign(plan)
        yield rate(
            f"race 138324, {title}",
            "schedules/s",
            repeat,
            lambda campaign=campaign: campaign.explore(SCHEDULES, stop_at_first=False).schedules,
        )
