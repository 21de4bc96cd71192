"""Objects that a pod needs from the API server before its containers can be made: config maps, secrets, claims.

Upstream: pkg/kubelet/kubelet_pods.go (makeEnvironmentVariables), the configmap, secret and projected
volume plugins, and volumemanager/populator. Errors carry upstream's texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from controlplane.api.container_inside import Find as FindAnywhere
from controlplane.api.pod import Pod
from controlplane.api.tree import Tree
from controlplane.api.validation import aggregate

CONFIG_MAPS: Final = "configmaps"
SECRETS: Final = "secrets"
CLAIMS: Final = "persistentvolumeclaims"
SERVICE_ACCOUNTS: Final = "serviceaccounts"
DEFAULT_ACCOUNT: Final = "default"
_CACHED: Final = {CONFIG_MAPS: "configmap", SECRETS: "secret"}
"""Names of resources in the kubelet's caches; other resources have the API server's names."""

Reference = tuple[str, str]
"""A resource by its plural name, and the name of an object in the pod's namespace."""


class Missing(Exception):
    """An object that is not there, or (`unknown`) of which nothing has been heard yet."""

    def __init__(self, resource: str, name: str, *, unknown: bool = False) -> None:
        kind = _CACHED.get(resource, resource)
        if unknown:
            super().__init__(f"failed to sync {kind} cache: timed out waiting for the condition")
        else:
            super().__init__(f'{kind} "{name}" not found')
        self.unknown = unknown


Find = Callable[[str, str], Tree]
"""The object of a resource with this name in the pod's namespace. Raises Missing."""


def anywhere(find: Find) -> FindAnywhere:
    """Return a lookup that answers None for what is missing; the namespace is the pod's."""

    def look(resource: str, _namespace: str, name: str) -> Tree | None:
        try:
            return find(resource, name)
        except Missing:
            return None

    return look


def volumes_of(pod: Pod) -> list[Tree]:
    """Return the volumes that a container mounts: other volumes are not set up."""
    used: dict[str, None] = {}
    for container in _containers(pod):
        for part in ("volumeMounts", "volumeDevices"):
            used.update(dict.fromkeys(each["name"] for each in container.get(part) or ()))
    return [each for each in pod.tree["spec"].get("volumes") or () if each["name"] in used]


def references(pod: Pod) -> tuple[Reference, ...]:
    """Everything that a pod's volumes and environment name, each once."""
    found: dict[Reference, None] = {}
    for volume in volumes_of(pod):
        found.update(dict.fromkeys(_of_volume(pod, volume)))
    for container in _containers(pod):
        for source in _environment(container):
            found[source[:2]] = None
    return tuple(found)


def _containers(pod: Pod) -> Iterator[Tree]:
    spec = pod.tree["spec"]
    yield from spec.get("initContainers") or ()
    yield from spec.get("ephemeralContainers") or ()
    yield from spec.get("containers") or ()


def _of_volume(pod: Pod, volume: Tree) -> Iterator[Reference]:
    if "configMap" in volume:
        yield CONFIG_MAPS, volume["configMap"].get("name", "")
    elif "secret" in volume:
        yield SECRETS, volume["secret"].get("secretName", "")
    elif "persistentVolumeClaim" in volume:
        yield CLAIMS, volume["persistentVolumeClaim"].get("claimName", "")
    elif "projected" in volume:
        for source in volume["projected"].get("sources") or ():
            if "configMap" in source:
                yield CONFIG_MAPS, source["configMap"].get("name", "")
            elif "secret" in source:
                yield SECRETS, source["secret"].get("name", "")
            elif "serviceAccountToken" in source and account_of(pod) != DEFAULT_ACCOUNT:
                yield SERVICE_ACCOUNTS, account_of(pod)


def account_of(pod: Pod) -> str:
    """Return the name of a pod's service account."""
    return pod.tree["spec"].get("serviceAccountName") or DEFAULT_ACCOUNT


# ------------------------------------------------------------------ environment


