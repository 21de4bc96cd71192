"""Versions and bugs are switches.

A *fix gate* is named after the upstream pull request that fixed a published race. On (fixed) by
default; `--without-fix` turns it off, and a fix with several forms can be chosen by name.
`--release` sets each gate as that release had it. A fix that no release up to ours has, because it
is younger or only proposed, is off by default; `--fix` puts it in force.
Numbers of the component "storage" are those of external-snapshotter, those that begin with "ep" of
external-provisioner, whose releases count as those of Kubernetes that they came out with (8.2 as 1.32, 8.3 as
1.33, 8.5 as 1.35, 8.6 and the provisioner's 6.2 as 1.36). Those that begin with "kq" are of Kueue, whose releases
count as the Kubernetes that was newest then (0.3 as 1.26, 0.8 as 1.30, 0.15 as 1.34, 0.16 and 0.17 as 1.35, 0.18 as
1.36).

What upstream did before and after a fix is described where the gate is asked.
"""

from __future__ import annotations

from typing import Final

from attrs import field, frozen

from controlplane.errors import UsageError, shown, unknown_name
from controlplane.gates.catalogue import CATALOGUE
from controlplane.gates.fix_gate import LATEST, OFF, FixGate, by_number, minor_of

__all__ = [
    "CATALOGUE",
    "LATEST",
    "OFF",
    "FixGate",
    "FixGates",
    "by_number",
    "check_release",
    "fix_gates",
    "from_header",
    "minor_of",
]

_DEFAULTS: Final[dict[str, str | None]] = {
    number: gate.default for number, gate in CATALOGUE.items()
}


@frozen
class FixGates:
    """The fixes of a run: gate number -> variant, None for unfixed. Gates not named here have their default."""

    chosen: dict[str, str | None] = field(factory=dict)

    def variant(self, number: str) -> str | None:
        """The form of a fix that is in force; None when it is off."""
        if number in self.chosen:
            return self.chosen[number]
        return _DEFAULTS[number]

    def fixed(self, number: str) -> bool:
        """Return whether a fix is in force, in whatever form."""
        return self.variant(number) is not None

    def changed(self) -> dict[str, str]:
        """The gates that are not as by default, with their forms."""
        return {
            number: form
            for number, form in self.to_header().items()
            if form != (_DEFAULTS[number] or OFF)
        }

    def to_header(self) -> dict[str, str]:
        """All gates, for a recording's header."""
        return {number: self.variant(number) or OFF for number in CATALOGUE}


def fix_gates(
    release: str = LATEST, without: tuple[str, ...] = (), variants: tuple[str, ...] = ()
) -> FixGates:
    """The gates of a release, with changes.

    Args:
        release: MAJOR.MINOR; gates whose fix is younger are off.
        without: gate numbers to turn off.
        variants: "NUMBER=VARIANT" to choose another form of a fix; "NUMBER" for its first, which
            puts a fix in force that the release does not have.

    Raises:
        UsageError: an unknown gate, variant or release.
    """
    check_release(release)
    chosen: dict[str, str | None] = {}
    for number, gate in CATALOGUE.items():
        form = gate.form_in(release)
        if form != _DEFAULTS[number]:
            chosen[number] = form
    for number in without:
        _known(number)
        chosen[number] = None
    for entry in variants:
        number, given, variant = entry.partition("=")
        gate = _known(number)
        if not given:
            variant = gate.variants[0]
        _check_variant(gate, variant, gate.variants)
        chosen[number] = variant
    return FixGates(chosen)


def check_release(release: str) -> None:
    """UsageError for what is no release that can be emulated."""
    if not minor_of("1.0") <= minor_of(release) <= minor_of(LATEST):
        raise UsageError(f"release {shown(release)}: expected 1.0 to {LATEST}")


def from_header(header: dict[str, str]) -> FixGates:
    """The gates of a recording. UsageError for one that is not known, or a form that it does not have."""
    for number, form in header.items():
        gate = _known(number)
        _check_variant(gate, form, (OFF, *gate.variants))
    return FixGates(
        {number: None if variant == OFF else variant for number, variant in header.items()}
    )


def _check_variant(gate: FixGate, variant: str, allowed: tuple[str, ...]) -> None:
    if variant not in allowed:
        raise UsageError(f"fix {gate.number} has {unknown_name('variant', variant, gate.variants)}")


def _known(number: str) -> FixGate:
    gate = CATALOGUE.get(number)
    if gate is None:
        listing = "controlplane race gates lists all"
        raise UsageError(unknown_name("fix gate", number, CATALOGUE, listing))
    return gate
