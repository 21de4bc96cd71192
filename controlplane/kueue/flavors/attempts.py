"""The flavors that were looked at, with what came of it: for messages and reasons.

Follows `pkg/scheduler/flavorassigner/flavor_assigner_attempts.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from controlplane.kueue.cache.quota import ResourceGroup
from controlplane.kueue.flavors.modes import (
    MODE_NAMES,
    NO_MATCHING_FLAVOR,
    POSSIBILITY_NAMES,
    Mode,
    Possibility,
    graver,
)


@dataclass(frozen=True)
class Attempt:
    """One flavor; `reason` is empty without the gate UnadmittedWorkloadsObservability."""

    flavor: str
    mode: Mode
    borrow: int = 0
    possibility: Possibility | None = None
    texts: tuple[str, ...] = ()
    reason: str = ""


def merge_attempts(
    known: dict[str, Attempt],
    found: Sequence[Attempt],
    resource: str,
    group: ResourceGroup | None,
    *,
    observed: bool,
) -> None:
    """Add the attempts for a resource; a flavor of the group that was not tried cannot provide it."""
    for each in found:
        before = known.get(each.flavor)
        known[each.flavor] = _first(each) if before is None else _both(before, each, observed)
    if not found or group is None:
        return
    tried = {each.flavor for each in found}
    for flavor in [name for name in known if name in group.flavors and name not in tried]:
        text = f"flavor {flavor} does not provide resource {resource}"
        before = known[flavor]
        known[flavor] = replace(
            before,
            mode=Mode.NO_FIT,
            texts=tuple(sorted({*before.texts, text})),
            reason=NO_MATCHING_FLAVOR if observed else before.reason,
        )


def _first(attempt: Attempt) -> Attempt:
    return replace(attempt, texts=tuple(sorted(set(attempt.texts))))


def _both(a: Attempt, b: Attempt, observed: bool) -> Attempt:
    possible = [each for each in (a.possibility, b.possibility) if each is not None]
    return Attempt(
        a.flavor,
        min(a.mode, b.mode),
        max(a.borrow, b.borrow),
        min(possible) if possible else None,
        tuple(sorted({*a.texts, *b.texts})),
        graver(a.reason, b.reason) if observed else "",
    )


def considered_text(pod_sets: Iterable[tuple[str, Sequence[Attempt]]]) -> str:
    """The text of events about considered flavors, from the attempts by pod set."""
    parts = []
    for name, attempts in pod_sets:
        shown = [
            _shown(each) for each in attempts if not (each.mode is Mode.FIT and each.borrow == 0)
        ]
        if shown:
            parts.append(f"{name}: {', '.join(shown)}")
    return " | ".join(parts)


def _shown(attempt: Attempt) -> str:
    if attempt.possibility is None:
        words = [MODE_NAMES[attempt.mode]]
    else:
        words = [f"preemptionMode={POSSIBILITY_NAMES[attempt.possibility]}"]
    if attempt.borrow > 0:
        words.append(f"borrow={attempt.borrow}")
    return f"{attempt.flavor}({';'.join([*words, *attempt.texts])})"
