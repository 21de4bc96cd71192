"""Systematic search by plans: what a calm run shows, perturbed in one place, then in two.

A calm run is the default schedule. Of what passed between its processes these perturbations are made:

- each event held until a later write to the object it tells of, or to one that refers to it: a stale cache;
- each write held until a later write of another process to its object: a decision overtaken;
- each answer held until such a write, or lost; each write refused with a conflict, or lost;
- the process killed before each of its writes, after it was carried out, and after it was answered;
- where several servers' caches may lag: the cache of the object's resource frozen until the next write to it.

Perturbations of one form (same process, verb and resources) stand for each other: the first of every form is tried
before the second of any. Forms that are rare in the run come first, for a rare step is one that tests seldom reach.
After all single ones pairs are tried that concern the same object. Every plan runs with the default schedule, so a
finding is a plan from the start: it needs no shrinking to be read, and holds for changed code.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from actors import EventLog
from actors.strategies.calm import DRAWN, Calm
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.plans.language import (
    AFTER,
    ANSWER,
    BEFORE,
    EVENT,
    FAIL,
    FREEZE,
    HOLD,
    KILL,
    LOSE,
    REQUEST,
    Pattern,
    Perturbation,
    PerturbationPlan,
)
from controlplane.scenarios.plans.passing import CSI, ETCD, WRITE, WRITES, Passing, is_background

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controlplane.scenarios.engine.plan import Plan

STRATEGY: Final = "plans"
"""The strategy's name on the command line."""
CALM_RUNS: Final = 3
"""The number of calm runs whose messages are perturbed, each with other draws of the users."""
LATER: Final = 6
"""The number of later writes that a hold is tried to wait for, at most."""
HOLD_S: Final = 20.0
"""How long a message is held at most, in virtual seconds: invariants that bound times allow for less than a minute."""
STORE_S: Final = 10.0
"""How long a server's call to its store is held, in virtual seconds: below what clients and servers wait."""
REFUSALS: Final = (409, 500)
"""Codes with which a write fails: callers read again after the one, and give up for now after the other."""
RESTARTS_S: Final = 2.0
"""How long a killed process is down, in virtual seconds."""
PER_SEED: Final = 1_000_000
"""The number of schedules that belong to one seed."""
FOUND: Final = "plans"


@frozen
class Candidate:
    """A perturbation that is worth trying: the form it has, and the object that it concerns."""

    rule: Perturbation
    form: tuple[str, ...]
    about: str


@frozen
class Enumeration:
    """The plans of one scenario: the calm run first, then single perturbations, then pairs without end.

    `calm` tells which calm run each single one comes from, by the number that seeds its users' draws.
    """

    singles: tuple[tuple[int, Candidate], ...]
    by_object: dict[tuple[int, str], tuple[int, ...]] = field(factory=dict)

    def at(self, number: int) -> tuple[int, PerturbationPlan]:
        """Return what seeds the users' draws in a schedule, and its plan."""
        singles = self.singles
        if not number or not singles:
            return number, PerturbationPlan(())
        if number <= len(singles):
            draws, candidate = singles[number - 1]
            return draws, PerturbationPlan((candidate.rule,))
        draws, one = singles[_drawn(f"{number}", len(singles))]
        others = self.by_object[draws, one.about]
        other = singles[others[_drawn(f"{number} other", len(others))]][1]
        rules = (one.rule,) if other.rule == one.rule else (one.rule, other.rule)
        return draws, PerturbationPlan(rules)


