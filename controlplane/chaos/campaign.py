"""Exploring a race: many schedules of its cluster, what they showed, and the recording of what broke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from actors import EventLog, Exploration, RandomWalk, Replay, explore, record
from controlplane import __version__
from controlplane.errors import UsageError
from controlplane.gates import FixGates, from_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Finding, Recording, RunResult, Strategy, World
    from controlplane.cluster import Cluster

    Build = Callable[[FixGates, Strategy, EventLog, dict[str, bool]], Cluster]


@frozen
class Campaign:
    """One race under one set of gates."""

    scenario: str
    build: Build
    gates: FixGates
    options: dict[str, bool]

    def world(self, strategy: Strategy, *, keep_log: bool) -> World:
        """A fresh world for one schedule."""
        return self.build(self.gates, strategy, EventLog(keep=keep_log), self.options).world

    def explore(
        self,
        schedules: int,
        *,
        seed: int = 0,
        stop_at_first: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> Exploration:
        """Random schedules, on the bare driver, without keeping logs."""
        return explore(
            lambda strategy: self.world(strategy, keep_log=False),
            schedules,
            seed=seed,
            stop_at_first=stop_at_first,
            progress=progress,
        )

    def run(self, strategy: Strategy, driver: Any = "bare") -> tuple[World, RunResult]:
        """One schedule with its whole log."""
        world = self.world(strategy, keep_log=True)
        return world, world.run(driver)

    def recording(self, finding: Finding) -> Recording:
        """The finding as something that can be replayed."""
        header = {
            "scenario": self.scenario,
            "options": self.options,
            "gates": self.gates.to_header(),
            "seed": finding.seed,
            "schedule": finding.schedule,
        }
        return record(
            finding.result, package=__version__, header=header, strategy=RandomWalk(finding.seed)
        )


def of_recording(recording: Recording, build_of: Callable[[str], Build]) -> Campaign:
    """The campaign that a recording belongs to. Raises UsageError when it is none of a race."""
    header = recording.header
    scenario = str(header.get("scenario", ""))
    if not scenario.startswith("race "):
        raise UsageError(f"the recording is of scenario {scenario!r}, not of a race")
    gates = from_header(header["gates"])
    return Campaign(
        scenario, build_of(scenario.removeprefix("race ")), gates, dict(header["options"])
    )


def replay(
    campaign: Campaign, recording: Recording, driver: Any = "bare"
) -> tuple[World, RunResult]:
    """Run a recording again, strictly."""
    return campaign.run(Replay(recording.choices), driver)
