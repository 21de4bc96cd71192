"""Creating and deleting pods for an owner, with the events about it. Upstream: RealPodControl of pkg/controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import PODS
from controlplane.controllers.common.controller import NORMAL, WARNING, Host
from controlplane.controllers.common.effects import Failure, Reconcile, RequestFailed, Retry
from controlplane.controllers.common.namespaces import namespace_is_terminating
from controlplane.controllers.common.ownership import controller_references
from controlplane.controllers.common.pods import generate_name

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.view import View


def pod_of_template(owner: View, template: Tree) -> Tree:
    """The pod that a template asks for, controlled by `owner`, its name to be generated from the owner's."""
    metadata: Tree = {
        key: value
        for key, value in (template.get("metadata") or {}).items()
        if key in {"labels", "annotations", "finalizers"} and value
    }
    metadata["generateName"] = generate_name(owner.name)
    metadata["ownerReferences"] = controller_references(owner)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }


def create_pod(host: Host, owner: View, pod: Tree) -> Reconcile[Object[Pod]]:
    """Create a pod. What fails is reported and raised; in a namespace that goes away it is raised only."""
    if not pod["metadata"].get("labels"):
        raise Retry("unable to create pods, no labels")
    try:
        made = yield from calls.create(PODS, owner.namespace, pod)
    except RequestFailed as error:
        if not namespace_is_terminating(error):
            host.event(owner, WARNING, "FailedCreate", f"Error creating: {error}")
        raise
    host.event(owner, NORMAL, "SuccessfulCreate", f"Created pod: {made.name}")
    return made


def delete_pod(host: Host, owner: View, name: str) -> Reconcile[None]:
    """Delete a pod by name. That it is not there is raised without an event, anything else with one."""
    try:
        yield from calls.delete(PODS, owner.namespace, name)
    except RequestFailed as error:
        if isinstance(error, ApiError) and is_not_found(error):
            raise
        host.event(owner, WARNING, "FailedDelete", f"Error deleting: {error}")
        raise
    host.event(owner, NORMAL, "SuccessfulDelete", f"Deleted pod: {name}")


def is_gone(error: Failure) -> bool:
    """Return whether a request failed because what it was about does not exist."""
    return isinstance(error, ApiError) and is_not_found(error)
