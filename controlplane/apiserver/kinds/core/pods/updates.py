"""Validation of changes to pods: what may change, in the spec and in the status.

Upstream: ValidatePodUpdate, ValidatePodStatusUpdate in pkg/apis/core/validation.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from controlplane.api.equality import Seen
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import entries, one_of, present, problems, when
from controlplane.apiserver.kinds.core.pods.containers import validate_image
from controlplane.apiserver.kinds.core.pods.placement import validate_tolerations
from controlplane.apiserver.kinds.core.pods.validation import (
    pod_annotations,
    pod_only,
    validate_pod_spec,
)
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
)
from controlplane.apiserver.schema.field_errors import internal as internal_error
from controlplane.apiserver.schema.internal_form import difference, internal

__all__ = [
    "validate_ephemeral_update",
    "validate_pod_status_update",
    "validate_pod_update",
    "validate_whole_pod",
]

_UPDATABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)\n"
)


_MAX_INT32 = 2**31 - 1
_MIRROR = "kubernetes.io/config.mirror"


def validate_pod_update(new: Tree, old: Tree, written: Any = None) -> list[FieldError]:
    """Return the errors of an update of a pod. `written` is the spec as it was written."""
    spec, was = new["spec"], old["spec"]
    if spec is was:
        return whole_annotations(new, old) + annotation_changes(new, old)
    errors = validate_whole_pod(new, old) + annotation_changes(new, old)
    for key in ("containers", "initContainers"):
        found, stop = _container_updates(spec.get(key) or [], was.get(key) or [], f"spec.{key}")
        errors += found
        if stop:
            return errors
    found, stop = _deadline(spec, was)
    errors += found
    if stop:
        return errors
    errors += _tolerations(spec.get("tolerations") or [], was.get("tolerations") or [])
    errors += _gates(spec.get("schedulingGates") or [], was.get("schedulingGates") or [])
    munged = _munged(spec, was)
    if was.get("schedulingGates"):
        munged, found = _gated(munged, was)
        errors += found
    if munged != was:
        errors.append(
            forbidden(
                "spec",
                _UPDATABLE
                + difference(internal("PodSpec", was), internal("PodSpec", munged, written)),
            )
        )
    return errors


def _annotations(pod: Tree) -> Tree:
    found: Tree = pod["metadata"].get("annotations") or {}
    return found


def whole_annotations(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of the annotations of a pod that is to replace another."""
    said = _annotations(new)
    if not said:
        return []
    return pod_annotations(said, new["spec"], "metadata.annotations", _annotations(old))


_KEPT = {
    "container.apparmor.security.beta.kubernetes.io/": "AppArmor annotations",
    "kubernetes.io/config.mirror": "mirror pod annotation",
}


def annotation_changes(new: Tree, old: Tree) -> list[FieldError]:
    """Some annotations stay as they are. Upstream: ValidatePodSpecificAnnotationUpdates."""
    said, before = _annotations(new), _annotations(old)
    errors: list[FieldError] = []
    if said is not before:
        changed = [
            (key, "remove or update") for key in sorted(before) if said.get(key) != before[key]
        ]
        changed += [(key, "add") for key in sorted(said) if key not in before]
        errors = [
            forbidden(f"metadata.annotations[{key}]", f"may not {verb} {what}")
            for key, verb in changed
            for start, what in _KEPT.items()
            if key == start or (start.endswith("/") and key.startswith(start))
        ]
    return errors + whole_annotations(new, old)


