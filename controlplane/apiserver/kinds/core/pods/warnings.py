"""Warnings for pods and templates of pods. Upstream: pkg/api/pod/warnings.go."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import entries
from controlplane.apiserver.kinds.core.persistent_volume_claims import claim_warnings
from controlplane.apiserver.schema.work import spend
from controlplane.sharing.memory import by_identity

__all__ = ["OLD_VOLUMES", "PLACES", "node_term_warnings", "pod_warnings", "template_warnings"]

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
_TEXT = 1
"""Steps of work of one warning."""
_NULL_SELECTOR = "a null labelSelector results in matching no pod"


def _old_label(path: str, key: str, *, named: bool = False) -> Iterator[str]:
    """Said of an old label; with its name where it does not stand in the path."""
    new = _OLD_NODE_LABELS.get(key)
    if new is not None:
        since = _SINCE.get(key, "v1.17")
        what = f"{key} is deprecated" if named else "deprecated"
        yield f'{path}: {what} since {since}; use "{new}" instead'


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
        template.get("metadata") or {},
        template.get("spec") or {},
        f"{path}.metadata",
        f"{path}.spec",
    )


def _warnings(meta: Tree, spec: Tree, meta_path: str, path: str) -> list[str]:
    found: list[str] = []
    for key in spec.get("nodeSelector") or ():
        found += _old_label(f"{path}.nodeSelector[{key}]", key)
    if spec.get("affinity"):
        node = spec["affinity"].get("nodeAffinity") or {}
        found += _node_affinity(node, f"{path}.affinity.nodeAffinity")
    for constraint, place in entries(spec, "topologySpreadConstraints", path):
        found += _old_label(f"{place}.topologyKey", constraint.get("topologyKey", ""), named=True)
        if constraint.get("labelSelector") is None:
            found.append(f"{place}.labelSelector: {_NULL_SELECTOR}")
    annotations = meta.get("annotations") or {}
    found += [
        f"{meta_path}.annotations[{key}]: {text}"
        for key, text in _OLD_ANNOTATIONS.items()
        if key in annotations
    ]
    if "volumes" in spec:
        found += _volumes(spec["volumes"], f"{path}.volumes")
    aliases: dict[str | None, None] = {}
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        known = alias.get("ip") in aliases
        aliases[alias.get("ip")] = None
        if known:
            found.append(f'{path}.hostAliases[{index}].ip: duplicate ip "{alias.get("ip")}"')
    secrets: dict[str, None] = {}
    for secret, spot in entries(spec, "imagePullSecrets", path):
        place = f"{spot}.name"
        name = secret.get("name", "")
        if not name:
            found.append(f'{place}: invalid empty name ""')
        elif name in secrets:
            found.append(f'{place}: duplicate name "{name}"')
        secrets[name] = None
    for name in ("memory", "ephemeral-storage"):
        text = (spec.get("overhead") or {}).get(name)
        found += _fraction(text, f"{path}.overhead[{name}]")
    if annotations:
        found += _pod_profile(annotations, spec, meta_path)
    containers = [
        (container, f"{path}.{key}[{index}]")
        for key in ("initContainers", "containers", "ephemeralContainers")
        for index, container in enumerate(spec.get(key) or ())
    ]
    for container, place in containers:
        if annotations:
            found += _profiles(annotations, container, spec, meta_path)
        found += _container(container, place)
    found += _ports(containers)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        found.append(
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are "
            "invalid and will be treated as 1"
        )
    if spec.get("affinity"):
        found += _affinity(spec["affinity"], f"{path}.affinity")
    return found


_OLD_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}


_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"


def _pod_profile(annotations: Tree, spec: Tree, path: str) -> Iterator[str]:
    own = (spec.get("securityContext") or {}).get("seccompProfile")
    if own is None and _SECCOMP_POD in annotations:
        yield f"{path}.annotations[{_SECCOMP_POD}]: {_SECCOMP}"


def _profiles(annotations: Tree, container: Tree, spec: Tree, path: str) -> Iterator[str]:
    """Old annotations without the field that took their place; warnings about AppArmor in pods stand elsewhere."""
    context, whole = container.get("securityContext") or {}, spec.get("securityContext") or {}
    name = container.get("name", "")
    if context.get("seccompProfile") is None and _SECCOMP_CONTAINER + name in annotations:
        yield f"{path}.annotations[{_SECCOMP_CONTAINER}{name}]: {_SECCOMP}"
    fields = (context.get("appArmorProfile"), whole.get("appArmorProfile"))
    if path != "metadata" and fields == (None, None) and _APP_ARMOR + name in annotations:
        yield (
            f"{path}.annotations[{_APP_ARMOR}{name}]: deprecated since v1.30; use the "
            '"appArmorProfile" field instead'
        )


def _node_affinity(affinity: Tree, path: str) -> Iterator[str]:
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    for index, term in enumerate(terms):
        yield from node_term_warnings(term, f"{path}.{_REQUIRED}.nodeSelectorTerms[{index}]")
    for entry, spot in entries(affinity, _PREFERRED, path):
        place = f"{spot}.preference"
        yield from node_term_warnings(entry.get("preference") or {}, place, values=True)


def node_term_warnings(term: Tree, path: str, *, values: bool = False) -> Iterator[str]:
    """Old labels, and `values` that no label can have: validation lets them be where preferred."""
    for req, place in entries(term, "matchExpressions", path):
        yield from _old_label(f"{place}.key", req.get("key", ""), named=True)
        for index, value in enumerate((req.get("values") or ()) if values else ()):
            for problem in names.label_value(value):
                yield f"{place}.values[{index}]: {value} is invalid, {problem}"


def _affinity(affinity: Tree, path: str) -> Iterator[str]:
    for key in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(key) or {}
        for term, place in entries(part, _REQUIRED, f"{path}.{key}"):
            yield from _term(term, place)
        for entry, spot in entries(part, _PREFERRED, f"{path}.{key}"):
            yield from _term(
                entry.get("podAffinityTerm") or {},
                f"{spot}.podAffinityTerm",
            )


def _term(term: Tree, path: str) -> Iterator[str]:
    if term.get("labelSelector") is None:
        yield f"{path}.labelSelector: {_NULL_SELECTOR}"


OLD_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "ephemeral": "",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}


PLACES = {"storageos": "storageOS"}


def _volumes(volumes: list[Tree], path: str) -> Iterator[str]:
    for index, volume in enumerate(volumes):
        for key, text in OLD_VOLUMES.items():
            source = volume.get(key)
            if source is None:
                continue
            if text:
                yield f"{path}[{index}].{PLACES.get(key, key)}: {text}"
            elif source.get("volumeClaimTemplate") is not None:
                place = f"{path}[{index}].ephemeral.volumeClaimTemplate.spec"
                yield from claim_warnings(source["volumeClaimTemplate"].get("spec") or {}, place)
    for volume in volumes:
        yield from _overlaps(volume)


def _overlaps(volume: Tree) -> Iterator[str]:
    """Files of one volume that hide each other. Upstream: warningsForOverlappingVirtualPaths."""
    what = f"volume {quote(volume.get('name', ''))}"
    for key, kind, name in (
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ):
        source = volume.get(key)
        if source is not None:
            named = f" {quote(source.get(name, ''))}" if name else ""
            yield from _collisions(_paths(source), f"{what} ({kind}{named}): overlapping paths")
    taken: set[str] = set()
    for part in (volume.get("projected") or {}).get("sources") or ():
        if not part:
            yield f"{what} (Projected) has no sources provided"
            continue
        paths, text = _projected_paths(part, what)
        if paths:
            yield from _collisions(paths, text)
            yield from _collisions(sorted([*set(paths), *taken]), text)
            taken.update(paths)


def _paths(source: Tree) -> list[str]:
    return [item.get("path", "") for item in source.get("items") or ()]


def _projected_paths(part: Tree, what: str) -> tuple[list[str], str]:
    for key, kind in (
        ("configMap", "ConfigMap"),
        ("secret", "Secret"),
        ("downwardAPI", "DownwardAPI"),
    ):
        source = part.get(key)
        if source is not None and source.get("items") is not None:
            named = "" if key == "downwardAPI" else f" {quote(source.get('name', ''))}"
            return _paths(source), f"{what} (Projected {kind}{named}): overlapping paths"
    for key, kind in (
        ("serviceAccountToken", "ServiceAccountToken"),
        ("clusterTrustBundle", "ClusterTrustBundle"),
    ):
        source = part.get(key)
        if source is not None:
            bundle = source.get("name", source.get("signerName", ""))
            named = f" {quote(bundle)}" if key == "clusterTrustBundle" else ""
            return [source.get("path", "")], f"{what} (Projected {kind}{named}): overlapping paths"
    return [], ""


def _collisions(paths: list[str], text: str) -> Iterator[str]:
    """Upstream takes any other path that hides this one; here it is the first by name."""
    known: set[str] = set()
    for path in (path.rstrip("/") for path in paths):
        if path and "" not in known:
            hidden = [
                each
                for each in sorted(known)
                if f"{each}/".startswith(path) or f"{path}/".startswith(each)
            ]
            if hidden:
                yield f"{text}: {quote(path)} with {quote(hidden[0])}"
        known.add(path)


def _fraction(text: str | None, path: str) -> Iterator[str]:
    if text is not None and quantity.parse(text).milli_value() % 1000:
        yield f'{path}: fractional byte value "{text}" is invalid, must be an integer'


def _container(container: Tree, path: str) -> Iterator[str]:
    resources = container.get("resources") or {}
    for name in ("memory", "ephemeral-storage"):
        for kind in ("limits", "requests"):
            text = (resources.get(kind) or {}).get(name)
            yield from _fraction(text, f"{path}.resources.{kind}[{name}]")
    known: dict[str, None] = {}
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name", ""), variable.get("value", "")
        ref = f"$({name})"
        # A value made of the earlier one is meant so.
        built = ref in value and value != ref and variable.get("valueFrom") is None
        if name in known and not built:
            yield (
                f'{path}.env[{index}]: hides previous definition of "{name}", which may be dropped '
                "when using apply"
            )
        known[name] = None


def _port_shown(port: Tree) -> str:
    """A port as Go prints it with its fields' names."""
    return (
        f"{{Name:{port.get('name', '')} HostPort:{port.get('hostPort', 0)} "
        f"ContainerPort:{port.get('containerPort', 0)} Protocol:{port.get('protocol', '')} "
        f"HostIP:{port.get('hostIP', '')}}}"
    )


