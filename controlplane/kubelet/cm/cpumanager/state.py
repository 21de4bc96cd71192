"""The CPU manager's state as a value, and its checkpoint file in all its formats.

Upstream: pkg/kubelet/cm/cpumanager/state. Formats: v1 up to 1.17, v2, and v3 with the gate
PodLevelResourceManagers. A change of the state makes a new value; the file is the value's text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final

import attrs

from controlplane.kubelet.cm.assigned import with_container, without_container, without_pod
from controlplane.kubelet.cm.checkpoint import (
    CheckpointError,
    checksum_of,
    corrupted,
    not_restored,
)
from controlplane.kubelet.cm.cpuset import EMPTY, CPUSet, union
from controlplane.kubelet.cm.go_json import STRING, GoJSONError, Map, Scalar, Struct, unmarshal

FILE: Final = "cpu_manager_state"

Assignments = Mapping[str, Mapping[str, CPUSet]]
"""Pod uid -> container -> CPUs."""
Containers = Mapping[str, tuple[str, str]]
"""Container id -> (pod uid, container), what the runtime knew when the kubelet started."""

_CHECKSUM: Final = Scalar("checksum.Checksum", text=False, unsigned=True)
_V1: Final = Struct(
    "CPUManagerCheckpointV1",
    {
        "policyName": STRING,
        "defaultCpuSet": STRING,
        "entries": Map("map[string]string", STRING),
        "checksum": _CHECKSUM,
    },
)
_ENTRIES: Final = Map("map[string]map[string]string", Map("map[string]string", STRING))
_V2: Final = Struct("CPUManagerCheckpointV2", {**_V1.fields, "entries": _ENTRIES})
_PODS: Final = Map("state.PodCPUAssignments", Struct("PodEntry", {"cpuSet": STRING}))
_V3: Final = Struct("CPUManagerCheckpointV3", {**_V2.fields, "podEntries": _PODS})


@attrs.frozen(slots=False)
class CPUState:
    """The assigned CPUs; the default set is left for all other containers.

    `pods` are the CPUs of pods with resources of their own; None without their gate.
    """

    policy: str
    default: CPUSet = EMPTY
    assignments: Assignments = attrs.field(factory=dict)
    pods: Mapping[str, CPUSet] | None = None

    def get(self, pod_uid: str, container: str) -> CPUSet | None:
        """The CPUs of a container, None when it has none of its own."""
        return self.assignments.get(pod_uid, {}).get(container)

    def get_or_default(self, pod_uid: str, container: str) -> CPUSet:
        """The CPUs that a container runs on."""
        own = self.get(pod_uid, container)
        return self.default if own is None else own

    def of_pod(self, pod_uid: str) -> CPUSet | None:
        """The CPUs of a pod as a whole, None when it has none."""
        return None if self.pods is None else self.pods.get(pod_uid)

    def exclusive(self) -> CPUSet:
        """Everything that is assigned to containers."""
        return union(cpus for pod in self.assignments.values() for cpus in pod.values())

    def with_default(self, cpus: CPUSet) -> CPUState:
        """Another default set."""
        return attrs.evolve(self, default=cpus)

    def with_cpus(self, pod_uid: str, container: str, cpus: CPUSet) -> CPUState:
        """A container gets these CPUs."""
        changed = with_container(self.assignments, pod_uid, container, cpus)
        return attrs.evolve(self, assignments=changed)

    def without(self, pod_uid: str, container: str) -> CPUState:
        """A container has no CPUs of its own any more."""
        changed = without_container(self.assignments, pod_uid, container)
        return attrs.evolve(self, assignments=changed)

    def with_pod(self, pod_uid: str, cpus: CPUSet) -> CPUState:
        """A pod as a whole gets these CPUs."""
        return attrs.evolve(self, pods={**(self.pods or {}), pod_uid: cpus})

    def without_pod(self, pod_uid: str) -> CPUState:
        """A pod as a whole has no CPUs any more."""
        return attrs.evolve(self, pods=without_pod(self.pods, pod_uid))

    @cached_property
    def text(self) -> str:
        """The checkpoint file to the byte."""
        entries = {
            uid: {name: str(pod[name]) for name in sorted(pod)}
            for uid, pod in sorted(self.assignments.items())
        }
        tree: dict[str, Any] = {"policyName": self.policy, "defaultCpuSet": str(self.default)}
        if entries:
            tree["entries"] = entries
        if self.pods:
            tree["podEntries"] = {
                uid: {"cpuSet": str(cpus)} for uid, cpus in sorted(self.pods.items())
            }
        tree["checksum"] = checksum_of(_dump(self.policy, str(self.default), entries, self.pods))
        return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def _dump(
    policy: str,
    default: str,
    entries: Mapping[str, Any],
    pods: Mapping[str, CPUSet] | None,
    kind: str = "map[string]map[string]string",
) -> str:
    """The Go object as spew prints it; all formats go under the name of the newest."""
    listed = " ".join(
        f"{key}:{value if isinstance(value, str) else _map(value)}"
        for key, value in sorted(entries.items())
    )
    more = "" if pods is None else f" PodEntries:(state.PodCPUAssignments)map[{_pods(pods)}]"
    return (
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){policy} "
        f"DefaultCPUSet:(string){default} Entries:({kind})map[{listed}]{more} "
        "Checksum:(checksum.Checksum)0}"
    )


def _map(values: Mapping[str, str]) -> str:
    return "map[" + " ".join(f"{key}:{value}" for key, value in sorted(values.items())) + "]"


def _pods(pods: Mapping[str, CPUSet]) -> str:
    shown = []
    for uid, cpus in sorted(pods.items()):
        elements = " ".join(f"{cpu}:{{}}" for cpu in cpus)
        shown.append(
            f"{uid}:{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}})map[{elements}]}}}}"
        )
    return " ".join(shown)


def restore(
    text: str, policy: str, containers: Containers, *, pod_entries: bool = False
) -> CPUState:
    """The state of a file. Raises CheckpointError, which keeps the kubelet from starting."""
    try:
        return _restore(text, policy, containers, pod_entries)
    except (CheckpointError, GoJSONError) as error:
        raise not_restored(error, "CPU manager", FILE) from None


def _restore(text: str, policy: str, containers: Containers, pod_entries: bool) -> CPUState:
    pods: Mapping[str, CPUSet] | None = {} if pod_entries else None
    formats: list[Callable[[str], dict[str, Any]]] = [_read_v3] if pod_entries else []
    formats.append(_read_v2)
    found = None
    for read in formats:
        try:
            found = read(text)
            break
        except (CheckpointError, GoJSONError):
            continue  # upstream tries the older format and reports what that one says
    if found is None:
        found = _migrated(_read_v1(text), containers)
    recorded = found.get("policyName") or ""
    if recorded != policy:
        raise CheckpointError(
            f'configured policy "{policy}" differs from state checkpoint policy "{recorded}"'
        )
    default = found.get("defaultCpuSet") or ""
    try:
        default_set = CPUSet.parse(default)
    except ValueError as error:
        raise CheckpointError(f'could not parse default cpu set "{default}": {error}') from None
    assignments: dict[str, dict[str, CPUSet]] = {}
    for uid, pod in sorted((found.get("entries") or {}).items()):
        for name, cpus in sorted((pod or {}).items()):
            try:
                assignments.setdefault(uid, {})[name] = CPUSet.parse(cpus or "")
            except ValueError as error:
                raise CheckpointError(
                    f'could not parse cpuset "{cpus}" for container "{name}" in pod "{uid}": '
                    f"{error}"
                ) from None
    if pod_entries:
        pods = _pod_sets(found)
    return CPUState(policy, default_set, assignments, pods)


def _pod_sets(found: Mapping[str, Any]) -> dict[str, CPUSet]:
    return {
        uid: CPUSet.parse((entry or {}).get("cpuSet") or "")
        for uid, entry in (found.get("podEntries") or {}).items()
    }


def _read_v1(text: str) -> dict[str, Any]:
    found = unmarshal(text, _V1)
    entries = {key: value or "" for key, value in (found.get("entries") or {}).items()}
    return _verified(found, entries, None, "map[string]string")


def _read_v2(text: str) -> dict[str, Any]:
    found = unmarshal(text, _V2)
    return _verified(found, _entries(found), None, "map[string]map[string]string")


def _read_v3(text: str) -> dict[str, Any]:
    found = unmarshal(text, _V3)
    try:
        pods = _pod_sets(found)
    except ValueError as error:
        raise GoJSONError(str(error)) from None
    kind = "map[string]map[string]string"
    return _verified(found, _entries(found), pods, kind, zero_counts=False)


def _entries(found: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    return {
        uid: {name: cpus or "" for name, cpus in (pod or {}).items()}
        for uid, pod in (found.get("entries") or {}).items()
    }


def _verified(
    found: dict[str, Any],
    entries: Mapping[str, Any],
    pods: Mapping[str, CPUSet] | None,
    kind: str,
    *,
    zero_counts: bool = True,
) -> dict[str, Any]:
    """A checksum of 0 was accepted without a look in the older formats."""
    checksum = found.get("checksum") or 0
    if checksum == 0 and zero_counts:
        return found
    policy, default = found.get("policyName") or "", found.get("defaultCpuSet") or ""
    if checksum != checksum_of(_dump(policy, default, entries, pods, kind)):
        raise corrupted()
    return found


def _migrated(found: dict[str, Any], containers: Containers) -> dict[str, Any]:
    """The oldest format names containers by their id."""
    entries: dict[str, dict[str, str]] = {}
    for container_id, cpus in sorted((found.get("entries") or {}).items()):
        known = containers.get(container_id)
        if known is None:
            raise CheckpointError(
                "failed to migrate checkpoint from v1 to v2: "
                f"containerID '{container_id}' not found in initial containers list"
            )
        entries.setdefault(known[0], {})[known[1]] = cpus
    return {**found, "entries": entries}
