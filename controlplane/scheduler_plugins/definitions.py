"""CustomResourceDefinitions of scheduler-plugins: names, schemas, columns. Follows `manifests/crds`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from controlplane.api.custom_schemas import (
    COUNT,
    INT32,
    INT64,
    POSITIVE,
    QUANTITY,
    STRING,
    TIME,
    choice,
    column,
    definition,
    items,
    keyed,
    mapping,
    record,
    version,
)
from controlplane.api.tree import Tree
from controlplane.client.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

__all__ = ["definitions", "installation"]

_APPROVED: Final = "api-approved.kubernetes.io"
_COST: Final[Tree] = {**INT64, "minimum": 0}
_AMOUNTS: Final = mapping(QUANTITY)


def _record(needed: Sequence[str] = (), /, **fields: Tree) -> Tree:
    return record(fields, needed)


def _list(of: Tree) -> Tree:
    return items(of, kind="")


_PAIRS: Final = _list(_record(("name", "value"), name=STRING, value=STRING))

_POD_GROUP: Final = _record(
    spec=_record(minMember=POSITIVE, minResources=_AMOUNTS, scheduleTimeoutSeconds=INT32),
    status=_record(
        phase=STRING,
        occupiedBy=STRING,
        running=INT32,
        succeeded=INT32,
        failed=INT32,
        scheduleStartTime=TIME,
    ),
)
_ELASTIC_QUOTA: Final = _record(
    spec=_record(min=_AMOUNTS, max=_AMOUNTS), status=_record(used=_AMOUNTS)
)
_ZONE: Final = _record(
    ("name", "type"),
    name=STRING,
    type=STRING,
    parent=STRING,
    costs=_list(_record(("name", "value"), name=STRING, value=INT64)),
    attributes=_PAIRS,
    resources=_list(
        _record(
            ("allocatable", "available", "capacity", "name"),
            name=STRING,
            capacity=QUANTITY,
            allocatable=QUANTITY,
            available=QUANTITY,
        )
    ),
)
_NODE_TOPOLOGY: Final = _record(
    ("zones",), topologyPolicies=_list(STRING), attributes=_PAIRS, zones=_list(_ZONE)
)
_WORKLOAD: Final = _record(
    ("kind", "name", "selector"),
    kind=STRING,
    name=STRING,
    selector=STRING,
    apiVersion=STRING,
    namespace=STRING,
)
_APP_GROUP: Final = _record(
    spec=_record(
        ("numMembers", "topologySortingAlgorithm", "workloads"),
        numMembers=POSITIVE,
        topologySortingAlgorithm=STRING,
        workloads=_list(
            _record(
                ("workload",),
                workload=_WORKLOAD,
                dependencies=_list(
                    _record(
                        ("workload",),
                        workload=_WORKLOAD,
                        minBandwidth=QUANTITY,
                        maxNetworkCost={**_COST, "maximum": 10000},
                    )
                ),
            )
        ),
    ),
    status=_record(
        runningWorkloads=COUNT,
        scheduleStartTime=TIME,
        topologyCalculationTime=TIME,
        topologyOrder=_list(_record(workload=_WORKLOAD, index=INT32)),
    ),
)
_ORIGIN: Final = _record(
    ("origin",),
    origin=STRING,
    costList=_list(
        _record(
            ("destination", "networkCost"),
            destination=STRING,
            bandwidthCapacity=QUANTITY,
            bandwidthAllocated=QUANTITY,
            networkCost=_COST,
        )
    ),
)
_NETWORK: Final = _record(
    spec=_record(
        ("configmapName", "weights"),
        configmapName=STRING,
        weights=_list(
            _record(
                ("name", "topologyList"),
                name=STRING,
                topologyList=_list(
                    _record(
                        ("originList", "topologyKey"),
                        topologyKey=STRING,
                        originList=_list(_ORIGIN),
                    )
                ),
            )
        ),
    ),
    status=_record(nodeCount=_COST, weightCalculationTime=TIME),
)
_ACTION: Final = choice(
    *(
        f"SCMP_ACT_{name}"
        for name in (
            "KILL", "KILL_PROCESS", "KILL_THREAD", "TRAP", "ERRNO", "TRACE", "ALLOW", "LOG"
        )
    )
)  # fmt: skip
_COMPARISON: Final = choice(
    *(f"SCMP_CMP_{name}" for name in ("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"))
)
_ARCHITECTURE: Final = choice(
    *(
        f"SCMP_ARCH_{name}"
        for name in (
            "NATIVE", "X86", "X86_64", "X32", "ARM", "AARCH64", "MIPS", "MIPS64", "MIPS64N32", "MIPSEL", "MIPSEL64",
            "MIPSEL64N32", "PPC", "PPC64", "PPC64LE", "S390", "S390X", "PARISC", "PARISC64", "RISCV64",
        )
    )
)  # fmt: skip
_CONDITION: Final = _record(
    ("lastTransitionTime", "reason", "status", "type"),
    type=STRING,
    status=STRING,
    reason=STRING,
    message=STRING,
    lastTransitionTime=TIME,
    observedGeneration=INT64,
)
_SECCOMP: Final = _record(
    spec=_record(
        ("defaultAction",),
        defaultAction=_ACTION,
        architectures=_list(_ARCHITECTURE),
        baseProfileName=STRING,
        flags=_list(choice(*(f"SECCOMP_FILTER_FLAG_{n}" for n in ("TSYNC", "LOG", "SPEC_ALLOW")))),
        syscalls=_list(
            _record(
                ("action", "names"),
                action=_ACTION,
                names=_list(STRING),
                errnoRet=STRING,
                args=items(
                    _record(
                        ("index", "op"),
                        index={"type": "integer", "minimum": 0},
                        op=_COMPARISON,
                        value=_COST,
                        valueTwo=_COST,
                    ),
                    most=6,
                    kind="",
                ),
            )
        ),
    ),
    status=_record(
        status=STRING,
        path=STRING,
        localhostProfile=STRING,
        activeWorkloads=_list(STRING),
        conditions=keyed(_CONDITION, ("type",)),
    ),
)


class _Kind(NamedTuple):
    kind: str
    resource: Resource[Any]
    short: tuple[str, ...]
    schema: Tree
    namespaced: bool = True
    status: bool = False
    approved: str = ""
    columns: tuple[Tree, ...] = ()


_SCHEDULING: Final = "scheduling.x-k8s.io"
_PULLS: Final = "https://github.com/kubernetes-sigs/scheduler-plugins/pull"
_KINDS: Final = (
    _Kind(
        "PodGroup",
        Resource(_SCHEDULING, "v1alpha1", "podgroups"),
        ("pg", "pgs"),
        _POD_GROUP,
        status=True,
        approved=f"{_PULLS}/50",
        columns=(
            column("Phase", ".status.phase", "string", "The phase of the group."),
            column("MinMember", ".spec.minMember", "integer", "The pods that it needs to run."),
            column("Running", ".status.running", "integer", "Pods in phase Running."),
            column("Succeeded", ".status.succeeded", "integer", "Pods in phase Succeeded."),
            column("Failed", ".status.failed", "integer", "Pods in phase Failed."),
            column("Age", ".metadata.creationTimestamp", "date", "Time since its creation."),
        ),
    ),
    _Kind(
        "ElasticQuota",
        Resource(_SCHEDULING, "v1alpha1", "elasticquotas"),
        ("eq", "eqs"),
        _ELASTIC_QUOTA,
        status=True,
        approved=f"{_PULLS}/52",
        columns=(
            column("Used", ".status.used", "string", "What running pods use."),
            column("Max", ".spec.max", "string", "What pods can use at most."),
            column("Age", ".metadata.creationTimestamp", "date", "Time since its creation."),
        ),
    ),
    _Kind(
        "NodeResourceTopology",
        Resource("topology.node.k8s.io", "v1alpha2", "noderesourcetopologies"),
        ("node-res-topo",),
        _NODE_TOPOLOGY,
        namespaced=False,
        approved="https://github.com/kubernetes/enhancements/pull/1870",
    ),
    _Kind(
        "AppGroup",
        Resource("appgroup.diktyo.x-k8s.io", "v1alpha1", "appgroups"),
        ("ag",),
        _APP_GROUP,
    ),
    _Kind(
        "NetworkTopology",
        Resource("networktopology.diktyo.x-k8s.io", "v1alpha1", "networktopologies"),
        ("nt",),
        _NETWORK,
    ),
    _Kind(
        "SeccompProfile",
        Resource("security-profiles-operator.x-k8s.io", "v1beta1", "seccompprofiles"),
        ("sp",),
        _SECCOMP,
        status=True,
        columns=(
            column("Status", ".status.status", "string"),
            column("Age", ".metadata.creationTimestamp", "date"),
            column("LocalhostProfile", ".status.localhostProfile", "string", priority=10),
        ),
    ),
)


@cache
def definitions() -> tuple[Tree, ...]:
    """The CustomResourceDefinitions."""
    return tuple(_definition(each) for each in _KINDS)


def installation() -> list[tuple[Resource[Any], Tree]]:
    """The objects of an installation with their resources, in the order of their creation."""
    return [(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions()]


def _definition(facts: _Kind) -> Tree:
    resource = facts.resource
    made = definition(
        facts.kind,
        resource.name,
        resource.group,
        [version(resource.version, facts.schema, facts.columns, status=facts.status)],
        facts.short,
        namespaced=facts.namespaced,
    )
    if facts.approved:
        made["metadata"]["annotations"] = {_APPROVED: facts.approved}
    return made
