"""A format file with which lnav (lnav.org) reads log.jsonl: `lnav -i FILE`, then `lnav log.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from controlplane.logs.reading import Events

FORMAT: dict[str, Any] = {
    "$schema": "https://lnav.org/schemas/format-v1.schema.json",
    "controlplane_log": {
        "title": "controlplane",
        "description": "log.jsonl of a controlplane run",
        "file-type": "json",
        "file-pattern": r"log\.jsonl$",
        "timestamp-field": "t",
        "timestamp-divisor": 1,
        "level-field": "level",
        "level": {
            "trace": "^trace$",
            "debug": "^debug$",
            "info": "^info$",
            "warning": "^warning$",
            "error": "^error$",
        },
        "body-field": "event",
        "opid-field": "step",
        "hide-extra": False,
        "line-format": [
            {"field": "t", "align": "right", "min-width": 10},
            " ",
            {"field": "step", "align": "right", "min-width": 7},
            " ",
            {"field": "actor"},
            "/",
            {"field": "task"},
            " ",
            {"field": "event"},
            " ",
            {"field": "obj", "default-value": ""},
        ],
        "value": {
            "run": {"kind": "string", "identifier": True},
            "step": {"kind": "integer"},
            "t": {"kind": "float"},
            "actor": {"kind": "string", "identifier": True},
            "task": {"kind": "string", "identifier": True},
            "event": {"kind": "string", "identifier": True},
            "level": {"kind": "string"},
            "obj": {"kind": "string", "identifier": True},
            "uid": {"kind": "string", "identifier": True},
            "rv": {"kind": "integer"},
            "cause": {"kind": "json"},
            "data": {"kind": "json"},
        },
    },
}


def lines(_log: Events) -> Iterator[str]:
    """The text of the file; it is the same for all logs."""
    yield json.dumps(FORMAT, indent=2) + "\n"
