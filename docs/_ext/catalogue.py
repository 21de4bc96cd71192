"""The catalogue of races and the fix gates, from `controlplane.races` and `controlplane.gates`."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import click

from docs._ext.markdown import definitions, escape, line, table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from controlplane.races.race import Race
    from controlplane.scenarios import Scenario


def anchor(number: str) -> str:
    """Return the label by which other pages refer to a race."""
    return f"race-{number}"


def races() -> str:
    """Return every race of the catalogue: its story, what breaks, and how a search finds it."""
    from controlplane.races import catalogue

    parts = []
    for component, found in groupby(catalogue.all_races(), lambda race: race.component):
        entries = list(found)
        parts.append(f"## {component}: {len(entries)} races")
        parts += map(_entry, entries)
    return "\n\n".join(parts) + "\n"


def _entry(race: Race) -> str:
    story = "\n\n".join(line(each) for each in race.story.split("\n\n"))
    rows = [
        ("reported in", escape(f"issue {race.issue}" if race.issue else "-")),
        ("releases", escape(race.releases)),
        ("what breaks", line(race.invariant)),
        *((("seen on real 1.36.2", line(race.seen)),) if race.seen else ()),
        (
            "found with",
            f"`controlplane race explore {race.number} {_options(race.unfixed_options)}`",
        ),
        (
            "not found with",
            f"`controlplane race explore {race.number} {_options(race.repaired_options)}`",
        ),
    ]
    head = f"({anchor(race.number)})=\n### {race.number}: {escape(race.title)}"
    return "\n\n".join([head, story, table(("", ""), rows), *_own_options(race.scenario)])


def scenarios() -> str:
    """Return the scenarios that come with the package under a name, each with the options that only it has."""
    from controlplane.scenarios.search.loading import NAMED, from_module

    parts = []
    for name, module in NAMED.items():
        scenario = from_module(module)
        parts += [f"(scenario-{name})=\n## {name}", line(scenario.title)]
        parts += [f"```console\n$ controlplane explore {name}\n```", *_own_options(scenario)]
    return "\n\n".join(parts) + "\n"


def _own_options(scenario: Scenario) -> list[str]:
    from controlplane.cli.options import parameter

    ctx = click.Context(click.Command("explore"))
    records = [
        parameter(
            option, scenario.default(option), scenario.told.get(option.key, "")
        ).get_help_record(ctx)
        for option in scenario.options
    ]
    found = [(f"`{head}`", line(text)) for head, text in filter(None, records)]
    return [definitions(found)] if found else []


def _options(chosen: Mapping[str, Any]) -> str:
    """Return options by key as the command line writes them."""
    words = []
    for key, value in chosen.items():
        name = "--" + key.replace("_", "-")
        if value is True:
            words.append(name)
        elif value is False:
            words.append(f"--no-{name[2:]}")
        else:
            many = value if isinstance(value, tuple | list) else (value,)
            words += [f"{name} {each}" for each in many]
    return " ".join(words)


def gates() -> str:
    """Return a table of all fix gates."""
    from controlplane.gates import CATALOGUE, OFF, by_number

    ordered = sorted(CATALOGUE.values(), key=lambda gate: (gate.component, by_number(gate.number)))
    rows = [
        (
            f"`{gate.number}`",
            gate.component,
            escape(gate.title),
            gate.fixed_in or "proposed",
            f"`{gate.default or OFF}`",
            ", ".join(f"`{form}`" for form in gate.variants),
        )
        for gate in ordered
    ]
    head = ("gate", "component", "without the fix", "fixed in", "default", "forms")
    return table(head, rows) + "\n"
