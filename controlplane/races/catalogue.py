"""All races. A new race is one new module `rNUMBER` in this package, with its `SCENARIO` and its `RACE`."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from attrs import evolve

from controlplane import races
from controlplane.errors import UsageError, unknown_name
from controlplane.gates import by_number
from controlplane.scenarios.search.loading import from_module

if TYPE_CHECKING:
    from controlplane.races.race import Race

NAMED = re.compile(r"r[a-z]*[0-9]+")
COMPONENTS = ("scheduler", "kubelet", "apiserver", "client", "controllers", "storage", "kueue")
"""In the order of the catalogue; others follow."""


@cache
def numbers() -> tuple[str, ...]:
    """The numbers of all races: Kubernetes' own, ascending, then those of other projects and those found here."""
    names = (module.name for module in iter_modules(races.__path__))
    found = [name[1:] for name in names if NAMED.fullmatch(name)]
    return tuple(sorted(found, key=by_number))


def find(number: str) -> Race:
    """Return the race with the number of this fix, or else of this issue. Raises UsageError."""
    if number not in numbers():
        of_issue = [each for each in numbers() if number and _load(each).issue == number]
        if len(of_issue) == 1:
            return _load(of_issue[0])
        if of_issue:
            raise UsageError(f"issue {number} has several races: {', '.join(of_issue)}")
        raise UsageError(
            unknown_name("race", number, numbers(), "controlplane race list lists all")
        )
    return _load(number)


def _load(number: str) -> Race:
    name = f"{races.__name__}.r{number}"
    race: Race = import_module(name).RACE
    return evolve(race, scenario=from_module(name))


def all_races() -> list[Race]:
    """Every race, by component and number."""
    order = {name: at for at, name in enumerate(COMPONENTS)}
    found = [find(number) for number in numbers()]
    return sorted(found, key=lambda race: order.get(race.component, len(order)))
