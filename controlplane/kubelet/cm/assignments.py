"""Changes of assignments between two checkpoints of a manager: for the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from attrs import frozen

__all__ = ["Assignment", "assignments"]

ALL: Final = "*"
"""Stands for the containers of a pod whose resources are its own as a whole."""


@frozen
class Assignment:
    """Resources of a container of a pod, now and before; "" for none. CPUs as a list, memory by NUMA nodes."""

    uid: str
    container: str
    has: str
    had: str


def assignments(before: str | None, after: str) -> Iterator[Assignment]:
    """The differences of two files of the CPU manager, or of the memory manager; nothing if they cannot be read."""
    old, new = _read(before), _read(after)
    for key in sorted({*old, *new}):
        has, had = new.get(key, ""), old.get(key, "")
        if has != had:
            yield Assignment(*key, has, had)


def _read(text: str | None) -> dict[tuple[str, str], str]:
    try:
        tree = json.loads(text) if text else {}
    except ValueError:
        return {}
    found: dict[tuple[str, str], str] = {}
    for uid, containers in (tree.get("entries") or {}).items():
        for container, owned in containers.items() if isinstance(containers, dict) else ():
            found[uid, container] = _told(owned)
    for uid, owned in (tree.get("podEntries") or {}).items():
        found[uid, ALL] = _told(owned.get("cpuSet") or owned.get("memoryBlocks") or "")
    return found


def _told(owned: Any) -> str:
    """CPUs as they stand there; of memory how much of which kind is from which NUMA nodes."""
    if isinstance(owned, str):
        return owned
    return "; ".join(
        f"{block['size']} of {block['type']} from {','.join(map(str, block['numaAffinity']))}"
        for block in owned
    )
