"""Logs in the forms that other people's tools read: one module each, and the list of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from controlplane.logs.export import audit, chrome, klog, lnav, otlp, shiviz
from controlplane.logs.reading import Events

__all__ = ["FORMATS"]

FORMATS: Final[dict[str, Callable[[Events], Iterator[str]]]] = {
    "perfetto": chrome.lines,
    "shiviz": shiviz.lines,
    "otlp": otlp.lines,
    "audit": audit.lines,
    "klog": klog.lines,
    "lnav": lnav.lines,
}
"""The writer of each format."""
