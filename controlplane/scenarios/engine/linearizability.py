"""Linearizability: a search for a sequential order that explains the answers that clients got for one object.

Wing and Gong's search with Lowe's memo (as porcupine does it): every call must take effect at one moment
between its begin and its end; a call whose outcome is unknown may take effect at any later time, or never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

Verdict = Literal["ok", "violation", "undecided"]
VISITS = 200_000
"""The number of tries after which a history is left undecided."""
OPEN = 1 << 60
"""The end of a call whose answer no client received."""


@frozen
class Version:
    """An object in one version; None stands for no object. Version 0: a version that no client has seen yet."""

    uid: str
    number: int


State = Version | None


@frozen
class Call:
    """One call on one object, and the answer that its client got.

    `verb` is get, create, update, patch or delete; `answer` ok, not-found, exists, conflict or
    unknown. `seen` is the version in the answer, `expected` the uid ("" for any) and the version (0 for
    any) that the call insisted on. `begin` and `end` number the moments of the history.
    """

    verb: str
    answer: str
    begin: int
    end: int = OPEN
    seen: State = None
    expected: Version = field(default=Version("", 0))
    who: str = ""

    def __str__(self) -> str:
        told = f" {self.seen.uid[:8]} version {self.seen.number}" if self.seen else ""
        return f"{self.who} {self.verb}: {self.answer}{told}"


def next_states(state: State, call: Call) -> tuple[State, ...]:
    """The possible states of the object if the call takes effect now; () if it cannot."""
    if call.answer == "unknown":
        return _after_unknown(state, call)
    if call.answer == "not-found":
        return (None,) if state is None else ()
    if call.answer == "exists":
        return () if state is None else (state,)
    if call.answer == "conflict":
        return (state,) if state is not None and not _meets(state, call.expected) else ()
    if call.verb == "create":
        return (call.seen,) if state is None else ()
    if state is None:
        return ()
    if call.verb == "get":
        return (call.seen,) if call.seen is not None and _is(state, call.seen) else ()
    if not _meets(state, call.expected):
        return ()
    if call.verb == "delete":
        return (None,)
    seen = call.seen
    if seen is None or (state.uid and state.uid != seen.uid) or seen.number < state.number:
        return ()
    return (seen,)


def _after_unknown(state: State, call: Call) -> tuple[State, ...]:
    """With the effect, if it could have one, and without."""
    if call.verb == "create":
        return (Version("", 0), state) if state is None else (state,)
    if state is None or call.verb == "get" or not _meets(state, call.expected):
        return (state,)
    if call.verb == "delete":
        return (None, state)
    return (Version(state.uid, 0), state)


def _is(state: Version, seen: Version) -> bool:
    """Return whether the object may have the observed state; an unobserved version matches any."""
    return (not state.uid or state.uid == seen.uid) and (
        not state.number or state.number == seen.number
    )


def _meets(state: Version, expected: Version) -> bool:
    """Return whether the object may meet a precondition."""
    same = not expected.uid or not state.uid or state.uid == expected.uid
    return same and (not expected.number or not state.number or state.number == expected.number)


@frozen
class Answer:
    """The result of the search; `stuck` holds the calls that could not be ordered where the search got furthest."""

    verdict: Verdict
    stuck: tuple[Call, ...] = ()
    state: State = None


def check(calls: Sequence[Call], *, visits: int = VISITS) -> Answer:
    """Return whether the calls on one object, which does not exist at first, are linearizable."""
    ordered = sorted(calls, key=lambda call: call.begin)
    everyone = (1 << len(ordered)) - 1
    needed = sum(1 << at for at, call in enumerate(ordered) if call.answer != "unknown")
    seen: dict[tuple[int, State], None] = {}
    stack: list[tuple[int, State]] = [(0, None)]
    furthest = (-1, 0, None)
    while stack:
        done, state = stack.pop()
        if (done, state) in seen:
            continue
        seen[done, state] = None
        if done & needed == needed:
            return Answer("ok")
        if len(seen) > visits:
            return Answer("undecided")
        count = (done & needed).bit_count()
        if count > furthest[0]:
            furthest = (count, done, state)  # type: ignore[assignment]
        left = everyone & ~done
        first_end = min(call.end for at, call in enumerate(ordered) if left >> at & 1)
        for at in range(len(ordered) - 1, -1, -1):
            call = ordered[at]
            if left >> at & 1 and call.begin < first_end:
                stack += [(done | 1 << at, after) for after in next_states(state, call)]
    _, done, state = furthest
    left = everyone & ~done
    first_end = min(call.end for at, call in enumerate(ordered) if left >> at & 1)
    stuck = [call for at, call in enumerate(ordered) if left >> at & 1 and call.begin < first_end]
    return Answer("violation", tuple(call for call in stuck if call.answer != "unknown"), state)
