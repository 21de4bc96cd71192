"""Files of kube-scheduler-simulator: exports of a cluster, and records of its changes.

An export is one JSON object with a list for each kind; a record is one JSON object a line. Upstream: kubernetes-sigs/
kube-scheduler-simulator, simulator/snapshot, simulator/recorder, simulator/replayer and simulator/resourceapplier.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from controlplane.api.times import format_nano_time, parse_time
from controlplane.api.tree import Tree
from controlplane.apiserver.schema.codec import decode
from controlplane.errors import UsageError
from controlplane.scenarios.inputs.exported import without_token

__all__ = [
    "ADD",
    "CONFIG",
    "DELETE",
    "IN_ORDER",
    "KINDS",
    "UPDATE",
    "WATCHED",
    "Change",
    "Kind",
    "change_line",
    "changes_of",
    "exported",
    "imported",
    "imported_object",
    "is_export",
    "is_record",
    "names_claim",
    "replayed",
]

ADD, UPDATE, DELETE = "Add", "Update", "Delete"
CONFIG: Final = "schedulerConfig"
"""The field of an export with the KubeSchedulerConfiguration, which may be null."""
_NOT_APPLIED: Final = ("uid", "managedFields", "selfLink")


@frozen
class Kind:
    """One list of an export: its objects, and the stage of an import in which they are applied."""

    api_version: str
    kind: str
    resource: str
    type_name: str
    stage: int
    always: bool = False
    """The list is there without objects, too; others are null."""
    namespaced: bool = False
    stored: str = ""
    """The name of the resource in the keys of a store, where that is another one."""

    @property
    def prefix(self) -> str:
        """The prefix of the keys of the kind in a store."""
        return f"/registry/{self.stored or self.resource}/"

    @property
    def path(self) -> str:
        """The path of all objects of the kind at an API server."""
        return f"{self._base}/{self.resource}"

    @property
    def _base(self) -> str:
        return (
            f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        )

    def path_of(self, tree: Tree) -> str:
        """The path of one object; without a namespace it stands in "default"."""
        meta = tree["metadata"]
        inner = f"/namespaces/{meta.get('namespace') or 'default'}" if self.namespaced else ""
        return f"{self._base}{inner}/{self.resource}/{meta['name']}"


_CORE: Final = "io.k8s.api.core.v1"
KINDS: Final[Mapping[str, Kind]] = {
    "pods": Kind("v1", "Pod", "pods", f"{_CORE}.Pod", 1, namespaced=True),
    "nodes": Kind("v1", "Node", "nodes", f"{_CORE}.Node", 1, stored="minions"),
    "pvs": Kind("v1", "PersistentVolume", "persistentvolumes", f"{_CORE}.PersistentVolume", 2),
    "pvcs": Kind(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        f"{_CORE}.PersistentVolumeClaim",
        1,
        namespaced=True,
    ),
    "storageClasses": Kind(
        "storage.k8s.io/v1",
        "StorageClass",
        "storageclasses",
        "io.k8s.api.storage.v1.StorageClass",
        1,
    ),
    "priorityClasses": Kind(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        "priorityclasses",
        "io.k8s.api.scheduling.v1.PriorityClass",
        1,
        always=True,
    ),
    "namespaces": Kind("v1", "Namespace", "namespaces", f"{_CORE}.Namespace", 0, always=True),
}
"""The lists of an export. Namespaces are applied first, then all others but volumes, then volumes."""
IN_ORDER: Final = tuple(
    (field, KINDS[field])
    for field in (
        "namespaces",
        "priorityClasses",
        "storageClasses",
        "pvcs",
        "nodes",
        "pods",
        "pvs",
    )
)
"""The lists in the order in which an import, inside its stages too, begins with their objects."""
WATCHED: Final = tuple(
    KINDS[field]
    for field in (
        "namespaces",
        "priorityClasses",
        "storageClasses",
        "pvcs",
        "nodes",
        "pvs",
        "pods",
    )
)
"""The kinds in the order in which a recorder and a syncer list them."""
_ZERO_CONFIG: Final[Tree] = {
    "leaderElection": {
        "leaderElect": None,
        "leaseDuration": "0s",
        "renewDeadline": "0s",
        "retryPeriod": "0s",
        "resourceLock": "",
        "resourceName": "",
        "resourceNamespace": "",
    },
    "clientConnection": {
        "kubeconfig": "",
        "acceptContentTypes": "",
        "contentType": "",
        "qps": 0,
        "burst": 0,
    },
}
"""Fields that Go's KubeSchedulerConfiguration always shows."""


# -- exports -------------------------------------------------------------------------------------


def is_export(tree: Any) -> bool:
    """Return whether a document is an export: lists by the names of `KINDS`, and no kind."""
    return (
        isinstance(tree, dict)
        and "kind" not in tree
        and "apiVersion" not in tree
        and CONFIG in tree
        and tree.keys() <= {*KINDS, CONFIG}
    )


def exported(objects: Mapping[str, Iterable[Tree]], config: Tree | None) -> Tree:
    """Return the export of a cluster.

    Args:
        objects: trees in the stored version, by the names of `KINDS`.
        config: the KubeSchedulerConfiguration, None for none.
    """
    out: Tree = {}
    for field, kind in KINDS.items():
        trees = [
            _typed(tree, kind)
            for tree in objects.get(field) or ()
            if not _is_system(tree["metadata"], kind)
        ]
        out[field] = trees if trees or kind.always else None
    out[CONFIG] = None if config is None else _shown_config(config)
    return out