def validate_whole_pod(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a pod that is to replace another."""
    name = new["metadata"].get("name", "")
    errors = validate_pod_spec(new["spec"], "spec", old["spec"], name, whole=True)
    return whole_annotations(new, old) + errors + pod_only(new["spec"])


def _container_updates(
    containers: list[Tree], was: list[Tree], path: str
) -> tuple[list[FieldError], bool]:
    if len(containers) != len(was):
        return [forbidden(path, "pod updates may not add or remove containers")], True
    errors: list[FieldError] = []
    for index, container in enumerate(containers):
        errors += present(container, "image", f"{path}[{index}]")
        errors += validate_image(container, f"{path}[{index}]")
    return errors, False


def _deadline(spec: Tree, was: Tree) -> tuple[list[FieldError], bool]:
    path = "spec.activeDeadlineSeconds"
    new, old = spec.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds")
    if new is None:
        if old is None:
            return [], False
        return [invalid(path, None, "must not update from a positive integer to nil value")], False
    if not 0 <= new <= _MAX_INT32:
        return [invalid(path, new, "must be between 0 and 2147483647, inclusive")], True
    if old is not None and old < new:
        return [invalid(path, new, "must be less than or equal to previous value")], True
    return [], False


def _tolerations(new: list[Tree], old: list[Tree]) -> list[FieldError]:
    """Tolerations may be added; existing ones may change their seconds."""

    def core(toleration: Tree) -> Tree:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    if new != old:
        kept = Seen(core(toleration) for toleration in new)
        if not all(core(toleration) in kept for toleration in old):
            text = "existing toleration can not be modified except its tolerationSeconds"
            return [forbidden("spec.tolerations", text)]
    return validate_tolerations(new, "spec.tolerations")


def _gates(new: list[Tree], old: list[Tree]) -> list[FieldError]:
    known = frozenset(gate.get("name", "") for gate in old)
    return [
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
        )
        for index, gate in enumerate(new)
        if gate.get("name", "") not in known
    ]


def _munged(spec: Tree, was: Tree) -> Tree:
    """The new spec with all that may change set back."""
    munged = dict(spec)
    for key in ("containers", "initContainers"):
        if key in spec:
            munged[key] = [
                {**container, "image": before.get("image", "")}
                for container, before in zip(spec[key], was.get(key) or (), strict=False)
            ]
    for key in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        if key in was:
            munged[key] = was[key]
        else:
            munged.pop(key, None)
    grace = was.get("terminationGracePeriodSeconds", 0)
    if grace < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = grace
    return munged


def _gated(munged: Tree, was: Tree) -> tuple[Tree, list[FieldError]]:
    """A gated pod may narrow where it can run."""
    errors: list[FieldError] = []
    selector, before = munged.get("nodeSelector") or {}, was.get("nodeSelector") or {}
    if selector != before:
        errors += when(
            any(selector.get(key) != value for key, value in before.items()),
            invalid,
            "spec.nodeSelector",
            munged.get("nodeSelector"),
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        )
        munged = _set(munged, "nodeSelector", was.get("nodeSelector"))
    affinity, old_affinity = munged.get("affinity") or {}, was.get("affinity") or {}
    node, old_node = affinity.get("nodeAffinity"), old_affinity.get("nodeAffinity")
    if node != old_node:
        errors += _node_affinity(node or {}, old_node or {})
        restored = _set(affinity, "nodeAffinity", old_node)
        munged = _set(munged, "affinity", restored or was.get("affinity"))
    return munged, errors


def _set(tree: Tree, key: str, value: Any) -> Tree:
    if value is None:
        return {name: item for name, item in tree.items() if name != key}
    return {**tree, key: value}


def _node_affinity(new: Tree, old: Tree) -> list[FieldError]:
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    path = f"spec.affinity.nodeAffinity.{key}.nodeSelectorTerms"
    before = (old.get(key) or {}).get("nodeSelectorTerms") or []
    if not before:
        return []
    terms = (new.get(key) or {}).get("nodeSelectorTerms") or []
    if len(terms) != len(before):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(path, [internal("NodeSelectorTerm", term) for term in terms], text)]
    errors: list[FieldError] = []
    for index, (term, earlier) in enumerate(zip(terms, before, strict=True)):
        for part in ("matchExpressions", "matchFields"):
            had, has = earlier.get(part) or [], term.get(part) or []
            if has[: len(had)] != had:
                text = "only additions are allowed (no mutations or deletions)"
                errors.append(invalid(f"{path}[{index}]", internal("NodeSelectorTerm", term), text))
                break
    return errors


def validate_pod_status_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a status update of a pod."""
    status, was, spec = new["status"], old["status"], new["spec"]
    errors = annotation_changes(new, old)
    if status is was:
        return errors
    for condition, spot in entries(status, "conditions", "status"):
        kind = condition.get("type", "")
        if kind not in _SYSTEM_CONDITIONS:
            errors += problems(f"{spot}.Type", kind, names.qualified_name(kind))
    node = status.get("nominatedNodeName", "")
    if node and node != was.get("nominatedNodeName"):
        text = "may not be set on pods that are already bound to a node"
        errors += problems("status.nominatedNodeName", node, names.dns_subdomain(node))
        errors += when(spec.get("nodeName"), forbidden, "status.nominatedNodeName", text)
    generation = status.get("observedGeneration", 0)
    text = "must be a non-negative integer"
    errors += when(generation < 0, invalid, "status.observedGeneration", generation, text)
    errors += when(
        status.get("qosClass") != was.get("qosClass"),
        invalid,
        "status.qosClass",
        status.get("qosClass", ""),
        "field is immutable",
    )
    for key, containers in (
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),  # of which none restarts
    ):
        errors += _transitions(
            status.get(key) or [], was.get(key) or [], f"status.{key}", spec, containers
        )
    errors += _claim_statuses(status.get("resourceClaimStatuses") or [], spec)
    errors += _pod_ips(status.get("podIPs") or [], "status.podIPs")
    errors += _host_ips(status)
    for key in _STATUSES:
        errors += _users(status.get(key) or [], spec, f"status.{key}")
    for key, containers in (
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
    ):
        errors += _allocated(status.get(key) or [], spec.get(containers) or [], f"status.{key}")
    key = "ephemeralContainerStatuses"
    return errors + [
        forbidden(
            f"status.{key}[{index}].allocatedResourcesStatus",
            "must not be specified in container status",
        )
        for index, each in enumerate(status.get(key) or ())
        if each.get("allocatedResourcesStatus")
    ]


