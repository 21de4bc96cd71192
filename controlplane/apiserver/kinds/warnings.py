"""Warnings that upstream attaches to creates and updates of well-meant but doubtful objects.

Upstream: pkg/api/{pod,service,persistentvolume}/warnings.go and the strategies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.api import quantity
from controlplane.api.recent import by_identity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names

__all__ = ["claim_warnings", "pod_warnings", "service_warnings", "template_warnings"]

_OLD_NODE_LABELS = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
_SINCE = {"beta.kubernetes.io/arch": "v1.14", "beta.kubernetes.io/os": "v1.14"}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_NULL_SELECTOR = "a null labelSelector results in matching no pod"


def _old_label(path: str, key: str) -> Iterator[str]:
    new = _OLD_NODE_LABELS.get(key)
    if new is not None:
        since = _SINCE.get(key, "v1.17")
        yield f'{path}: deprecated since {since}; use "{new}" instead'


def pod_warnings(tree: Tree, old: Tree | None) -> list[str]:
    """Warnings for a pod."""
    if old is not None and tree.get("spec") == old.get("spec"):
        return []
    meta = tree["metadata"]
    found: list[str] = []
    if old is None and not tree["spec"].get("hostname"):
        problems = names.dns_label(meta.get("name", ""))
        if problems:
            found.append(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising "
                f"behavior; a DNS label is recommended: [{' '.join(problems)}]"
            )
    if not meta.get("annotations"):
        return found + _spec_warnings(tree["spec"])
    return found + _warnings(meta, tree["spec"], "metadata", "spec")


@by_identity
def _spec_warnings(spec: Tree) -> list[str]:
    return _warnings({}, spec, "metadata", "spec")


def template_warnings(template: Tree, path: str) -> list[str]:
    """Warnings for a pod template."""
    return _warnings(
        template.get("metadata") or {}, template.get("spec") or {}, f"{path}.metadata",
        f"{path}.spec",
    )  # fmt: skip


def _warnings(meta: Tree, spec: Tree, meta_path: str, path: str) -> list[str]:
    found: list[str] = []
    for key in spec.get("nodeSelector") or ():
        found += _old_label(f"{path}.nodeSelector[{key}]", key)
    if spec.get("affinity"):
        found += _affinity(spec["affinity"], f"{path}.affinity")
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        place = f"{path}.topologySpreadConstraints[{index}]"
        found += _old_label(f"{place}.topologyKey", constraint.get("topologyKey", ""))
        if constraint.get("labelSelector") is None:
            found.append(f"{place}.labelSelector: {_NULL_SELECTOR}")
    for key in meta.get("annotations") or ():
        if key.startswith(_APP_ARMOR):
            found.append(f'{meta_path}.annotations[{key}]: deprecated since v1.30; use the '
                         '"appArmorProfile" field instead')  # fmt: skip
        elif key == "seccomp.security.alpha.kubernetes.io/pod":
            found.append(f'{meta_path}.annotations[{key}]: non-functional in v1.27+; use the '
                         '"seccompProfile" field instead')  # fmt: skip
    if "volumes" in spec:
        found += _volumes(spec["volumes"], f"{path}.volumes")
    aliases: dict[str | None, None] = {}
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        known = alias.get("ip") in aliases
        aliases[alias.get("ip")] = None
        if known:
            found.append(f'{path}.hostAliases[{index}].ip: duplicate ip "{alias.get("ip")}"')
    secrets: dict[str, None] = {}
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        place = f"{path}.imagePullSecrets[{index}].name"
        name = secret.get("name", "")
        if not name:
            found.append(f'{place}: invalid empty name ""')
        elif name in secrets:
            found.append(f'{place}: duplicate name "{name}"')
        secrets[name] = None
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key) or ()):
            found += _container(container, f"{path}.{key}[{index}]")
    found += _ports(spec.get("containers") or [], f"{path}.containers")
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        found.append(f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are "
                     "invalid and will be treated as 1")  # fmt: skip
    return found


def _affinity(affinity: Tree, path: str) -> Iterator[str]:
    node = affinity.get("nodeAffinity") or {}
    terms = (node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    for index, term in enumerate(terms):
        for number, req in enumerate(term.get("matchExpressions") or ()):
            place = f"{path}.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[{index}]"
            yield from _old_label(f"{place}.matchExpressions[{number}].key", req.get("key", ""))
    for key in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(key) or {}
        for index, term in enumerate(part.get(_REQUIRED) or ()):
            yield from _term(term, f"{path}.{key}.{_REQUIRED}[{index}]")
        for index, entry in enumerate(part.get(_PREFERRED) or ()):
            yield from _term(entry.get("podAffinityTerm") or {},
                             f"{path}.{key}.{_PREFERRED}[{index}].podAffinityTerm")  # fmt: skip


def _term(term: Tree, path: str) -> Iterator[str]:
    if term.get("labelSelector") is None:
        yield f"{path}.labelSelector: {_NULL_SELECTOR}"


def claim_warnings(spec: Tree, path: str) -> list[str]:
    """Warnings for the spec of a persistent volume claim, in a claim or in a template."""
    text = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if text is None or not quantity.parse(text).milli_value() % 1000:
        return []
    place = f"{path}.resources.requests[storage]"
    return [f'{place}: fractional byte value "{text}" is invalid, must be an integer']


def _volumes(volumes: list[Tree], path: str) -> Iterator[str]:
    for index, volume in enumerate(volumes):
        if "gitRepo" in volume:
            yield f"{path}[{index}].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"
        if "scaleIO" in volume:
            yield f"{path}[{index}].scaleIO: deprecated in v1.16, non-functional in v1.22+"
        projected = volume.get("projected")
        if projected is not None:
            for source in projected.get("sources") or ():
                if not source:
                    yield f'volume "{volume.get("name", "")}" (Projected) has no sources provided'


def _container(container: Tree, path: str) -> Iterator[str]:
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        for name in ("memory", "ephemeral-storage"):
            text = (resources.get(kind) or {}).get(name)
            if text is not None and quantity.parse(text).milli_value() % 1000:
                yield (
                    f'{path}.resources.{kind}[{name}]: fractional byte value "{text}" is invalid, '
                    "must be an integer"
                )
    known: dict[str, None] = {}
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in known:
            yield (
                f'{path}.env[{index}]: hides previous definition of "{name}", which may be dropped '
                "when using apply"
            )
        known[name] = None


def _ports(containers: list[Tree], path: str) -> Iterator[str]:
    seen: dict[tuple[Any, ...], str] = {}
    named: dict[str, str] = {}
    names: list[str] = []
    for index, container in enumerate(containers):
        own: dict[tuple[Any, ...], str] = {}
        for number, port in enumerate(container.get("ports") or ()):
            place = f"{path}[{index}].ports[{number}]"
            key = (port.get("hostIP", ""), port.get("hostPort", 0), port.get("containerPort", 0),
                   port.get("protocol", "TCP"))  # fmt: skip
            if key in own:
                yield f"{place}: duplicate port definition with {own[key]}"
            elif key in seen:
                yield f"{place}: duplicate port definition with {seen[key]}"
            own[key] = place
            name = port.get("name", "")
            if name in named:
                names.append(
                    f'{place}: duplicate port name "{name}" with {named[name]}, services and '
                    f"probes that select ports by name will use {named[name]}"
                )
            elif name:
                named[name] = place
        seen.update(own)
    yield from names


def service_warnings(tree: Tree) -> list[str]:
    """Warnings for a service."""
    spec = tree.get("spec") or {}
    found: list[str] = []
    if (spec.get("clusterIPs") or [""])[0] == "None":
        for key in ("loadBalancerIP", "externalIPs", "sessionAffinity"):
            value = spec.get(key)
            if value and value != "None":
                found.append(f'spec.{key} is ignored when spec.clusterIP is "None"')
    if spec.get("type") != "ExternalName" and spec.get("externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("externalIPs"):
        found.append("spec.externalIPs is deprecated and may no longer be implemented in some "
                     "clusters")  # fmt: skip
    if spec.get("trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found
