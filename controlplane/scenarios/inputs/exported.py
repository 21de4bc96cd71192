"""Objects as a server gave them out (`objects.yaml`, `kubectl get -o yaml`), made into manifests again.

A server refuses to create what it wrote itself: a resource version, the owner's uid of another cluster, the
record of a volume's binding. Such fields are taken out, and so are the objects that a control plane makes
anew: those that a controller of another exported object owns, and its own records.

Sources: staging/src/k8s.io/apiserver pkg/registry/rest/create.go (fields that the server sets),
pkg/controller/volume/persistentvolume (records of binding), pkg/apis/batch/v1/defaults and
pkg/registry/batch/job/strategy.go (generated selectors), plugin/pkg/admission/serviceaccount (token volumes).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.redaction import REDACTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Tree = dict[str, Any]
Identity = tuple[str, str, str, str]

SET_BY_SERVER: Final = (
    "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink", "managedFields",
    "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences",
)  # fmt: skip
"""Fields of metadata that creation sets, or that name objects of the exporting cluster by uid."""
NOTES_OF_BINDING: Final = (
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/selected-node",
)
NOTES: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    "kubernetes.io/service-account.uid",
)
"""Annotations that describe the object in the exporting cluster."""
FINALIZERS: Final = (
    "batch.kubernetes.io/job-tracking", "kubernetes.io/pv-protection", "kubernetes.io/pvc-protection",
    "foregroundDeletion", "orphan",
)  # fmt: skip
"""Finalizers that the control plane adds again."""
JOB_LABELS: Final = (
    "controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name",
)  # fmt: skip
RECORDS: Final = {
    "Event": ("v1", "events.k8s.io/v1"),
    "CSINode": ("storage.k8s.io/v1",),
    "VolumeAttachment": ("storage.k8s.io/v1",),
    "CertificateSigningRequest": ("certificates.k8s.io/v1",),
    "ControllerRevision": ("apps/v1",),
    "PodMetrics": ("metrics.k8s.io/v1beta1",),
    "NodeMetrics": ("metrics.k8s.io/v1beta1",),
    "ComponentStatus": ("v1",),
    "IPAddress": ("networking.k8s.io/v1",),
    "ServiceCIDR": ("networking.k8s.io/v1",),
}
"""Kinds whose objects components write as records of what they did."""
BOOTSTRAPPED: Final = "kubernetes.io/bootstrapping"
"""Label of the roles and bindings that each API server makes at its start."""
AUTO_UPDATED: Final = "apf.kubernetes.io/autoupdate-spec"
"""Annotation of the flow schemas and priority levels that each API server makes at its start."""
SYSTEM_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
TOKEN_VOLUME: Final = re.compile(r"kube-api-access-[a-z0-9]{5}")
TOKENS: Final = "kubernetes.io/service-account-token"
DOCKER_KEYS: Final = (".dockercfg", ".dockerconfigjson")
"""Keys of a Secret whose values have to be JSON."""
EMPTY_JSON: Final = "e30="
"""`{}` in base64."""


def is_exported(tree: Tree) -> bool:
    """Return whether a server wrote the object: it has a resource version or a uid."""
    metadata = tree.get("metadata") or {}
    return bool(metadata.get("resourceVersion") or metadata.get("uid"))


def is_made_anew(tree: Tree, exported: Mapping[Identity, Tree]) -> bool:
    """Return whether a control plane makes such an object itself, given what else was exported."""
    metadata = tree["metadata"]
    labels: Tree = metadata.get("labels") or {}
    notes: Tree = metadata.get("annotations") or {}
    kind: str = tree["kind"]
    version: str = tree["apiVersion"]
    name: str = metadata.get("name", "")
    namespace: str = metadata.get("namespace", "")
    if version in RECORDS.get(kind, ()) or labels.get(BOOTSTRAPPED) == "rbac-defaults":
        return True
    if notes.get(AUTO_UPDATED) == "true":
        return True
    if any(
        owner.get("controller") and _owner(owner, namespace) in exported
        for owner in metadata.get("ownerReferences") or ()
    ):
        return True
    if kind == "Pod":
        return "kubernetes.io/config.mirror" in notes
    if kind == "Lease":
        return namespace in SYSTEM_NAMESPACES
    if kind in ("Endpoints", "EndpointSlice"):
        service = exported.get(
            ("", "Service", namespace, labels.get("kubernetes.io/service-name", name))
        )
        return (namespace, name) == ("default", "kubernetes") or bool(
            service and (service.get("spec") or {}).get("selector")
        )
    if kind == "Service":
        return (namespace, name) == ("default", "kubernetes")
    if kind == "Namespace":
        return name in SYSTEM_NAMESPACES
    if kind == "ServiceAccount":
        return (
            bool(name == "default") and not tree.get("secrets") and not tree.get("imagePullSecrets")
        )
    if kind == "ConfigMap":
        return name == "kube-root-ca.crt" or (
            namespace == "kube-system"
            and name.startswith(("extension-apiserver-", "kube-apiserver-"))
        )
    if kind == "APIService":
        return "kube-aggregator.kubernetes.io/automanaged" in labels
    return kind == "PriorityClass" and name.startswith("system-")


def as_manifest(tree: Tree) -> Tree:
    """Return the manifest of which a server makes such an object: without what the server sets itself."""
    metadata = {key: value for key, value in tree["metadata"].items() if key not in SET_BY_SERVER}
    _keep(metadata, "annotations", (*NOTES, *NOTES_OF_BINDING))
    finalizers = [each for each in metadata.pop("finalizers", None) or () if each not in FINALIZERS]
    if finalizers:
        metadata["finalizers"] = finalizers
    found = {**tree, "metadata": metadata}
    if tree["kind"] != "Node":  # a machine's size is what a Node's status says
        found.pop("status", None)
    change = _CHANGES.get((tree["apiVersion"], tree["kind"]))
    return found if change is None else change(found)


def manifests_of(trees: Iterable[Tree]) -> tuple[list[Tree], Counter[str]]:
    """Return the manifests of exported objects, and by kind how many are left out as made anew."""
    given = list(trees)
    exported = {identity_of(tree): tree for tree in given}
    found: list[Tree] = []
    left: Counter[str] = Counter()
    for tree in given:
        if is_made_anew(tree, exported):
            left[tree["kind"]] += 1
        else:
            found.append(as_manifest(tree))
    return found, left


def identity_of(tree: Tree) -> Identity:
    """Return API group, kind, namespace and name of an object."""
    metadata = tree["metadata"]
    group = tree["apiVersion"].rpartition("/")[0]
    return group, tree["kind"], metadata.get("namespace", ""), metadata.get("name", "")


def _owner(reference: Tree, namespace: str) -> Identity:
    group = reference.get("apiVersion", "").rpartition("/")[0]
    in_namespace = "" if reference.get("kind") == "Node" else namespace
    return group, reference.get("kind", ""), in_namespace, reference.get("name", "")


def _keep(parent: Tree, key: str, without: Iterable[str]) -> None:
    """Take entries out of a map; a map without entries goes, too."""
    entries = {
        name: value for name, value in (parent.get(key) or {}).items() if name not in without
    }
    parent.pop(key, None)
    if entries:
        parent[key] = entries


def _service(tree: Tree) -> Tree:
    spec = dict(tree.get("spec") or {})
    if spec.get("clusterIP") != "None":
        for key in ("clusterIP", "clusterIPs", "healthCheckNodePort"):
            spec.pop(key, None)
    return {**tree, "spec": spec}


def _pod(tree: Tree) -> Tree:
    """Without the token's volume, which admission adds with another name, and without old debug containers."""
    spec = {
        key: value
        for key, value in (tree.get("spec") or {}).items()
        if key != "ephemeralContainers"
    }
    return {**tree, "spec": without_token(spec)}


