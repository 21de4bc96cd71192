"""Findings in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scenarios.check.verdicts import TITLES
from controlplane.scenarios.check.words import span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.scenarios.check.events import Event
    from controlplane.scenarios.check.verdicts import Finding

__all__ = ["lines_of", "told"]


def told(finding: Finding) -> str:
    """A finding in one line."""
    after = f" after {finding.after}" if finding.after else ""
    return f"{TITLES[finding.verdict]}{after}: {finding.says}"


def lines_of(finding: Finding, events: Sequence[Event] = (), seed: int | None = None) -> list[str]:
    """A finding in several lines: verdict and objects, what happened when, and who does what.

    `events` are those of the run, `seed` is that of its schedule, None for the default one.
    """
    before = [each.begins for each in events]
    after = f"after {', then '.join(before)}" if before and finding.after else "by itself"
    if finding.after and finding.after not in before:
        after += f", then {finding.after}"
    order = "" if seed is None else f", in another order, seed {seed}"
    return [
        f"{TITLES[finding.verdict]}: {', '.join(finding.objects)}",
        f"  {after} (at {span(finding.t_ns)}{order}): {finding.says}",
        *(f"  - {line}" for line in finding.lines),
    ]
