"""The result of a run or a search, as tables for people and trees for programs."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.cli import debug, interruption, output
from controlplane.errors import UsageError, plural
from controlplane.metrics.listing import rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actors import World
    from controlplane.metrics.family import Family
    from controlplane.scenarios.engine.execution import Execution
    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.engine.summary import Summary
    from controlplane.scenarios.search.exploring import Campaign
    from controlplane.scenarios.search.naming import Cause
    from controlplane.scenarios.search.tally import Failing, Identity, Tally

SHOWN_PODS = 60
SHOWN_NODES = 20
TIMELINE = 60
QUIET = {
    "task",
    "verdict",
    "choice",
    "apiserver.audited",
    "apiserver.changed",
    "controller.popped",
    "informer.read",
    "client.listed",
}
"""A timeline leaves these out: they are many, and `controlplane logs` has them all."""


def print_summary(summary: Summary, wall: float, out: Path | None = None) -> None:
    """Nodes, workloads, pods, why some are pending, and how it ended."""
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
        output.tell(f"Pods: {phases}")
    _print_pending(summary, out)
    did = summary.activity
    output.tell(
        f"{plural(did.created, 'pod')} created, {did.bound:,} bound to a node after"
        f" {float(did.mean_wait_s):.4g} s on average ({did.longest_wait_s} s at most),"
        f" {plural(did.deleted, 'deletion')}"
    )
    output.tell(
        f"{summary.verdict}: {summary.reason}. Virtual time {summary.virtual_s} s, {summary.steps} steps,"
        f" {wall:.2f} s of wall time, trace {summary.trace_hash}"
    )
    if summary.periodic:
        output.tell(f"would go on, with --until SECONDS: {'; '.join(summary.periodic)}")


def _print_pending(summary: Summary, out: Path | None) -> None:
    pending = summary.pending()
    if not pending:
        return
    reasons: dict[str, list[str]] = {}
    for line in pending:
        reasons.setdefault(line.why or "waiting", []).append(line.key)
    shown = sorted(reasons.items(), key=lambda entry: -len(entry[1]))[:SHOWN_NODES]
    output.table(
        f"Pending: {len(pending)}",
        ["PODS", "FOR EXAMPLE", "WHY"],
        [(len(keys), keys[0], why) for why, keys in shown],
        ["PODS"],
    )
    place, before = (out, "") if out is not None else ("out", "after a run with --out out, ")
    command = f"controlplane logs why pod/{shown[0][1][0]} --log {shlex.quote(str(place))}"
    output.echo(f"{before}`{command}` tells why, node by node")


def print_metrics(families: Iterable[Family]) -> None:
    """The metrics: one line per sample, durations in virtual seconds."""
    found = [*rows(families)]
    output.table(f"Metrics: {len(found)}", ["NAME", "LABELS", "VALUE"], found)


def kept(
    run: Execution, out: Path | None, *, show_secrets: bool = False
) -> tuple[tuple[str, ...], UsageError | None]:
    """Leave a run's files, if that was asked for: their names, or why they could not be written.

    So that what a run came to can still be printed.
    """
    if out is None:
        return (), None
    try:
        return run.save(out, show_secrets=show_secrets), None
    except UsageError as error:
        return (), error


def tell_end(
    run: Execution, out: Path | None, status: int, *, ended: bool, unwritten: UsageError | None
) -> int:
    """The failures of a run, one line each, after all other output; the exit status.

    `ended`: the run was interrupted. `unwritten`: why its files could not be left, see `kept`.
    """
    tell_traceback(run.traceback, out)
    if ended:
        interruption.tell("this is what was reached")
    if unwritten is not None:
        output.complain(f"controlplane: {unwritten}")
        return status or 2
    return status


def print_left(out: Path | None, names: Sequence[str]) -> None:
    """The files that were written."""
    if out is not None and names:
        output.tell("written: " + ", ".join(f"{out}/{name}" for name in names))


def print_timeline(world: World) -> None:
    """The final state of the objects that users and components wrote."""
    from actors.jsonl import seconds

    rows = []
    for event in world.log:
        fault = event.event == "fault"
        if not fault and (event.obj is None or event.event in QUIET or _is_noise(event.obj)):
            continue
        data = dict(event.data or {})
        what = data.pop("fault" if fault else "verb", "")
        told = ", ".join(
            f"{key} {value}"
            for key, value in data.items()
            if key not in {"by", "code"} and isinstance(value, str | int | float)
        )
        rows.append(
            (
                event.step,
                seconds(event.t_ns),
                data.get("by", event.actor),
                what or event.event,
                event.obj or "",
                (event.uid or "")[:8],
                told,
            )
        )
    if not rows:
        return
    title = "What happened" + (f" (last {TIMELINE} of {len(rows)})" if len(rows) > TIMELINE else "")
    columns = ["STEP", "T", "WHO", "WHAT", "OBJECT", "UID", "DETAILS"]
    output.table(title, columns, rows[-TIMELINE:], ["STEP", "T"])


def _is_noise(obj: str) -> bool:
    """Objects that components write about others, or to say that they live."""
    return obj.startswith(("Event/", "Lease/"))


def gates_text(plan: Plan, own: str = "") -> str:
    """The gate of interest and every other that is not as by default."""
    every = plan.gates.to_header()
    shown = {**({own: every[own]} if own in every else {}), **plan.gates.changed()}
    return ", ".join(f"{number}: {form}" for number, form in shown.items())


def plan_text(plan: Plan, own: str = "") -> str:
    """Name, gates and own options of what was run."""
    options = plan.scenario.options
    parts = [
        gates_text(plan, own),
        *(
            f"{option.name}: {_shown(value)}"
            for option in options
            if (value := plan[option.key]) not in (None, (), "")
        ),
    ]
    told = "; ".join(part for part in parts if part)
    return f"{plan.scenario.name} ({told})" if told else plan.scenario.name


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value)


def exploration_json(
    campaign: Campaign, found: Tally, wall: float, earlier: int = 0
) -> dict[str, Any]:
    """A search, for programs; `earlier` schedules of it ran before these `wall` seconds."""
    plan = campaign.plan
    return {
        "scenario": plan.scenario.name,
        "gates": plan.gates.to_header(),
        "options": plan.header()["options"],
        "strategy": campaign.strategy,
        "schedules": found.schedules,
        "earlier": earlier,
        "distinct": len(found.classes),
        "exhausted": found.exhausted,
        "steps": found.steps,
        "verdicts": found.verdicts,
        "reached": {goal.name: found.reached.get(goal.name, 0) for goal in plan.scenario.sometimes},
        "findings": [
            {
                "schedule": each.schedule,
                "seed": each.seed,
                "verdict": each.verdict,
                "reason": each.reason,
                "first": each.first,
                "times": each.times,
            }
            for each in found.failing
        ],
        "wall_s": round(wall, 3),
        "schedules_per_s": round((found.schedules - earlier) / wall, 1) if wall else None,
    }


def print_exploration(
    campaign: Campaign, found: Tally, wall: float, own: str = "", earlier: int = 0
) -> None:
    """A search, for people; `earlier` schedules of it ran before these `wall` seconds."""
    rate = (found.schedules - earlier) / wall if wall else 0
    before = f" ({earlier} of them earlier)" if earlier else ""
    output.tell(
        f"{plan_text(campaign.plan, own)}: {found.schedules} schedules{before}, {len(found.classes)} distinct,"
        f" {found.steps} steps, {rate:.0f} schedules/s"
    )
    if found.exhausted:
        output.tell("that is every schedule that the strategy distinguishes")
    never = [
        goal.name for goal in campaign.plan.scenario.sometimes if not found.reached.get(goal.name)
    ]
    if never:
        output.tell(f"never reached, so nothing is said about it: {'; '.join(never)}")
    if not found.failing:
        output.tell("nothing broke")
        return
    if found.failures == 1:
        (one,) = found.failing
        output.tell(
            f"broken in {one.times} of them, first in schedule {one.first} (seed {one.seed}):"
        )
        output.tell(f"  {one.verdict}: {one.reason}")
        return
    output.table(
        f"{found.failures} different failures",
        ["TIMES", "FIRST IN", "SHORTEST SEED", "CHOICES", "WHAT"],
        [
            (each.times, each.first, each.seed, len(each.choices), f"{each.verdict}: {each.reason}")
            for each in found.failing
        ],
        ["TIMES", "FIRST IN", "SHORTEST SEED", "CHOICES"],
    )


def print_causes(others: Sequence[Failing], causes: Mapping[Identity, Cause]) -> None:
    """Print the cause of each failure besides the one whose story was told."""
    if not others:
        return
    output.echo("\nThe other failures:\n")
    for each in others:
        output.tell(f"  schedule {each.first}: {each.verdict}: {each.reason}")
        cause = causes.get(each.identity)
        lines = ["its cause was not looked for"] if cause is None else cause.lines()
        for line in lines or ["no known race"]:
            output.tell(f"    {line}")
    output.echo("")


def tell_traceback(text: str, out: Path | None = None) -> None:
    """The traceback of an exception that ended a run: never dropped."""
    if not text:
        return
    if debug.ON:
        output.complain(text.rstrip())
    elif out is not None:
        output.complain(f"controlplane: the traceback: {out}/traceback.txt, or --debug")
    else:
        output.complain(f"controlplane: the traceback: {saved(text)}, or --debug")


def saved(text: str) -> Path:
    """Save a traceback where the system keeps temporary files; the file."""
    with tempfile.NamedTemporaryFile(
        "w", prefix="controlplane-", suffix=".traceback.txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(text)
    return Path(file.name)
