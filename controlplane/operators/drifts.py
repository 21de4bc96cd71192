"""Drifts: what an operator owns is changed or deleted under it, what it needs is taken away and given back.

What it owns is learned from a run without faults: the objects that it created and that are there at the end. A verdict
compares the end with that run's end:

    resilient     everything is as it was, without help, or once what was taken away is back
    degraded      all objects are there, and some fields are not what they were
    failed        objects are missing or too many, a process has ended, or there is no rest
    inconclusive  the drift could not be made

Upstream: the injections and verdicts of opendatahub-io/operator-chaos.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from controlplane.operators.oracles import END, WORKLOAD, Alarm, alarms_of
from controlplane.scenarios.plans.language import ANSWER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controlplane.api.tree import Tree
    from controlplane.operators.masks import Reference
    from controlplane.operators.observation import Record

__all__ = ["SEVERITY", "Change", "Drift", "Verdict", "drifts_of", "verdict_of"]

RESILIENT, DEGRADED, FAILED, INCONCLUSIVE = "resilient", "degraded", "failed", "inconclusive"
SEVERITY: Final = (RESILIENT, INCONCLUSIVE, DEGRADED, FAILED)
"""The verdicts, from the best to the worst."""
CREATE, DELETE, PATCH = "create", "delete", "patch"
BLOCKER: Final = "controlplane/blocked"
"""A finalizer that nothing removes."""
ORDER: Final = (
    "ResourceDeletion",
    "ConfigDrift",
    "SecretDeletion",
    "CRDMutation",
    "LabelStomping",
    "OwnerRefOrphan",
    "FinalizerBlock",
    "PodKill",
    "DeploymentScaleZero",
    "LeaderElectionDisrupt",
    "RBACRevoke",
    "QuotaExhaustion",
)
MOST_OF_A_KIND: Final = 3
"""The number of objects that are tried with each drift."""


@frozen
class Change:
    """One change by the administrator: of an object (resource, namespace, name), or of a new one (`tree`)."""

    action: str
    resource: str
    namespace: str
    name: str
    tree: Tree = field(factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{self.action} {self.resource} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


@frozen
class Drift:
    """A drift: its kind, what is done, and what gives back what was taken away."""

    kind: str
    changes: tuple[Change, ...]
    back: tuple[Change, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {', '.join(str(each) for each in self.changes)}"


@frozen
class Verdict:
    """The verdict about a drift, and the alarms that decided it."""

    drift: Drift
    verdict: str
    alarms: tuple[Alarm, ...] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        why = f"; {self.alarms[0]}" if self.alarms else ""
        return f"{self.verdict}: {self.drift}{why}"


def drifts_of(record: Record) -> list[Drift]:
    """Return the drifts that a run without faults suggests, by kind."""
    found = [*_of_owned(record), *_of_needs(record)]
    counted: Counter[str] = Counter()
    few = []
    for each in sorted(found, key=lambda drift: ORDER.index(drift.kind)):
        counted[each.kind] += 1
        if counted[each.kind] <= MOST_OF_A_KIND:
            few.append(each)
    return few


def verdict_of(
    drift: Drift, record: Record, reference: Reference, calm: Sequence[Record]
) -> Verdict:
    """Return the verdict about a run with a drift."""
    if record.drift_problem:
        alarm = Alarm("drift", str(drift), record.drift_problem)
        return Verdict(drift, INCONCLUSIVE, (alarm,), record.wall_s)
    alarms = [
        each
        for each in alarms_of(record, reference, calm)
        if each.kind != "history" and not _is_expected(each, drift)
    ]
    if not alarms:
        return Verdict(drift, RESILIENT, (), record.wall_s)
    fields_only = all(each.kind == END and ": " in each.subject for each in alarms)
    return Verdict(drift, DEGRADED if fields_only else FAILED, tuple(alarms), record.wall_s)


def _is_expected(alarm: Alarm, drift: Drift) -> bool:
    """Return whether an alarm tells nothing but the drift itself."""
    made = {
        f"{each.resource} {each.namespace}/{each.name}"
        for each in drift.changes
        if each.action == CREATE
    }
    return alarm.kind in (END, WORKLOAD) and alarm.subject in made


def _owned(record: Record) -> list[tuple[str, str, Tree]]:
    """Return what the operator created and is there at the end: resource, namespace/name and object."""
    made = {
        (each.what.resource, each.what.name)
        for each in record.seen
        if each.what.kind == ANSWER and each.what.verb == "create" and each.effective
    }
    return [
        (resource, name, tree)
        for (resource, name), tree in sorted(record.objects.items(), key=lambda item: item[0])
        if (resource, name) in made
    ]


def _of_owned(record: Record) -> Iterator[Drift]:
    for resource, key, tree in _owned(record):
        namespace, _, name = key.rpartition("/")
        place = (resource, namespace, name)
        kind = "SecretDeletion" if resource == "secrets" else "ResourceDeletion"
        yield Drift(kind, (Change(DELETE, *place),))
        if tree.get("data"):
            first = min(tree["data"])
            value = "ZHJpZnQ=" if resource == "secrets" else "drift"
            yield Drift("ConfigDrift", (Change(PATCH, *place, {"data": {first: value}}),))
        mutated = _mutated(tree.get("spec"))
        if mutated is not None:
            yield Drift("CRDMutation", (Change(PATCH, *place, {"spec": mutated}),))
        labels = tree["metadata"].get("labels")
        if labels:
            gone: Tree = {"metadata": {"labels": dict.fromkeys(labels)}}
            yield Drift("LabelStomping", (Change(PATCH, *place, gone),))
        if tree["metadata"].get("ownerReferences"):
            orphan: Tree = {"metadata": {"ownerReferences": None}}
            yield Drift("OwnerRefOrphan", (Change(PATCH, *place, orphan),))
        block = Change(PATCH, *place, {"metadata": {"finalizers": [BLOCKER]}})
        free = Change(PATCH, *place, {"metadata": {"finalizers": None}})
        yield Drift("FinalizerBlock", (block, Change(DELETE, *place)), (free,))


def _mutated(spec: Any) -> Tree | None:
    """Return a merge patch that changes one number or truth value at the top of a spec."""
    if not isinstance(spec, dict):
        return None
    for key in sorted(spec):
        value = spec[key]
        if isinstance(value, bool):
            return {key: not value}
        if isinstance(value, int):
            return {key: value + 1}
    return None


def _of_needs(record: Record) -> Iterator[Drift]:
    """Yield what is taken away of what the operator itself needs, with one of its objects deleted meanwhile."""
    owned = _owned(record)
    deleted: tuple[Change, ...] = ()
    namespaces: list[str] = []
    if owned:
        resource, key, _ = owned[0]
        namespace, _, name = key.rpartition("/")
        deleted = (Change(DELETE, resource, namespace, name),)
        namespaces = [namespace] if namespace else []
    pods = [each for each in record.family_objects if each[0] == "pods"]
    accounts = {
        (key.rpartition("/")[0], (tree.get("spec") or {}).get("serviceAccountName") or "default")
        for _, key, tree in pods
    }
    for _, key, _ in pods:
        namespace, _, name = key.rpartition("/")
        yield Drift("PodKill", (Change(DELETE, "pods", namespace, name), *deleted))
    for resource, key, tree in record.family_objects:
        if resource == "deployments":
            namespace, _, name = key.rpartition("/")
            count = (tree.get("spec") or {}).get("replicas", 1)
            zero = Change(PATCH, resource, namespace, name, {"spec": {"replicas": 0}})
            back = Change(PATCH, resource, namespace, name, {"spec": {"replicas": count}})
            yield Drift("DeploymentScaleZero", (zero, *deleted), (back,))
    for lease in record.locks:
        namespace, _, name = lease.rpartition("/")
        yield Drift("LeaderElectionDisrupt", (Change(DELETE, "leases", namespace, name), *deleted))
    for (resource, key), tree in sorted(record.objects.items(), key=lambda item: item[0]):
        if resource not in ("clusterrolebindings", "rolebindings"):
            continue
        subjects = tree.get("subjects") or ()
        if any((each.get("namespace"), each.get("name")) in accounts for each in subjects):
            namespace, _, name = key.rpartition("/")
            none = Change(PATCH, resource, namespace, name, {"subjects": []})
            again = Change(PATCH, resource, namespace, name, {"subjects": list(subjects)})
            yield Drift("RBACRevoke", (none, *deleted), (again,))
    for namespace in namespaces:
        hard = {"pods": "0", "configmaps": "0", "secrets": "0", "services": "0"}
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "drift", "namespace": namespace},
            "spec": {"hard": hard},
        }
        made = Change(CREATE, "resourcequotas", namespace, "drift", quota)
        yield Drift(
            "QuotaExhaustion",
            (made, *deleted),
            (Change(DELETE, "resourcequotas", namespace, "drift"),),
        )
