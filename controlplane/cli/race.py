"""`controlplane race`: the catalogue of published races."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli import interruption, output, reporting
from controlplane.cli.mutants import mutants_command
from controlplane.cli.names import Choice, Group
from controlplane.cli.options import (
    Finite,
    ScenarioCommand,
    driver_option,
    format_option,
    out_option,
)
from controlplane.cli.search import (
    replay_command,
    search,
    searchable,
    shrink_command,
)
from controlplane.cli.search_options import search_options
from controlplane.gates import LATEST

if TYPE_CHECKING:
    from controlplane.races.race import Race
    from controlplane.scenarios.engine.scenario import Scenario


@click.group("race", cls=Group, short_help="The catalogue of published races.")
def command() -> None:
    """List, run, explore and replay published races."""


def _scenario(number: str) -> Scenario:
    from controlplane.races import catalogue

    return searchable(catalogue.find(number).scenario)


@command.command("list")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option(
    "--component", default="", metavar="NAME", help="Only races of this component, as scheduler."
)
@click.option("--wide", is_flag=True, help="Also the issue and the releases.")
@format_option()
def list_races(words: tuple[str, ...], component: str, wide: bool, output_format: str) -> int:
    """List the races of the catalogue by component, one line each.

    With WORDs, those whose number, issue, title, story or invariant has all of them.
    """
    from controlplane.errors import UsageError, unknown_name
    from controlplane.races import catalogue

    races = catalogue.all_races()
    components = dict.fromkeys(race.component for race in races)
    if component and component not in components:
        raise UsageError(f"--component: {unknown_name('component', component, components)}")
    races = [race for race in races if component in ("", race.component) and _mentions(race, words)]
    if output_format == "json":
        output.emit_json([race.to_json() for race in races])
        return 0
    output.echo(f"Races: {len(races)}; controlplane race show FIX tells one")
    for each in components:
        found = [race for race in races if race.component == each]
        if not found:
            continue
        title = f"\n{each}: {len(found)}"
        if wide:
            rows = [(race.number, race.issue, race.releases, race.title) for race in found]
            output.table(title, ["FIX", "ISSUE", "RELEASES", "WHAT HAPPENS"], rows)
            continue
        output.echo(title)
        for race in found:
            output.echo(output.shortened(f"  {race.number:<7} {race.title}"))
    return 0


def _mentions(race: Race, words: tuple[str, ...]) -> bool:
    """Return whether the texts of a race have all words, in any case."""
    text = " ".join((race.number, race.issue, race.title, race.story, race.invariant)).lower()
    return all(word.lower() in text for word in words)


@command.command("gates")
@click.option(
    "--release", default=LATEST, show_default=True, help="How this minor release had them."
)
@format_option()
def gates(release: str, output_format: str) -> None:
    """List all fix gates: the failure without the fix, the releases that have it, and the switch."""
    from controlplane.gates import CATALOGUE, OFF, by_number, fix_gates

    forms = fix_gates(release).to_header()
    ordered = sorted(CATALOGUE.values(), key=lambda gate: (gate.component, by_number(gate.number)))
    if output_format == "json":
        output.emit_json(
            [
                {
                    "number": gate.number,
                    "issue": gate.issue,
                    "component": gate.component,
                    "title": gate.title,
                    "fixed_in": gate.fixed_in or None,
                    "unfixed_from": gate.unfixed_from or None,
                    "variants": gate.variants,
                    "default": gate.default or OFF,
                    "release": release,
                    "form": forms[gate.number],
                }
                for gate in ordered
            ]
        )
        return
    output.table(
        f"Fix gates: {len(ordered)}",
        ["FIX", "ISSUE", "COMPONENT", "WITHOUT IT", "FIXED IN", f"IN {release}"],
        [
            (
                gate.number,
                gate.issue,
                gate.component,
                gate.title,
                gate.fixed_in or "proposed",
                forms[gate.number],
            )
            for gate in ordered
        ],
    )
    output.tell("--without-fix N turns one off, --fix N[=FORM] puts one in force.")


@command.command("show")
@click.argument("number")
@format_option()
def show(number: str, output_format: str) -> None:
    """Show the upstream issue, the broken invariant, the switch, and the options of its scenario."""
    from controlplane.gates import CATALOGUE
    from controlplane.races import catalogue

    race = catalogue.find(number)
    number = race.number
    gate = CATALOGUE.get(number)
    if output_format == "json":
        output.emit_json({**race.to_json(), "variants": gate.variants if gate else ()})
        return
    reported = f"issue {race.issue}" if race.issue else "not reported"
    output.tell(f"{race.number}: {race.title} ({reported}, {race.component})\n")
    output.tell(race.story + "\n")
    output.tell(f"Invariant:  {race.invariant}")
    if race.seen:
        output.tell(f"Seen:       on real Kubernetes 1.36.2 components: {race.seen}")
    output.tell(f"Releases:   {race.releases}")
    output.tell(f"Found with: {_flags(race, race.unfixed_options)}")
    output.tell(f"Not with:   {_flags(race, race.repaired_options)}")
    if gate is not None:
        output.tell(
            f"Switch:     --without-fix {number}; forms of the fix: {', '.join(gate.variants)}"
            f" (--fix {number}=FORM)"
        )
    from controlplane.races.boundary import FORMS

    if number in FORMS:
        program = f"kube-{FORMS[number].component}"
        output.tell(f"Real ones:  controlplane confirm {number} --component {program}=PATH")
    own = race.scenario.options
    if own:
        output.tell("\nOptions of its own:")
    for option in own:
        default = race.scenario.default(option)
        told = {True: "on", False: "off"}.get(default, default) if option.type is bool else default
        choices = f" ({', '.join(option.values)})" if option.values else ""
        output.tell(f"  --{option.name}{choices}  {option.help} [default: {told}]")


def _flags(race: Race, asked: dict[str, Any]) -> str:
    """Options as they are written on the command line."""
    options = {option.key: option for option in race.scenario.all_options}
    words: list[str] = []
    for key, value in asked.items():
        name = options[key].name
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            for each in value if isinstance(value, tuple) else (value,):
                words += [f"--{name}", str(each)]
    return " ".join(words) or "nothing more"


@command.command("explore", cls=ScenarioCommand, find=_scenario)
@click.argument("number")
@search_options
def explore(number: str, scenario: Scenario, asked: dict[str, Any], **how: Any) -> int:
    """Search schedules of a race's scenario for a broken invariant. Its own options come after NUMBER.

    Exit status 1 when one is found.
    """
    from controlplane.races import catalogue

    return search(scenario, asked, own=catalogue.find(number).number, **how)


@command.command("run", cls=ScenarioCommand, find=_scenario)
@click.argument("number")
@click.option("--schedules", type=click.IntRange(1), help="How many schedules to try at most.")
@out_option()
@driver_option("bare")
@format_option()
def run(
    number: str,
    scenario: Scenario,
    asked: dict[str, Any],
    schedules: int | None,
    out: Path | None,
    driver: Any,
    output_format: str,
) -> int:
    """Show a race: the first schedule that breaks without the fix, run with the fixes asked for.

    The schedule is searched for with the fix off (without a hint where to look); then it is run
    with the gates as asked, by default all fixed. Exit status 1 when the invariant breaks.
    """
    from controlplane.races import catalogue
    from controlplane.scenarios.engine.plan import plan_of
    from controlplane.scenarios.search.exploring import Campaign, first_seed

    race = catalogue.find(number)
    number = race.number
    campaign = Campaign(plan_of(scenario, **asked))
    limit = schedules or race.schedules
    found = Campaign(race.unfixed()).explore(limit, seed=first_seed(asked.get("seed", 0)))
    if not found.findings:
        output.tell(f"no schedule of {limit} broke without the fix; try more with --schedules")
        return 0
    finding = found.findings[0]
    done = campaign.under(finding.seed, driver)
    result = done.result
    left = done.save(out) if out is not None else ()
    if output_format == "json":
        output.emit_json(
            {
                "scenario": scenario.name,
                "gates": campaign.plan.gates.to_header(),
                "schedule": finding.schedule,
                "seed": finding.seed,
                "verdict": result.verdict,
                "reason": result.reason,
                "steps": result.steps,
                "trace_hash": result.trace_hash,
            }
        )
    else:
        output.tell(
            f"Without the fix, schedule {finding.schedule} (seed {finding.seed}) is the first to break. Here it is"
            f" with gates {reporting.gates_text(campaign.plan, number)}:\n"
        )
        reporting.print_timeline(done.world)
        output.tell(f"{result.verdict}: {result.reason}")
        reporting.print_left(out, left)
    reporting.tell_traceback(done.traceback, out)
    return 0 if result.ok else 1


@command.command("power")
@click.argument("gates", nargs=-1, metavar="[GATE]...")
@click.option(
    "--schedules",
    type=click.IntRange(1),
    default=2000,
    show_default=True,
    help="How many schedules a search tries at most.",
)
@click.option(
    "--seconds",
    type=Finite(min=0, min_open=True),
    metavar="S",
    help="Stop each search after this number of seconds.",
)
@click.option(
    "--strategy",
    default="portfolio",
    show_default=True,
    metavar="NAME",
    help="The strategy that answers choices.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the first search.")
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many searches for each gate, each with other seeds; medians are reported.",
)
@click.option("--jobs", type=click.IntRange(1), help="Processes. [default: as many as cores]")
@click.option(
    "--component",
    type=Choice(["scheduler", "kubelet", "controllers", "storage", "apiserver", "client"]),
    default="scheduler",
    show_default=True,
    help="Whose gates, under the default churn of which.",
)
@format_option()
def power(
    gates: tuple[str, ...],
    schedules: int,
    seconds: float | None,
    strategy: str,
    seed: int,
    seeds: int,
    jobs: int | None,
    component: str,
    output_format: str,
) -> int:
    """Blind power: turn one gate off at a time, under the one default churn, and say which are found, and when.

    The first line turns none off: there nothing may break. Exit status 1 when something does.
    """
    import os
    import time

    from actors.strategies import NAMES
    from controlplane.errors import UsageError, unknown_name
    from controlplane.races import power as blind

    known = blind.gates(component)
    for gate in gates:
        if gate not in known:
            raise UsageError(unknown_name(f"gate of the {component}", gate, known))
    if strategy not in NAMES:
        raise UsageError(f"--strategy: {unknown_name('strategy', strategy, NAMES)}")
    progress = output.Progress()
    with interruption.interruptible() as ended:
        rows = blind.measure(
            ("", *(gates or known)),
            schedules,
            strategy=strategy,
            seed=seed,
            seeds=seeds,
            seconds=seconds,
            jobs=jobs or os.cpu_count() or 1,
            component=component,
            clock=time.perf_counter,
            progress=lambda done, of: progress.show(f"{done} of {of} searches ..."),
            over=lambda: ended.came,
        )
    progress.clear()
    if output_format == "json":
        output.emit_json([each.to_json() for each in rows])
    else:
        tried = [each for each in rows if each.gate]
        found = sum(each.schedules is not None for each in tried)
        output.table(
            f"Found in at most {schedules} schedules (median of {seeds}): {found} of {len(tried)}",
            ["GATE", "SCHEDULES", "SECONDS", "FOUND", "WITHOUT IT", "WHAT BROKE", "STRATEGY"],
            [
                (
                    "+".join((each.gate, *blind.hidden_by(each.gate))) or "none",
                    "-" if each.schedules is None else f"{each.schedules:g}",
                    "-" if each.seconds is None else f"{each.seconds:.1f}",
                    f"{len(each.found)}/{seeds}",
                    each.searches[0].title,
                    "; ".join(each.laws[:2]),
                    ", ".join(each.strategies[:2]),
                )
                for each in rows
            ],
            ["SCHEDULES", "SECONDS", "FOUND"],
        )
        output.tell(
            "A+B: B hides A, so it is off too, and what breaks without B alone does not count."
        )
    output.Outcome.status = int(any(each.found for each in rows if not each.gate))
    if ended.came:
        interruption.tell(f"these are {len(rows)} of {1 + len(gates or known)} lines")
        return ended.status
    return output.Outcome.status


command.add_command(mutants_command)
command.add_command(replay_command)
command.add_command(shrink_command)
