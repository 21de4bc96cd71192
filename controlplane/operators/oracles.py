"""Oracles: alarms about a run, without knowledge of the operator, by comparison with runs that nothing perturbed.

Each alarm has a kind and a subject, by which repeats of a run are compared. Upstream: the oracles of Sieve (end state,
state-update summaries, panics, workload), with hot loops, objects of an older uid and orphans.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

from controlplane.operators.masks import end_of, keys_of, summary_of, varies, words_of
from controlplane.scenarios.plans.language import ANSWER, EVENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controlplane.operators.masks import ObjectKey, Reference
    from controlplane.operators.observation import Record

__all__ = ["Alarm", "alarms_of", "calm_alarms"]

END, HISTORY, WORKLOAD, PANIC, EXIT, RESTLESS, LOOP, STALE, ORPHAN, INVARIANT = (
    "end state", "history", "workload", "panic", "exit", "no rest", "hot loop", "older uid", "orphan", "invariant"
)  # fmt: skip
DIVERGENCE: Final = "divergence"
HELD: Final = "held by the plan"
_PANIC: Final = re.compile(
    r"^(panic: .*|fatal error: .*|.*Observed a panic.*|thread '.*' panicked at.*)$", re.MULTILINE
)
MOST_NOOPS: Final = 30
"""Writes of one object without effect, beyond those of runs without faults, that make a hot loop."""
MOST_LEAVES: Final = 4
"""The number of differing fields of one object that are told."""


@frozen
class Alarm:
    """One thing that is wrong: its kind, what it is about, and what was expected and found."""

    kind: str
    subject: str
    text: str = field(eq=False)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def alarms_of(record: Record, reference: Reference, calm: Sequence[Record]) -> list[Alarm]:
    """Return what is wrong with a run, compared with runs without faults."""
    found = [*_of_itself(record, calm)]
    unseen = any(
        line.startswith(("swallow ", "freeze ")) and " as of " not in line for line in record.plan
    ) or any(each.problem == HELD for each in record.steps)
    found += _end_state(record, reference)
    if not unseen:  # fewer events are expected where states were not seen
        found += _history(record, reference)
    return list(dict.fromkeys(found))


def calm_alarms(calm: Sequence[Record]) -> list[Alarm]:
    """Return what is wrong with the operator though nothing perturbs it.

    Runs that end with another status of a custom resource are told: the order of what happens decides it.
    """
    found: list[Alarm] = list(_divergence(calm))
    for record in calm:
        found += _of_itself(record, ())
    return list(dict.fromkeys(found))


def _of_itself(record: Record, calm: Sequence[Record]) -> Iterator[Alarm]:
    """Yield what needs no comparison of states."""
    for number, step in enumerate(record.steps, 1):
        if step.problem and step.problem != HELD:
            yield Alarm(
                WORKLOAD, f"{number} {step.step}", f"step {number}, {step.step}: {step.problem}"
            )
    for pod, text in record.outputs:
        match = _PANIC.search(text)
        if match:
            yield Alarm(PANIC, "", f"{pod}: {match[0].strip()[:200]}")
    for pod, code in record.exits:
        text = f"{pod}: the process ended by itself, exit code {code}{_last_words(record, pod)}"
        yield Alarm(EXIT, str(code), text)
    if not record.settled:
        yield Alarm(RESTLESS, "", "the run did not come to rest")
    for text in record.violations:
        yield Alarm(INVARIANT, text.partition(":")[0], text)
    yield from _hot_loops(record, calm)
    yield from _older_uids(record)
    yield from _orphans(record)


def _last_words(record: Record, pod: str) -> str:
    """Return the last line that a pod's process printed, as the end of a sentence."""
    printed = [
        line.strip() for of, text in record.outputs if of == pod for line in text.splitlines()
    ]
    last = next((line for line in reversed(printed) if line), "")
    return f", after it printed: {last[:200]}" if last else ", without output"


def _divergence(calm: Sequence[Record]) -> Iterator[Alarm]:
    """Short fields of custom resources' status that differ at the ends of runs without faults."""
    words = words_of(calm)
    ends = [end_of(each, words) for each in calm]
    custom = {
        each.name.rpartition("/")[2].partition(".")[0]
        for each in calm[0].changes
        if each.resource == "customresourcedefinitions"
    }
    for key in sorted(set.intersection(*map(set, ends))) if ends else ():
        if key[0] not in custom or any(len(each[key]) != 1 for each in ends):
            continue
        leaves = [each[key][0] for each in ends]
        for path in sorted({path for each in leaves for path in each if path[0] == "status"}):
            found = sorted({str(each.get(path, "absent")) for each in leaves})
            if len(found) > 1 and all(len(value) <= 20 for value in found):
                name = ".".join(path)
                text = f"{_named(key)}: {name} ends as {' or '.join(found)}"
                yield Alarm(DIVERGENCE, f"{_named(key)}: {name}", text)


