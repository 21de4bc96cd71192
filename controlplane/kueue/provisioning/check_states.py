"""The state of a Workload's admission check after the conditions of its ProvisioningRequest.

Setters change a copy of the check and return whether it has to be written. Follows `syncCheckStates` of
`pkg/controller/admissionchecks/provisioning/controller.go`.
"""

from __future__ import annotations

from typing import Final

from controlplane.api.provisioning_requests import (
    ACCEPTED,
    BOOKING_EXPIRED,
    CAPACITY_REVOKED,
    CLASS_NAME,
    CONSUMES,
    FAILED,
    PROVISIONED,
    condition,
    is_true,
)
from controlplane.api.times import SECOND
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.kueue.provisioning.names import attempt_of, template_name
from controlplane.kueue.workload.status import is_active, is_admitted, is_finished
from controlplane.kueue.workload.status_checks import backoff

PENDING: Final = "Pending"
READY: Final = "Ready"
RETRY: Final = "Retry"
REJECTED: Final = "Rejected"
INACTIVE_TEXT: Final = "the check is not active"
NOT_NEEDED_TEXT: Final = "the provisioning request is not needed"


def set_inactive(check: Tree) -> bool:
    """The check's configuration does not exist."""
    changed = _set(check, "state", PENDING)
    return _set(check, "message", INACTIVE_TEXT) or changed


def set_not_needed(check: Tree) -> bool:
    """No pod set uses a managed resource."""
    if not _set(check, "state", READY):
        return False
    check["message"] = NOT_NEEDED_TEXT
    check.pop("podSetUpdates", None)
    return True


def follow(check: Tree, workload: Tree, config: Tree, request: Tree) -> bool:
    """Bring the check to where its ProvisioningRequest is."""
    if is_true(request, FAILED):
        return _over(check, workload, config, request, FAILED, "Retrying after failure")
    if is_true(request, CAPACITY_REVOKED):
        return _revoked(check, workload, request)
    if is_true(request, BOOKING_EXPIRED):
        # pods of an admitted Workload have had the time of the booking to be bound
        return not is_admitted(workload) and _over(
            check, workload, config, request, BOOKING_EXPIRED, "Retrying after booking expired"
        )
    if is_true(request, PROVISIONED):
        return _provisioned(check, workload, config, request)
    if is_true(request, ACCEPTED):
        if condition(request, PROVISIONED) is None:
            return False
        changed = _set(check, "message", _text(request, PROVISIONED))
        return _set(check, "state", PENDING) or changed
    changed = _set(check, "message", "")
    return _set(check, "state", PENDING) or changed


def next_attempt(check: Tree, workload: Tree, request: Tree | None) -> int | None:
    """The attempt to make a ProvisioningRequest for, None to stay with the one there is."""
    if request is None:
        # an eviction deletes requests: how many there were is only known from the check
        return int(check.get("retryCount") or 0) + 1
    over = is_true(request, FAILED) or (
        is_true(request, BOOKING_EXPIRED) and not is_admitted(workload)
    )
    if not over or check.get("state") != PENDING:
        return None
    return _attempt(check, workload, request) + 1


def pod_set_updates(workload: Tree, config: Tree, request: Tree) -> list[Tree]:
    """Return the updates of pods that consume the capacity: annotations, and node labels from the class details."""
    name = request["metadata"]["name"]
    pod_sets = {
        template_name(name, each["name"]): each["name"] for each in workload["spec"]["podSets"]
    }
    details = (request.get("status") or EMPTY_MAP).get("provisioningClassDetails") or EMPTY_MAP
    wanted = config["spec"].get("podSetUpdates")
    updates = []
    for each in request["spec"].get("podSets") or ():
        update: Tree = {
            "name": pod_sets.get(each["podTemplateRef"]["name"], ""),
            "annotations": {CONSUMES: name, CLASS_NAME: request["spec"]["provisioningClassName"]},
        }
        selector = {
            label["key"]: details[label["valueFromProvisioningClassDetail"]]
            for label in (wanted or EMPTY_MAP).get("nodeSelector") or ()
            if label["valueFromProvisioningClassDetail"] in details
        }
        if selector:
            update["nodeSelector"] = selector
        updates.append(update)
    return updates


def _set(check: Tree, name: str, value: str) -> bool:
    if (check.get(name) or "") == value:
        return False
    check[name] = value
    return True


def _text(request: Tree, kind: str) -> str:
    return str((condition(request, kind) or EMPTY_MAP).get("message") or "")


def _attempt(check: Tree, workload: Tree, request: Tree) -> int:
    found = attempt_of(request["metadata"]["name"], workload["metadata"]["name"], check["name"])
    return 1 if found is None else found


def _over(check: Tree, workload: Tree, config: Tree, request: Tree, kind: str, words: str) -> bool:
    """The request failed: the Workload tries again later, or never when its attempts are used up."""
    retries, attempt = config["spec"]["retryStrategy"], _attempt(check, workload, request)
    if attempt > retries["backoffLimitCount"]:
        check["state"], check["message"] = REJECTED, _text(request, kind)
        return True
    changed = _set(check, "message", f"{words}: {_text(request, kind)}")
    done = int(check.get("retryCount") or 0)
    if attempt <= done:
        return changed  # this request has had its retry
    check["state"] = RETRY
    wait = backoff(retries["backoffBaseSeconds"], retries["backoffMaxSeconds"], done + 1)
    check["requeueAfterSeconds"] = wait // SECOND
    return True


def _revoked(check: Tree, workload: Tree, request: Tree) -> bool:
    """The nodes are gone: without a rejection, pods that replace others would stay pending."""
    if not is_active(workload) or is_finished(workload):
        return False
    changed = _set(check, "state", REJECTED)
    return _set(check, "message", _text(request, CAPACITY_REVOKED)) or changed


def _provisioned(check: Tree, workload: Tree, config: Tree, request: Tree) -> bool:
    if not _set(check, "state", READY):
        return False
    check["message"] = _text(request, PROVISIONED)
    check["podSetUpdates"] = pod_set_updates(workload, config, request)
    return True
