"""The fields of a catalogue entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import Factory, field, frozen

from controlplane.errors import UsageError
from controlplane.gates import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.engine.scenario import Scenario


def _of_gate(name: str) -> Any:
    """The default of a field: what the fix gate of the race says."""

    def value(race: Race) -> str:
        gate = CATALOGUE.get(race.number)
        if gate is None:
            raise UsageError(f"race {race.number} has no fix gate: it needs a {name} of its own")
        found: str = getattr(gate, name)
        return found

    return field(default=Factory(value, takes_self=True))


@frozen(kw_only=True)
class Race:
    """One published race.

    `module` is the module that it stands in, which is named after `number`: the pull request that fixed it, which
    also names its fix gate, or the issue where upstream has no one fix. `title`, `issue` and `component` are those
    of the gate where there is one. `story` tells what happened upstream, the interleaving in words;
    `invariant` what breaks. `seen` tells how often it was seen on real Kubernetes 1.36.2 components, in runs that
    reached the interleaving; "" if that was not tried. `broken` and `fixed` are the options under which search
    finds it and under which it finds nothing: the gate off and on, unless given. It is found within `schedules`
    random ones with seeds from 0 on.
    """

    module: str = field(repr=False)
    title: str = _of_gate("title")
    issue: str = _of_gate("issue")
    component: str = _of_gate("component")
    releases: str
    story: str
    invariant: str
    seen: str = ""
    scenario: Scenario = field(repr=False)
    schedules: int = 100
    broken: Mapping[str, Any] | None = None
    fixed: Mapping[str, Any] | None = None

    @property
    def number(self) -> str:
        """Its number, by which the catalogue and the command line know it."""
        return self.module.rpartition(".r")[2]

    @property
    def unfixed_options(self) -> dict[str, Any]:
        """The options under which search finds it."""
        return {"without_fix": (self.number,)} if self.broken is None else dict(self.broken)

    @property
    def repaired_options(self) -> dict[str, Any]:
        """The options under which it does not happen."""
        return {"fix": (self.number,)} if self.fixed is None else dict(self.fixed)

    def unfixed(self, **asked: Any) -> Plan:
        """The plan in which search finds it."""
        return self._plan({**self.unfixed_options, **asked})

    def repaired(self, **asked: Any) -> Plan:
        """The plan in which it does not happen."""
        return self._plan({**self.repaired_options, **asked})

    def _plan(self, asked: Mapping[str, Any]) -> Plan:
        from controlplane.scenarios.engine.plan import plan_of

        return plan_of(self.scenario, **asked)

    def to_json(self) -> dict[str, Any]:
        """For programs: everything but the code."""
        scenario = self.scenario
        return {
            "number": self.number,
            "title": self.title,
            "issue": self.issue,
            "releases": self.releases,
            "component": self.component,
            "story": self.story,
            "invariant": self.invariant,
            "schedules": self.schedules,
            "seen": self.seen,
            "options": [each.to_json(scenario.default(each)) for each in scenario.options],
        }
