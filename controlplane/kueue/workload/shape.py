"""The scheduling hash: equal for workloads that scheduling treats alike.

The hash is that of the JSON which upstream's structs marshal to, so fields of structs keep
upstream's order. Follows `computeSchedulingHash` (`pkg/workload/workload.go`) and `SpecShape`
(`pkg/util/pod/pod.go`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from controlplane.api.go_values import HTML_ESCAPES
from controlplane.api.quantity import parse
from controlplane.api.tree import Tree

UNKNOWN: Final = "unknown"
"""The hash of a workload while the gate SchedulingEquivalenceHashing is off."""

_STRUCT_FIELDS: Final = (
    "nodeAffinity", "podAffinity", "podAntiAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms", "matchLabels", "matchExpressions", "matchFields",
    "weight", "preference", "podAffinityTerm",
    "name", "resourceClaimName", "resourceClaimTemplateName", "hostPort", "containerPort",
    "protocol", "hostIP", "maxSkew", "labelSelector_",
    "key", "operator", "value", "values", "effect", "tolerationSeconds",
    "required", "preferred", "unconstrained", "podIndexLabel", "subGroupIndexLabel",
    "subGroupCount", "podSetGroupName", "podSetSliceRequiredTopology", "podSetSliceSize",
    "podsetSliceRequiredTopologyConstraints", "topology", "size",
)  # fmt: skip
_RANK: Final = {name: at for at, name in enumerate(_STRUCT_FIELDS)}
_SPREAD: Final = ("maxSkew", "topologyKey", "whenUnsatisfiable", "labelSelector", "minDomains",
                  "nodeAffinityPolicy", "nodeTaintsPolicy", "matchLabelKeys")  # fmt: skip
_POD_TERM: Final = ("labelSelector", "namespaces", "topologyKey", "namespaceSelector",
                    "matchLabelKeys", "mismatchLabelKeys")  # fmt: skip
_MAPS: Final = ("matchLabels",)
_KEPT: Final = ("containerPort", "nodeSelectorTerms", "weight", "preference", "podAffinityTerm",
                "key", "operator", "name", "maxSkew", "topologyKey", "whenUnsatisfiable")  # fmt: skip
"""Fields that are written although they are empty."""


def scheduling_hash(
    workload: Tree,
    requests: Iterable[tuple[int, Mapping[str, int]]],
    priority: int,
    allowed_flavors: str | None = None,
) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the workload's shape.

    Args:
        workload: A Workload with adjusted pod specifications.
        requests: Count and total requests per pod set, as far as there are any.
        priority: Its effective priority.
        allowed_flavors: The annotation of concurrent admission, None without that gate.
    """
    known = list(requests)
    pod_sets = []
    for at, each in enumerate((workload.get("spec") or {}).get("podSets") or ()):
        count, asked = known[at] if at < len(known) else (each.get("count") or 0, {})
        topology = each.get("topologyRequest")
        pod_sets.append(
            {
                "count": count,
                "minCount": each.get("minCount"),
                "name": each.get("name", ""),
                "requests": {name: asked[name] for name in sorted(asked)} or None,
                "spec": spec_shape((each.get("template") or {}).get("spec") or {}),
                "topologyRequest": None if topology is None else struct(topology),
            }
        )
    shape: Tree = {} if allowed_flavors is None else {"allowedFlavors": allowed_flavors}
    shape["podSets"] = pod_sets
    shape["priority"] = priority
    return hashlib.sha256(go_text(shape).encode()).hexdigest()[:16]


def spec_shape(spec: Tree) -> Tree:
    """The parts of a pod specification that scheduling depends on, ready for `go_text`."""
    shape: Tree = {
        "affinity": _optional(spec.get("affinity")),
        "containers": _containers(spec.get("containers")),
        "initContainers": _containers(spec.get("initContainers")),
        "nodeSelector": _sorted(spec.get("nodeSelector")),
        "overhead": _quantities(spec.get("overhead")),
        "priority": spec.get("priority"),
        "resourceClaims": _list(spec.get("resourceClaims")),
    }
    if spec.get("resources") is not None:
        shape["resources"] = _quantities(spec["resources"].get("requests"))
    shape["runtimeClassName"] = spec.get("runtimeClassName")
    shape["tolerations"] = _list(spec.get("tolerations"))
    shape["topologySpreadConstraints"] = _list(spec.get("topologySpreadConstraints"))
    return shape


def go_text(shape: Any) -> str:
    """JSON as Go writes it, fields in the order that they have."""
    return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).translate(HTML_ESCAPES)


def _containers(containers: Any) -> list[Tree] | None:
    return [
        {
            "ports": _list(each.get("ports")),
            "resources": {"requests": _quantities((each.get("resources") or {}).get("requests"))},
        }
        for each in containers or ()
    ] or None


def _quantities(quantities: Any) -> Tree | None:
    if quantities is None:
        return None
    return {name: str(parse(str(quantities[name]))) for name in sorted(quantities)}


def _sorted(labels: Any) -> Tree | None:
    return None if labels is None else {name: labels[name] for name in sorted(labels)}


def _list(values: Any) -> list[Any] | None:
    return None if values is None else [struct(each) for each in values]


def _optional(value: Any) -> Any:
    return None if value is None else struct(value)


def struct(value: Any) -> Any:
    """An object with its fields in the order of upstream's struct; empty ones are left out."""
    if isinstance(value, list):
        return [struct(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "maxSkew" in value or "whenUnsatisfiable" in value:
        order: tuple[str, ...] = _SPREAD
    elif "topologyKey" in value:
        order = _POD_TERM
    else:
        order = tuple(sorted(value, key=lambda name: _RANK.get(name, len(_RANK))))
    return {
        name: _sorted(value[name]) if name in _MAPS else struct(value[name])
        for name in order
        if name in value and (value[name] or _written_empty(name, value[name]))
    }


def _written_empty(name: str, value: Any) -> bool:
    """Return whether a field without content is written: pointers to it are, plain ones are not."""
    if name in _KEPT:
        return True
    return value is not None and (
        isinstance(value, (bool, dict))
        or name in ("tolerationSeconds", "minDomains", "subGroupCount", "podSetSliceSize")
    )