def without_token(spec: Tree) -> Tree:
    """Return a pod's spec without the volume of its account's token and its mounts."""
    found = dict(spec)
    volumes = [each for each in found.pop("volumes", None) or () if not _is_token(each)]
    if volumes:
        found["volumes"] = volumes
    for key in ("initContainers", "containers"):
        if key in found:
            found[key] = [_container(each) for each in found[key] or ()]
    return found


def _container(container: Tree) -> Tree:
    mounts = [each for each in container.get("volumeMounts") or () if not _is_token(each)]
    found = {key: value for key, value in container.items() if key != "volumeMounts"}
    return {**found, "volumeMounts": mounts} if mounts else found


def _is_token(entry: Tree) -> bool:
    return TOKEN_VOLUME.fullmatch(entry.get("name", "")) is not None


def _job(tree: Tree) -> Tree:
    spec = dict(tree.get("spec") or {})
    if spec.get("manualSelector"):
        return tree
    spec.pop("selector", None)
    template = dict(spec.get("template") or {})
    inner = dict(template.get("metadata") or {})
    inner.pop("creationTimestamp", None)
    _keep(inner, "labels", JOB_LABELS)
    template["metadata"] = inner
    metadata = dict(tree["metadata"])
    _keep(metadata, "labels", JOB_LABELS)
    return {**tree, "metadata": metadata, "spec": {**spec, "template": template}}


def _volume(tree: Tree) -> Tree:
    spec = dict(tree.get("spec") or {})
    claim = spec.get("claimRef")
    if claim:
        spec["claimRef"] = {
            key: value for key, value in claim.items() if key not in ("uid", "resourceVersion")
        }
    return {**tree, "spec": spec}


def _secret(tree: Tree) -> Tree:
    """Without the exporting cluster's token; a redacted one of a pull secret is still JSON."""
    found = dict(tree)
    if tree.get("type") == TOKENS:
        _keep(found, "data", ("token", "ca.crt", "namespace"))
        return found
    data = found.get("data") or {}
    hidden = {key: EMPTY_JSON for key in DOCKER_KEYS if data.get(key) == REDACTED}
    return {**found, "data": {**data, **hidden}} if hidden else found


def _node(tree: Tree) -> Tree:
    """Without what the kubelet and the node lifecycle controller report of the machine's state."""
    status = tree.get("status") or {}
    spec = dict(tree.get("spec") or {})
    taints = [
        each for each in spec.pop("taints", None) or ()
        if not each.get("key", "").startswith("node.kubernetes.io/")
        or each["key"] == "node.kubernetes.io/out-of-service"
    ]  # fmt: skip
    if taints:
        spec["taints"] = taints
    sizes = {key: status[key] for key in ("capacity", "allocatable") if key in status}
    return {**tree, "spec": spec, "status": sizes}


_CHANGES: Final = {
    ("v1", "Service"): _service,
    ("v1", "Pod"): _pod,
    ("v1", "PersistentVolume"): _volume,
    ("v1", "Secret"): _secret,
    ("v1", "Node"): _node,
    ("batch/v1", "Job"): _job,
}
"""Fields that are special to a kind."""