_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def _claim_statuses(statuses: list[Tree], spec: Tree) -> list[FieldError]:
    """The claims that were made for a pod are those that its spec asks for."""
    wanted = {claim.get("name", "") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    errors: list[FieldError] = []
    for index, status in enumerate(statuses):
        path, name = f"status.resourceClaimStatuses[{index}].name", status.get("name", "")
        if name not in wanted:
            text = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(path, name, text))
        errors += when(name in seen, duplicate, path, name)
        seen.add(name)
        claim = status.get("resourceClaimName")
        if claim is not None:
            errors += problems(path, claim, names.dns_subdomain(claim))
    return errors


def _host_ips(status: Tree) -> list[FieldError]:
    """The addresses of a pod's node: at most one for each family, the first one is `hostIP`."""
    path, entries = "status.hostIPs", status.get("hostIPs") or []
    errors: list[FieldError] = []
    if not entries:
        return errors
    ips = [entry.get("ip", "") for entry in entries]
    if ips[0] != status.get("hostIP", ""):
        errors.append(invalid(f"{path}[0].ip", ips[0], "must be equal to `hostIP`"))
    return errors + _families(ips, path)


_MAX_ID = 2**31 - 1
_ID_RANGE = "must be between 0 and 2147483647, inclusive"


def _users(statuses: list[Tree], spec: Tree, path: str) -> list[FieldError]:
    """Return the errors of the containers' users: numbers on Linux, and none in pods of Windows."""
    system = (spec.get("os") or {}).get("name", "linux")
    errors: list[FieldError] = []
    for index, status in enumerate(statuses):
        user, place = (status.get("user") or {}).get("linux"), f"{path}[{index}].linux"
        if user is None:
            continue
        if system == "windows":
            errors.append(forbidden(place, "cannot be set for a windows pod"))
        elif system == "linux":
            ids = [(key, user.get(key, 0)) for key in ("uid", "gid")]
            groups = enumerate(user.get("supplementalGroups") or ())
            ids += [(f"supplementalGroups[{number}]", group) for number, group in groups]
            errors += [
                invalid(f"{place}.{key}", value, _ID_RANGE)
                for key, value in ids
                if not 0 <= value <= _MAX_ID
            ]
    return errors


_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_NOT_CLAIMED = (
    "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
    "'claim:<claimName>' if request is empty"
)


