"""Steps of the controllers of PodGroups and ElasticQuotas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.api.pod import Pod
from controlplane.api.quantity import parse
from controlplane.scheduler.community import statuses

Case = dict[str, Any]


def answer(case: Case) -> Case:
    """The answer for one case of `podgroup` or `elasticquota`."""
    machine = (_Groups if case["kind"] == "podgroup" else _Quotas)(case)
    return {"steps": [machine.step(each) for each in case["ops"]]}


def _patch(old: Case, new: Case) -> Case:
    """The merge patch that makes `new` of `old`."""
    made: Case = dict.fromkeys(key for key in old if key not in new)
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = _patch(before, value)
            if inner:
                made[key] = inner
        elif before != value:
            made[key] = value
    return made


class _Machine:
    field = ""

    def __init__(self, case: Case) -> None:
        self.pods: dict[tuple[str, str], Pod] = {}
        self.objects = {
            (each["metadata"]["namespace"], each["metadata"]["name"]): each
            for each in case.get(self.field, ())
        }
        self.version = 999
        self._put(case)

    def _put(self, holder: Case) -> None:
        for tree in holder.get("pods", ()):
            key = (tree["metadata"]["namespace"], tree["metadata"]["name"])
            known = self.pods.get(key)
            if known is not None:  # the recording's client left the status of a known pod as it was
                tree = {**tree, "status": known.tree["status"]}
            self.pods[key] = Pod.from_tree(tree)

    def step(self, op: Case) -> Case:
        """Apply the pods of a step and reconcile."""
        self._put(op)
        if op["op"] == "delete":
            self.pods.pop(tuple(op["pod"].split("/")), None)
        namespace, name = op["node"].split("/")
        pods = [self.pods[key] for key in sorted(self.pods)]
        return self.reconcile(namespace, name, pods)

    reconcile: Callable[[str, str, list[Pod]], Case]


class _Groups(_Machine):
    field = "podGroups"

    def reconcile(self, namespace: str, name: str, pods: list[Pod]) -> Case:  # type: ignore[override]
        group = self.objects.get((namespace, name))
        if group is None:
            return {}
        before, made = _typed(group.get("status")), {}
        new = statuses.group_status(group, statuses.members(name, pods))
        if new is not None and statuses.group_expired(group):
            made["events"] = [" ".join(statuses.TOO_LATE)]
        elif new is not None:
            changed = _patch(before, _typed(new))
            body = {"status": changed} if changed else {}
            self.version += 2
            version = {"metadata": {"resourceVersion": str(self.version - 1)}}
            key = f"{namespace}/{name}"
            made["requests"] = [
                {"object": key, "patch": body, "subresource": "status", "verb": "patch"},
                {"object": key, "patch": {**version, **body}, "verb": "patch"},
            ]
            self.objects[namespace, name] = group = {**group, "status": new}
        return {**made, "status": _typed(group.get("status"))}


def _typed(status: Case | None) -> Case:
    """A status as the Go type marshals it."""
    kept = {key: value for key, value in (status or {}).items() if value}
    return {"scheduleStartTime": None, **kept}


class _Quotas(_Machine):
    field = "elasticQuotas"

    def reconcile(self, namespace: str, name: str, pods: list[Pod]) -> Case:  # type: ignore[override]
        own = sorted(key for key in self.objects if key[0] == namespace)
        made: Case = {}
        if own:
            quota = self.objects[own[0]]
            used = statuses.quota_used(quota, [pod for pod in pods if pod.namespace == namespace])
            if not statuses.same_amounts(quota, used):
                before = _used(quota)
                new = {"used": {key: str(each) for key, each in used.items()}} if used else {}
                made["requests"] = [
                    {
                        "object": "/".join(own[0]),
                        "patch": {"status": _patch(before, new)},
                        "subresource": "status",
                        "verb": "patch",
                    }
                ]
                told = f"Normal Synced Elastic Quota {namespace}/{name} synced successfully"
                made["events"] = [told]
                self.objects[own[0]] = {**quota, "status": new}
        return {**made, "status": {key[1]: _used(self.objects[key]) for key in own}}


def _used(quota: Case) -> Case:
    told = (quota.get("status") or {}).get("used") or {}
    used = {name: str(parse(str(each))) for name, each in told.items()}
    return {"used": used} if used else {}
