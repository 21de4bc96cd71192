"""Request bodies in protobuf, as kubectl's generators and typed Go clients send them, read into JSON trees.

Answers are never protobuf: clients that send it accept JSON too. The field numbers are those of the
kinds that such clients commonly create; a body with a type or field outside of the table is left to
the refusal that follows, so nothing a client wrote is lost silently.

Upstream: apimachinery pkg/runtime/serializer/protobuf, api */generated.proto. On the wire every plain
Go field is there, zero or not; `~` marks those, whose zero is the same as absence.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import Any, Final

from controlplane.api.times import SECOND, format_micro_time, format_time
from controlplane.apiserver.schema import Field, Kind, struct_type

__all__ = ["MEDIA_TYPE", "Unreadable", "decoded"]

Tree = dict[str, Any]

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
PREFIX: Final = b"k8s\x00"
_API = "io.k8s.api."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_OBJECT = "metadata=1 spec=2 status=3"
_NUMBERS: Final[dict[str, str]] = {
    _META + "ObjectMeta": "name=1 generateName=2 namespace=3 selfLink=4 uid=5 resourceVersion=6 "
    "~generation=7 creationTimestamp=8 deletionTimestamp=9 deletionGracePeriodSeconds=10 "
    "labels=11 annotations=12 ownerReferences=13 finalizers=14",
    _META + "OwnerReference": "kind=1 name=3 uid=4 apiVersion=5 controller=6 blockOwnerDeletion=7",
    _META + "LabelSelector": "matchLabels=1 matchExpressions=2",
    _META + "LabelSelectorRequirement": "key=1 operator=2 values=3",
    _META + "DeleteOptions": "gracePeriodSeconds=1 preconditions=2 orphanDependents=3 "
    "propagationPolicy=4 dryRun=5",
    _META + "Preconditions": "uid=1 resourceVersion=2",
    "core.v1.ConfigMap": "metadata=1 data=2 binaryData=3 immutable=4",
    "core.v1.Secret": "metadata=1 data=2 type=3 stringData=4 immutable=5",
    "core.v1.Namespace": _OBJECT,
    "core.v1.NamespaceSpec": "finalizers=1",
    "core.v1.NamespaceStatus": "phase=1",
    "core.v1.ServiceAccount": "metadata=1 secrets=2 imagePullSecrets=3 "
    "automountServiceAccountToken=4",
    "core.v1.LocalObjectReference": "name=1",
    "core.v1.ObjectReference": "kind=1 namespace=2 name=3 uid=4 apiVersion=5 resourceVersion=6 "
    "fieldPath=7",
    "core.v1.Binding": "metadata=1 target=2",
    "core.v1.ResourceQuota": _OBJECT,
    "core.v1.ResourceQuotaSpec": "hard=1 scopes=2",
    "core.v1.ResourceQuotaStatus": "hard=1 used=2",
    "core.v1.Service": _OBJECT,
    "core.v1.ServiceSpec": "ports=1 selector=2 clusterIP=3 type=4 externalIPs=5 sessionAffinity=7 "
    "loadBalancerIP=8 loadBalancerSourceRanges=9 externalName=10 externalTrafficPolicy=11 "
    "~healthCheckNodePort=12 ~publishNotReadyAddresses=13 ipFamilyPolicy=17 clusterIPs=18 "
    "ipFamilies=19 allocateLoadBalancerNodePorts=20 loadBalancerClass=21 internalTrafficPolicy=22",
    "core.v1.ServicePort": "name=1 protocol=2 port=3 targetPort=4 ~nodePort=5 appProtocol=6",
    "core.v1.ServiceStatus": "loadBalancer=1",
    "core.v1.LoadBalancerStatus": "",
    "core.v1.PodTemplateSpec": "metadata=1 spec=2",
    "core.v1.PodSpec": "containers=2 restartPolicy=3 terminationGracePeriodSeconds=4 "
    "activeDeadlineSeconds=5 dnsPolicy=6 nodeSelector=7 serviceAccountName=8 serviceAccount=9 "
    "nodeName=10 ~hostNetwork=11 ~hostPID=12 ~hostIPC=13 imagePullSecrets=15 hostname=16 "
    "subdomain=17 schedulerName=19 initContainers=20 automountServiceAccountToken=21 "
    "priorityClassName=24 priority=25 runtimeClassName=29 enableServiceLinks=30",
    "core.v1.Container": "name=1 image=2 command=3 args=4 workingDir=5 ports=6 env=7 resources=8 "
    "terminationMessagePath=13 imagePullPolicy=14 ~stdin=16 ~stdinOnce=17 ~tty=18 "
    "terminationMessagePolicy=20",
    "core.v1.ContainerPort": "name=1 ~hostPort=2 containerPort=3 protocol=4 hostIP=5",
    "core.v1.EnvVar": "name=1 value=2",
    "core.v1.ResourceRequirements": "limits=1 requests=2",
    "apps.v1.Deployment": _OBJECT,
    "apps.v1.DeploymentSpec": "replicas=1 selector=2 template=3 strategy=4 ~minReadySeconds=5 "
    "revisionHistoryLimit=6 ~paused=7 progressDeadlineSeconds=9",
    "apps.v1.DeploymentStrategy": "type=1 rollingUpdate=2",
    "apps.v1.RollingUpdateDeployment": "maxUnavailable=1 maxSurge=2",
    "apps.v1.DeploymentStatus": "~observedGeneration=1 ~replicas=2 ~updatedReplicas=3 "
    "~availableReplicas=4 ~unavailableReplicas=5 ~readyReplicas=7",
    "batch.v1.Job": _OBJECT,
    "batch.v1.JobSpec": "parallelism=1 completions=2 activeDeadlineSeconds=3 selector=4 "
    "manualSelector=5 template=6 backoffLimit=7 ttlSecondsAfterFinished=8 completionMode=9 "
    "suspend=10",
    "batch.v1.JobStatus": "~active=4 ~succeeded=5 ~failed=6 completedIndexes=7",
    "batch.v1.JobTemplateSpec": "metadata=1 spec=2",
    "batch.v1.CronJob": _OBJECT,
    "batch.v1.CronJobSpec": "schedule=1 startingDeadlineSeconds=2 concurrencyPolicy=3 suspend=4 "
    "jobTemplate=5 successfulJobsHistoryLimit=6 failedJobsHistoryLimit=7 timeZone=8",
    "batch.v1.CronJobStatus": "",
    "rbac.v1.Role": "metadata=1 rules=2",
    "rbac.v1.ClusterRole": "metadata=1 rules=2 aggregationRule=3",
    "rbac.v1.AggregationRule": "clusterRoleSelectors=1",
    "rbac.v1.PolicyRule": "verbs=1 apiGroups=2 resources=3 resourceNames=4 nonResourceURLs=5",
    "rbac.v1.RoleBinding": "metadata=1 subjects=2 roleRef=3",
    "rbac.v1.ClusterRoleBinding": "metadata=1 subjects=2 roleRef=3",
    "rbac.v1.Subject": "kind=1 apiGroup=2 name=3 namespace=4",
    "rbac.v1.RoleRef": "apiGroup=1 kind=2 name=3",
    "policy.v1.PodDisruptionBudget": _OBJECT,
    "policy.v1.PodDisruptionBudgetSpec": "minAvailable=1 selector=2 maxUnavailable=3 "
    "unhealthyPodEvictionPolicy=4",
    "policy.v1.PodDisruptionBudgetStatus": "~observedGeneration=1 ~disruptionsAllowed=3 "
    "~currentHealthy=4 ~desiredHealthy=5 ~expectedPods=6",
    "policy.v1.Eviction": "metadata=1 deleteOptions=2",
    "authentication.v1.TokenRequest": _OBJECT,
    "authentication.v1.TokenRequestSpec": "audiences=1 boundObjectRef=3 expirationSeconds=4",
    "authentication.v1.BoundObjectReference": "kind=1 apiVersion=2 name=3 uid=4",
    "authentication.v1.TokenRequestStatus": "token=1 expirationTimestamp=2",
    "authentication.v1.SelfSubjectReview": "metadata=1 status=2",
    "authentication.v1.SelfSubjectReviewStatus": "userInfo=1",
    "authentication.v1.UserInfo": "username=1 uid=2 groups=3",
    "authorization.v1.SelfSubjectAccessReview": _OBJECT,
    "authorization.v1.SelfSubjectAccessReviewSpec": "resourceAttributes=1 nonResourceAttributes=2",
    "authorization.v1.ResourceAttributes": "namespace=1 verb=2 group=3 version=4 resource=5 "
    "subresource=6 name=7",
    "authorization.v1.NonResourceAttributes": "path=1 verb=2",
    "authorization.v1.SubjectAccessReviewStatus": "~allowed=1 reason=2 evaluationError=3 ~denied=4",
    "authorization.v1.SelfSubjectRulesReview": _OBJECT,
    "authorization.v1.SelfSubjectRulesReviewSpec": "namespace=1",
    "authorization.v1.SubjectRulesReviewStatus": "~incomplete=3 evaluationError=4",
    "networking.v1.Ingress": _OBJECT,
    "networking.v1.IngressSpec": "defaultBackend=1 tls=2 rules=3 ingressClassName=4",
    "networking.v1.IngressTLS": "hosts=1 secretName=2",
    "networking.v1.IngressRule": "host=1 /http=2",
    "networking.v1.HTTPIngressRuleValue": "paths=1",
    "networking.v1.HTTPIngressPath": "path=1 backend=2 pathType=3",
    "networking.v1.IngressBackend": "service=4",
    "networking.v1.IngressServiceBackend": "name=1 port=2",
    "networking.v1.ServiceBackendPort": "name=1 ~number=2",
    "networking.v1.IngressStatus": "loadBalancer=1",
    "networking.v1.IngressLoadBalancerStatus": "",
    "scheduling.v1.PriorityClass": "metadata=1 value=2 ~globalDefault=3 description=4 "
    "preemptionPolicy=5",
    "autoscaling.v1.HorizontalPodAutoscaler": _OBJECT,
    "autoscaling.v1.HorizontalPodAutoscalerSpec": "scaleTargetRef=1 minReplicas=2 maxReplicas=3 "
    "targetCPUUtilizationPercentage=4",
    "autoscaling.v1.CrossVersionObjectReference": "kind=1 name=2 apiVersion=3",
    "autoscaling.v1.HorizontalPodAutoscalerStatus": "~currentReplicas=3 ~desiredReplicas=4",
}
"""Fields by number. `/http` of a rule stands inside a message of its own, which JSON has not."""


class Unreadable(ValueError):
    """Not protobuf, or of a type or with a field that the table does not have."""


def decoded(raw: bytes) -> Tree:
    """The object in a body. Raises Unreadable."""
    if not raw.startswith(PREFIX):
        raise Unreadable("no prefix")
    about: dict[int, bytes] = {}
    body = b""
    for number, value in _pairs(raw[len(PREFIX) :]):
        if number == 1 and isinstance(value, bytes):
            about = {n: v for n, v in _pairs(value) if isinstance(v, bytes)}
        elif number == 2 and isinstance(value, bytes):
            body = value
    api_version, kind = _text(about.get(1, b"")), _text(about.get(2, b""))
    group, _, version = api_version.rpartition("/")
    package = group.partition(".")[0] or "core"
    name = f"{_API}{package}.{version}.{kind}"
    if kind == "DeleteOptions":
        name = _META + kind
    return {"apiVersion": api_version, "kind": kind, **_message(name, body)}


@cache
def _fields(name: str) -> dict[int, tuple[str, Field]]:
    """Number to (mark, field)."""
    listed = _NUMBERS.get(name.removeprefix(_API))
    if listed is None:
        raise Unreadable(f"unknown type {name}")
    struct = struct_type(name)
    found = {}
    for entry in listed.split():
        key, _, number = entry.partition("=")
        mark = key[0] if key[0] in "~/" else ""
        found[int(number)] = (mark, struct.fields[key.lstrip("~/")])
    return found


def _message(name: str, raw: bytes) -> Tree:
    fields = _fields(name)
    tree: Tree = {}
    for number, value in _pairs(raw):
        if number not in fields:
            raise Unreadable(f"{name}: field {number}")
        mark, known = fields[number]
        if known.kind == Kind.LIST:
            assert known.element is not None
            tree.setdefault(known.name, []).append(_value(known.element, value))
        elif known.kind == Kind.MAP:
            assert known.element is not None
            pair = dict(_pairs(_raw(value)))
            key = _text(_raw(pair.get(1, b"")))
            tree.setdefault(known.name, {})[key] = _value(known.element, pair.get(2, b""))
        elif mark == "/":
            inner = dict(_pairs(_raw(value)))
            if 1 in inner:
                tree[known.name] = _value(known, inner[1])
        else:
            found = _value(known, value)
            if found is None or found == "" or (mark == "~" and not found):
                continue
            tree[known.name] = found
    return tree


def _value(known: Field, value: int | bytes) -> Any:
    kind = known.kind
    if kind in (Kind.INT, Kind.BOOL):
        if not isinstance(value, int):
            raise Unreadable(f"{known.name}: not a number")
        if kind == Kind.BOOL:
            return bool(value)
        return value - (1 << 64) if value >> 63 else value
    raw = _raw(value)
    if kind == Kind.STRING:
        return _text(raw)
    if kind == Kind.BYTES:
        return base64.b64encode(raw).decode()
    if kind == Kind.STRUCT:
        return _message(known.type_name, raw)
    parts = dict(_pairs(raw))
    if kind == Kind.QUANTITY:
        return _text(_raw(parts.get(1, b"")))
    if kind == Kind.INT_OR_STRING:
        if parts.get(1, 0):
            return _text(_raw(parts.get(3, b"")))
        return _value(Field(known.name, Kind.INT, "integer"), parts.get(2, 0))
    if kind in (Kind.TIME, Kind.MICRO_TIME):
        if not parts:
            return None
        seconds, nanos = parts.get(1, 0), parts.get(2, 0)
        if not isinstance(seconds, int) or not isinstance(nanos, int) or seconds >> 34:
            raise Unreadable(f"{known.name}: not a time")
        form = format_time if kind == Kind.TIME else format_micro_time
        return form(seconds * SECOND + nanos)
    raise Unreadable(f"{known.name}: unknown shape")


def _raw(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise Unreadable("a number where bytes were expected")
    return value


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Unreadable("not UTF-8") from error


def _pairs(raw: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of a message: number, and a varint or bytes."""
    found: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(raw, at)
            found.append((number, value))
            continue
        if wire == _BYTES:
            length, at = _varint(raw, at)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise Unreadable(f"wire type {wire}")
        if at + length > len(raw):
            raise Unreadable("cut short")
        found.append((number, raw[at : at + length]))
        at += length
    return found


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(raw) and shift < 70:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & ((1 << 64) - 1), at
        shift += 7
    raise Unreadable("cut short")
