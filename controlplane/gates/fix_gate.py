"""A fix gate: one published fix, its forms, and the releases that have it."""

from __future__ import annotations

from functools import cache
from typing import Final

from attrs import frozen

from controlplane.errors import UsageError, shown

LATEST: Final = "1.36"
OFF: Final = "off"
"""The header value of a gate that is off."""


def by_number(number: str) -> tuple[str, int]:
    """The order of gates: Kubernetes' own, by number, then those of other projects (es261)."""
    project = number.rstrip("0123456789")
    return project, int(number[len(project) :])


@cache
def minor_of(release: str) -> tuple[int, int]:
    """A release as numbers. Raises UsageError."""
    parts = release.split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        raise UsageError(
            f"release {shown(release)}: expected MAJOR.MINOR, for instance {LATEST}"
        ) from None


@frozen
class FixGate:
    """One published fix.

    `variants` names its forms, the merged one first; `fixed_in` is the first minor release that has
    it (cherry-picks included), "" when none has: it is proposed. `unfixed_from` is the first
    release with the bug, if the bug is younger than what we emulate. `earlier` lists forms that
    releases before `fixed_in` had, each with the first of them. `closed` says of a proposed fix
    that it is in force unless it is turned off, because standing open would cost every run.
    `complete` names a form that also closes what the merged one leaves open; no release has it.
    """

    number: str
    title: str
    issue: str
    component: str
    fixed_in: str
    variants: tuple[str, ...] = ("merged",)
    unfixed_from: str = ""
    earlier: tuple[tuple[str, str], ...] = ()
    closed: bool = False
    complete: str = ""

    def form_in(self, release: str) -> str | None:
        """The form of the fix that a release has; None for the bug. Raises UsageError."""
        at = minor_of(release)
        if self.unfixed_from and at < minor_of(self.unfixed_from):
            return self.variants[0]  # not broken yet
        if self.fixed_in and minor_of(self.fixed_in) <= at:
            return self.variants[0]
        for since, variant in reversed(self.earlier):
            if minor_of(since) <= at:
                return variant
        return self.variants[0] if self.closed else None

    @property
    def strongest(self) -> str:
        """The form under which the least is left open, whichever release has it."""
        return self.complete or self.variants[0]

    @property
    def default(self) -> str | None:
        """The default form."""
        return self.form_in(LATEST)
