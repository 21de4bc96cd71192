"""A request in the event log: its object, and its entry of an audit log.

An object has one name in every event: kind/namespace/name, or kind/name; `*` stands for all of a
collection. Upstream: k8s.io/apiserver/pkg/audit/request.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlencode

from attrs import frozen

from controlplane.api.request import Request, User
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.resources import ResourceInfo

__all__ = ["About", "audited", "uri_of", "written"]

Tree = dict[str, Any]
QUEUED_WORKLOADS: Final = ("kueue.x-k8s.io", "workloads")
CRON_JOBS: Final = "cronjobs"
"""Suspended ones start no more Jobs; what runs goes on."""


@frozen
class About:
    """The target of a request, of any origin. `body` is the sent body, None where that is not at hand."""

    verb: str
    group: str
    version: str
    resource: str
    namespace: str
    name: str
    subresource: str
    agent: str
    body: Any = None

    @classmethod
    def of(cls, request: Request) -> About:
        """Return the target of a component's request."""
        return cls(
            request.verb,
            request.group,
            request.version,
            request.resource,
            request.namespace,
            request.name,
            request.subresource,
            request.user_agent,
            request.body,
        )

    @property
    def label(self) -> str:
        """Verb, resource and subresource."""
        sub = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.resource}{sub}"


def place_of(
    about: About, info_of: Callable[[str, str, str], ResourceInfo], answer: Tree | None
) -> str:
    """Kind/namespace/name of the object that a request is about."""
    try:
        kind = info_of(about.group, about.version, about.resource).kind
    except status.ApiError:
        kind = about.resource
    sent = _meta(about.body)
    name = about.name or _text(_meta(answer), "name") or _text(sent, "name")
    if not name and about.verb == "create":
        name = f"{_text(sent, 'generateName')}*"
    return "/".join(part for part in (kind, about.namespace, name or "*") if part)


def written(
    about: About,
    info_of: Callable[[str, str, str], ResourceInfo],
    answer: Tree | None,
    code: int,
    reason: str,
) -> tuple[str, str | None, Tree]:
    """Place, uid and data of the event of a write.

    The uid is that of the object in the answer; else the one that the client meant. `based_on` is the
    version that the client had read, where it said so: an optimistic lock.
    """
    good = answer if code < 300 else None
    sent = _meta(about.body)
    conditions = about.body.get("preconditions") if isinstance(about.body, dict) else None
    meant = conditions if isinstance(conditions, dict) else sent
    uid = _text(_meta(good), "uid")
    if not uid and good is not None and isinstance(good.get("details"), dict):
        uid = _text(good["details"], "uid")
    uid = uid or _text(meant, "uid")
    data: Tree = {"verb": about.label, "code": code}
    if about.agent:
        data["by"] = about.agent
    if reason:
        data["reason"] = reason
    version = _text(meant, "resourceVersion")
    if version.isascii() and version.isdecimal() and 0 < len(version) < 19:
        data["based_on"] = int(version)
    if about.resource == "pods" and good is not None and good.get("kind") == "Pod":
        data.update(_pod_state(good))
    elif (about.group, about.resource) == QUEUED_WORKLOADS and good is not None:
        data.update(_workload_state(good))
        data.update(_workload_owner(good))
    elif about.subresource == "binding" and good is not None:
        target = about.body.get("target") if isinstance(about.body, dict) else None
        data["node"] = _text(target, "name") if isinstance(target, dict) else ""
    elif good is not None and about.resource != CRON_JOBS:
        spec = good.get("spec")
        if isinstance(spec, dict) and spec.get("suspend") is True:
            data["state"] = "suspended"
    place = place_of(about, info_of, good if not about.subresource else None)
    return place, uid or None, data


def _workload_state(workload: Tree) -> Tree:
    """How far a Workload of Kueue is, as far as its status says."""
    found = workload.get("status")
    if not isinstance(found, dict):
        return {}
    conditions = {each.get("type"): each for each in found.get("conditions") or ()}
    held = {name for name, each in conditions.items() if each.get("status") == "True"}
    queue = _admission(found.get("admission") or {})
    if "Finished" in held:
        return {"state": f"finished ({_text(conditions['Finished'], 'reason')})"}
    if {"Evicted", "QuotaReserved"} <= held:
        return {"state": _because("evicted", conditions["Evicted"])}
    if "Admitted" in held:
        return {"state": f"admitted in {queue}"}
    if "QuotaReserved" in held:
        return {"state": f"quota reserved in {queue}{_waiting_checks(found)}"}
    if "QuotaReserved" in conditions:
        return {"state": _because("pending", conditions["QuotaReserved"])}
    return {}