def _drawn(text: str, among: int) -> int:
    """Return a number below `among` that looks random and is the same for the same text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") % among


class Planned(Calm):
    """The strategy of one schedule of the search: the default schedule, under a plan."""

    def __init__(self, number: int, draws: int, plan: PerturbationPlan) -> None:
        super().__init__(number, draws=draws)
        self.plan = plan

    @property
    def lines(self) -> tuple[str, ...]:
        """The plan, as the option takes it."""
        return (str(self.plan),) if self.plan.lines else ()


def enumeration_of(plan: Plan) -> Enumeration:
    """Return the plans of a scenario, made from its calm runs when first asked for."""
    found = plan.found.get(FOUND)
    if found is None:
        found = plan.found[FOUND] = _enumerated(plan.settled())
    made: Enumeration = found
    return made


def planned(plan: Plan, number: int) -> Planned:
    """Return the strategy of the schedule with a number."""
    index = number % PER_SEED
    draws, perturbations = enumeration_of(plan).at(index)
    return Planned(number, draws + (number // PER_SEED) * CALM_RUNS, perturbations)


# ---------------------------------------------------------------------- calm runs


REGISTRAR: Final = "registrar"
"""The actor that makes the nodes and objects that are there from the beginning."""


@frozen
class Trace:
    """The messages between the processes of a calm run, in order and without the background; its users.

    `draws` tells whether the users drew anything: other calm runs differ from this one only if they did.
    """

    passed: tuple[Passing, ...]
    users: tuple[str, ...] = ()
    draws: bool = False


def messages_of(run: Execution) -> list[Passing]:
    """Execute a run, and return the messages between its processes, the background left out."""
    from controlplane.scenarios.plans.control import Control

    trace: list[Passing] = []
    Control(run.cluster, PerturbationPlan(()), trace)
    run.execute("bare")
    return [each for each in trace if not is_background(each)]


def trace_of(plan: Plan, draws: int) -> Trace:
    """Return the trace of a calm run."""
    run = Execution(plan.with_lines(()), Calm(draws), log=EventLog(keep=False), faultless=True)
    kept = [
        each
        for each in messages_of(run)
        if each.actor != REGISTRAR and (each.verb, each.resource) != ("create", "nodes")
    ]
    drew = any(kind in DRAWN for kind, _ in run.world.choices.labels)
    return Trace(tuple(kept), run.world.experimenters(), drew)


def _enumerated(plan: Plan) -> Enumeration:
    servers = plan.configure().apiservers
    ordered: list[tuple[int, Candidate]] = []
    seen: dict[Perturbation, None] = {}
    for draws in range(CALM_RUNS):
        fresh = []
        trace = trace_of(plan, draws)
        for each in candidates(trace, servers):
            if each.rule not in seen:
                seen[each.rule] = None
                fresh.append(each)
        ordered += [(draws, each) for each in by_rarity(fresh)]
        if not draws and not trace.draws:
            break
    by_object: dict[tuple[int, str], list[int]] = {}
    for at, (draws, candidate) in enumerate(ordered):
        by_object.setdefault((draws, candidate.about), []).append(at)
    return Enumeration(tuple(ordered), {key: tuple(found) for key, found in by_object.items()})


def by_rarity(found: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates in the order in which they are tried: rare forms first, every form once before any twice."""
    forms: dict[tuple[str, ...], list[Candidate]] = {}
    for each in found:
        forms.setdefault(each.form, []).append(each)
    rare = sorted(forms.values(), key=len)
    rounds = max(map(len, rare), default=0)
    return [members[at] for at in range(rounds) for members in rare if at < len(members)]


# ---------------------------------------------------------------------- candidates


def candidates(of: Trace, servers: int = 1) -> Iterator[Candidate]:
    """Make the perturbations of a calm run's trace.

    A request of a user may come later, after something that a process of the cluster writes, but is not
    failed or lost: the script of a scenario need not bear that.
    """
    trace, users = of.passed, of.users
    counts = _Counts()
    writes = [at for at, each in enumerate(trace) if each.kind == ANSWER and each.verb in WRITES]
    referring = _Referring(trace)
    for at, each in enumerate(trace):
        what = counts.pattern(each)
        if each.actor in users:
            if each.kind == REQUEST and each.verb in WRITES:
                for until in _later(trace, writes, at, each, referring):
                    if until.actor not in users:
                        yield _candidate(Perturbation(HOLD, what, until, HOLD_S), each)
            continue
        if each.kind == EVENT:
            for until in _later(trace, writes, at, each, referring):
                yield _candidate(Perturbation(HOLD, what, until, HOLD_S), each)
            continue
        of_store = each.resource.startswith(ETCD)
        if each.kind == REQUEST and each.verb == "get" and not of_store:
            yield _candidate(Perturbation(FAIL, what, code=500), each)
        stores = each.verb == WRITE and of_store
        if each.verb not in WRITES and each.resource != CSI and not stores:
            continue
        others = [
            until
            for until in _later(trace, writes, at, each, referring, exact=True)
            if until.actor != each.actor
        ]
        limit = STORE_S if stores else HOLD_S
        for until in others:
            yield _candidate(Perturbation(HOLD, what, until, limit), each)
        if stores:
            continue
        yield _candidate(Perturbation(LOSE, what), each)
        if each.kind == REQUEST and each.resource != CSI:
            for code in REFUSALS:
                yield _candidate(Perturbation(FAIL, what, code=code), each)
        for when in (BEFORE, AFTER) if each.kind == REQUEST else (AFTER,):
            rule = Perturbation(KILL, what, seconds=RESTARTS_S, actor=each.actor, when=when)
            yield _candidate(rule, each)
        if servers > 1 and each.kind == ANSWER and others:
            resource = each.resource.partition("/")[0]
            for number in range(1, servers):
                server = f"apiserver-{number + 1}"
                yield _candidate(
                    Perturbation(FREEZE, what, others[-1], HOLD_S, actor=server, resource=resource),
                    each,
                )


