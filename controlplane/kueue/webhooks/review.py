"""Answers to admission reviews: which defaults and which rules go with a kind."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.apiserver.schema.field_errors import FieldError, aggregate
from controlplane.kueue.jobs.ancestors import AncestorError, Surroundings
from controlplane.kueue.jobs.generic import GenericJob
from controlplane.kueue.webhooks.batch_jobs import validate_job
from controlplane.kueue.webhooks.defaults import (
    default_job,
    default_pod,
    default_workload,
    with_in_use,
)
from controlplane.kueue.webhooks.flavors import validate_resource_flavor
from controlplane.kueue.webhooks.generic_jobs import default_generic, validate_generic
from controlplane.kueue.webhooks.plain_pods import pod_warnings, validate_pod
from controlplane.kueue.webhooks.pod_owners import (
    default_deployment,
    default_stateful_set,
    validate_deployment,
    validate_stateful_set,
)
from controlplane.kueue.webhooks.quotas import validate_cluster_queue, validate_cohort
from controlplane.kueue.webhooks.workloads import validate_workload

__all__ = ["mutate", "validate"]

Default = Callable[[Tree, Surroundings], Tree]
Validate = Callable[[Tree, "Tree | None", Surroundings], Sequence[FieldError]]

DEFAULTS: Final[dict[str, Default]] = {
    "ClusterQueue": lambda tree, _: with_in_use(tree),
    "ResourceFlavor": lambda tree, _: with_in_use(tree),
    "Workload": lambda tree, around: default_workload(tree, around.gates),
    "Job": default_job,
    "Pod": default_pod,
    "Deployment": default_deployment,
    "StatefulSet": default_stateful_set,
}
RULES: Final[dict[str, Validate]] = {
    "ClusterQueue": lambda new, old, around: validate_cluster_queue(new, old, around.gates),
    "Cohort": lambda new, _, __: validate_cohort(new),
    "ResourceFlavor": lambda new, _, __: validate_resource_flavor(new),
    "Workload": lambda new, old, around: validate_workload(new, old, around.gates),
    "Job": validate_job,
    "Pod": validate_pod,
    "Deployment": validate_deployment,
    "StatefulSet": validate_stateful_set,
}
Custom = Mapping[str, type[GenericJob]]
NONE: Final[Custom] = {}
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403


def mutate(request: Tree, around: Surroundings, custom: Custom = NONE) -> Tree:
    """The response to a review by a mutating webhook: a JSON patch with the defaults.

    Args:
        request: The `request` of an AdmissionReview.
        around: Surroundings of the jobs.
        custom: Classes of a user's jobs, by kind.
    """
    old, kind = _with_namespace(request, request["object"]), request["kind"]["kind"]
    try:
        if kind in custom:
            new = default_generic(custom[kind], old, around)
        else:
            new = DEFAULTS[kind](old, around)
    except AncestorError as error:
        return _refused(str(error), BAD_REQUEST)
    operations = list(_operations("", old, new))
    if not operations:
        return {"allowed": True}
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def validate(request: Tree, around: Surroundings, custom: Custom = NONE) -> Tree:
    """The response to a review by a validating webhook."""
    kind = request["kind"]["kind"]
    new = _with_namespace(request, request["object"])
    old = request.get("oldObject")
    if old is not None:
        old = _with_namespace(request, old)
    try:
        if kind in custom:
            errors: Sequence[FieldError] = validate_generic(custom[kind], new, old, around)
        else:
            errors = RULES[kind](new, old, around)
    except AncestorError as error:
        return _refused(str(error), FORBIDDEN)
    if errors:
        return _refused(aggregate(errors), FORBIDDEN)
    response: Tree = {"allowed": True}
    if kind == "Pod" and (warnings := pod_warnings(new, old, around)):
        response["warnings"] = warnings
    return response


def _with_namespace(request: Tree, tree: Tree) -> Tree:
    """The object with the namespace of the request, which a new object may lack."""
    namespace = request.get("namespace", "")
    metadata = tree.get("metadata") or EMPTY_MAP
    if not namespace or metadata.get("namespace"):
        return tree
    return {**tree, "metadata": {**metadata, "namespace": namespace}}


def _refused(message: str, code: int) -> Tree:
    reason = "Forbidden" if code == FORBIDDEN else "BadRequest"
    return {"allowed": False, "status": {"code": code, "message": message, "reason": reason}}


def _operations(path: str, old: Any, new: Any) -> Any:
    """JSON patch operations from one value to another; lists are replaced as a whole."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        if old != new:
            yield {"op": "replace", "path": path, "value": new}
        return
    for name in old:
        if name not in new:
            yield {"op": "remove", "path": f"{path}/{_token(name)}"}
    for name, value in new.items():
        at = f"{path}/{_token(name)}"
        if name not in old:
            yield {"op": "add", "path": at, "value": value}
        elif old[name] is not value:
            yield from _operations(at, old[name], value)


def _token(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
