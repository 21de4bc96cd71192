"""Tables of custom resources: columns, and the cells of each object's row, with `<age>` for ages."""

from __future__ import annotations

import re
from typing import Any

from controlplane.api.object import Object
from controlplane.api.times import SECOND, parse_time
from controlplane.apiserver.kinds.custom.resources import resource_of
from controlplane.apiserver.kinds.tables import table_of
from tests.golden.runner import difference

Json = Any
NOW = parse_time("2026-11-24T12:00:00Z") + 7 * SECOND
_AGE = re.compile(r"(\d+[smhdy])+")


def answer(case: Json) -> Json:
    """The columns and rows of the case's objects."""
    crd = case["crd"]
    names = {"listKind": crd["spec"]["names"]["kind"] + "List", **crd["spec"]["names"]}
    crd = {**crd, "status": {"acceptedNames": names}}
    version = next(each for each in crd["spec"]["versions"] if each["name"] == case["version"])
    objects = [Object(row["object"]) for row in case["rows"]]
    table = table_of(resource_of(crd, version), objects, NOW, "None", "v1")
    return {
        "columns": table["columnDefinitions"],
        "rows": [row["cells"] for row in table["rows"]],
    }


def compare(case: Json, got: Json) -> str | None:
    """The first difference; an age stands for any text of that form in a column of dates."""
    found = difference(case["columns"], got["columns"], "columns")
    if found:
        return found
    kinds = [column["type"] for column in case["columns"]]
    rows = [
        [_plain(cell, kind) for cell, kind in zip(cells, kinds, strict=True)]
        for cells in got["rows"]
    ]
    wanted = [row["cells"] for row in case["rows"]]
    return difference(wanted, rows, "cells")


def _plain(cell: Json, kind: str) -> Json:
    if kind == "date" and isinstance(cell, str) and _AGE.fullmatch(cell):
        return "<age>"
    return cell