def _waiting_checks(status: Tree) -> str:
    """The admission checks that are not ready, with their messages."""
    parts = [
        f"{_text(each, 'name')} is {_text(each, 'state')}"
        + (f" ({_text(each, 'message')})" if each.get("message") else "")
        for each in status.get("admissionChecks") or ()
        if each.get("state") != "Ready"
    ]
    return f", check {', check '.join(parts)}" if parts else ""


def _admission(admission: Tree) -> str:
    """The queue of an admission, and for each pod set which flavor gives what."""
    parts: list[str] = []
    for each in admission.get("podSetAssignments") or ():
        usage = each.get("resourceUsage") or {}
        by_flavor: dict[str, list[str]] = {}
        for resource, flavor in (each.get("flavors") or {}).items():
            by_flavor.setdefault(flavor, []).append(f"{resource} {usage.get(resource, '')}".strip())
        given = "; ".join(f"{', '.join(what)} of {flavor}" for flavor, what in by_flavor.items())
        parts.append(
            f"{each.get('count', 0)} pods of {_text(each, 'name')} use {given or 'nothing'}"
        )
    queue = _text(admission, "clusterQueue")
    return f"{queue}: {'; '.join(parts)}" if parts else queue


def _workload_owner(workload: Tree) -> Tree:
    """The object for which a Workload asks, as `KIND/NAMESPACE/NAME`."""
    meta = _meta(workload)
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return {
                "owner": f"{_text(owner, 'kind')}/{_text(meta, 'namespace')}/{_text(owner, 'name')}"
            }
    return {}


def _because(state: str, condition: Tree) -> str:
    return f"{state} ({_text(condition, 'reason')}): {_text(condition, 'message')}"


def _pod_state(pod: Tree) -> Tree:
    """Phase, readiness and end of a pod, as far as its status says."""
    status = pod.get("status")
    if not isinstance(status, dict):
        return {}
    state: Tree = {"phase": _text(status, "phase") or "Unknown"}
    for each in status.get("conditions") or ():
        if each.get("type") == "Ready":
            state["ready"] = each.get("status") == "True"
    if _meta(pod).get("deletionTimestamp"):
        state["terminating"] = True
    return state


def uri_of(about: About, query: dict[str, str]) -> str:
    """The path and query that a client would have asked over HTTP."""
    parts = ["api"] if not about.group else ["apis", about.group]
    parts.append(about.version)
    if about.namespace and about.resource != "namespaces":
        parts += ["namespaces", about.namespace]
    parts += [part for part in (about.resource, about.name, about.subresource) if part]
    path = "/" + "/".join(quote(part) for part in parts)
    return f"{path}?{urlencode(query)}" if query else path


def audited(
    about: About, user: User, uri: str, code: int, began_ns: int, notes: dict[str, str]
) -> Tree:
    """Return an audit log's entry of a request at level Metadata, in the words of the event log.

    Of the object that a create or an update sends it has name, uid and version, as upstream (audit/request.go,
    LogRequestObject); patches and deletions bring none.
    """
    sent = _meta(about.body) if about.verb in ("create", "update") else {}
    data: Tree = {
        "verb": about.verb,
        "uri": uri,
        "user": user.name,
        "groups": list(user.groups),
        "agent": about.agent,
        "resource": about.resource,
        "version": about.version,
        "code": code,
        "began_ns": began_ns,
    }
    for key, value in (
        ("group", about.group),
        ("namespace", about.namespace),
        ("name", about.name or _text(sent, "name")),
        ("uid", _text(sent, "uid")),
        ("resource_version", _text(sent, "resourceVersion")),
        ("subresource", about.subresource),
        ("annotations", notes),
    ):
        if value:
            data[key] = value
    return data


def _meta(tree: Any) -> Tree:
    meta = tree.get("metadata") if isinstance(tree, dict) else None
    return meta if isinstance(meta, dict) else {}


def _text(tree: Tree, key: str) -> str:
    found = tree.get(key)
    return found if isinstance(found, str) else ""
