"""Identity and storage of a StatefulSet's pods. Upstream: statefulset/stateful_set_utils.go."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from controlplane.api.pod import Pod
from controlplane.controllers.common.pod_control import pod_of_template
from controlplane.controllers.common.pods import is_available, is_ready

if TYPE_CHECKING:
    from controlplane.api.apps import StatefulSet
    from controlplane.api.tree import Tree

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
REVISION_LABEL = "controller-revision-hash"
PARALLEL = "Parallel"
ROLLING_UPDATE = "RollingUpdate"
ON_DELETE = "OnDelete"
_NAME = re.compile(r"(.*)-([0-9]+)", re.DOTALL)
_LARGEST = 2**31 - 1


def parent_and_ordinal(pod: Pod) -> tuple[str, int]:
    """The set's name and the ordinal that a pod's name holds; "" and -1 where it holds none."""
    match = _NAME.fullmatch(pod.name)
    if match is None:
        return "", -1
    ordinal = int(match[2])
    return match[1], ordinal if ordinal <= _LARGEST else -1


def ordinal_of(pod: Pod) -> int:
    """The pod's place in the order, -1 without one."""
    return parent_and_ordinal(pod)[1]


def start_ordinal(found: StatefulSet) -> int:
    """The first ordinal."""
    return found.spec.ordinals.start if found.spec.ordinals is not None else 0


def wanted(found: StatefulSet) -> int:
    """spec.replicas, 1 when absent."""
    return 1 if found.spec.replicas is None else found.spec.replicas


def in_range(found: StatefulSet, pod: Pod) -> bool:
    """Return whether the pod's ordinal is one of those wanted."""
    start = start_ordinal(found)
    return start <= ordinal_of(pod) < start + wanted(found)


def partition_of(found: StatefulSet) -> int:
    """Return the number of first pods that a rolling update leaves alone."""
    rolling = found.spec.update_strategy.rolling_update
    return (rolling.partition or 0) if rolling is not None else 0


def revision_of(pod: Pod) -> str:
    """The name of the revision that the pod was made from."""
    return pod.labels.get(REVISION_LABEL, "")


def is_created(pod: Pod) -> bool:
    """Return whether the server knows the pod."""
    return pod.status.phase != ""


def is_terminating(pod: Pod) -> bool:
    """Return whether the pod is being deleted."""
    return pod.metadata.deletion_timestamp is not None


def is_running_and_ready(pod: Pod) -> bool:
    """Running with condition Ready."""
    return pod.status.phase == "Running" and is_ready(pod)


def is_unavailable(pod: Pod, min_ready_seconds: int, now: int) -> bool:
    """Return whether the pod does not serve, or is on its way out."""
    return not is_available(pod, min_ready_seconds, now) or is_terminating(pod)


def claim_name(found: StatefulSet, template: str, ordinal: int) -> str:
    """The name of a pod's claim."""
    return f"{template}-{found.name}-{ordinal}"


def claims_of(found: StatefulSet, pod: Pod) -> dict[str, Tree]:
    """The claims of a pod as they would be created, by the names of their templates."""
    selected = dict(found.spec.selector.match_labels) if found.spec.selector is not None else {}
    claims: dict[str, Tree] = {}
    for template in found.tree["spec"].get("volumeClaimTemplates") or ():
        given = template.get("metadata") or {}
        name = given.get("name") or ""
        metadata = {
            **given,
            "name": claim_name(found, name, ordinal_of(pod)),
            "namespace": found.namespace,
        }
        labels = {**(given.get("labels") or {}), **selected}
        if labels:
            metadata["labels"] = labels
        claims[name] = {
            **template,
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
        }
    return claims


def identity_matches(found: StatefulSet, pod: Pod) -> bool:
    """Return whether the pod is called and labelled as one of the set's."""
    parent, ordinal = parent_and_ordinal(pod)
    return (
        ordinal >= 0
        and parent == found.name
        and pod.name == f"{found.name}-{ordinal}"
        and pod.namespace == found.namespace
        and pod.labels.get(POD_NAME_LABEL) == pod.name
    )


def storage_matches(found: StatefulSet, pod: Pod) -> bool:
    """Return whether the pod has its claims as volumes."""
    ordinal = ordinal_of(pod)
    if ordinal < 0:
        return False
    volumes = {volume.get("name"): volume for volume in pod.tree["spec"].get("volumes") or ()}
    return all(
        ((volumes.get(each.name) or {}).get("persistentVolumeClaim") or {}).get("claimName")
        == claim_name(found, each.name, ordinal)
        for each in found.spec.volume_claim_templates
    )


def with_identity(found: StatefulSet, pod: Pod) -> Pod:
    """The pod with the labels that its name asks for."""
    ordinal = ordinal_of(pod)
    name = f"{found.name}-{ordinal}"
    metadata = pod.tree["metadata"]
    labels = {
        **(metadata.get("labels") or {}),
        POD_NAME_LABEL: name,
        POD_INDEX_LABEL: str(ordinal),
    }
    changed = {**metadata, "name": name, "namespace": found.namespace, "labels": labels}
    return Pod.from_tree({**pod.tree, "metadata": changed})


def with_storage(found: StatefulSet, pod: Pod) -> Pod:
    """The pod with its claims as volumes, first; volumes of the same names give way."""
    spec = pod.tree["spec"]
    claims = claims_of(found, pod)
    volumes = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        for name, claim in claims.items()
    ]
    volumes += [each for each in spec.get("volumes") or () if each.get("name") not in claims]
    changed = {key: value for key, value in spec.items() if key != "volumes"}
    if volumes:
        changed["volumes"] = volumes
    return Pod.from_tree({**pod.tree, "spec": changed})


def new_pod(found: StatefulSet, template: Tree, ordinal: int, revision: str) -> Pod:
    """A pod as it would be created."""
    tree = pod_of_template(found, template)
    name = f"{found.name}-{ordinal}"
    labels = {**tree["metadata"].get("labels", {}), REVISION_LABEL: revision}
    tree["metadata"] = {**tree["metadata"], "name": name, "labels": labels}
    spec = {**tree["spec"], "hostname": name, "subdomain": found.spec.service_name}
    if not found.spec.service_name:
        del spec["subdomain"]
    pod = with_identity(found, Pod.from_tree({**tree, "spec": spec}))
    return with_storage(found, pod)
