"""`controlplane race`: the catalogue of published races."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli import output
from controlplane.cli.options import driver_option, format_option, gate_options, seed_option
from controlplane.gates import LATEST

if TYPE_CHECKING:
    from actors import Exploration, World
    from controlplane.chaos.campaign import Campaign

TIMELINE = 60
QUIET = {"task", "verdict", "choice"}


@click.group("race", short_help="The catalogue of published races.")
def command() -> None:
    """List, run, explore and replay published races."""


def _campaign(number: str, asked: dict[str, Any]) -> Campaign:
    from controlplane.chaos.campaign import Campaign
    from controlplane.gates import fix_gates
    from controlplane.races import catalogue

    race = catalogue.find(number)
    gates = fix_gates(asked["release"], tuple(asked["without"]), tuple(asked["variants"]))
    options = {
        **race.options,
        "queueing-hints": asked.get("hints", True),
        "all-invariants": asked.get("every", False),
    }
    return Campaign(f"race {number}", race.build, gates, options)


every_option = click.option(
    "--all-invariants",
    "every",
    is_flag=True,
    help="Ask all invariants of the component, not only those that the race breaks.",
)
hints_option = click.option(
    "--queueing-hints/--no-queueing-hints",
    "hints",
    default=True,
    show_default=True,
    help="The scheduler's feature gate.",
)
schedules_option = click.option(
    "--schedules",
    default=1000,
    show_default=True,
    type=click.IntRange(1),
    help="How many schedules to try at most.",
)
out_option = click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Leave the recording of what broke there.",
)


@command.command("list")
@format_option()
def list_races(output_format: str) -> None:
    """All races of the catalogue."""
    from controlplane.races import catalogue

    races = catalogue.all_races()
    if output_format == "json":
        output.emit_json([race.to_json() for race in races])
        return
    output.table(
        f"Races: {len(races)}",
        ["FIX", "ISSUE", "COMPONENT", "WHAT HAPPENS", "RELEASES"],
        [(race.number, race.issue, race.component, race.title, race.releases) for race in races],
    )


@command.command("gates")
@click.option(
    "--release", default=LATEST, show_default=True, help="How this minor release had them."
)
@format_option()
def gates(release: str, output_format: str) -> None:
    """All fix gates: what happens without the fix, who has it, and the switch."""
    from controlplane.gates import CATALOGUE, OFF, fix_gates

    forms = fix_gates(release).to_header()
    ordered = sorted(CATALOGUE.values(), key=lambda gate: (gate.component, int(gate.number)))
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
    output.echo("--without-fix N turns one off, --fix N[=FORM] puts one in force.")


@command.command("show")
@click.argument("number")
@format_option()
def show(number: str, output_format: str) -> None:
    """What happened upstream, what breaks, and the switch."""
    from controlplane.gates import CATALOGUE
    from controlplane.races import catalogue

    race = catalogue.find(number)
    gate = CATALOGUE[number]
    if output_format == "json":
        output.emit_json({**race.to_json(), "variants": gate.variants})
        return
    output.echo(f"{race.number}: {race.title} (issue {race.issue}, {race.component})\n")
    output.echo(race.story + "\n")
    output.echo(f"Invariant:  {race.invariant}")
    output.echo(f"Releases:   {race.releases}")
    output.echo(
        f"Switch:     --without-fix {race.number}; forms of the fix: {', '.join(gate.variants)}"
        f" (--fix {race.number}=FORM)"
    )


@command.command("explore")
@click.argument("number")
@schedules_option
@click.option("--all", "keep_going", is_flag=True, help="Do not stop at the first finding.")
@hints_option
@every_option
@seed_option()
@gate_options
@out_option
@format_option()
def explore(
    number: str,
    schedules: int,
    keep_going: bool,
    seed: int,
    out: Path | None,
    output_format: str,
    **asked: Any,
) -> int:
    """Search random schedules of a race's workload for a broken invariant.

    Exit status 1 when one is found.
    """
    campaign = _campaign(number, asked)
    found, wall = _explore(campaign, schedules, seed, stop_at_first=not keep_going)
    if found.findings and out is not None:
        campaign.recording(found.findings[0]).save(out)
    if output_format == "json":
        output.emit_json(_exploration_json(campaign, found, wall))
    else:
        _print_exploration(campaign, found, wall)
        if found.findings:
            _print_finding(campaign, found)
            output.echo(
                f"written: {out}"
                if out
                else "keep it with --out FILE, repeat it with controlplane race replay FILE"
            )
    return 1 if found.findings else 0


def _explore(
    campaign: Campaign, schedules: int, seed: int, *, stop_at_first: bool
) -> tuple[Exploration, float]:
    progress = output.Progress()
    started = time.perf_counter()
    found = campaign.explore(
        schedules,
        seed=seed,
        stop_at_first=stop_at_first,
        progress=(lambda done: progress.show(f"schedule {done} of {schedules}"))
        if progress.on
        else None,
    )
    wall = time.perf_counter() - started
    progress.clear()
    return found, wall


def _gates_text(campaign: Campaign) -> str:
    """The gate of the race and every other that is not as by default."""
    own = campaign.scenario.removeprefix("race ")
    every = campaign.gates.to_header()
    shown = {own: every[own], **campaign.gates.changed()} if own in every else every
    return ", ".join(f"{number}: {form}" for number, form in shown.items())


def _exploration_json(campaign: Campaign, found: Exploration, wall: float) -> dict[str, Any]:
    return {
        "scenario": campaign.scenario,
        "gates": campaign.gates.to_header(),
        "options": campaign.options,
        "schedules": found.schedules,
        "distinct": found.distinct,
        "steps": found.steps,
        "verdicts": found.verdicts,
        "findings": [
            {
                "schedule": each.schedule,
                "seed": each.seed,
                "verdict": each.result.verdict,
                "reason": each.result.reason,
            }
            for each in found.findings
        ],
        "wall_s": round(wall, 3),
        "schedules_per_s": round(found.schedules / wall, 1) if wall else None,
    }


def _print_exploration(campaign: Campaign, found: Exploration, wall: float) -> None:
    rate = found.schedules / wall if wall else 0
    hints = "on" if campaign.options["queueing-hints"] else "off"
    output.echo(
        f"{campaign.scenario} ({_gates_text(campaign)}; queueing hints {hints}):"
        f" {found.schedules} schedules, {found.distinct} distinct, {found.steps} steps, {rate:.0f} schedules/s"
    )
    if found.findings:
        first = found.findings[0]
        output.echo(
            f"broken in {len(found.findings)} of them, first in schedule {first.schedule} (seed {first.seed}):"
        )
        output.echo(f"  {first.result.verdict}: {first.result.reason}")
    else:
        output.echo("nothing broke")


def _print_finding(campaign: Campaign, found: Exploration) -> None:
    from actors import RandomWalk

    world, _ = campaign.run(RandomWalk(found.findings[0].seed))
    _print_timeline(world)


def _print_timeline(world: World) -> None:
    from actors.jsonl import seconds

    rows = []
    for event in world.log:
        if event.obj is None or event.event in QUIET or not event.obj.startswith("Pod"):
            continue
        data = dict(event.data or {})
        what = data.pop("verb", "")
        told = ", ".join(
            f"{key} {value}"
            for key, value in data.items()
            if key not in {"by", "code"} and isinstance(value, str | int | float)
        )
        by = data.get("by", event.actor)
        rows.append(
            (
                event.step,
                seconds(event.t_ns),
                by,
                what or event.event,
                event.obj,
                (event.uid or "")[:8],
                told,
            )
        )
    shown = rows[-TIMELINE:]
    title = "What happened to the pods" + (
        f" (last {TIMELINE} of {len(rows)})" if len(rows) > TIMELINE else ""
    )
    output.table(
        title, ["STEP", "T", "WHO", "WHAT", "OBJECT", "UID", "DETAILS"], shown, ["STEP", "T"]
    )


@command.command("run")
@click.argument("number")
@schedules_option
@hints_option
@every_option
@seed_option()
@gate_options
@driver_option("bare")
@format_option()
def run(
    number: str,
    schedules: int,
    seed: int,
    driver: str,
    output_format: str,
    **asked: Any,
) -> int:
    """Show a race: the first schedule that breaks without the fix, run with the fixes asked for.

    The schedule is searched for with the fix off (nothing is told where to look); then it is run
    with the gates as asked, by default all fixed. Exit status 1 when the invariant breaks.
    """
    from actors import RandomWalk

    campaign = _campaign(number, asked)
    bare = _campaign(
        number, {**asked, "without": [*asked["without"], number], "variants": [], "hints": True}
    )
    found, _ = _explore(bare, schedules, seed, stop_at_first=True)
    if not found.findings:
        output.echo(f"no schedule of {schedules} broke without the fix; try more with --schedules")
        return 0
    finding = found.findings[0]
    world, result = campaign.run(RandomWalk(finding.seed), driver)
    if output_format == "json":
        output.emit_json(
            {
                "scenario": campaign.scenario,
                "gates": campaign.gates.to_header(),
                "schedule": finding.schedule,
                "seed": finding.seed,
                "verdict": result.verdict,
                "reason": result.reason,
                "steps": result.steps,
                "trace_hash": result.trace_hash,
            }
        )
        return 0 if result.ok else 1
    output.echo(
        f"Without the fix, schedule {finding.schedule} (seed {finding.seed}) is the first to break. Here it is with"
        f" gates {_gates_text(campaign)}:\n"
    )
    _print_timeline(world)
    output.echo(f"{result.verdict}: {result.reason}")
    return 0 if result.ok else 1


@command.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@driver_option("bare")
@format_option()
def replay(file: Path, driver: str, output_format: str) -> int:
    """Repeat a recorded schedule exactly; stop at the first difference.

    Exit status 1 when the invariant breaks again, as recorded, or the run diverges.
    """
    from actors.recording import load
    from controlplane import __version__
    from controlplane.chaos import campaign as campaigns
    from controlplane.races import catalogue

    recording = load(file, package=__version__)
    campaign = campaigns.of_recording(recording, lambda number: catalogue.find(number).build)
    world, result = campaigns.replay(campaign, recording, driver)
    same = result.trace_hash == recording.trace_hash
    if output_format == "json":
        output.emit_json(
            {
                "scenario": campaign.scenario,
                "verdict": result.verdict,
                "reason": result.reason,
                "trace_hash": result.trace_hash,
                "same_trace": same,
            }
        )
        return 0 if result.ok and same else 1
    _print_timeline(world)
    output.echo(f"{result.verdict}: {result.reason}")
    output.echo(
        f"trace {result.trace_hash}: {'the same as recorded' if same else 'NOT as recorded: ' + recording.trace_hash}"
    )
    return 0 if result.ok and same else 1
