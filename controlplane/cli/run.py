"""`controlplane run FILE...`: emulate until settled, print what happened."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli import output
from controlplane.cli.options import (
    driver_option,
    feature_gates_option,
    format_option,
    gate_options,
    seed_option,
)
from controlplane.cli.scheduler_options import scheduler_options

if TYPE_CHECKING:
    from controlplane.emulation import Emulation
    from controlplane.summary import Summary

SHOWN_PODS = 60
SHOWN_NODES = 20


@click.command("run", short_help="Emulate until settled, print what happened.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--nodes",
    "node_count",
    type=click.IntRange(0, 100_000),
    help="Nodes to make [default: 3 if the files bring none].",
)
@click.option("--node-cpu", default="8", show_default=True, help="CPU of each made node.")
@click.option("--node-memory", default="32Gi", show_default=True, help="Memory of each made node.")
@click.option(
    "--all-at-once", is_flag=True, help="Create all pods of a trace at time 0 and delete none."
)
@click.option(
    "--heartbeats/--no-heartbeats",
    default=None,
    help="Renew node leases [default: only without a trace].",
)
@click.option(
    "--kubelet-events/--no-kubelet-events",
    default=None,
    help="Let kubelets report Events about containers [default: only without a trace].",
)
@click.option(
    "--informers",
    type=click.Choice(["joined", "split"]),
    default="joined",
    show_default=True,
    help="One task per informer, or one each for reflector, processor and handlers (more interleavings).",
)
@scheduler_options
@click.option(
    "--apiservers",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    help="API servers over one store; each process is connected to one of them at a time.",
)
@click.option(
    "--cache-lag",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="By how much the caches of several API servers may lag behind the store; how much is a choice.",
)
@click.option(
    "--schedulers",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    help="Schedulers; one of several leads.",
)
@click.option(
    "--controller-managers",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    help="Controller managers; one of several leads.",
)
@click.option(
    "--until", type=click.FloatRange(min=0), metavar="SECONDS", help="Stop at this virtual time."
)
@click.option(
    "--strategy",
    type=click.Choice(["fifo", "random-walk"]),
    default="fifo",
    show_default=True,
    help="Who answers the choices.",
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path),
    metavar="RUN.REC",
    help="Repeat a recorded run of the same files.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Leave log.jsonl, run.rec and objects.yaml there.",
)
@click.option(
    "--log-level",
    type=click.Choice(["trace", "debug", "info", "warning"]),
    default="trace",
    show_default=True,
    help="What log.jsonl keeps; trace is everything.",
)
@seed_option()
@gate_options
@feature_gates_option()
@driver_option("trio")
@format_option()
def command(output_format: str, out: Path | None, **asked: Any) -> int:
    """Load manifests (YAML, JSON, folders) or an openb trace (node and pod lists as CSV), emulate a whole
    control plane until nothing more happens, and print what happened.

    Exit status 1 when the run ended badly: an invariant broke, a deadlock, a divergence from
    --replay.
    """
    from actors import collector
    from controlplane.emulation import Emulation, Settings

    collector.rest()
    emulation = Emulation.prepare(Settings(**asked, keep_log=out is not None))
    progress = output.Progress()
    started = time.perf_counter()
    summary = emulation.run(progress.show if progress.on else None)
    wall = time.perf_counter() - started
    progress.clear()
    if out is not None:
        emulation.save(out)
    if output_format == "json":
        output.emit_json({**summary.to_json(), "wall_s": round(wall, 3)})
    else:
        _print(summary, emulation, wall, out)
    return 0 if emulation.ended_well else 1


def _print(summary: Summary, emulation: Emulation, wall: float, out: Path | None) -> None:
    nodes = summary.nodes
    rows = [
        (
            line.name,
            "Ready" if line.ready else "NotReady",
            line.pods,
            f"{line.cpu_requested}/{line.cpu_allocatable}",
            f"{line.memory_requested}/{line.memory_allocatable}",
        )
        for line in nodes[:SHOWN_NODES]
    ]
    shown = f" (first {SHOWN_NODES})" if len(nodes) > SHOWN_NODES else ""
    output.table(
        f"Nodes: {len(nodes)}, {sum(line.ready for line in nodes)} ready{shown}",
        ["NAME", "STATUS", "PODS", "CPU", "MEMORY"],
        rows,
        ["PODS"],
    )
    if summary.workloads:
        output.table(
            f"Workloads: {len(summary.workloads)}",
            ["KIND", "NAME", "READY", "AVAILABLE"],
            [
                (line.kind, line.key, f"{line.ready}/{line.wanted}", line.available)
                for line in summary.workloads
            ],
            ["AVAILABLE"],
        )
    phases = ", ".join(f"{count} {phase}" for phase, count in summary.phases().items()) or "none"
    if summary.pods and len(summary.pods) <= SHOWN_PODS:
        output.table(
            f"Pods: {phases}",
            ["NAME", "PHASE", "READY", "NODE"],
            [
                (line.key, line.phase, "yes" if line.ready else "no", line.node or "-")
                for line in summary.pods
            ],
        )
    else:
        output.echo(f"Pods: {phases}")
    pending = summary.pending()
    if pending:
        reasons: dict[str, list[str]] = {}
        for line in pending:
            reasons.setdefault(line.why or "waiting", []).append(line.key)
        output.table(
            f"Pending: {len(pending)}",
            ["PODS", "FOR EXAMPLE", "WHY"],
            [
                (len(keys), keys[0], why)
                for why, keys in sorted(reasons.items(), key=lambda entry: -len(entry[1]))[
                    :SHOWN_NODES
                ]
            ],
            ["PODS"],
        )
    did = summary.activity
    output.echo(
        f"{did.created} pods created, {did.bound} bound to a node after {did.mean_wait_s} s on average"
        f" ({did.longest_wait_s} s at most), {did.deleted} deletions"
    )
    output.echo(
        f"{summary.verdict}: {summary.reason}. Virtual time {summary.virtual_s} s, {summary.steps} steps,"
        f" {wall:.2f} s of wall time, trace {summary.trace_hash}"
    )
    for note in emulation.notes:
        output.echo(note)
    if out is not None:
        output.echo(f"written: {out}/log.jsonl, {out}/run.rec, {out}/objects.yaml")
