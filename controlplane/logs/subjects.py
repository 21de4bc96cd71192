"""The object that a question names, and the alternatives if the name is ambiguous."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from attrs import frozen

from controlplane.errors import UsageError
from controlplane.logs.reading import Line

SHORT_NAMES = {
    "po": "pod",
    "no": "node",
    "ns": "namespace",
    "deploy": "deployment",
    "rs": "replicaset",
    "sts": "statefulset",
    "ds": "daemonset",
    "svc": "service",
    "pvc": "persistentvolumeclaim",
    "pv": "persistentvolume",
    "sc": "storageclass",
    "pdb": "poddisruptionbudget",
    "hpa": "horizontalpodautoscaler",
    "vs": "volumesnapshot",
    "vsc": "volumesnapshotcontent",
    "cj": "cronjob",
    "cm": "configmap",
    "crd": "customresourcedefinition",
    "ep": "endpoints",
    "ev": "event",
    "ing": "ingress",
    "limits": "limitrange",
    "netpol": "networkpolicy",
    "pc": "priorityclass",
    "quota": "resourcequota",
    "rc": "replicationcontroller",
    "sa": "serviceaccount",
}
CLUSTER_SCOPED = frozenset(
    (
        "node",
        "namespace",
        "persistentvolume",
        "priorityclass",
        "storageclass",
        "csidriver",
        "csinode",
        "volumeattachment",
        "volumesnapshotcontent",
        "customresourcedefinition",
        "apiservice",
        "clusterrole",
        "clusterrolebinding",
        "deviceclass",
        "ingressclass",
        "mutatingwebhookconfiguration",
        "resourceslice",
        "runtimeclass",
        "validatingadmissionpolicy",
        "validatingadmissionpolicybinding",
        "validatingwebhookconfiguration",
        "volumesnapshotclass",
    )
)
_NEAR = 3


@frozen
class Subject:
    """The object asked about; `kind` in lower case, `namespace` "" for objects of the cluster."""

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """namespace/name, or name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def matches(self, obj: str) -> bool:
        """Return whether the log's name for an object means this one."""
        kind, _, key = obj.partition("/")
        if key != self.key:
            return False
        kind = kind.lower()
        # Logs of before vocabulary 2 call a write without an answer of that kind by its resource.
        return kind in (self.kind, f"{self.kind}s")


def subject(text: str) -> Subject:
    """pod/namespace/name, pod/name (in namespace default), node/name. Raises UsageError."""
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise UsageError(f"{text}: expected KIND/NAMESPACE/NAME or KIND/NAME, as pod/default/web-0")
    kind = parts[0].lower()
    kind = SHORT_NAMES.get(kind, kind)
    if kind.endswith("sses"):
        kind = kind[:-2]
    elif kind.endswith("ies"):
        kind = f"{kind[:-3]}y"
    elif kind.endswith("s") and not kind.endswith("ss"):
        kind = kind[:-1]
    if len(parts) == 3:
        return Subject(kind, parts[1], parts[2])
    return Subject(kind, "" if kind in CLUSTER_SCOPED else "default", parts[1])


def unknown(about: Subject, lines: Iterable[Line]) -> UsageError:
    """The log says nothing about an object: which names are near."""
    wanted = f"{about.kind}/{about.key}"
    known: dict[str, None] = {}
    for line in lines:
        if line.obj and not line.obj.endswith("*"):
            known[line.obj] = None
    lowered = {f"{obj.partition('/')[0].lower()}/{obj.partition('/')[2]}": obj for obj in known}
    same_name = [obj for key, obj in lowered.items() if key.rpartition("/")[2] == about.name]
    near = same_name[:_NEAR] or [
        lowered[key] for key in difflib.get_close_matches(wanted, lowered, _NEAR, 0.6)
    ]
    said = f"{wanted}: the log says nothing about it"
    if near:
        said += f"; near: {', '.join(near)}"
    return UsageError(said)
