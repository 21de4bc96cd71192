"""Versions and bugs are switches.

A *fix gate* is named after the upstream pull request that fixed a published race. On (fixed) by
default; `--without-fix` turns it off, and a fix with several forms can be chosen by name.
`--release` sets each gate as that release had it.
"""

from __future__ import annotations

from typing import Final

from attrs import field, frozen

from controlplane.errors import UsageError

LATEST: Final = "1.36"


@frozen
class FixGate:
    """One published fix.

    `variants` names its forms, the merged one first; `fixed_in` is the first minor release that has
    it (cherry-picks included), `unfixed_from` the first release with the bug, if the bug is younger
    than what we emulate.
    """

    number: str
    title: str
    issue: str
    component: str
    variants: tuple[str, ...]
    fixed_in: str
    unfixed_from: str = ""


CATALOGUE: Final[dict[str, FixGate]] = {
    gate.number: gate
    for gate in (
        FixGate(
            number="138324",
            title="pod recreated under the same name leaks its in-flight entry",
            issue="138316",
            component="scheduler",
            variants=("early-return", "uid-threading"),
            fixed_in="1.34",
            unfixed_from="1.32",
        ),
        FixGate(
            number="49992",
            title="a watch cache that has just listed accepts watches from before its list",
            issue="49956",
            component="apiserver",
            variants=("list-version",),
            fixed_in="1.8",
        ),
        FixGate(
            number="83911",
            title="a relisted object behind a queued deletion is dropped",
            issue="83810",
            component="client",
            variants=("merged",),
            fixed_in="1.17",
        ),
        FixGate(
            number="86015",
            title="handlers are not told what a relist found changed",
            issue="86015",
            component="client",
            variants=("replaced-delta",),
            fixed_in="1.18",
        ),
        FixGate(
            number="115620",
            title="an object deleted while its addition was queued stays in the informer's cache",
            issue="115658",
            component="client",
            variants=("merged",),
            fixed_in="1.27",
        ),
        FixGate(
            number="129334",
            title="every list stands in the server's memory as a whole while it is sent",
            issue="129304",
            component="apiserver",
            variants=("item-by-item",),
            fixed_in="1.33",
        ),
    )
}


def minor_of(release: str) -> tuple[int, int]:
    """A release as numbers. Raises UsageError."""
    parts = release.split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        raise UsageError(
            f"release {release!r}: expected MAJOR.MINOR, for instance {LATEST}"
        ) from None


@frozen
class FixGates:
    """Which fixes a run has: gate number -> variant, None for unfixed. Gates not named here are fixed as merged."""

    chosen: dict[str, str | None] = field(factory=dict)

    def variant(self, number: str) -> str | None:
        """The form of a fix that is in force; None when it is off."""
        if number in self.chosen:
            return self.chosen[number]
        return CATALOGUE[number].variants[0]

    def fixed(self, number: str) -> bool:
        """Whether a fix is in force, in whatever form."""
        return self.variant(number) is not None

    def to_header(self) -> dict[str, str]:
        """All gates, for a recording's header."""
        return {number: self.variant(number) or "off" for number in CATALOGUE}


def fix_gates(
    release: str = LATEST, without: tuple[str, ...] = (), variants: tuple[str, ...] = ()
) -> FixGates:
    """The gates of a release, with changes.

    Args:
        release: MAJOR.MINOR; gates whose fix is younger are off.
        without: gate numbers to turn off.
        variants: "NUMBER=VARIANT" to choose another form of a fix.

    Raises:
        UsageError: an unknown gate, variant or release.
    """
    at = minor_of(release)
    chosen: dict[str, str | None] = {}
    for number, gate in CATALOGUE.items():
        if at < minor_of(gate.fixed_in):
            chosen[number] = None
    for number in without:
        _known(number)
        chosen[number] = None
    for entry in variants:
        number, _, variant = entry.partition("=")
        gate = _known(number)
        if variant not in gate.variants:
            raise UsageError(
                f"fix {number} has no variant {variant!r}; it has {', '.join(gate.variants)}"
            )
        chosen[number] = variant
    return FixGates(chosen)


def from_header(header: dict[str, str]) -> FixGates:
    """The gates of a recording."""
    for number in header:
        _known(number)
    return FixGates(
        {number: None if variant == "off" else variant for number, variant in header.items()}
    )


def _known(number: str) -> FixGate:
    gate = CATALOGUE.get(number)
    if gate is None:
        raise UsageError(f"no fix gate {number!r}; known: {', '.join(sorted(CATALOGUE))}")
    return gate
