"""Perturbation plans made from runs without faults: cheap and telling ones first.

    crash       the process is killed after the effect of a write, before it is answered
    error       a write is refused once (500; conflicts of updates come later)
    stale       after a restart a resource shows an older state, of an event before a deletion that is undone later
    swallow     a state of an object is never seen
    early       the process is killed before a write
    effect      a write's answer is a time-out, or lost, though it took effect
    conflict    a write is refused with a conflict, or because there are too many
    late        an event comes late, and what follows it on its watch

Writes and events are named by what they say - verb, object, one field that changed - and the how-manieth of these they
are: their place in the whole sequence differs from run to run. What is not in all runs is left out. Upstream: the
triggers of Sieve (`sieve_analyzer`), and the order that its results suggest.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from controlplane.operators.masks import changed_leaves, without_random, words_of
from controlplane.operators.observation import PEERINGS, is_lock
from controlplane.scenarios.plans.language import ANSWER, EVENT, Condition, Pattern, path_of
from controlplane.scenarios.plans.passing import BACKGROUND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from controlplane.operators.observation import Record
    from controlplane.scenarios.plans.outside import Seen
    from controlplane.scenarios.plans.passing import Passing

__all__ = ["FORMS", "Candidate", "Named", "candidates", "events_of", "pairs", "writes_of"]

CRASH, ERROR, STALE, SWALLOW, EARLY, EFFECT, CONFLICT, LATE, PAIR = (
    "crash", "error", "stale", "swallow", "early", "effect", "conflict", "late", "pair"
)  # fmt: skip
FORMS: Final = (CRASH, ERROR, STALE, SWALLOW, EARLY, EFFECT, CONFLICT, LATE, PAIR)
OPERATOR: Final = "{operator}"
"""Stands, in the lines of a given plan, for the operator's client."""
MOST_OCCURRENCES: Final = 3
"""Of writes that repeat each other only so many are perturbed."""
LATE_S: Final = 5
"""By how much an event is late, in virtual seconds."""
SECONDS: Final = 30
"""The longest hold, in virtual seconds."""
_UNTRIED: Final = frozenset((*BACKGROUND, *PEERINGS, "endpoints", "endpointslices"))
_REVIEWS: Final = (
    "subjectaccessreviews",
    "selfsubjectaccessreviews",
    "tokenreviews",
    "selfsubjectrulesreviews",
)


@frozen
class Candidate:
    """A plan that may be tried: its form and its lines; `about` is what it perturbs, in words."""

    form: str
    lines: tuple[str, ...]
    about: str = field(eq=False, default="")

    def __str__(self) -> str:
        return "\n".join(self.lines)


@frozen
class Named:
    """A write or an event by which plans can mean it: a pattern, and the message of the first run."""

    pattern: Pattern
    what: Passing = field(eq=False)
    step: int = field(eq=False, default=0)


def candidates(calm: Sequence[Record]) -> list[Candidate]:
    """Return the plans with one perturbation, in the order in which they are tried.

    The first four forms come by turns, then the others: whatever the time that there is, each form has its share.
    """
    writes, events = writes_of(calm), events_of(calm)
    first = [
        [_kill(CRASH, each, "before answer") for each in writes],
        [_fail(ERROR, each, "request", 500) for each in writes],
        list(_stale(calm, writes, events)),
        list(_swallowed(calm, events)),
    ]
    others = [each for each in writes if each.what.verb != "delete"]
    then = [
        [_kill(EARLY, each, "before request") for each in writes],
        [_fail(EFFECT, each, "answer", 504) for each in writes],
        [_fail(CONFLICT, each, "request", 409) for each in others],
        list(_late(events)),
        [_lose(each) for each in writes],
        [_fail(CONFLICT, each, "request", 429) for each in writes],
    ]
    return list(dict.fromkeys([*_by_turns(first), *_by_turns(then)]))


def _by_turns(lists: Sequence[Sequence[Candidate]]) -> Iterator[Candidate]:
    for row in zip_longest(*lists):
        yield from (each for each in row if each is not None)


def _lose(named: Named) -> Candidate:
    line = f"lose {_as(named, 'answer')}"
    return Candidate(EFFECT, (line,), f"lose the answer of {_told(named)}")


def pairs(tried: Sequence[Candidate]) -> Iterator[Candidate]:
    """Yield plans with two perturbations of different places, nearest first."""
    singles = [each for each in tried if len(each.lines) == 1 and each.form != PAIR]
    for distance in range(1, len(singles)):
        for at in range(len(singles) - distance):
            one, other = singles[at], singles[at + distance]
            yield Candidate(PAIR, (*one.lines, *other.lines), f"{one.about}; {other.about}")


