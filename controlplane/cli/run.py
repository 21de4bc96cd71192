"""`controlplane run FILE...`: emulate until settled, print what happened."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli import interruption, output, reporting, scenario_steps
from controlplane.cli.options import (
    asked_of,
    declared_options,
    driver_option,
    format_option,
    log_level_option,
    out_option,
    replay_option,
    show_secrets_option,
)
from controlplane.scenarios import manifest_run as files
from controlplane.scenarios.search import loading

if TYPE_CHECKING:
    from pathlib import Path

    from controlplane.scenarios.engine.execution import Execution
    from controlplane.scenarios.engine.scenario import Scenario


@click.command("run", short_help="Emulate until settled, print what happened.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@declared_options(files.SCENARIO, but=(files.FILES,))
@replay_option()
@out_option()
@show_secrets_option()
@log_level_option()
@driver_option("trio")
@click.option(
    "--metrics",
    is_flag=True,
    help="Also print what the components counted; with --out also leave it over time.",
)
@format_option()
def command(
    output_format: str,
    metrics: bool,
    out: Path | None,
    show_secrets: bool,
    log_level: str,
    driver: Any,
    replay: Path | None,
    **values: Any,
) -> int:
    """Load manifests (YAML, JSON, folders) or an openb trace (node and pod lists as CSV), emulate a whole
    control plane until only periodic work is left, and print what happened.

    Exit status 1 when the run ended badly: an invariant broke, a deadlock, a divergence from
    --replay; 130 when Ctrl-C ended it, with what was reached by then.
    """
    from actors import collector

    with collector.held():
        from controlplane.metrics import listing
        from controlplane.scenarios.engine import device_table, queue_table
        from controlplane.scenarios.engine.custom_tables import custom_tables
        from controlplane.scenarios.engine.execution import check_folder
        from controlplane.scenarios.engine.kubelets import pictures
        from controlplane.scenarios.engine.metrics import metrics_of
        from controlplane.scenarios.engine.summary import summary_of
        from controlplane.scenarios.engine.unattended_kinds import note_of, note_of_unasked

        scenario = loading.from_module(files.__name__)
        run = prepare(scenario, values, replay, keep_log=out is not None, log_level=log_level)
    collector.rest()
    if out is not None:
        check_folder(out)
        if metrics:
            run.sample()
    progress = output.Progress()
    files.show_progress(run, progress.show, time.perf_counter)
    started = time.perf_counter()
    with interruption.interruptible(lambda: run.world.interrupt(interruption.REASON)) as ended:
        run.execute(driver)
    summary = summary_of(run)
    wall = time.perf_counter() - started
    progress.clear()
    status = output.Outcome.status = ended.status if ended.came else int(not run.result.ok)
    left, unwritten = reporting.kept(run, out, show_secrets=show_secrets)
    steps = scenario_steps.status_of(run)
    if steps is not None:
        status = status or int(steps["phase"] == "Failed")
        output.Outcome.status = status
        left = (*left, *scenario_steps.leave(run, out, steps))
    idle = note_of(
        run, [(each.tree["apiVersion"], each.tree["kind"]) for each in run.plan.given.submissions]
    )
    counted = metrics_of(run.cluster) if metrics else ()
    unasked = note_of_unasked(run.cluster.config)
    notes = [note for note in (*run.plan.given.notes, idle, unasked) if note]
    devices, queues = device_table.devices_of(run), queue_table.queues_of(run)
    if output_format == "json":
        told: dict[str, Any] = {"notes": notes}
        if devices:
            told["devices"] = [row._asdict() for row in devices]
        if steps is not None:
            told["scenario"] = steps
        if queues:
            told["queues"] = [row._asdict() for row in queues]
        if metrics:
            told["metrics"] = listing.tree(counted)
        output.emit_json({**summary.to_json(), **told, "wall_s": round(wall, 3)})
    else:
        reporting.print_summary(summary, wall, out)
        if steps is not None:
            scenario_steps.show(run, steps)
        for text in pictures(run):
            output.echo(text)
        if devices:
            output.table(*device_table.shown(devices))
        if queues:
            output.table(*queue_table.shown(queues))
        for found in custom_tables(run):
            output.table(*found)
        if metrics:
            reporting.print_metrics(counted)
        for note in notes:
            output.tell(note)
        reporting.print_left(out, left)
    return reporting.tell_end(run, out, status, ended=ended.came, unwritten=unwritten)


def prepare(
    scenario: Scenario,
    values: dict[str, Any],
    replay: Path | None,
    *,
    keep_log: bool,
    log_level: str,
) -> Execution:
    """The run that the command line asks for, or that it asks to repeat. Raises UsageError before anything runs."""
    from actors import EventLog
    from actors.log import LEVELS
    from controlplane.errors import UsageError
    from controlplane.scenarios.engine.execution import Execution
    from controlplane.scenarios.engine.plan import difference, plan_of
    from controlplane.scenarios.search import replaying
    from controlplane.scenarios.search.exploring import Campaign

    log = EventLog(LEVELS[log_level], keep=keep_log)
    asked = asked_of(scenario, values)
    if replay is None:
        plan = plan_of(scenario, **asked)
        return Execution(plan, Campaign(plan, plan["strategy"]).strategy_for(plan["seed"]), log=log)
    recording = replaying.load(replay)
    told = recording.header["scenario"]["name"]
    if told != scenario.name:
        raise UsageError(
            f"{replay}: records {told!r}, not a {scenario.name}: replay it with the command that made it,"
            " or with controlplane replay"
        )
    if "epoch" in recording.header["options"]:  # a session begins when it began
        asked["epoch"] = recording.header["options"]["epoch"]
    replaying.check_replayable(recording, replay)
    plan = plan_of(scenario, **asked)
    different = difference(recording.header, plan.header())
    if different:
        raise UsageError(f"{replay}: {different}")
    return replaying.replayed(plan, recording, log=log)