def imported(file: Tree) -> tuple[list[list[tuple[Kind, Tree]]], Tree | None]:
    """Return the objects of an export by the stage in which they are applied, and its scheduler configuration."""
    stages: list[list[tuple[Kind, Tree]]] = [[], [], []]
    for field, kind in IN_ORDER:
        for item in file.get(field) or ():
            tree = imported_object(item, kind)
            if tree is not None:
                stages[kind.stage].append((kind, tree))
    config = file.get(CONFIG)
    return stages, None if config is None else _shown_config(config)


def imported_object(tree: Tree, kind: Kind) -> Tree | None:
    """Return an item of an export as it is applied, None for one that every cluster has.

    The item says neither its kind nor its version. Its uid is of another cluster; what a server notes of itself
    (`managedFields`, `selfLink`) has no place in what is applied.
    """
    meta = tree.get("metadata")
    if not isinstance(meta, dict):
        meta = {}
    if _is_system(meta, kind):
        return None
    kept = {name: value for name, value in meta.items() if name not in _NOT_APPLIED}
    return {**tree, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": kept}


def _typed(tree: Tree, kind: Kind) -> Tree:
    """The object as Go writes it: with a time of creation, be it null."""
    found = decode(kind.type_name, tree)
    return {**found, "metadata": {"creationTimestamp": None, **found.get("metadata", {})}}


def _is_system(meta: Tree, kind: Kind) -> bool:
    """Return whether an object is left out, of exports and of imports, because every cluster has it."""
    name = str(meta.get("name", ""))
    if kind.kind == "PriorityClass":
        return name.startswith("system-")
    return kind.kind == "Namespace" and (name.startswith("kube-") or name == "default")


def _shown_config(config: Tree) -> Tree:
    zeros = {key: {**zero, **(config.get(key) or {})} for key, zero in _ZERO_CONFIG.items()}
    return {**config, **zeros}


# -- records -------------------------------------------------------------------------------------


@frozen
class Change:
    """One line of a record: at a time (ns since 1970), `event` is one of ADD, UPDATE and DELETE."""

    at: int
    event: str
    resource: Tree
    line: int


def is_record(text: str) -> bool:
    """Return whether the first line of a text is one of a record."""
    try:
        first = json.loads(text.partition("\n")[0])
    except ValueError:
        return False
    return isinstance(first, dict) and {"time", "event", "resource"} <= first.keys()


def change_line(event: str, resource: Tree, at: int) -> Tree:
    """Return the line of a change; a deletion keeps only which object went."""
    if event == DELETE:
        meta = resource["metadata"]
        kept = {"name": meta.get("name", ""), "namespace": meta.get("namespace", "")}
        resource = {
            "apiVersion": resource["apiVersion"],
            "kind": resource["kind"],
            "metadata": kept,
        }
    return {"time": format_nano_time(at), "event": event, "resource": resource}


def changes_of(text: str, file: str) -> Iterator[Change]:
    """Yield the changes of a record, which `file` names in messages. Raises UsageError.

    A last line without its end is left out: its writer was stopped.
    """
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1], 1):
        yield _change(line, f"{file}:{number}", number)


def _change(line: str, place: str, number: int) -> Change:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise UsageError(f"{place}: not JSON: {error}") from None
    resource = found.get("resource") if isinstance(found, dict) else None
    if not isinstance(resource, dict) or not isinstance(resource.get("metadata"), dict):
        raise UsageError(f"{place}: resource: expected an object with metadata")
    for field in ("apiVersion", "kind"):
        if not isinstance(resource.get(field), str):
            raise UsageError(f"{place}: resource.{field}: expected text")
    event = found.get("event")
    if event not in (ADD, UPDATE, DELETE):
        raise UsageError(f"{place}: event: {event!r}: expected {ADD}, {UPDATE} or {DELETE}")
    try:
        at = int(parse_time(str(found.get("time"))))
    except ValueError as error:
        raise UsageError(f"{place}: time: {error}") from None
    return Change(at, event, resource, number)


def replayed(change: Change, claim_uid: Callable[[str, str], str]) -> Tree | None:
    """Return the object with which a change is repeated, None for one that is left out.

    An update of a pod on a node is left out, for where it runs is for the scheduler to say. Fields that the server
    sets are dropped, of pods also service account (with the volume of its token) and owners; a bound volume names the
    claim by its uid here, which `claim_uid` returns for a namespace and a name.
    Upstream: resourceapplier, mandatory filters and mutators.
    """
    tree = change.resource
    if change.event == DELETE:
        return tree
    spec = tree.get("spec") or {}
    if tree["kind"] == "Pod" and change.event == UPDATE and spec.get("nodeName"):
        return None
    dropped = set(_SET_BY_SERVER)
    if tree["kind"] == "Pod":
        dropped.add("ownerReferences")
        spec = without_token({key: value for key, value in spec.items() if key not in _ACCOUNT})
    meta = {key: value for key, value in tree["metadata"].items() if key not in dropped}
    if names_claim(tree):
        reference = spec["claimRef"]
        uid = claim_uid(reference.get("namespace", ""), reference.get("name", ""))
        spec = {**spec, "claimRef": {**reference, "uid": uid}}
    return {**tree, "metadata": meta, **({"spec": spec} if spec else {})}


def names_claim(tree: Tree) -> bool:
    """Return whether an object is a bound volume: the claim that it names has another uid in another cluster."""
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    bound = tree["kind"] == "PersistentVolume" and status.get("phase") == "Bound"
    return bound and isinstance(spec.get("claimRef"), dict)


_SET_BY_SERVER: Final = (
    "uid",
    "generation",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
)
_ACCOUNT: Final = ("serviceAccountName", "serviceAccount")
