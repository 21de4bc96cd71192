"""Pods from files of the node, and the mirror pods by which the API server shows them.

Upstream: pkg/kubelet/config/{file,common,config}.go, pkg/kubelet/pod/mirror_client.go, pkg/kubelet/types. A
file's pod gets the node's name behind its own, and a uid from its content unless it names one: a file that
changes is another pod. Here the uid is 128-bit FNV-1a over the manifest's JSON, not over Go's dump of it.
"""

from __future__ import annotations

import json
from typing import Any, Final, Protocol

from controlplane.api.fnv import fnv1a_128
from controlplane.api.node import Node
from controlplane.api.object import Object
from controlplane.api.pod import CONFIG_MIRROR, CONFIG_SOURCE, Pod
from controlplane.api.times import format_nano_time
from controlplane.api.tree import Tree
from controlplane.kubelet.pod.preemption import is_static

CONFIG_HASH: Final = "kubernetes.io/config.hash"
CONFIG_SEEN: Final = "kubernetes.io/config.seen"
FOLDER: Final = "manifests/"
"""Folder of the manifests on the node's disk: each a pod as JSON."""

__all__ = [
    "CONFIG_HASH", "FOLDER", "Manifests", "is_mirror", "is_mirror_of",
    "is_static", "mirror_of", "static_pod", "write_manifest",
]  # fmt: skip


def is_mirror(pod: Pod) -> bool:
    """Return whether an object of the API server stands for a static pod."""
    return CONFIG_MIRROR in pod.annotations


def is_mirror_of(mirror: Pod, pod: Pod) -> bool:
    """Return whether a mirror shows this very version of a static pod."""
    return mirror.key == pod.key and mirror.annotations[CONFIG_MIRROR] == _hash(pod)


def _hash(pod: Pod) -> str:
    return pod.annotations.get(CONFIG_HASH, "")


def static_pod(manifest: Tree, node: str, file: str, now: int) -> Tree:
    """The pod of a file, as the kubelet of this node has it."""
    given = manifest["metadata"]
    uid = given.get("uid")
    if not uid:
        content = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
        uid = f"{fnv1a_128(f'{content}host:{node}file:{file}'.encode()):032x}"
    annotations = {
        **(given.get("annotations") or {}),
        CONFIG_HASH: uid,
        CONFIG_SEEN: format_nano_time(now),
        CONFIG_SOURCE: "file",
    }
    metadata = {
        **given,
        "name": f"{given['name']}-{node.lower()}",
        "namespace": given.get("namespace") or "default",
        "uid": uid,
        "annotations": annotations,
    }
    spec = manifest["spec"]
    everything = {"operator": "Exists", "effect": "NoExecute"}
    others = [each for each in spec.get("tolerations") or () if each != everything]
    return {
        **manifest,
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "nodeName": node, "tolerations": [*others, everything]},
        "status": {"phase": "Pending"},
    }


def mirror_of(pod: Pod, node: Node) -> Tree:
    """Return the mirror pod that shows a static pod at the API server."""
    tree = pod.tree
    metadata = tree["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node.name,
        "uid": node.uid,
        "controller": True,
    }
    annotations = {**metadata["annotations"], CONFIG_MIRROR: _hash(pod)}
    return {
        **tree,
        "metadata": {**metadata, "annotations": annotations, "ownerReferences": [owner]},
    }


class Disk(Protocol):
    """The store of files that outlive the process."""

    def write(self, key: str, value: Any) -> None:
        """Write a file."""

    def remove(self, key: str) -> None:
        """Remove a file, if it is there."""

    def sync(self) -> None:
        """Let no crash undo it."""


def write_manifest(disk: Disk, file: str, manifest: Tree | None) -> None:
    """Write a file of a static pod to a node's disk, or (None) remove it, as an administrator does."""
    if manifest is None:
        disk.remove(FOLDER + file)
    else:
        disk.write(FOLDER + file, json.dumps(manifest))
    disk.sync()


class Manifests:
    """Contents of the files of one node, by the full name of the pod. Upstream: sourceFile and its store."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._pods: dict[str, Object[Pod]] = {}
        self._of: dict[str, str] = {}
        """File -> full name."""

    def pods(self) -> list[Object[Pod]]:
        """All of them; of files with one full name the one that was read last."""
        return list(self._pods.values())

    def read(self, file: str, text: str | None, now: int) -> None:
        """A file is there with this text, or (None) is not. Raises ValueError for what is no pod."""
        if text is None:
            gone = self._of.pop(file, None)
            if gone is not None:
                self._pods.pop(gone, None)
            return
        manifest: Any = json.loads(text)
        if not isinstance(manifest, dict) or manifest.get("kind") != "Pod":
            raise ValueError("no kind Pod")
        tree = static_pod(manifest, self._node, file, now)
        name = f"{tree['metadata']['namespace']}/{tree['metadata']['name']}"
        before = self._pods.get(name)
        if before is not None:
            tree = _as_seen_before(before.tree, tree)
            if tree == before.tree:
                tree = before.tree
        old = self._of.get(file)
        if old is not None and old != name:
            self._pods.pop(old, None)
        self._of[file] = name
        if before is None or tree is not before.tree:
            self._pods[name] = Object(tree)


def _as_seen_before(old: Tree, new: Tree) -> Tree:
    """A pod of a uid that is known already was first seen then."""
    if old["metadata"]["uid"] != new["metadata"]["uid"]:
        return new
    metadata = new["metadata"]
    seen = old["metadata"]["annotations"][CONFIG_SEEN]
    return {
        **new,
        "metadata": {**metadata, "annotations": {**metadata["annotations"], CONFIG_SEEN: seen}},
    }
