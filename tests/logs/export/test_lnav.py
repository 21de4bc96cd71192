"""The format file for lnav: its rules, and that it fits the lines of a log."""

from __future__ import annotations

import json
import re

from controlplane.logs.export import lnav
from tests.logs.made import Made

KINDS = {"string", "integer", "float", "boolean", "json", "struct", "quoted", "xml", "timestamp"}
LEVELS = {
    "fatal",
    "critical",
    "error",
    "warning",
    "stats",
    "info",
    "debug",
    "debug2",
    "debug3",
    "debug4",
    "debug5",
    "trace",
}


def test_the_format_keeps_lnavs_rules():
    whole = json.loads("".join(lnav.lines(Made(()))))
    assert whole.pop("$schema") == "https://lnav.org/schemas/format-v1.schema.json"
    ((name, form),) = whole.items()
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", name)
    assert form["file-type"] == "json"
    fields = {each["field"] for each in form["line-format"] if isinstance(each, dict)}
    assert fields <= set(form["value"])
    assert {each["kind"] for each in form["value"].values()} <= KINDS
    assert set(form["level"]) <= LEVELS
    for key in ("timestamp-field", "level-field", "body-field", "opid-field"):
        assert form[key] in form["value"]


def test_it_fits_a_real_log(plain_lines, log_file):
    form = lnav.FORMAT["controlplane_log"]
    assert re.search(form["file-pattern"], str(log_file))
    kinds = {"string": str, "integer": int, "float": (int, float), "json": (dict, list)}
    for line in plain_lines:
        assert set(line) <= set(form["value"])
        for key, value in line.items():
            assert isinstance(value, kinds[form["value"][key]["kind"]])
        if "level" in line:
            levels = [
                each for each, text in form["level"].items() if re.search(text, line["level"])
            ]
            assert levels == [line["level"]]
