"""Printer columns: cells of every type, and fields that objects are selected by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controlplane.api.object import Object
from controlplane.api.times import parse_time
from controlplane.apiserver.kinds.custom.columns import Columns
from controlplane.apiserver.kinds.custom.resources import resource_of
from controlplane.apiserver.kinds.selectable import interest_of
from controlplane.apiserver.schema import work
from tests.apiserver.world import World
from tests.golden.runner import run_file

TABLES = Path(__file__).parents[4].parent / "shared/golden/definitions/api/tables.jsonl.xz"
NOW = parse_time("2026-01-01T01:00:00Z")
THING: Any = {
    "metadata": {"name": "t", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"hosts": ["a", "b"], "html": ["<x>"], "map": {"b": 1, "a": 1.5}, "none": None,
             "size": 3, "share": 1.75, "huge": 1e30, "on": True, "text": "5"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Ready", "status": "x"}],
               "at": "2025-12-30T01:00:00+00:00", "empty": "", "odd": "soon", "zero": "0001-01-01T00:00:00Z",
               "old": "0000-01-01T00:00:00Z", "next": "2027-01-01T1:00:00Z"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "path", "cell"),
    [
        ("string", '.status.conditions[?(@.type=="Ready")].status', "True"),
        ("string", '.status.conditions[?(@.type=="Synced")].status', None),
        ("string", ".spec.hosts", '["a","b"]'),
        ("string", ".spec.html", '["\\u003cx\\u003e"]'),
        ("string", ".spec.map", '{"a":1.5,"b":1}'),
        ("string", ".spec.none", "<no value>"),
        ("string", ".spec.missing.deeper", None),
        ("string", ".spec.size", "3"),
        ("string", ".spec.huge", "1e+30"),
        ("string", ".spec.on", "true"),
        ("string", ".spec.hosts[7]", None),
        ("string", ".spec.hosts[*]", "a"),
        ("integer", ".spec.size", 3),
        ("integer", ".spec.share", 1),
        ("integer", ".spec.huge", -(2**63)),
        ("integer", ".spec.text", None),
        ("integer", ".spec.on", None),
        ("number", ".spec.size", 3),
        ("number", ".spec.share", 1.75),
        ("number", ".spec.hosts", None),
        ("boolean", ".spec.on", True),
        ("boolean", ".spec.text", None),
        ("date", ".status.at", "2d"),
        ("date", ".status.next", "<invalid>"),
        ("date", ".status.empty", "<unknown>"),
        ("date", ".status.zero", "<unknown>"),
        ("date", ".status.odd", "<invalid>"),
        ("date", ".status.old", "292y"),
        ("date", ".spec.size", None),
    ],
)
def test_a_cell_shows_the_first_value_as_its_columns_type_does(kind, path, cell):
    columns = Columns.of([{"name": "C", "type": kind, "jsonPath": path}])
    cells = columns.cells(THING, NOW)
    assert cells == ["t", cell]
    assert type(cells[1]) is type(cell)


def test_columns_end_before_the_first_path_that_cannot_be_read():
    paths = (".spec.size", ".spec[", ".spec.text")
    columns = Columns.of([{"name": p, "type": "string", "jsonPath": p} for p in paths])
    assert [header["name"] for header in columns.headers] == ["Name", ".spec.size"]
    assert columns.cells(THING, NOW) == ["t", "3"]


def test_without_columns_there_is_the_age():
    columns = Columns.of(())
    assert [header["name"] for header in columns.headers] == ["Name", "Age"]
    assert columns.cells(THING, NOW) == ["t", "60m"]


def test_custom_objects_are_selected_by_the_fields_of_their_definition():
    text = {"type": "string"}
    spec = {"type": "object", "properties": {"text": text, "on": {"type": "boolean"}}}
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    paths = (".spec.text", ".spec.on", ".status.replicas")
    version = {"name": "v1", "served": True, "storage": True,
               "schema": {"openAPIV3Schema": schema},
               "selectableFields": [{"jsonPath": path} for path in paths]}  # fmt: skip
    names = {"kind": "Event", "listKind": "EventList", "plural": "events", "singular": "event"}
    crd = {"metadata": {"name": "events.example.com"}, "status": {"acceptedNames": names},
           "spec": {"group": "example.com", "names": names, "scope": "Cluster",
                    "versions": [version]}}  # fmt: skip
    info = resource_of(crd, version)

    def selected(selector: str, tree: Any) -> bool:
        interest = interest_of(info, "", "", {"fieldSelector": selector})
        assert interest.matches is not None
        return interest.matches(Object(tree))

    assert selected("spec.text=5,spec.on=true", THING)
    assert not selected("spec.text!=5", THING)
    assert selected(
        "status.replicas=,spec.text=5", THING
    )  # absent, and no count of a built-in kind


@pytest.mark.slow
@pytest.mark.skipif(not TABLES.exists(), reason="other projects' definitions are not here")
def test_tables_of_real_projects_are_the_real_servers():
    tally = run_file(TABLES)
    assert (tally.failures, tally.unanswered) == ([], 0)
    assert tally.passed > 200


def test_a_definition_whose_paths_take_too_long_to_read_is_interrupted():
    column = {"name": "C", "type": "string", "jsonPath": ".a" + ".b" * 500_000}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema,
               "additionalPrinterColumns": [column]}  # fmt: skip
    names = {"kind": "Thing", "plural": "things"}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
           "metadata": {"name": "things.example.com"},
           "spec": {"group": "example.com", "names": names, "scope": "Cluster",
                    "versions": [version]}}  # fmt: skip
    work.on(work.Budget())
    try:
        reply = World().create(
            "customresourcedefinitions", crd, group="apiextensions.k8s.io", namespace=""
        )
    finally:
        work.on(work.FREE)
    assert (reply.code, reply.reason) == (504, "Timeout")
