"""All races. A new race is one new module `rNUMBER` in this package, with its `SCENARIO` and its `RACE`."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from attrs import evolve

from controlplane import races
from controlplane.errors import UsageError
from controlplane.gates import by_number
from controlplane.scenarios.search.loading import from_module

if TYPE_CHECKING:
    from controlplane.races.race import Race

NAMED = re.compile(r"r(ep)?[0-9]+")
COMPONENTS = ("scheduler", "kubelet", "apiserver", "client", "controllers", "storage")
"""In the order of the catalogue; others follow."""


@cache
def numbers() -> tuple[str, ...]:
    """The numbers of all races: Kubernetes' own, ascending, then those of other projects."""
    names = (module.name for module in iter_modules(races.__path__))
    found = [name[1:] for name in names if NAMED.fullmatch(name)]
    return tuple(sorted(found, key=by_number))


def find(number: str) -> Race:
    """The race with this number. Raises UsageError."""
    if number not in numbers():
        raise UsageError(f"no race {number!r} in the catalogue; known: {', '.join(numbers())}")
    name = f"{races.__name__}.r{number}"
    race: Race = import_module(name).RACE
    return evolve(race, scenario=from_module(name))


def all_races() -> list[Race]:
    """Every race, by component and number."""
    order = {name: at for at, name in enumerate(COMPONENTS)}
    found = [find(number) for number in numbers()]
    return sorted(found, key=lambda race: order.get(race.component, len(order)))