def _candidate(rule: Perturbation, about: Passing) -> Candidate:
    until = rule.until
    form = (
        rule.action, rule.when, str(rule.code), rule.what.kind, rule.what.actor, rule.what.verb, rule.what.resource,
        *(() if until is None else (until.actor, until.verb, until.resource)),
    )  # fmt: skip
    return Candidate(rule, form, f"{about.resource.partition('/')[0]} {about.name}")


class _Counts:
    """Gives each message of a trace the pattern that means it and no other."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], int] = {}

    def pattern(self, each: Passing) -> Pattern:
        """Return the pattern of the next message of its kind. Call it once for each message, in order."""
        key = each.key
        nth = self._counts[key] = self._counts.get(key, 0) + 1
        return Pattern(*key, nth)


class _Referring:
    """Which objects name which, over a whole run: owners, nodes, claims, volumes, and selectors' pods by name."""

    FIELDS: Final = (
        "spec.nodeName", "spec.volumeName", "spec.claimRef.name", "spec.source.persistentVolumeName",
        "spec.source.persistentVolumeClaimName", "spec.volumeSnapshotRef.name", "target.name",
        "status.boundVolumeSnapshotContentName", "spec.source.volumeSnapshotContentName",
        "spec.scaleTargetRef.name",
    )  # fmt: skip

    def __init__(self, trace: Sequence[Passing]) -> None:
        self._names: dict[str, dict[str, None]] = {}
        for each in trace:
            tree = each.tree
            if each.kind != EVENT or not isinstance(tree, dict):
                continue
            about = self._names.setdefault(each.name, {})
            for owner in (tree.get("metadata") or {}).get("ownerReferences") or ():
                about[str(owner.get("name"))] = None
            for path in self.FIELDS:
                named = _at(tree, path)
                if named:
                    about[str(named)] = None
            for volume in _at(tree, "spec.volumes") or ():
                claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
                if claim:
                    about[str(claim)] = None

    def related(self, one: str, other: str) -> bool:
        """Return whether one of two objects names the other, or they are the same."""
        if one == other:
            return True
        return _bare(other) in self._names.get(one, ()) or _bare(one) in self._names.get(other, ())


def _bare(name: str) -> str:
    return name.rpartition("/")[2]


def _at(tree: Any, path: str) -> Any:
    for part in path.split("."):
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def _later(
    trace: Sequence[Passing],
    writes: Sequence[int],
    at: int,
    about: Passing,
    referring: _Referring,
    *,
    exact: bool = False,
) -> Iterator[Pattern]:
    """Make patterns for the next writes to an object, or to related ones; `exact`: to the object itself."""
    given: dict[Pattern, None] = {}
    ahead: dict[tuple[str, ...], int] = {}
    for index in writes:
        if index <= at:
            continue
        each = trace[index]
        key = each.key
        nth = ahead[key] = ahead.get(key, 0) + 1
        same = each.name == about.name if exact else referring.related(about.name, each.name)
        if not same or each is about:
            continue
        # The N-th that passes after the hold began: what ends it counts from there.
        given[Pattern(*key, nth)] = None
        if len(given) >= LATER:
            break
    yield from given
