"""`controlplane explore FILE`: search the schedules of a user's own scenario."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.options import ScenarioCommand
from controlplane.cli.search import search, searchable
from controlplane.cli.search_options import search_options
from controlplane.errors import UsageError, either, nearest

if TYPE_CHECKING:
    from controlplane.scenarios.engine.scenario import Scenario


def find(name: str) -> Scenario:
    """Return the scenario of a name that comes with the package, or of a file. Raises UsageError."""
    from controlplane.scenarios.search.loading import NAMED, from_file, from_module

    if name not in NAMED and not Path(name).exists() and (near := nearest(name, NAMED)):
        raise UsageError(f"{name}: no such file; did you mean {either(near)}?")
    return searchable(from_module(NAMED[name]) if name in NAMED else from_file(Path(name)))


@click.command(
    "explore",
    cls=ScenarioCommand,
    find=find,
    short_help="Search the schedules of a scenario of yours for a broken invariant.",
)
@click.argument("file", metavar="FILE")
@search_options
def command(scenario: Scenario, asked: dict[str, Any], **how: Any) -> int:
    """Search schedules of the scenario in FILE (Python, or YAML) for a broken invariant. Its own options come
    after FILE. `churn` in place of a file is the workload that comes with the package and aims at nothing.

    Exit status 1 when one is found.
    """
    del how["file"]
    return search(scenario, asked, **how)
