"""The divergence of two runs: the first choice, the first event and the first decision that differ."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from controlplane.logs.difference import compare
from controlplane.logs.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.logs.reading import Line
    from controlplane.page.model import Model
    from controlplane.page.recorded import Recorded

__all__ = ["difference"]

_Row = tuple[int, int, str, int, int, str]
"""Index in the list of choices, step, kind, options, value, label."""


def difference(one: Recorded, other: Recorded) -> dict[str, Any]:
    """`same`, and if they are not: `step` to look at, and what both did there."""
    found = compare(one.log, other.log)
    if found is None:
        return {"same": True}
    choice = _first_choice(one.model, other.model)
    steps = [line.step for line in found.steps if line is not None]
    return {
        "same": False,
        "same_events": found.same_events,
        "step": choice["step"] if choice else min(steps),
        "choice": choice,
        "sides": [_as_side(line) for line in found.steps],
        "decisions": [_as_side(side.event) for side in found.sides],
    }


def _as_side(line: Line | None) -> dict[str, Any]:
    if line is None:
        return {}
    return {"step": line.step, "what": f"{line.actor}/{line.task}: {phrase(line) or line.event}"}


def _first_choice(one: Model, other: Model) -> dict[str, Any] | None:
    """The first choice with another answer. Only non-default answers are kept, which is enough."""
    for first, second in zip_longest(_rows(one), _rows(other)):
        if first == second:
            continue
        index, step, kind, n, *_ = min(filter(None, (first, second)))
        sides = [_answer(row, index) for row in (first, second)]
        return {
            "step": step,
            "index": index,
            "what": f"of {n} ({kind}), A took {sides[0]}, B {sides[1]}",
        }
    return None


def _answer(row: _Row | None, index: int) -> str:
    if row is None or row[0] != index:
        return "the first"
    return f"number {row[4] + 1} ({row[5]})"


def _rows(model: Model) -> Iterator[_Row]:
    rows, text = model.choices, model.text
    columns = rows.lists
    for at, step in enumerate(rows.step):
        yield (
            columns["index"][at],
            step,
            text(columns["kind"][at]),
            columns["n"][at],
            columns["value"][at],
            text(columns["label"][at]),
        )
