"""The custom objects that a run leaves, as `kubectl get` shows them: by the columns of their definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from controlplane.scenarios.engine.execution import Execution

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
DEFINITIONS = "/registry/apiextensions.k8s.io/customresourcedefinitions/"


class CustomTable(NamedTuple):
    """The objects of one definition."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def custom_tables(run: Execution) -> list[CustomTable]:
    """One table for each definition of which there are objects, in the order of their names."""
    cluster = run.cluster
    definitions = cluster.objects(DEFINITIONS)
    if not definitions:
        return []
    from controlplane.apiserver.front.answering import HttpAnswer, answer
    from controlplane.apiserver.requests.routing import HttpRequest

    now = cluster.config.epoch_ns + run.world.now
    server = cluster.bootstrapping_server()
    server.settle(now)
    server.advance()
    found = []
    for obj in sorted(definitions, key=lambda each: each.name):
        spec = obj.tree["spec"]
        served = [each for each in spec["versions"] if each["served"]]
        # The stored version needs no conversion webhook, which nothing answers any more.
        version = max(served, key=lambda each: bool(each["storage"]))["name"]
        path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
        told = answer(server, HttpRequest("GET", path, {}, {"accept": TABLE}, b""), now)
        if isinstance(told, HttpAnswer) and told.code == 200 and told.tree.get("rows"):
            namespaced = spec["scope"] == "Namespaced"
            found.append(_table(spec["names"]["kind"], told.tree, namespaced=namespaced))
    return found


def _table(kind: str, tree: dict[str, Any], *, namespaced: bool) -> CustomTable:
    shown = [
        (index, column["name"])
        for index, column in enumerate(tree["columnDefinitions"])
        if not column.get("priority")
    ]
    columns = tuple(name.upper() for _, name in shown)
    rows = []
    for row in tree["rows"]:
        cells = tuple(_shown(row["cells"][index]) for index, _ in shown)
        place = (row["object"]["metadata"].get("namespace", ""),) if namespaced else ()
        rows.append((*place, *cells))
    if namespaced:
        columns = ("NAMESPACE", *columns)
    return CustomTable(f"{kind}: {len(rows)}", columns, tuple(rows))


def _shown(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    return "" if cell is None else str(cell)
