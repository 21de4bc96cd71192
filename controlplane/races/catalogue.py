"""All races, by number. A new race is a new module and a line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from controlplane.errors import UsageError

if TYPE_CHECKING:
    from controlplane.races.race import Race

MODULES = {
    "138324": "controlplane.races.r138324",
    "49992": "controlplane.races.r49992",
}


def find(number: str) -> Race:
    """The race with this number. Raises UsageError."""
    if number not in MODULES:
        raise UsageError(f"no race {number!r} in the catalogue; known: {', '.join(MODULES)}")
    race: Race = import_module(MODULES[number]).RACE
    return race


def all_races() -> list[Race]:
    """Every race, in catalogue order."""
    return [find(number) for number in MODULES]
