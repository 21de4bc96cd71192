"""Resources of each pod as allocated and as actuated, kept in files.

Upstream: pkg/kubelet/allocation/state. Two files of one form: `allocated_pods_state` and
`actuated_pods_state`. Memory is changed before the file is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import attrs

from controlplane.api import quantity
from controlplane.api.containers import Container
from controlplane.api.pod import Pod
from controlplane.api.quantity import QuantityError
from controlplane.api.tree import Tree
from controlplane.kubelet.cm.checkpoint import DIRECTORY, CheckpointError, checksum_of
from controlplane.kubelet.cm.go_json import GoJSONError, Scalar, Struct, unmarshal
from controlplane.kubelet.cm.requests import is_sidecar
from controlplane.kubelet.features import Features
from controlplane.sharing.memory import by_identity

ALLOCATED: Final = "allocated_pods_state"
ACTUATED: Final = "actuated_pods_state"

_FILE: Final = Struct(
    "Checkpoint",
    {
        "data": Scalar("string"),
        "checksum": Scalar("checksum.Checksum", text=False, unsigned=True),
    },
)


@attrs.frozen
class PodResources:
    """Resources of a pod's containers by name, and of the pod as a whole; amounts in canonical text."""

    containers: Mapping[str, Tree]
    pod_level: Tree | None = None


@attrs.frozen(slots=False)
class PodResourceState:
    """The content of one of the files: pod uid -> resources."""

    entries: Mapping[str, PodResources] = attrs.field(factory=dict)

    def get(self, uid: str) -> PodResources | None:
        """The resources of a pod, None when it is unknown."""
        return self.entries.get(uid)

    def with_pod(self, uid: str, resources: PodResources) -> PodResourceState:
        """A pod with other resources."""
        return PodResourceState({**self.entries, uid: resources})

    def without(self, uid: str) -> PodResourceState:
        """A pod is gone."""
        return PodResourceState({key: v for key, v in self.entries.items() if key != uid})

    @cached_property
    def text(self) -> str:
        """The file to the byte."""
        entries = {}
        for uid, resources in sorted(self.entries.items()):
            entry: dict[str, Any] = {}
            if resources.containers:
                entry["ContainerResources"] = dict(sorted(resources.containers.items()))
            if resources.pod_level is not None:
                entry["PodLevelResources"] = resources.pod_level
            entries[uid] = entry
        data = json.dumps({"entries": entries}, separators=(",", ":"), ensure_ascii=False)
        tree = {"data": data, "checksum": checksum_of(f"(string){data}")}
        return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def restore(text: str, file: str) -> PodResourceState:
    """The content of a file. Raises CheckpointError, which ends the kubelet."""
    try:
        found = unmarshal(text, _FILE)
        data = found.get("data") or ""
        if (found.get("checksum") or 0) != checksum_of(f"(string){data}"):
            raise CheckpointError("checkpoint is corrupted")
        entries = json.loads(data).get("entries") or {}
        return PodResourceState(
            {
                uid: PodResources(
                    {
                        name: canonical(resources)
                        for name, resources in (entry.get("ContainerResources") or {}).items()
                    },
                    _canonical_or_none(entry.get("PodLevelResources")),
                )
                for uid, entry in entries.items()
            }
        )
    except (CheckpointError, GoJSONError, QuantityError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"could not restore state from checkpoint: {error}, please drain this node and delete "
            f'pod resource information checkpoint file "{DIRECTORY}/{file}" before restarting '
            "Kubelet"
        ) from None


def _canonical_or_none(resources: Tree | None) -> Tree | None:
    return None if resources is None else canonical(resources)


@by_identity
def canonical(resources: Tree | None) -> Tree:
    """Return resources as Go writes them: amounts in canonical text, empty parts left out.

    Pods of one template share the result, which must not be changed.
    """
    found: Tree = {}
    for key in ("limits", "requests"):
        amounts = (resources or {}).get(key)
        if amounts:
            found[key] = {
                name: quantity.parse(str(text)).canonical()
                for name, text in sorted(amounts.items())
            }
    if (resources or {}).get("claims"):
        found["claims"] = (resources or {})["claims"]
    return found


def same_amounts(one: Tree, other: Tree) -> bool:
    """Return whether resources are equal by value, whatever their notation."""
    return one is other or _values(one) == _values(other)


@by_identity
def _values(resources: Tree) -> Tree:
    found: Tree = {
        key: {name: quantity.parse(text) for name, text in amounts.items()}
        for key, amounts in resources.items()
        if key != "claims" and amounts
    }
    if resources.get("claims"):
        found["claims"] = resources["claims"]
    return found


def resizable(pod: Pod, features: Features) -> list[Container]:
    """Containers whose resources may change in place: init containers that end only with their gate."""
    ending = features.enabled("InPlacePodVerticalScalingInitContainers")
    init = [each for each in pod.spec.init_containers if ending or is_sidecar(each)]
    return [*init, *pod.spec.containers]


def desired(pod: Pod, features: Features) -> PodResources:
    """Return the resources that a pod's spec requests."""
    spec = pod.tree["spec"]
    if not spec.get("initContainers") and spec.get("resources") is None and spec.get("containers"):
        return _of_containers(spec["containers"])
    trees = container_trees(pod)
    containers = {
        each.name: canonical(trees[each.name].get("resources")) for each in resizable(pod, features)
    }
    whole = pod.tree["spec"].get("resources")
    return PodResources(containers, None if whole is None else canonical(whole))


@by_identity
def _of_containers(containers: Sequence[Tree]) -> PodResources:
    """Pods of one template share their containers, and so what these ask for."""
    return PodResources({each["name"]: canonical(each.get("resources")) for each in containers})


def container_trees(pod: Pod) -> dict[str, Tree]:
    """The containers as they stand in the pod's tree, init containers too, by name."""
    spec = pod.tree["spec"]
    return {
        each["name"]: each
        for key in ("initContainers", "containers")
        for each in spec.get(key) or ()
    }


def with_resources(pod: Pod, resources: PodResources | None) -> Pod:
    """The pod with these resources in place of its own; the very same pod when nothing differs."""
    if resources is None:
        return pod
    spec = pod.tree["spec"]
    changed: Tree = {}
    for key in ("initContainers", "containers"):
        containers = spec.get(key) or ()
        replaced = [_replaced(each, resources.containers.get(each["name"])) for each in containers]
        if any(new is not old for new, old in zip(replaced, containers, strict=True)):
            changed[key] = replaced
    whole, wanted = resources.pod_level, spec.get("resources")
    if (whole is None) != (wanted is None) or not same_amounts(whole or {}, wanted or {}):
        changed["resources"] = whole
    if not changed:
        return pod
    spec = {key: value for key, value in {**spec, **changed}.items() if value is not None}
    return Pod.from_tree({**pod.tree, "spec": spec}, pod)


def _replaced(container: Tree, resources: Tree | None) -> Tree:
    if resources is None or same_amounts(resources, container.get("resources") or {}):
        return container
    return {**container, "resources": resources}
