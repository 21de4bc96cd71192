"""The annotations `emulate.controlplane/*` that the code reads: exactly those that the reference lists."""

from __future__ import annotations

import re
from pathlib import Path

PREFIX = "emulate.controlplane/"
ROOT = Path(__file__).parents[2] / "controlplane"

_WHOLE = re.compile(r"emulate\.controlplane/(metric-NAME|[a-z][a-z-]*[a-z])\b(?!-)")
_COMPOSED = (
    re.compile(r"\{PREFIX\}([a-z][a-z-]+)"),
    re.compile(r"_annotation\(\w+, \"([a-z-]+)\""),
    re.compile(r"usage\(\w+, \w+, \"([a-z-]+)\""),
    re.compile(r"annotated\(\w+, f\"([a-z]+-)"),
)
"""The forms of names behind the common prefix in packages that keep it in a constant."""
_ALSO = re.compile(r"\"([a-z]+-usage)\"")


def in_code() -> set[str]:
    """Return the names, without the prefix, that stand in the package's source."""
    found: set[str] = set()
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if PREFIX not in text and "container_runtime" not in text and "usage" not in path.name:
            continue
        found.update(_WHOLE.findall(text))
        if path.parts[-2] == "races":
            continue
        for pattern in _COMPOSED:
            found.update(pattern.findall(text))
        if "eviction" in path.parts:
            found.update(_ALSO.findall(text))
    return {("metric-NAME" if name == "metric-" else name) for name in found}


def on_page(text: str) -> set[str]:
    """Return the names that the tables of the reference list: the code in the first cell of each row."""
    return set(re.findall(r"^\| `([a-zA-Z-]+)` \|", text, re.MULTILINE))
