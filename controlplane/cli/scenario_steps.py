"""The output of `run` for a Scenario of kube-scheduler-simulator: its phase, and the operations of each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.cli import output
from controlplane.scenarios.manifest_run import STEPS

if TYPE_CHECKING:
    from pathlib import Path

    from controlplane.scenarios.engine.execution import Execution

__all__ = ["leave", "show", "status_of"]

FILE: Final = "scenario.yaml"
Tree = dict[str, Any]


def status_of(run: Execution) -> Tree | None:
    """The status of the Scenario that a run had, None for a run without one, and for one that ended before its end."""
    status: Tree = run.notes.get(STEPS, {})
    return status or None


def leave(run: Execution, out: Path | None, status: Tree) -> tuple[str, ...]:
    """Write the Scenario with its status into the folder of a run; the names of the files. Raises UsageError."""
    if out is None or not out.is_dir():
        return ()
    import yaml

    from controlplane.api.yaml_text import dumper
    from controlplane.scenarios.engine.execution import written

    tree = {**run.plan.given.scenario.manifest.tree, "status": status}
    text = yaml.dump(tree, Dumper=dumper(), sort_keys=True, allow_unicode=True)
    with written(out / FILE) as draft:
        draft.write_text(text, encoding="utf-8")
    return (FILE,)


def show(run: Execution, status: Tree) -> None:
    """Print the timeline as a table, and the phase."""
    rows = []
    for events in status["scenarioResult"]["timeline"].values():
        for event in events:
            (verb,) = (name for name in ("create", "patch", "delete", "done") if name in event)
            step = event["step"]
            rows.append(
                (f"{step['major']}.{step['minor']}", verb, _object(event[verb]), event["id"])
            )
    name = run.plan.given.scenario.name
    heads = ("STEP", "OPERATION", "OBJECT", "ID")
    output.table(f"scenario {name}: {status['phase']}", heads, rows)
    if status.get("message"):
        output.complain(f"controlplane: scenario {name}: {status['message']}")


def _object(told: Tree) -> str:
    """Kind and name of the object of an operation."""
    from controlplane.scenarios.inputs.manifests import describe

    operation = told["operation"]
    if not operation:
        return "-"
    made = told.get("result") or operation.get("object")
    if made is None:
        made = {**(operation.get("typeMeta") or {}), "metadata": operation.get("objectMeta")}
    text = describe(made)
    node = (made.get("spec") or {}).get("nodeName") if made.get("kind") == "Pod" else None
    return f"{text} on {node}" if node else text