def _ports(containers: list[tuple[Tree, str]]) -> Iterator[str]:
    """Ports that hide each other: of those before, only ones that may do so are looked at."""
    seen: dict[tuple[int, str], dict[int, list[tuple[int, str, str]]]] = {}
    count = 0
    for container, path in containers:
        for port, place in entries(container, "ports", path):
            ip, host = port.get("hostIP", ""), port.get("hostPort", 0)
            if ip and not host:
                yield f"{place}: hostIP set without hostPort: {_port_shown(port)}"
            by_host = seen.setdefault((port.get("containerPort", 0), port.get("protocol", "")), {})
            for other_host, other_ip, where in _maybe_hiding(by_host, host):
                spend(_TEXT)
                if (ip, host) == (other_ip, other_host):
                    yield f"{place}: duplicate port definition with {where}"
                elif not host or not other_host:
                    yield f"{place}: overlapping port definition with {where}"
                elif bool(ip) != bool(other_ip):
                    yield f"{place}: dangerously ambiguous port definition with {where}"
            by_host.setdefault(host, []).append((count, ip, place))
            count += 1
    yield from _port_names([pair for pair in containers if ".containers[" in pair[1]])


def _maybe_hiding(
    by_host: dict[int, list[tuple[int, str, str]]], host: int
) -> Iterator[tuple[int, str, str]]:
    """Host port, address and place of the ports before that are of the same or no host port, in order."""
    hosts = [each for each in (host, 0) if each in by_host] if host else list(by_host)
    if len(set(hosts)) == 1:
        return ((hosts[0], ip, place) for _, ip, place in by_host[hosts[0]])
    every = [(number, each, ip, place) for each in hosts for number, ip, place in by_host[each]]
    spend(len(every))
    every.sort()
    return ((each, ip, place) for _, each, ip, place in every)


def _port_names(containers: list[tuple[Tree, str]]) -> Iterator[str]:
    named: dict[str, str] = {}
    for container, path in containers:
        for port, spot in entries(container, "ports", path):
            place, name = spot, port.get("name", "")
            if name in named:
                yield (
                    f'{place}: duplicate port name "{name}" with {named[name]}, services and '
                    f"probes that select ports by name will use {named[name]}"
                )
            elif name:
                named[name] = place
