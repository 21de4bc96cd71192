"""The PodTemplates of a ProvisioningRequest: what they ask for, and the object that owns them.

Follows `createPodTemplate` and `syncProvisionRequestsPodTemplates` of
`pkg/controller/admissionchecks/provisioning/controller.go`.
"""

from __future__ import annotations

from typing import Final

from controlplane.api.tree import Tree
from controlplane.client.resources import PROVISIONING_REQUESTS
from controlplane.kueue.controllers.effects import Reader, ReconcileError
from controlplane.kueue.gates import Gates
from controlplane.kueue.jobs.ancestors import controller_of
from controlplane.kueue.jobs.pod_sets import PermanentError, from_assignment, merge_into
from controlplane.kueue.names import API_VERSION, MANAGED
from controlplane.kueue.provisioning.pod_sets import Requested
from controlplane.kueue.workload.adjust import limits_as_requests

LABELS: Final[Tree] = {MANAGED: "true"}
WORKLOAD: Final = "Workload"
REQUEST: Final = "ProvisioningRequest"
_API_VERSIONS: Final = {WORKLOAD: API_VERSION, REQUEST: PROVISIONING_REQUESTS.api_version}


def owned_by(kind: str, owner: Tree) -> Tree:
    """The reference to the controller of an object."""
    return {
        "apiVersion": _API_VERSIONS[kind],
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"].get("uid", ""),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def template_for(workload: Tree, name: str, asked: Requested, reader: Reader, gates: Gates) -> Tree:
    """The PodTemplate of a pod set as it is admitted: with the node labels of its flavors, and complete requests.

    The Workload owns it until there is a ProvisioningRequest, so that none is left behind without one.

    Raises:
        ReconcileError: A flavor does not exist, or the pod set asks for other node labels.
    """
    try:
        info = from_assignment(asked.assignment, asked.pod_set, reader, gates)
        template = merge_into(asked.pod_set.get("template") or {}, info, gates)
    except PermanentError as error:
        raise ReconcileError(str(error)) from None
    return {
        "metadata": {
            "name": name,
            "namespace": workload["metadata"].get("namespace", ""),
            "labels": LABELS,
            "ownerReferences": [owned_by(WORKLOAD, workload)],
        },
        "template": {**template, "spec": limits_as_requests(template["spec"])},
    }


def handed_over(template: Tree, workload: Tree, request: Tree) -> Tree | None:
    """The PodTemplate with the ProvisioningRequest as its controller, None if it is that already.

    Raises:
        ReconcileError: Another object controls it.
    """
    owner = controller_of(template)
    uid = None if owner is None else owner.get("uid")
    if owner is not None and uid == request["metadata"].get("uid", ""):
        return None
    known = list(template["metadata"].get("ownerReferences") or ())
    if owner is not None and uid == workload["metadata"].get("uid", ""):
        known.remove(owner)
        owner = None
    new = owned_by(REQUEST, request)
    if owner is not None:
        if any(owner.get(field) != new[field] for field in ("apiVersion", "kind", "name")):
            meta = template["metadata"]
            raise ReconcileError(
                f"Object {meta.get('namespace', '')}/{meta['name']} is already owned by another"
                f" {owner.get('kind', '')} controller {owner.get('name', '')}"
            )
        known.remove(owner)  # an earlier request of this name
    return {**template, "metadata": {**template["metadata"], "ownerReferences": [*known, new]}}