# ---------------------------------------------------------------------- names


def writes_of(calm: Sequence[Record]) -> list[Named]:
    """Return the effective writes that all runs have in common, in the order of the first run."""
    return _named(calm, lambda seen: seen.what.kind == ANSWER and seen.effective)


def events_of(calm: Sequence[Record]) -> list[Named]:
    """Return the events that all runs have in common, in the order of the first run."""
    return _named(calm, lambda seen: seen.what.kind == EVENT)


def _named(calm: Sequence[Record], wanted: Callable[[Seen], bool]) -> list[Named]:
    words = words_of(calm)
    rest = [Counter(each.pattern for each in _all(record, wanted, words)) for record in calm[1:]]
    return [
        each
        for each in _all(calm[0], wanted, words)
        if all(each.pattern in counted for counted in rest)
    ]


def _all(record: Record, wanted: Callable[[Seen], bool], words: frozenset[str]) -> Iterator[Named]:
    """Yield what can be named in one run. Occurrences count all messages that the pattern meets, wanted or not."""
    names = _object_names(record)
    passed = [
        each for each in record.seen if each.what.kind in (ANSWER, EVENT) and _is_tried(each.what)
    ]
    for number, seen in enumerate(passed):
        if not wanted(seen):
            continue
        what = seen.what
        name = names.get((what.resource.partition("/")[0], what.name), what.name)
        name = without_random(name, words)
        pattern = Pattern(
            what.kind, what.actor, what.verb, what.resource, name, 1, tuple(_conditions(what))
        )
        nth = 1 + sum(pattern.matches(other.what) for other in passed[:number])
        if nth <= MOST_OCCURRENCES:
            yield Named(Pattern(*_head(pattern), nth, pattern.conditions), what, seen.step)


def _head(pattern: Pattern) -> tuple[str, str, str, str, str]:
    return pattern.kind, pattern.actor, pattern.verb, pattern.resource, pattern.name


def _is_tried(what: Passing) -> bool:
    resource = what.resource.partition("/")[0]
    return (
        resource not in _UNTRIED
        and resource not in _REVIEWS
        and not is_lock(what.tree)
        and not is_lock(what.before)
    )


def _object_names(record: Record) -> dict[tuple[str, str], str]:
    """Return a pattern for the name of each object whose name was generated."""
    found: dict[tuple[str, str], str] = {}
    for each in record.changes:
        meta = (each.tree or each.before).get("metadata") or {}
        prefix = meta.get("generateName")
        if prefix:
            namespace = each.name.rpartition("/")[0]
            found[each.resource, each.name] = (
                f"{namespace}/{prefix}*" if namespace else f"{prefix}*"
            )
    return found


def _conditions(what: Passing) -> Iterator[Condition]:
    """Yield the conditions that tell an update from others of the same object: one field that it changed."""
    if what.verb in ("create", "delete", "ADDED", "DELETED") or not isinstance(what.before, dict):
        return
    found = [
        conditions
        for path, old, new in changed_leaves(what.before, what.tree)
        if _is_short(old) and _is_short(new) and "=" not in "".join(path)
        for conditions in [_of_leaf(path, old, new)]
        if all(each.holds(what) for each in conditions)
    ]
    if found:
        yield from min(found, key=_rank)
    elif _is_marked(what.tree):
        yield Condition("metadata.deletionTimestamp")


def _of_leaf(path: tuple[str, ...], old: Any, new: Any) -> tuple[Condition, ...]:
    where = path_of(path)
    if path[-1] == "deletionTimestamp":
        return (Condition(where),)
    after = Condition(where, None, negated=True) if new is None else Condition(where, _word(new))
    if old is None:
        return after, Condition(where, None, negated=True, before=True)
    return after, Condition(where, _word(old), before=True)


def _rank(conditions: tuple[Condition, ...]) -> tuple[bool, int, str]:
    """Return the order of conditions: a field of spec or status, not deep inside, says most."""
    path = conditions[0].path
    return path.startswith("metadata.") and "deletion" not in path, path.count("."), path


def _is_short(value: Any) -> bool:
    return value is None or (isinstance(value, bool | int | str) and len(str(value)) <= 40)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---------------------------------------------------------------------- forms


def _as(named: Named, kind: str) -> Pattern:
    """Return the pattern for the request or the answer of a write."""
    pattern = named.pattern
    conditions = pattern.conditions
    if kind == "request" and pattern.verb == "patch":
        # A patch is not the object: only what it was before can be asked.
        conditions = tuple(each for each in conditions if each.before)
    return Pattern(kind, *_head(pattern)[1:], pattern.nth, conditions)


