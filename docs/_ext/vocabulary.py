"""The events of the log, from `controlplane.logs.vocabulary`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docs._ext.markdown import line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from controlplane.logs.vocabulary import Kind

GROUPS = {
    "runtime": ("log", "task", "message", "choice", "fault", "verdict"),
    "workload": ("user.", "benchmark."),
    "API server": ("apiserver.",),
    "client library": ("reflector.", "informer.", "client.", "election."),
    "scheduler": ("scheduler.",),
    "kubelet": ("kubelet.",),
}
"""Events by component, each by its name or the beginning of it; all others are the controllers'."""


def page() -> str:
    """Return every event: what it says, its level, and the fields of its `data`."""
    from controlplane.logs.vocabulary import EVENTS

    found: dict[str, list[str]] = {name: [] for name in (*GROUPS, "controllers")}
    for name, kind in EVENTS.items():
        found[_group(name)].append(_entry(name, kind))
    return (
        "\n\n".join(f"## {group}\n\n" + "\n\n".join(each) for group, each in found.items() if each)
        + "\n"
    )


def _group(event: str) -> str:
    for group, names in GROUPS.items():
        if any(event == name or (name.endswith(".") and event.startswith(name)) for name in names):
            return group
    return "controllers"


def _entry(name: str, kind: Kind) -> str:
    fields = ", ".join(f"`{key}` ({_type(schema)})" for key, schema in kind.data.items())
    data = f" Data: {fields}." if fields else ""
    return f"(event-{name.replace('.', '-')})=\n`{name}`\n: {line(kind.says)} Level {kind.level}.{data}"


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))
