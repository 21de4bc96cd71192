"""Parts of a pod that scheduling results depend on, in the form in which pods are compared.

Upstream: kube-scheduler `framework/signers.go`. A fragment is a name and a value as JSON, written as Go
writes it: two pods with the same fragments share results. What is empty is left out, as in Go's types.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.go_values import go_json
from controlplane.scheduler.state.resources import Resource, pod_requests

if TYPE_CHECKING:
    from controlplane.api.constraints import NodeSelectorRequirement, NodeSelectorTerm
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree

Fragments = Sequence[tuple[str, str]]
"""Name and JSON text of each part that a plugin looks at."""

IMAGES: Final = "v1.Pod.Spec.CanonicalImageNames()"
LABELS: Final = "v1.Pod.Labels"
NODE_NAME: Final = "v1.Pod.Spec.NodeName"
NODE_AFFINITY: Final = "v1.Pod.Spec.Affinity.NodeAffinity"
NODE_SELECTOR: Final = "v1.Pod.Spec.Affinity.NodeSelector"
HOST_PORTS: Final = "v1.Pod.Spec.HostPorts()"
RESOURCES: Final = "v1.Pod.Spec.ContainerRequestsAndOverheads()"
SCHEDULER_NAME: Final = "v1.Pod.Spec.SchedulerName"
TOLERATIONS: Final = "v1.Pod.Spec.Tolerations"
VOLUMES: Final = "v1.Pod.Spec.Volumes.NonSyntheticSources()"
FEATURES: Final = "v1.Pod.Spec.RequiredFeatures()"

BY_DEVICES: Final = "signature disabled when dra extended resources are used in the cluster"
"""Why a pod is not signed that asks for a resource which devices may meet."""

_CLAIM_SPEC = (
    "accessModes",
    "selector",
    "resources",
    "volumeName",
    "storageClassName",
    "volumeMode",
    "dataSource",
    "dataSourceRef",
    "volumeAttributesClassName",
)
_ORDER: Final[dict[str, tuple[str, ...]]] = {
    "awsElasticBlockStore": ("volumeID", "fsType", "partition", "readOnly"),
    "csi": ("driver", "readOnly", "fsType", "volumeAttributes", "nodePublishSecretRef"),
    "emptyDir": ("medium", "sizeLimit"),
    "gcePersistentDisk": ("pdName", "fsType", "partition", "readOnly"),
    "hostPath": ("path", "type"),
    "image": ("reference", "pullPolicy"),
    "nfs": ("server", "path", "readOnly"),
    "persistentVolumeClaim": ("claimName", "readOnly"),
}
"""The order in which upstream's types name the members of some sources; others are sorted."""
_SYNTHETIC: Final = ("configMap", "secret")


def signature(fragments: dict[str, str]) -> str:
    """The text by which pods are compared: all fragments as one JSON object, names sorted."""
    return _object((name, fragments[name]) for name in sorted(fragments))


def text(value: Any) -> str:
    """A value as JSON; maps are sorted."""
    return go_json(value)


def host_ports(pod: Pod) -> str:
    """Numbers of the host ports, sorted (protocol and address are left out)."""
    found = {
        port.host_port: None
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for port in container.ports
        if port.host_port
    }
    return text(sorted(found))


def tolerations(pod: Pod) -> str:
    """Tolerations by key and value."""
    ordered = sorted(pod.spec.tolerations, key=lambda each: (each.key, each.value))
    return _array(
        _present(
            ("key", each.key),
            ("operator", each.operator),
            ("value", each.value),
            ("effect", each.effect),
            ("tolerationSeconds", each.toleration_seconds),
        )
        for each in ordered
    )


def volumes(pod: Pod) -> str:
    """Sources of the volumes, but those of ConfigMaps and Secrets, sorted."""
    if not pod.spec.volumes:
        return "[]"
    found: list[str] = []
    for volume in (pod.tree.get("spec") or {}).get("volumes") or ():
        if any(volume.get(kind) is not None for kind in _SYNTHETIC):
            continue
        sources = [(kind, value) for kind, value in volume.items() if kind != "name"]
        found.append(
            _object((kind, _source(kind, value)) for kind, value in sources if value is not None)
        )
    return text(sorted(found))


def resources(pod: Pod) -> str:
    """Summed requests; no scalar resource is null, as Go writes a nil map."""
    requested = Resource.from_requests(pod_requests(pod))
    return _object(
        (
            ("MilliCPU", text(requested.milli_cpu)),
            ("Memory", text(requested.memory)),
            ("EphemeralStorage", text(requested.ephemeral_storage)),
            ("AllowedPodNumber", text(requested.allowed_pod_number)),
            ("ScalarResources", text(dict(requested.scalars) or None)),
        )
    )


def node_affinity(pod: Pod) -> str:
    """Required and preferred node affinity, each sorted; null without node affinity."""
    affinity = pod.spec.affinity
    node = None if affinity is None else affinity.node_affinity
    if node is None:
        return "null"
    required = node.required_during_scheduling_ignored_during_execution
    terms = () if required is None else required.node_selector_terms
    preferred = [
        _object((("Weight", text(each.weight)), ("Preference", _term(each.preference))))
        for each in node.preferred_during_scheduling_ignored_during_execution
    ]
    return _object(
        (
            ("Required", text(sorted(_term(term) for term in terms))),
            ("Preferred", text(sorted(preferred))),
        )
    )


def _term(term: NodeSelectorTerm) -> str:
    return _object(
        (
            ("MatchExpressions", text(_requirements(term.match_expressions))),
            ("MatchFields", text(_requirements(term.match_fields))),
        )
    )


def _requirements(requirements: Iterable[NodeSelectorRequirement]) -> list[str]:
    return sorted(
        _object(
            (
                ("key", text(each.key)),
                ("operator", text(each.operator)),
                *((("values", text(sorted(each.values))),) if each.values else ()),
            )
        )
        for each in requirements
    )


def _source(kind: str, value: Tree) -> str:
    if kind == "ephemeral":
        template = value.get("volumeClaimTemplate")
        if template is None:
            return "{}"
        spec = {"resources": {}, **(template.get("spec") or {})}
        claim = _object(
            (
                ("metadata", text(template.get("metadata") or {})),
                ("spec", _members(_CLAIM_SPEC, spec)),
            )
        )
        return _object((("volumeClaimTemplate", claim),))
    return _members(_ORDER.get(kind, ()), value)


def _members(order: Sequence[str], value: Tree) -> str:
    names = [name for name in order if name in value]
    names += sorted(name for name in value if name not in order)
    return _object(
        (name, text(value[name])) for name in names if value[name] or name == "resources"
    )


def _present(*members: tuple[str, Any]) -> str:
    """An object of the members that are not empty."""
    return _object((name, text(value)) for name, value in members if value not in (None, ""))


def _object(members: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in members) + "}"


def _array(items: Iterable[str]) -> str:
    return "[" + ",".join(items) + "]"