def _environment(container: Tree) -> Iterator[tuple[str, str, str, bool]]:
    """Yield the sources of variables: resource, object, key ("" for all), and whether it may be missing."""
    for each in container.get("envFrom") or ():
        for part, resource in (("configMapRef", CONFIG_MAPS), ("secretRef", SECRETS)):
            if part in each:
                source = each[part]
                yield resource, source.get("name", ""), "", bool(source.get("optional"))
    for each in container.get("env") or ():
        value = each.get("valueFrom") or {}
        for part, resource in (("configMapKeyRef", CONFIG_MAPS), ("secretKeyRef", SECRETS)):
            if part in value:
                source = value[part]
                optional = bool(source.get("optional"))
                yield resource, source.get("name", ""), source.get("key", ""), optional


def environment_error(pod: Pod, container: str, find: Find) -> str:
    """Return why a container's environment cannot be made; "" if it can."""
    for tree in _containers(pod):
        if tree["name"] != container:
            continue
        for resource, name, key, optional in _environment(tree):
            try:
                found = find(resource, name)
            except Missing as error:
                if optional and not error.unknown:
                    continue
                return str(error)
            if key and key not in (found.get("data") or {}) and not optional:
                kind = "ConfigMap" if resource == CONFIG_MAPS else "Secret"
                return f"couldn't find key {key} in {kind} {pod.namespace}/{name}"
    return ""


# ------------------------------------------------------------------ volumes


def claim_error(pod: Pod, volume: Tree, find: Find) -> str:
    """Return why a volume's claim cannot be processed; "" if it can, or the volume has none."""
    if "persistentVolumeClaim" not in volume:
        return ""
    name = volume["persistentVolumeClaim"].get("claimName", "")
    told = f"error processing PVC {pod.namespace}/{name}: "
    try:
        found = find(CLAIMS, name)
    except Missing as error:
        return f"{told}failed to fetch PVC from API server: {error}"
    phase = (found.get("status") or {}).get("phase", "")
    if phase != "Bound" or not (found.get("spec") or {}).get("volumeName"):
        return f'{told}PVC has non-bound phase ("{phase}") or empty pvc.Spec.VolumeName ("")'
    return ""


def set_up_error(pod: Pod, volume: Tree, find: Find, token_error: str = "") -> str:
    """Return why the files of a volume cannot be written; "" if they can. `token_error`: of its token."""
    if "configMap" in volume:
        source = volume["configMap"]
        return _content_error(CONFIG_MAPS, source.get("name", ""), source, find)
    if "secret" in volume:
        source = volume["secret"]
        return _content_error(SECRETS, source.get("secretName", ""), source, find)
    if "projected" in volume:
        sources = volume["projected"].get("sources") or ()
        return _joined(_projected(pod, sources, find, token_error))
    return ""


def _joined(errors: Iterable[str]) -> str:
    found = [each for each in errors if each]
    return aggregate(found) if found else ""


def _projected(pod: Pod, sources: Iterable[Tree], find: Find, token_error: str) -> Iterator[str]:
    for source in sources:
        if "configMap" in source:
            part = source["configMap"]
            yield _content_error(CONFIG_MAPS, part.get("name", ""), part, find)
        elif "secret" in source:
            part = source["secret"]
            yield _content_error(SECRETS, part.get("name", ""), part, find)
        elif "serviceAccountToken" in source:
            yield _account_error(pod, find) or token_error


def _account_error(pod: Pod, find: Find) -> str:
    if account_of(pod) == DEFAULT_ACCOUNT:
        return ""
    try:
        find(SERVICE_ACCOUNTS, account_of(pod))
    except Missing as error:
        return f"failed to fetch token: {error}"
    return ""


def _content_error(resource: str, name: str, source: Tree, find: Find) -> str:
    optional = bool(source.get("optional"))
    found: Any
    try:
        found = find(resource, name)
    except Missing as error:
        return "" if optional and not error.unknown else str(error)
    keys = {**(found.get("data") or {}), **(found.get("binaryData") or {})}
    kind = "config" if resource == CONFIG_MAPS else "secret"
    for item in source.get("items") or ():
        if item.get("key") not in keys and not optional:
            return f"references non-existent {kind} key: {item.get('key')}"
    return ""
