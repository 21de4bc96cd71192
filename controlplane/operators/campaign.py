"""A campaign: which plan is tried next, which alarms are new and which confirmed; its state can be kept and resumed."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field, frozen

from controlplane.operators.generation import Candidate, candidates, pairs
from controlplane.operators.masks import reference_of
from controlplane.operators.oracles import Alarm, alarms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from controlplane.operators.description import Operator
    from controlplane.operators.drifts import Verdict
    from controlplane.operators.observation import Record

__all__ = ["REPEATS", "Campaign", "Finding", "Pace", "Result", "pace_of"]

REPEATS: Final = 3
"""The number of repeats of a plan with a new alarm, with longer windows."""
GIVEN: Final = "given"
"""The form of plans that the user gives."""
LEAST_SETTLE_S: Final = 0.25
MOST_SETTLE_S: Final = 3.0
LEAST_QUIET_S, MOST_QUIET_S = 0.03, 0.25


@frozen
class Pace:
    """The windows of rest before time goes on and before a run is over (seconds of wall time)."""

    quiet_s: float = MOST_QUIET_S
    settle_s: float = MOST_SETTLE_S
    most_messages: int = 0
    """The number of messages at which a run counts as restless; 0: no limit."""


def pace_of(calm: Sequence[Record], settle_s: float = 0.0) -> Pace:
    """Return the pace that fits an operator, as runs without faults have shown it to react."""
    pause = max(each.longest_pause_s for each in calm)
    gap = max(each.longest_gap_s for each in calm)
    quiet = min(MOST_QUIET_S, max(LEAST_QUIET_S, 1.5 * pause))
    settle = settle_s or min(MOST_SETTLE_S, max(LEAST_SETTLE_S, 1.5 * gap, 2 * quiet))
    messages = 1000 + 10 * max(len(each.seen) for each in calm)
    return Pace(quiet, settle, messages)


@define
class Finding:
    """An alarm that repeats: the plan that shows it first, of how many repeats, and further plans that show it."""

    candidate: Candidate
    alarms: tuple[Alarm, ...]
    repeats: int
    """The number of repeats, out of `of`, that showed one of the alarms."""
    of: int
    also: list[str] = field(factory=list)

    @property
    def rate(self) -> str:
        """The share of repeats that showed it."""
        return f"{self.repeats} of {self.of}"


class Campaign:
    """The plans of one operator, in order, and what they showed."""

    def __init__(
        self,
        calm: Sequence[Record],
        ignored: Iterable[str] = (),
        given: Iterable[tuple[str, ...]] = (),
        tried: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin.

        Args:
            calm: runs without faults.
            ignored: what is not compared, by the user's description.
            given: plans of the user, tried first.
            tried: what an earlier campaign left (`state`), to be gone on from.
        """
        self.calm = tuple(calm)
        self.reference = reference_of(self.calm, ignored)
        given_plans = [Candidate(GIVEN, lines, "the given plan") for lines in given]
        self.singles = candidates(self.calm)
        self._next: Iterator[Candidate] = chain(given_plans, self.singles, pairs(self.singles))
        self.tried: dict[str, str] = dict((tried or {}).get("tried") or {})
        """The result of each plan that was tried: "", "not reached", or its alarms."""
        self.findings: list[Finding] = []
        self.dropped: list[tuple[Candidate, tuple[Alarm, ...]]] = []
        """Alarms that did not repeat."""
        self.forms: Counter[str] = Counter()
        """The number of tried plans by form."""
        self.not_reached = 0
        self.runs = 0

    def next(self) -> Candidate | None:
        """Return the plan to be tried next; None when there is none left."""
        for candidate in self._next:
            if str(candidate) not in self.tried:
                self.tried[str(candidate)] = "under way"
                return candidate
        return None

    def take(self, candidate: Candidate, record: Record) -> list[Alarm]:
        """Take a run's result in; return the alarms that are to be confirmed."""
        self.runs += 1
        self.forms[candidate.form] += 1
        if not record.reached:
            self.not_reached += 1
        found = alarms_of(record, self.reference, self.calm)
        self.tried[str(candidate)] = "; ".join(str(each) for each in found) or (
            "" if record.reached else "not reached"
        )
        known = {alarm for each in self.findings for alarm in each.alarms}
        new = [each for each in found if each not in known]
        for finding in self.findings:
            if any(alarm in finding.alarms for alarm in found):
                finding.also.append(str(candidate))
        return new

    def confirm(
        self, candidate: Candidate, alarms: Sequence[Alarm], records: Sequence[Record]
    ) -> Finding | None:
        """Take repeats of a plan in; return the finding if most of them show the same."""
        self.runs += len(records)
        shown: Counter[Alarm] = Counter()
        repeats = 0
        for record in records:
            found = set(alarms_of(record, self.reference, self.calm)) & set(alarms)
            shown.update(sorted(found, key=str))
            repeats += bool(found)
        lasting = tuple(each for each in alarms if 2 * shown[each] > len(records))
        if not lasting:
            self.dropped.append((candidate, tuple(alarms)))
            return None
        finding = Finding(candidate, lasting, repeats, len(records))
        self.findings.append(finding)
        return finding

    def state(self) -> dict[str, Any]:
        """Return what a later campaign goes on from."""
        done = {plan: result for plan, result in self.tried.items() if result != "under way"}
        return {"version": 1, "tried": done}


@define
class Result:
    """The outcome of a campaign. `calm_alarms` are wrong without any fault."""

    operator: Operator
    campaign: Campaign
    pace: Pace
    calm: tuple[Record, ...] = field(repr=False)
    calm_alarms: tuple[Alarm, ...] = ()
    wall_s: float = 0.0
    exhausted: bool = False
    """All plans were tried."""
    verdicts: list[Verdict] = field(factory=list)
    """About drifts."""

    @property
    def ok(self) -> bool:
        """Return whether nothing is wrong."""
        failed = any(each.verdict == "failed" for each in self.verdicts)
        return not self.calm_alarms and not self.campaign.findings and not failed
