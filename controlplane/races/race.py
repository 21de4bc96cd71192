"""What a catalogue entry is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import EventLog, Strategy
    from controlplane.cluster import Cluster
    from controlplane.gates import FixGates


@frozen
class Race:
    """One published race.

    `number` is the pull request that fixed it, which also names its gate; `story` tells what
    happened upstream; `invariant` what breaks. `build` makes the cluster with its workload and
    invariants; `options` are its own switches with their defaults.
    """

    number: str
    title: str
    issue: str
    releases: str
    component: str
    story: str
    invariant: str
    options: dict[str, bool]
    build: Callable[[FixGates, Strategy, EventLog, dict[str, bool]], Cluster]

    def to_json(self) -> dict[str, Any]:
        """For programs: everything but the code."""
        return {
            "number": self.number,
            "title": self.title,
            "issue": self.issue,
            "releases": self.releases,
            "component": self.component,
            "story": self.story,
            "invariant": self.invariant,
            "options": self.options,
        }
