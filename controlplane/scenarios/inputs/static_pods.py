"""Files of static pods: checked and defaulted as a kubelet does before it takes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Tree = dict[str, Any]


def manifest(tree: Tree, origin: str = "manifest") -> Tree:
    """A static pod's manifest with the API's defaults. Raises UsageError for what no kubelet would take."""
    from controlplane.api.request import Request
    from controlplane.apiserver.options import ServerOptions
    from controlplane.apiserver.requests.admission.chain import DEFAULT_PLUGINS
    from controlplane.apiserver.requests.server import ApiServer

    kind = tree.get("kind"), tree.get("apiVersion")
    if kind != ("Pod", "v1"):
        raise UsageError(f"{origin}: a static pod is a v1 Pod, not {kind[1]} {kind[0]}")
    given = tree.get("metadata") or {}
    for what in _references(tree.get("spec") or {}):
        raise UsageError(f"{origin}: static pods may not reference {what}")
    server = ApiServer(
        uid=lambda: "",
        suffix=str,
        options=ServerOptions(disabled=DEFAULT_PLUGINS, auto_namespaces=True),
    )
    namespace = given.get("namespace") or "default"
    request = Request("create", resource="pods", namespace=namespace, body=tree)
    response = server.handle(request, 0)
    if not response.ok or response.object is None:
        raise UsageError(f"{origin}: {response.message}")
    known = ("name", "namespace", "uid", "labels", "annotations")
    metadata = {key: given[key] for key in known if key in given}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": response.object.tree["spec"],
    }


def folder(path: Path) -> Mapping[str, Tree]:
    """The manifests of a folder by file name, as staticPodPath names it. Raises UsageError."""
    import yaml

    from controlplane.api import yaml_text

    if not path.is_dir():
        raise UsageError(f"staticPodPath: {path}: no such folder")
    found: dict[str, Tree] = {}
    for file in sorted(path.iterdir()):
        if file.name.startswith(".") or not file.is_file():
            continue
        try:
            tree = yaml_text.load(file.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{file}: couldn't parse as pod: {' '.join(str(error).split())}"
            ) from error
        if not isinstance(tree, dict):
            raise UsageError(f"{file}: a static pod is a v1 Pod, not {type(tree).__name__}")
        found[file.name] = manifest(tree, str(file))
    return found


def _references(spec: Tree) -> Iterator[str]:
    """Objects of the API server that a pod names: a kubelet takes no such manifest (1.34)."""
    if spec.get("serviceAccountName"):
        yield "serviceaccounts"
    if spec.get("imagePullSecrets"):
        yield "secrets"
    for volume in spec.get("volumes") or ():
        sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        for source in sources:
            for key, what in _OBJECTS.items():
                if key in source:
                    yield what
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            for each in container.get("envFrom") or ():
                yield "configmaps" if "configMapRef" in each else "secrets"
            for each in container.get("env") or ():
                value = each.get("valueFrom") or {}
                if "configMapKeyRef" in value:
                    yield "configmaps"
                if "secretKeyRef" in value:
                    yield "secrets"
    if spec.get("resourceClaims"):
        yield "resourceclaims"


_OBJECTS = {
    "configMap": "configmaps",
    "secret": "secrets",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "serviceAccountToken": "serviceaccounts",
}
