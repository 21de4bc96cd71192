"""CustomResourceDefinitions of scheduler-plugins: names, schemas, columns. Follows `manifests/crds`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from controlplane.api.tree import Tree
from controlplane.client.resources import Resource

__all__ = ["DEFINITIONS", "definitions", "installation"]

DEFINITIONS: Final[Resource[Any]] = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions"
)
_APPROVED: Final = "api-approved.kubernetes.io"
_NUMBER: Final = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_QUANTITY: Final[Tree] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$",
    "x-kubernetes-int-or-string": True,
}
_STRING: Final[Tree] = {"type": "string"}
_TIME: Final[Tree] = {"type": "string", "format": "date-time"}
_INT32: Final[Tree] = {"type": "integer", "format": "int32"}
_INT64: Final[Tree] = {"type": "integer", "format": "int64"}
_COST: Final[Tree] = {**_INT64, "minimum": 0}


def _record(required: Sequence[str] = (), /, **fields: Tree) -> Tree:
    made: Tree = {"type": "object", "properties": fields}
    return {**made, "required": list(required)} if required else made


def _list(of: Tree) -> Tree:
    return {"type": "array", "items": of}


def _enum(*words: str) -> Tree:
    return {"type": "string", "enum": list(words)}


_AMOUNTS: Final[Tree] = {"type": "object", "additionalProperties": _QUANTITY}
_PAIRS: Final = _list(_record(("name", "value"), name=_STRING, value=_STRING))

_POD_GROUP: Final = _record(
    spec=_record(
        minMember={**_INT32, "minimum": 1}, minResources=_AMOUNTS, scheduleTimeoutSeconds=_INT32
    ),
    status=_record(
        phase=_STRING,
        occupiedBy=_STRING,
        running=_INT32,
        succeeded=_INT32,
        failed=_INT32,
        scheduleStartTime=_TIME,
    ),
)
_ELASTIC_QUOTA: Final = _record(
    spec=_record(min=_AMOUNTS, max=_AMOUNTS), status=_record(used=_AMOUNTS)
)
_ZONE: Final = _record(
    ("name", "type"),
    name=_STRING,
    type=_STRING,
    parent=_STRING,
    costs=_list(_record(("name", "value"), name=_STRING, value=_INT64)),
    attributes=_PAIRS,
    resources=_list(
        _record(
            ("allocatable", "available", "capacity", "name"),
            name=_STRING,
            capacity=_QUANTITY,
            allocatable=_QUANTITY,
            available=_QUANTITY,
        )
    ),
)
_NODE_TOPOLOGY: Final = _record(
    ("zones",), topologyPolicies=_list(_STRING), attributes=_PAIRS, zones=_list(_ZONE)
)
_WORKLOAD: Final = _record(
    ("kind", "name", "selector"),
    kind=_STRING,
    name=_STRING,
    selector=_STRING,
    apiVersion=_STRING,
    namespace=_STRING,
)
_APP_GROUP: Final = _record(
    spec=_record(
        ("numMembers", "topologySortingAlgorithm", "workloads"),
        numMembers={**_INT32, "minimum": 1},
        topologySortingAlgorithm=_STRING,
        workloads=_list(
            _record(
                ("workload",),
                workload=_WORKLOAD,
                dependencies=_list(
                    _record(
                        ("workload",),
                        workload=_WORKLOAD,
                        minBandwidth=_QUANTITY,
                        maxNetworkCost={**_COST, "maximum": 10000},
                    )
                ),
            )
        ),
    ),
    status=_record(
        runningWorkloads={**_INT32, "minimum": 0},
        scheduleStartTime=_TIME,
        topologyCalculationTime=_TIME,
        topologyOrder=_list(_record(workload=_WORKLOAD, index=_INT32)),
    ),
)
_ORIGIN: Final = _record(
    ("origin",),
    origin=_STRING,
    costList=_list(
        _record(
            ("destination", "networkCost"),
            destination=_STRING,
            bandwidthCapacity=_QUANTITY,
            bandwidthAllocated=_QUANTITY,
            networkCost=_COST,
        )
    ),
)
_NETWORK: Final = _record(
    spec=_record(
        ("configmapName", "weights"),
        configmapName=_STRING,
        weights=_list(
            _record(
                ("name", "topologyList"),
                name=_STRING,
                topologyList=_list(
                    _record(
                        ("originList", "topologyKey"),
                        topologyKey=_STRING,
                        originList=_list(_ORIGIN),
                    )
                ),
            )
        ),
    ),
    status=_record(nodeCount=_COST, weightCalculationTime=_TIME),
)
_ACTION: Final = _enum(
    *(
        f"SCMP_ACT_{name}"
        for name in (
            "KILL", "KILL_PROCESS", "KILL_THREAD", "TRAP", "ERRNO", "TRACE", "ALLOW", "LOG"
        )
    )
)  # fmt: skip
_COMPARISON: Final = _enum(
    *(f"SCMP_CMP_{name}" for name in ("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"))
)
_ARCHITECTURE: Final = _enum(
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
    type=_STRING,
    status=_STRING,
    reason=_STRING,
    message=_STRING,
    lastTransitionTime=_TIME,
    observedGeneration=_INT64,
)
_SECCOMP: Final = _record(
    spec=_record(
        ("defaultAction",),
        defaultAction=_ACTION,
        architectures=_list(_ARCHITECTURE),
        baseProfileName=_STRING,
        flags=_list(_enum(*(f"SECCOMP_FILTER_FLAG_{n}" for n in ("TSYNC", "LOG", "SPEC_ALLOW")))),
        syscalls=_list(
            _record(
                ("action", "names"),
                action=_ACTION,
                names=_list(_STRING),
                errnoRet=_STRING,
                args={
                    **_list(
                        _record(
                            ("index", "op"),
                            index={"type": "integer", "minimum": 0},
                            op=_COMPARISON,
                            value=_COST,
                            valueTwo=_COST,
                        )
                    ),
                    "maxItems": 6,
                },
            )
        ),
    ),
    status=_record(
        status=_STRING,
        path=_STRING,
        localhostProfile=_STRING,
        activeWorkloads=_list(_STRING),
        conditions={
            **_list(_CONDITION),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    ),
)


class _Kind(NamedTuple):
    kind: str
    resource: Resource[Any]
    short: tuple[str, ...]
    schema: Tree
    scope: str = "Namespaced"
    status: bool = False
    approved: str = ""
    columns: tuple[Tree, ...] = ()


def _column(name: str, path: str, kind: str, told: str = "", priority: int = 0) -> Tree:
    made: Tree = {"name": name, "jsonPath": path, "type": kind}
    if told:
        made["description"] = told
    return {**made, "priority": priority} if priority else made


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
            _column("Phase", ".status.phase", "string", "The phase of the group."),
            _column("MinMember", ".spec.minMember", "integer", "The pods that it needs to run."),
            _column("Running", ".status.running", "integer", "Pods in phase Running."),
            _column("Succeeded", ".status.succeeded", "integer", "Pods in phase Succeeded."),
            _column("Failed", ".status.failed", "integer", "Pods in phase Failed."),
            _column("Age", ".metadata.creationTimestamp", "date", "Time since its creation."),
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
            _column("Used", ".status.used", "string", "What running pods use."),
            _column("Max", ".spec.max", "string", "What pods can use at most."),
            _column("Age", ".metadata.creationTimestamp", "date", "Time since its creation."),
        ),
    ),
    _Kind(
        "NodeResourceTopology",
        Resource("topology.node.k8s.io", "v1alpha2", "noderesourcetopologies"),
        ("node-res-topo",),
        _NODE_TOPOLOGY,
        scope="Cluster",
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
            _column("Status", ".status.status", "string"),
            _column("Age", ".metadata.creationTimestamp", "date"),
            _column("LocalhostProfile", ".status.localhostProfile", "string", priority=10),
        ),
    ),
)


@cache
def definitions() -> tuple[Tree, ...]:
    """The CustomResourceDefinitions."""
    return tuple(_definition(each) for each in _KINDS)


def installation() -> list[tuple[Resource[Any], Tree]]:
    """The objects of an installation with their resources, in the order of their creation."""
    return [(DEFINITIONS, each) for each in definitions()]


def _definition(facts: _Kind) -> Tree:
    resource, kind = facts.resource, facts.kind
    meta: dict[str, Any] = {"name": f"{resource.name}.{resource.group}"}
    if facts.approved:
        meta["annotations"] = {_APPROVED: facts.approved}
    fields: Mapping[str, Any] = facts.schema["properties"]
    schema = {
        **facts.schema,
        "properties": {
            "apiVersion": _STRING,
            "kind": _STRING,
            "metadata": {"type": "object"},
            **fields,
        },
    }
    version: dict[str, Any] = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    if facts.status:
        version["subresources"] = {"status": {}}
    if facts.columns:
        version["additionalPrinterColumns"] = list(facts.columns)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": {
            "group": resource.group,
            "scope": facts.scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": resource.name,
                "singular": kind.lower(),
                "shortNames": list(facts.short),
            },
            "versions": [version],
        },
    }
