"""Logs in the forms that other people's tools read: one module each, and the list of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from attrs import frozen

from controlplane.logs.export import audit, chrome, klog, lnav, otlp, shiviz
from controlplane.logs.reading import Events

__all__ = ["FORMATS", "Format"]


@frozen
class Format:
    """A form: what it is for, the usual end of its files' names, and what makes its text."""

    about: str
    ending: str
    write: Callable[[Events], Iterator[str]]


FORMATS: Final[dict[str, Format]] = {
    "perfetto": Format(
        "Chrome trace JSON for ui.perfetto.dev: a track for each task, arrows for causes",
        ".trace.json",
        chrome.lines,
    ),
    "shiviz": Format("ShiViz: two lines an event, with vector clocks", ".shiviz.log", shiviz.lines),
    "otlp": Format("OTLP JSON: OpenTelemetry's log data model", ".otlp.json", otlp.lines),
    "audit": Format("audit.k8s.io/v1 events, a line each", ".audit.jsonl", audit.lines),
    "klog": Format("text as the components of Kubernetes log", ".klog", klog.lines),
    "lnav": Format("a format file with which lnav reads log.jsonl", ".lnav.json", lnav.lines),
}