def _told(named: Named) -> str:
    what = named.what
    return f"{what.verb} {what.resource} {what.name}"


def _kill(form: str, named: Named, when: str) -> Candidate:
    kind = when.rpartition(" ")[2]
    actor = named.pattern.actor
    line = f"kill {actor} before {_as(named, kind)}"
    place = "after" if kind == "answer" else "before"
    return Candidate(form, (line,), f"crash {place} {_told(named)}")


def _fail(form: str, named: Named, kind: str, code: int) -> Candidate:
    line = f"fail {_as(named, kind)} with {code}"
    effect = " though it took effect" if kind == "answer" else ""
    return Candidate(form, (line,), f"{code} on {_told(named)}{effect}")


def _stale(
    calm: Sequence[Record], writes: Sequence[Named], events: Sequence[Named]
) -> Iterator[Candidate]:
    """Yield restarts with an old state: that of an event which may have led to a deletion, once that is undone."""
    record = calm[0]
    deletions = [each for each in writes if each.what.verb == "delete"]
    for deletion in deletions:
        resource, name = deletion.what.resource, deletion.what.name
        made = [
            each
            for each in record.changes
            if (each.resource, each.name) == (resource, name) and each.before is None
        ]
        revision = _revision_of(record, deletion)
        again = [each for each in made if each.revision > revision]
        if not again:
            continue
        actor = deletion.pattern.actor
        later = Pattern(ANSWER, actor, "delete", resource, name)
        causes = [
            each
            for each in events
            if each.step < deletion.step
            and each.what.verb != "ADDED"
            and each.what.resource != resource
        ]
        for cause in reversed(causes[-4:]):
            since = cause.what.revision
            nth = 1 + sum(since < each.revision < again[0].revision for each in made)
            back = Pattern(ANSWER, "*", "create", resource, name, nth)
            lines = (
                f"freeze {actor} {cause.what.resource} from {back} as of {cause.pattern}"
                f" until {later} at most {SECONDS}",
                f"kill {actor} after {back} once {cause.pattern}",
            )
            about = f"restart with {cause.what.resource} as of {_told(cause)}, once {resource} {name} is there again"
            yield Candidate(STALE, lines, about)


def _revision_of(record: Record, deletion: Named) -> int:
    """Return the revision of a deletion, or of the mark that leads to it."""
    before = deletion.what.before
    uid = str(before.get("metadata", {}).get("uid")) if isinstance(before, dict) else ""
    for each in record.changes:
        tree = each.before if each.tree is None else each.tree
        if (each.resource, each.name) == (deletion.what.resource, deletion.what.name):
            if str(tree["metadata"].get("uid")) == uid and (
                each.tree is None or tree["metadata"].get("deletionTimestamp")
            ):
                return each.revision
    return 1 << 62


def _swallowed(calm: Sequence[Record], events: Sequence[Named]) -> Iterator[Candidate]:
    """Yield states that are not seen: those that a change followed which was not the operator's own reaction."""
    own = {
        (each.what.resource.partition("/")[0], each.what.name, each.what.revision)
        for each in calm[0].seen
        if each.what.kind == ANSWER and each.effective
    }
    by_object: dict[tuple[str, str, str], list[Named]] = {}
    for each in events:
        by_object.setdefault((each.what.actor, each.what.resource, each.what.name), []).append(each)
    for (actor, resource, name), told in by_object.items():
        outside = [each for each in told if (resource, name, each.what.revision) not in own]
        for each, following in pairwise(outside):
            if following.what.verb == "DELETED" and _is_marked(each.what.tree):
                continue  # it goes only when the operator has seen that it is to go
            # The state before is not the one that the watch told last.
            seen = tuple(one for one in following.pattern.conditions if not one.before)
            verb, name_of = following.pattern.verb, each.pattern.name
            until = Pattern(EVENT, actor, verb, resource, name_of, 1, seen)
            lines = (f"swallow {each.pattern} until {until} at most {SECONDS}",)
            yield Candidate(SWALLOW, lines, f"{actor} does not see {_told(each)}")


def _is_marked(tree: Any) -> bool:
    return bool((tree or {}).get("metadata", {}).get("deletionTimestamp"))


def _late(events: Sequence[Named]) -> Iterator[Candidate]:
    """Yield events that come late, behind those of other resources."""
    for each in events:
        lines = (f"delay {each.pattern} for {LATE_S}",)
        yield Candidate(LATE, lines, f"{_told(each)} is told late")
