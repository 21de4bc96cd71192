"""`controlplane fork RECORDING --at STEP`: the same run up to a step, and then another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from actors.strategies import NAMES
from controlplane.cli import interruption, output, reporting
from controlplane.cli.names import Choice
from controlplane.cli.options import (
    Finite,
    allow_code_option,
    allowed_code,
    driver_option,
    format_option,
    out_option,
)
from controlplane.errors import plural

if TYPE_CHECKING:
    from controlplane.scenarios.search.forking import Applied


@click.command("fork", short_help="Go on otherwise from a step of a recording.")
@click.argument("file", type=click.Path(path_type=Path), metavar="RECORDING")
@click.option(
    "--at",
    "step",
    type=click.IntRange(0),
    metavar="STEP",
    help="The last step that is repeated. [default: the last one of the recording]",
)
@click.option(
    "--strategy",
    type=Choice(NAMES),
    default="fifo",
    show_default=True,
    help="Who answers the choices from there on.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Its seed.")
@click.option(
    "--add",
    "files",
    multiple=True,
    metavar="FILE",
    help="Manifests that are applied right after that step; repeatable.",
)
@click.option(
    "--until",
    type=Finite(0),
    metavar="S",
    help="Stop at this number of virtual seconds since the start. [default: as recorded]",
)
@out_option()
@driver_option("bare")
@allow_code_option()
@format_option()
def command(
    file: Path,
    step: int | None,
    strategy: str,
    seed: int,
    files: tuple[str, ...],
    until: float | None,
    out: Path | None,
    driver: Any,
    output_format: str,
) -> int:
    """Repeat a recorded run up to a step, then go on with another strategy or seed, or with other objects.

    What the folder --out holds is a run like any other: replay it, ask it, fork it again, or compare it
    with the run that it left (`controlplane logs diff RUN DIR`).

    Exit status 1 when the run ends badly, or when an object was refused.
    """
    from actors import strategies
    from controlplane.scenarios.engine.execution import check_folder
    from controlplane.scenarios.inputs import reading
    from controlplane.scenarios.search import forking, replaying

    recording = replaying.load(file)
    changed: dict[str, Any] = {} if until is None else {"until": until}
    plan = replaying.plan_of_recording(recording, file, allowed=allowed_code(), **changed)
    at = recording.steps if step is None else step
    fork = forking.forked(
        plan, recording, at, strategies.named(strategy, seed), add=reading.load(files).submissions
    )
    run = fork.run
    if out is not None:
        check_folder(out)
    with interruption.interruptible(lambda: run.world.interrupt(interruption.REASON)) as ended:
        result = run.execute(driver)
    refused = [error for each in fork.applied if (error := each.refusal) is not None]
    status = ended.status if ended.came else int(not result.ok or bool(refused))
    output.Outcome.status = status
    left, unwritten = reporting.kept(run, out)
    if output_format == "json":
        output.emit_json(
            {
                "scenario": plan.scenario.name,
                "forked_at": at,
                "strategy": strategy,
                "seed": seed,
                "applied": [_applied(each) for each in fork.applied],
                "verdict": result.verdict,
                "reason": result.reason,
                "steps": result.steps,
                "trace_hash": result.trace_hash,
                "same_trace": result.trace_hash == recording.trace_hash,
            }
        )
    else:
        output.echo(
            f"{plural(at, 'step')} of {file} repeated,"
            f" {plural(result.steps - at, 'step')} since ({strategy}, seed {seed})"
        )
        then = f"{recording.verdict}: {recording.reason}" if recording.reason else recording.verdict
        output.echo(f"{result.verdict}: {result.reason}")
        output.echo(f"the recorded run: {then}")
        if result.trace_hash == recording.trace_hash:
            output.echo("both runs are the same")
        reporting.print_left(out, left)
        if out is not None and unwritten is None:
            origin = file if file.is_dir() else file.parent
            output.echo(f"where they part: controlplane logs diff {origin} {out}")
    for error in refused:
        output.complain(f"controlplane: {error}")
    return reporting.tell_end(run, out, status, ended=ended.came, unwritten=unwritten)


def _applied(each: Applied) -> dict[str, Any]:
    return {
        "kind": each.submission.tree.get("kind"),
        "name": each.submission.tree["metadata"]["name"],
        "code": each.code,
        "message": each.message,
    }
