"""From the packed stream to `log.jsonl`, through structlog processors. Nothing else writes that file.

One flat JSON object per line, keys sorted, only keys that say something: `run, step, t` (virtual
seconds, an exact decimal), `actor, task, event, level, obj, uid, rv, cause` (a list of steps), `data`. The
schema stands in `event.schema.json`.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import IO, TYPE_CHECKING, Any

from actors.log import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, MutableMapping


NS = 1_000_000_000
FORMAT = 2
"""Of the lines; what events say has a version of its own, which is not the runtime's business."""
NO_LEVELS: Mapping[str, str] = {}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


def seconds(ns: int) -> str:
    """Virtual nanoseconds as exact decimal seconds: 1500000000 -> "1.5"."""
    whole, rest = divmod(ns, NS)
    if not rest:
        return str(whole)
    return f"{whole}.{rest:09d}".rstrip("0")


class _Lines:
    """Final logger: writes finished lines, adds nothing, never flushes."""

    def __init__(self, file: IO[str]) -> None:
        self._write = file.write

    def msg(self, line: str) -> None:
        self._write(line)


def _flat(
    _logger: object, _method: str, fields: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """One event as the flat map that the schema describes."""
    event: Event = fields["record"]
    flat: dict[str, Any] = {
        "actor": event.actor,
        "event": event.event,
        "run": fields["run"],
        "step": event.step,
        "t": seconds(event.t_ns),
        "task": event.task,
    }
    level = fields["levels"].get(event.event)
    if level is not None:
        flat["level"] = level
    if event.cause:
        flat["cause"] = [event.cause]
    for key in ("obj", "uid", "rv", "data"):
        value = getattr(event, key)
        if value is not None:
            flat[key] = value
    return flat


def _line(_logger: object, _method: str, fields: MutableMapping[str, Any]) -> str:
    """Render with sorted keys; `t` goes out as the decimal number it is, which no float could carry."""
    parts = [
        f'"{key}":{fields[key] if key == "t" else _encode(fields[key])}' for key in sorted(fields)
    ]
    return "{" + ",".join(parts) + "}\n"


def _cleaned(clean: Callable[[Event, str], str]) -> Callable[..., str]:
    def line(logger: object, method: str, fields: MutableMapping[str, Any]) -> str:
        return clean(fields["record"], _line(logger, method, _flat(logger, method, fields)))

    return line


def logger(file: IO[str], clean: Callable[[Event, str], str] | None = None) -> Any:
    """A structlog logger that writes event lines to `file`, `clean` if asked for."""
    import structlog  # takes a tenth of a second, and most runs write no lines

    return structlog.wrap_logger(
        _Lines(file),
        processors=[_flat, _line] if clean is None else [_cleaned(clean)],
        wrapper_class=structlog.BoundLogger,
        cache_logger_on_first_use=True,
    )


def write(
    events: Iterable[Event],
    file: IO[str],
    run: str,
    clean: Callable[[Event, str], str] | None = None,
    levels: Mapping[str, str] = NO_LEVELS,
    header: Mapping[str, Any] | None = None,
) -> int:
    """Write events as JSON lines; how many. `run` names the run, for instance the first digits of its trace hash.

    `clean` makes of an event's line the one that is written; `levels` are the levels of events by name.
    `header` is what the first line says of the run.
    """
    out = logger(file, clean).bind(run=run, levels=levels)
    count = 0
    if header is not None:
        data = {"format": FORMAT, **header}
        out.msg(None, record=Event(0, 0, "world", "world", "log", 0, None, None, None, data))
        count = 1
    for event in events:
        out.msg(None, record=event)
        count += 1
    return count


def schema() -> dict[str, Any]:
    """The JSON Schema of one line."""
    text = resources.files("actors").joinpath("event.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
