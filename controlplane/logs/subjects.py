"""The object that a question names, and the alternatives if the name is ambiguous."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from controlplane.errors import UsageError, either, nearest
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


def kind_of(name: str) -> str:
    """Return the kind that a name means: in lower case, short names and plurals resolved."""
    kind = name.lower()
    kind = SHORT_NAMES.get(kind, kind)
    if kind.endswith("sses"):
        return kind[:-2]
    if kind.endswith("ies"):
        return f"{kind[:-3]}y"
    if kind.endswith("s") and not kind.endswith("ss") and kind != "endpoints":
        return kind[:-1]
    return kind


def subject(text: str) -> Subject:
    """pod/namespace/name, pod/name (in namespace default), node/name. Raises UsageError."""
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise UsageError(f"{text}: expected KIND/NAMESPACE/NAME or KIND/NAME, as pod/default/web-0")
    kind = kind_of(parts[0])
    if len(parts) == 3:
        return Subject(kind, parts[1], parts[2])
    return Subject(kind, "" if kind in CLUSTER_SCOPED else "default", parts[1])


def unknown(about: Subject, lines: Iterable[Line]) -> UsageError:
    """Return the error for an object of which the log says nothing, with the nearest names."""
    wanted = f"{about.kind}/{about.key}"
    known: dict[str, None] = {}
    for line in lines:
        if line.obj and not line.obj.endswith("*"):
            known[line.obj] = None
    lowered = {f"{obj.partition('/')[0].lower()}/{obj.partition('/')[2]}": obj for obj in known}
    same_name = [obj for key, obj in lowered.items() if key.rpartition("/")[2] == about.name]
    near = same_name[:_NEAR] or [lowered[key] for key in nearest(wanted, lowered)]
    said = f"{wanted}: the log says nothing about it"
    if near:
        said += f"; did you mean {either(near)}?"
    return UsageError(said)
