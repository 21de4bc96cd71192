"""`controlplane logs`: questions to what a run recorded."""

from __future__ import annotations

from pathlib import Path

import click

from controlplane.cli import output
from controlplane.cli.options import format_option


@click.group("logs", short_help="Ask what a run recorded.")
def command() -> None:
    """Ask what a run recorded."""


@command.command("why", short_help="What happened to an object, and why.")
@click.argument("about", metavar="OBJECT")
@click.option(
    "--log",
    "place",
    type=click.Path(path_type=Path),
    default=Path(),
    show_default="this folder",
    metavar="DIR",
    help="Folder that `run --out` left, or a log.jsonl.",
)
@format_option()
def why(about: str, place: Path, output_format: str) -> int:
    """Tell what happened to an object, and why: who wrote it, what every scheduling attempt found, which
    plugin refused which nodes, how the chosen node scored.

    OBJECT is KIND/NAMESPACE/NAME or KIND/NAME, as pod/default/web-0 or node/node-1.
    """
    from controlplane.logs import reading
    from controlplane.logs.why import story, subject

    asked = subject(about)
    told = story(reading.read(reading.find(place), asked.name), asked)
    if output_format == "json":
        output.emit_json(told.to_json())
        return 0
    rows: list[tuple[str, str, str, str]] = []
    for entry in told.entries:
        rows.append((f"{entry.t:g}s", str(entry.step), entry.actor, entry.what))
        rows += [("", "", "", f"  {line}") for line in entry.more]
    title = f"{asked.kind}/{asked.key}: {told.ending}"
    output.table(title, ("TIME", "STEP", "WHO", "WHAT"), rows, ("TIME", "STEP"))
    return 0


@command.command(
    "schema", short_help="The JSON Schema of log.jsonl: of every line, and of every event's data."
)
def schema() -> int:
    """Print the JSON Schema of the lines of log.jsonl."""
    from actors import jsonl
    from controlplane.logs import vocabulary

    output.emit_json({"line": jsonl.schema(), "events": vocabulary.schema()})
    return 0
