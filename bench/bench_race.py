"""Schedules per second of the first race, on one core."""

from __future__ import annotations

from collections.abc import Iterator

from bench.harness import Row, rate
from controlplane.chaos.campaign import Campaign
from controlplane.gates import fix_gates
from controlplane.races import catalogue

SCHEDULES = 300


def rows(repeat: int) -> Iterator[Row]:
    race = catalogue.find("138324")
    for title, gates in (
        ("fixed", fix_gates()),
        ("without the fix", fix_gates(without=("138324",))),
    ):
        campaign = Campaign("race 138324", race.build, gates, race.options)
        yield rate(
            f"race 138324, {title}",
            "schedules/s",
            repeat,
            lambda campaign=campaign: campaign.explore(SCHEDULES, stop_at_first=False).schedules,
        )