def _end_state(record: Record, reference: Reference) -> Iterator[Alarm]:
    end = end_of(record, reference.words)
    for key in sorted({*end, *reference.counts}):
        if reference.ignores(key):
            continue
        here = len(end.get(key, ()))
        wanted = reference.counts.get(key)
        if wanted is None:
            if key not in reference.known:
                yield Alarm(
                    END,
                    _named(key),
                    f"{_named(key)} is there at the end, and was not without the fault",
                )
            continue
        if here != wanted:
            told = "is missing" if not here else f"is there {here} times, expected {wanted}"
            yield Alarm(END, _named(key), f"{_named(key)} {told} at the end")
            continue
        expected = reference.objects.get(key)
        if expected is not None and here == 1:
            yield from _fields(key, expected, end[key][0], reference)


def _fields(
    key: ObjectKey,
    expected: dict[tuple[str, ...], object],
    found: dict[tuple[str, ...], object],
    reference: Reference,
) -> Iterator[Alarm]:
    told = 0
    for path in sorted({*expected, *found}):
        wanted = expected.get(path)
        if varies(wanted) or found.get(path) == wanted or reference.ignores(key, path):
            continue
        if any(varies(expected.get(path[:n])) for n in range(len(path))):
            continue
        told += 1
        if told <= MOST_LEAVES:
            name = ".".join(path)
            text = f"{_named(key)}: {name} is {_value(found.get(path))} at the end, expected {_value(wanted)}"
            yield Alarm(END, f"{_named(key)}: {name}", text)


def _history(record: Record, reference: Reference) -> Iterator[Alarm]:
    summary = summary_of(record, reference.words)
    for key, (added, deleted) in reference.summary.items():
        found = summary.get(key, (0, 0))
        if found != (added, deleted) and not reference.ignores(key):
            text = (
                f"{_named(key)}: created {found[0]} times and deleted {found[1]} times,"
                f" expected {added} and {deleted}"
            )
            yield Alarm(HISTORY, _named(key), text)
    for key, found in summary.items():
        if key not in reference.known and not reference.ignores(key):
            text = f"{_named(key)}: created {found[0]} times, and never without the fault"
            yield Alarm(HISTORY, _named(key), text)


def _hot_loops(record: Record, calm: Sequence[Record]) -> Iterator[Alarm]:
    """Writes of one object that change nothing, again and again."""
    usual = max((each for one in calm for each in _noops(one).values()), default=0)
    for (resource, name), count in _noops(record).items():
        if count > usual + MOST_NOOPS:
            text = f"{resource} {name}: {count} writes without effect"
            yield Alarm(LOOP, f"{resource} {name}", text)


def _noops(record: Record) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for seen in record.seen:
        what = seen.what
        if (
            what.kind == ANSWER
            and what.writes
            and not seen.effective
            and what.resource not in ("leases", "events")
        ):
            found[what.resource, what.name] += 1
    return found


def _older_uids(record: Record) -> Iterator[Alarm]:
    """Deletions and changes of an object by a client that had been told of an older one of the name only."""
    told: dict[tuple[str, str, str], str] = {}
    for seen in record.seen:
        what = seen.what
        place = (what.actor, what.resource, what.name)
        if what.kind != ANSWER:
            if what.kind == EVENT and what.uid:
                told[place] = what.uid
            continue
        if (
            what.code < 300
            and what.verb in ("get", "create", "update", "patch")
            and what.uid
            and place in told
        ):
            told[place] = what.uid
        if what.verb != "delete" or what.code >= 300 or not isinstance(what.before, dict):
            continue
        uid = str(what.before.get("metadata", {}).get("uid") or "")
        known = told.get(place)
        if known is not None and uid and known != uid:
            yield Alarm(
                STALE,
                f"{what.resource} {what.name}",
                f"{what.resource} {what.name} was deleted by a decision about an older object of the name",
            )


def _orphans(record: Record) -> Iterator[Alarm]:
    """Objects whose owners are all gone at the end: garbage collection has settled by then."""
    uids = {str(tree["metadata"].get("uid")) for tree in record.objects.values()}
    uids |= {
        str((each.tree or each.before)["metadata"].get("uid"))
        for each in record.changes
        if each.tree is not None
    } - {str(each.before["metadata"].get("uid")) for each in record.changes if each.tree is None}
    keys = keys_of(record)
    for place, tree in record.objects.items():
        owners = tree["metadata"].get("ownerReferences") or ()
        if owners and place in keys and not any(each.get("uid") in uids for each in owners):
            name = _named(keys[place])
            if not any(each.get("kind") == "Node" for each in owners):
                yield Alarm(ORPHAN, name, f"{name} is left, and its owner is gone")


def _named(key: ObjectKey) -> str:
    return f"{key[0]} {key[1]}"


def _value(value: object) -> str:
    if value is None:
        return "absent"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
