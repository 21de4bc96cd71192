"""Conversion webhooks of custom resources that are emulated in process: those of known services.

A definition whose `spec.conversion` is Webhook and names such a service has its objects converted by it. Other
webhooks are called, see `requests/conversions.py`. Without a webhook only the version changes, and what the other
version does not know is left out.

`snapshot-conversion-webhook-service` is the one of external-snapshotter 8.4 and 8.5 (pkg/webhook/convert.go): contents
of group snapshots between v1beta1, where the list of members has two fields, and v1beta2, where it has five. Going down
the whole list is kept in an annotation, and going up it is taken from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from controlplane.api.tree import Tree
from controlplane.apiserver.schema import status

Converter = Callable[[Tree, str], Tree]
"""An object and the version it is wanted in. Raises ApiError."""

KEPT: Final = "groupsnapshot.storage.kubernetes.io/volume-snapshot-info-list"
_PAIRS: Final = "volumeSnapshotHandlePairList"
_INFOS: Final = "volumeSnapshotInfoList"
_KIND: Final = "VolumeGroupSnapshotContent"


def converter_of(definition: Tree) -> Converter | None:
    """Return the converter of a definition's objects, if that is emulated."""
    conversion = definition["spec"].get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return None
    client = (conversion.get("webhook") or {}).get("clientConfig") or {}
    return _SERVICES.get((client.get("service") or {}).get("name", ""))


def webhook_of(definition: Tree) -> Tree | None:
    """The conversion webhook of a definition, if its objects are converted by one that is not emulated."""
    conversion = definition["spec"].get("conversion") or {}
    if conversion.get("strategy") != "Webhook" or converter_of(definition) is not None:
        return None
    return conversion.get("webhook") or {}


def _group_snapshot_content(tree: Tree, version: str) -> Tree:
    group, _, given = tree["apiVersion"].rpartition("/")
    if given == version:
        return tree
    wanted = {**tree, "apiVersion": f"{group}/{version}"}
    if tree.get("kind") != _KIND or {given, version} != {"v1beta1", "v1beta2"}:
        raise status.internal_error(
            f"conversion webhook for {tree['apiVersion']}, Kind={tree.get('kind', '')} failed: "
            f"unexpected conversion version {given} to {version}"
        )
    return _down(wanted) if version == "v1beta1" else _up(wanted)


def _down(tree: Tree) -> Tree:
    infos = (tree.get("status") or {}).get(_INFOS)
    if infos is None:
        return tree
    pairs = [
        {key: each[key] for key in ("volumeHandle", "snapshotHandle") if key in each}
        for each in infos
    ]
    told = {key: value for key, value in tree["status"].items() if key != _INFOS}
    text = json.dumps(infos, separators=(",", ":"))
    return {**_annotated(tree, {KEPT: text}), "status": {**told, _PAIRS: pairs}}


def _up(tree: Tree) -> Tree:
    given = tree.get("status") or {}
    told = {key: value for key, value in given.items() if key != _PAIRS}
    kept = (tree["metadata"].get("annotations") or {}).get(KEPT)
    if kept is not None:
        told[_INFOS] = json.loads(kept)
        tree = _annotated(tree, {KEPT: None})
    elif _PAIRS in given:
        told[_INFOS] = given[_PAIRS]
    return {**tree, "status": told} if told else tree


def _annotated(tree: Tree, notes: Mapping[str, str | None]) -> Tree:
    metadata = dict(tree["metadata"])
    annotations = {**(metadata.pop("annotations", None) or {}), **notes}
    left = {key: value for key, value in annotations.items() if value is not None}
    return {**tree, "metadata": {**metadata, "annotations": left} if left else metadata}


_SERVICES: Final[dict[str, Converter]] = {
    "snapshot-conversion-webhook-service": _group_snapshot_content
}