def _allocated(statuses: list[Tree], containers: list[Tree], path: str) -> list[FieldError]:
    """Return the errors of the health of the containers' devices: of requested resources, each device once."""
    asked = {}
    for container in reversed(containers):
        resources = container.get("resources") or {}
        claims = (
            f"claim:{claim.get('name', '')}"
            + (f"/{claim['request']}" if claim.get("request") else "")
            for claim in resources.get("claims") or ()
        )
        asked[container.get("name", "")] = {*claims, *(resources.get("requests") or ())}
    errors: list[FieldError] = []
    for index, status in enumerate(statuses):
        for part, place in entries(status, "allocatedResourcesStatus", f"{path}[{index}]"):
            name, known = part.get("name", ""), asked.get(status.get("name", ""))
            if known is not None and name not in known:
                text = "must match one of the container's resource requests"
                detail = _NOT_CLAIMED if name.startswith("claim:") else text
                errors.append(invalid(f"{place}.name", name, detail))
            seen: set[str] = set()
            for device, where in entries(part, "resources", place):
                health, key = device.get("health", ""), device.get("resourceID", "")
                errors += one_of(health, f"{where}.health", _HEALTH)
                errors += when(key in seen, duplicate, f"{where}.resourceID", key)
                seen.add(key)
    return errors


def _transitions(
    new: list[Tree], old: list[Tree], path: str, spec: Tree, containers: str
) -> list[FieldError]:
    """A terminated container does not run again where nothing restarts it; `containers`: their list in the spec.

    Upstream: core validation, ValidateContainerStateTransition with restart rules of containers.
    """
    known = {each.get("name"): each for each in spec.get(containers) or ()}
    going_on = {
        each.get("name") for each in new if (each.get("state") or {}).get("terminated") is None
    }
    errors: list[FieldError] = []
    for index, before in enumerate(old):
        terminated = (before.get("state") or {}).get("terminated")
        if terminated is None or before.get("name") not in going_on:
            continue
        container = known.get(before.get("name"))
        if container is None or not _restarts(container, spec, terminated.get("exitCode", 0)):
            text = "may not be transitioned to non-terminated state"
            errors.append(forbidden(f"{path}[{index}].state", text))
    return errors


def _restarts(container: Tree, spec: Tree, exit_code: int) -> bool:
    """Return whether a container restarts: by its rules, its policy, or the pod's. Upstream: ContainerShouldRestart."""
    own = container.get("restartPolicy")
    if own and any(_matches(each, exit_code) for each in container.get("restartPolicyRules") or ()):
        return True
    policy = own or spec.get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _matches(rule: Tree, exit_code: int) -> bool:
    codes = rule.get("exitCodes")
    if codes is None or rule.get("action") not in ("Restart", "RestartAllContainers"):
        return False
    return (exit_code in (codes.get("values") or ())) is (codes.get("operator") == "In")


def _pod_ips(ips: list[Tree], path: str) -> list[FieldError]:
    return _families([entry.get("ip", "") for entry in ips], path)


def _families(ips: list[str], path: str) -> list[FieldError]:
    """Addresses, at most one for each family."""
    errors: list[FieldError] = []
    for index, ip in enumerate(ips):
        errors += problems(f"{path}[{index}]", ip, names.ip_problems(ip))
    if len(ips) < 2:
        return errors
    versions: set[int] = set()
    for index, ip in enumerate(ips):
        try:
            versions.add(ipaddress.ip_address(ip).version)
        except ValueError:
            errors.append(
                internal_error(
                    path, (f"failed to check for dual stack with error:invalid IP[{index}]: {ip}")
                )
            )
            versions = set()
            break
    if len(ips) > 2 or len(versions) < 2:
        errors.append(
            invalid(
                path,
                [{"IP": ip} for ip in ips],
                "may specify no more than one IP for each IP family",
            )
        )
    return errors


def validate_ephemeral_update(new: Tree, old: Tree) -> list[FieldError]:
    """Ephemeral containers may only be added."""
    if (old["metadata"].get("annotations") or {}).get(_MIRROR) is not None:
        return [forbidden("[]", "static pods do not support ephemeral containers")]
    errors = validate_whole_pod(new, old) + annotation_changes(new, old)
    path = "spec.ephemeralContainers"
    added = new["spec"].get("ephemeralContainers") or []
    before = old["spec"].get("ephemeralContainers") or []
    by_name = {container.get("name"): container for container in added}
    for container in before:
        name = container.get("name", "")
        if name not in by_name:
            errors.append(
                forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n')
            )
        elif by_name[name] != container:
            errors.append(
                forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n')
            )
    return errors
