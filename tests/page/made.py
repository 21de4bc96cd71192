"""Models read back: what the page's own script does with their parts, in Python."""

from __future__ import annotations

import json
from itertools import accumulate
from typing import Any

from controlplane.page.model import CHANGED, WHOLE, encode
from controlplane.page.tree_changes import applied


class ReadBack:
    """Parts put together again."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.tasks: list[list[int]] = []
        self.rows: dict[str, dict[str, list[Any]]] = {}

    def add(self, part: dict[str, Any]) -> None:
        part = json.loads(encode(part))
        for mine, (first, values) in ((self.texts, part["texts"]), (self.tasks, part["tasks"])):
            assert first == len(mine)
            mine += values
        part["events"]["t"] = list(accumulate(part["events"]["t"]))
        for name, value in part.items():
            if isinstance(value, dict) and "step" in value:
                value["step"] = list(accumulate(value["step"]))
                columns = self.rows.setdefault(name, {})
                for column, values in value.items():
                    columns.setdefault(column, []).extend(values)

    def objects(self, step: int) -> dict[str, Any]:
        """Trees by key as they were at the end of a step."""
        found: dict[str, Any] = {}
        rows = self.rows["versions"]
        for at, when in enumerate(rows["step"]):
            if when > step:
                break
            key, form, body = self.texts[rows["key"][at]], rows["form"][at], rows["body"][at]
            if form == WHOLE:
                found[key] = body
            elif form == CHANGED:
                found[key] = applied(found[key], body)
            else:
                del found[key]
        return found


def whole(model: Any) -> ReadBack:
    made = ReadBack()
    made.add(model.since())
    return made
