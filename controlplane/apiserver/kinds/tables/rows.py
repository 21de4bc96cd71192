"""Rows of the other built-in kinds, by resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.api import usage
from controlplane.api.quantity import parse
from controlplane.api.times import SECOND, parse_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.tables.ages import age, human_duration
from controlplane.apiserver.kinds.validation.selectors import selector_of

__all__ = ["ROWS"]

Row = Callable[[Tree, int], list[Any]]


def _name(tree: Tree) -> str:
    name: str = tree["metadata"].get("name", "")
    return name


def _age(tree: Tree, now: int) -> str:
    return age(tree["metadata"].get("creationTimestamp"), now)


def _part(tree: Tree, key: str) -> Tree:
    found: Tree = tree.get(key) or {}
    return found


def _template(tree: Tree) -> tuple[str, str]:
    spec = _part(_part(_part(tree, "spec"), "template"), "spec")
    containers = spec.get("containers") or []
    return (",".join(c.get("name", "") for c in containers),
            ",".join(c.get("image", "") for c in containers))  # fmt: skip


def _selector(selector: Tree | None) -> str:
    chosen = selector_of(selector)
    if chosen is None:
        return "<error>"
    return str(chosen) or "<none>"


def _set(labels: Tree | None) -> str:
    if not labels:
        return "<none>"
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def _deployment(tree: Tree, now: int) -> list[Any]:
    spec, state = _part(tree, "spec"), _part(tree, "status")
    return [
        _name(tree), f"{state.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        state.get("updatedReplicas", 0), state.get("availableReplicas", 0), _age(tree, now),
        *_template(tree), _selector(spec.get("selector")),
    ]  # fmt: skip


def _replica_set(tree: Tree, now: int) -> list[Any]:
    spec, state = _part(tree, "spec"), _part(tree, "status")
    return [
        _name(tree), spec.get("replicas", 0), state.get("replicas", 0),
        state.get("readyReplicas", 0), _age(tree, now), *_template(tree),
        _selector(spec.get("selector")),
    ]  # fmt: skip


def _replication_controller(tree: Tree, now: int) -> list[Any]:
    row = _replica_set({**tree, "spec": {**tree["spec"], "selector": None}}, now)
    return [*row[:-1], _set(tree["spec"].get("selector"))]


def _stateful_set(tree: Tree, now: int) -> list[Any]:
    spec, state = _part(tree, "spec"), _part(tree, "status")
    ready = f"{state.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [_name(tree), ready, _age(tree, now), *_template(tree)]


def _daemon_set(tree: Tree, now: int) -> list[Any]:
    spec, state = _part(tree, "spec"), _part(tree, "status")
    keys = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady",
            "updatedNumberScheduled", "numberAvailable")  # fmt: skip
    node = _part(_part(spec, "template"), "spec").get("nodeSelector")
    return [
        _name(tree), *(state.get(key, 0) for key in keys), _set(node), _age(tree, now),
        *_template(tree), _selector(spec.get("selector")),
    ]  # fmt: skip


def _has(state: Tree, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True"
               for c in state.get("conditions") or ())  # fmt: skip


def _job(tree: Tree, now: int) -> list[Any]:
    spec, state = _part(tree, "spec"), _part(tree, "status")
    done = state.get("succeeded", 0)
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    elif spec.get("parallelism", 0) > 1:
        completions = f"{done}/1 of {spec['parallelism']}"
    else:
        completions = f"{done}/1"
    duration = ""
    if state.get("startTime"):
        ends = parse_time(state["completionTime"]) if state.get("completionTime") else now
        duration = human_duration((ends - parse_time(state["startTime"])) // SECOND)
    word = "Running"
    if _has(state, "Complete"):
        word = "Complete"
    elif _has(state, "Failed"):
        word = "Failed"
    elif tree["metadata"].get("deletionTimestamp"):
        word = "Terminating"
    elif _has(state, "Suspended"):
        word = "Suspended"
    elif _has(state, "FailureTarget"):
        word = "FailureTarget"
    elif _has(state, "SuccessCriteriaMet"):
        word = "SuccessCriteriaMet"
    return [_name(tree), word, completions, duration, _age(tree, now), *_template(tree),
            _selector(spec.get("selector"))]  # fmt: skip


def _cron_job(tree: Tree, now: int) -> list[Any]:
    spec, state = _part(tree, "spec"), _part(tree, "status")
    last = age(state["lastScheduleTime"], now) if state.get("lastScheduleTime") else "<none>"
    job = _part(spec, "jobTemplate")
    return [
        _name(tree), spec.get("schedule", ""), spec.get("timeZone") or "<none>",
        "True" if spec.get("suspend") else "False", len(state.get("active") or ()), last, _age(tree, now),
        *_template(job), _selector(_part(job, "spec").get("selector")),
    ]  # fmt: skip


def _modes(modes: list[str] | None) -> str:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX",
             "ReadWriteOncePod": "RWOP"}  # fmt: skip
    given = modes or []
    return ",".join(text for mode, text in short.items() if mode in given)


_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def _class(tree: Tree) -> str:
    annotations = tree["metadata"].get("annotations") or {}
    if _BETA_CLASS in annotations:
        return str(annotations[_BETA_CLASS])
    return _part(tree, "spec").get("storageClassName") or ""


def _claim(tree: Tree, now: int) -> list[Any]:
    spec, state = _part(tree, "spec"), _part(tree, "status")
    phase = "Terminating" if tree["metadata"].get("deletionTimestamp") else state.get("phase", "")
    volume = spec.get("volumeName", "")
    capacity = modes = ""
    if volume:
        modes = _modes(state.get("accessModes"))
        capacity = _part(state, "capacity").get("storage", "0")
    return [
        _name(tree), phase, volume, capacity, modes, _class(tree),
        spec.get("volumeAttributesClassName") or "<unset>", _age(tree, now),
        spec.get("volumeMode") or "<unset>",
    ]  # fmt: skip


def _volume(tree: Tree, now: int) -> list[Any]:
    spec, state = _part(tree, "spec"), _part(tree, "status")
    phase = "Terminating" if tree["metadata"].get("deletionTimestamp") else state.get("phase", "")
    ref = spec.get("claimRef")
    claim = f"{ref.get('namespace', '')}/{ref.get('name', '')}" if ref else ""
    return [
        _name(tree), _part(spec, "capacity").get("storage", "0"), _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""), phase, claim, _class(tree),
        spec.get("volumeAttributesClassName") or "<unset>", state.get("reason", ""),
        _age(tree, now), spec.get("volumeMode") or "<unset>",
    ]  # fmt: skip


def _external_ip(tree: Tree) -> str:
    spec = _part(tree, "spec")
    kind, ips = spec.get("type"), spec.get("externalIPs") or []
    if kind == "LoadBalancer":
        points = _part(_part(tree, "status"), "loadBalancer").get("ingress") or []
        found = list(dict.fromkeys(p.get("ip") or p.get("hostname") or "" for p in points))
        text = ",".join(item for item in found if item)
        if ips:
            return ",".join([text, *ips] if text else ips)
        return text or "<pending>"
    if kind == "ExternalName":
        return spec.get("externalName") or "<none>"
    return ",".join(ips) or "<none>"


def _service(tree: Tree, now: int) -> list[Any]:
    spec = _part(tree, "spec")
    ports = []
    for port in spec.get("ports") or ():
        text = f"{port.get('port', 0)}"
        if port.get("nodePort"):
            text += f":{port['nodePort']}"
        ports.append(f"{text}/{port.get('protocol', '')}")
    ips = spec.get("clusterIPs") or []
    return [
        _name(tree), spec.get("type", ""), ips[0] if ips else "<none>", _external_ip(tree),
        ",".join(ports) or "<none>", _age(tree, now), _set(spec.get("selector")),
    ]  # fmt: skip


def _node(tree: Tree, now: int) -> list[Any]:
    meta, spec, state = tree["metadata"], _part(tree, "spec"), _part(tree, "status")
    words = []
    for condition in state.get("conditions") or ():
        if condition.get("type") == "Ready":
            words = ["Ready" if condition.get("status") == "True" else "NotReady"]
    words = words or ["Unknown"]
    if spec.get("unschedulable"):
        words.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    roles: dict[str, None] = {}
    for key, value in (meta.get("labels") or {}).items():
        if key.startswith(prefix) and len(key) > len(prefix):
            roles[key[len(prefix) :]] = None
        elif key == "kubernetes.io/role" and value:
            roles[value] = None
    info = _part(state, "nodeInfo")

    def address(kind: str) -> str:
        for entry in state.get("addresses") or ():
            if entry.get("type") == kind:
                return str(entry.get("address", ""))
        return "<none>"

    return [
        _name(tree), ",".join(words), ",".join(sorted(roles)) or "<none>", _age(tree, now),
        info.get("kubeletVersion", ""), address("InternalIP"), address("ExternalIP"),
        info.get("osImage") or "<unknown>", _kernel(info),
        info.get("containerRuntimeVersion") or "<unknown>",
    ]  # fmt: skip


def _kernel(info: Tree) -> str:
    version, architecture = info.get("kernelVersion"), info.get("architecture")
    if not version:
        return "<unknown>"
    return f"{version} ({architecture})" if architecture else str(version)


def _event(tree: Tree, now: int) -> list[Any]:
    first = tree.get("firstTimestamp") or tree.get("eventTime")
    series = tree.get("series") or {}
    last = series.get("lastObservedTime") or tree.get("lastTimestamp") or first
    count = series.get("count") or tree.get("count") or 1
    source = tree.get("source") or {}
    component = source.get("component") or tree.get("reportingComponent") or ""
    host = source.get("host") or tree.get("reportingInstance") or ""
    target = tree.get("involvedObject") or {}
    shown = f"{target.get('kind', '').lower()}/{target.get('name', '')}"
    return [
        age(last, now), tree.get("type", ""), tree.get("reason", ""), shown,
        target.get("fieldPath", ""), ", ".join(part for part in (component, host) if part),
        tree.get("message", "").strip(), age(first, now), count, _name(tree),
    ]  # fmt: skip


def _endpoints(tree: Tree, now: int) -> list[Any]:
    found: list[str] = []
    for subset in tree.get("subsets") or ():
        ports = subset.get("ports") or []
        for address in subset.get("addresses") or ():
            if not ports:
                found.append(address.get("ip", ""))
        for port in ports:
            for address in subset.get("addresses") or ():
                ip = address.get("ip", "")
                host = f"[{ip}]" if ":" in ip else ip
                found.append(f"{host}:{port.get('port', 0)}")
    return [_name(tree), _some(found) if tree.get("subsets") else "<none>", _age(tree, now)]


def _some(items: list[str]) -> str:
    text = ",".join(items[:3])
    return f"{text} + {len(items) - 3} more..." if len(items) > 3 else text


def _endpoint_slice(tree: Tree, now: int) -> list[Any]:
    ports = []
    for port in tree.get("ports") or ():
        if port.get("name") and port.get("port") is None:
            ports.append(port["name"])
        elif port.get("port") is not None:
            ports.append(str(port["port"]))
    addresses = [text for endpoint in tree.get("endpoints") or ()
                 for text in endpoint.get("addresses") or ()]  # fmt: skip
    return [_name(tree), tree.get("addressType", ""), _some(ports) or "<unset>",
            _some(addresses) or "<unset>", _age(tree, now)]  # fmt: skip


def _ingress(tree: Tree, now: int) -> list[Any]:
    spec = _part(tree, "spec")
    hosts: dict[str, None] = {}
    for rule in spec.get("rules") or ():
        if rule.get("host"):
            hosts[rule["host"]] = None
    listed = ",".join(list(hosts)[:3]) or "*"
    if len(hosts) > 3:
        listed += f" + {len(hosts) - 3} more..."
    points = _part(_part(tree, "status"), "loadBalancer").get("ingress") or []
    address = ",".join(p.get("ip") or p.get("hostname") or "" for p in points)
    ports = "80, 443" if spec.get("tls") else "80"
    return [_name(tree), spec.get("ingressClassName") or "<none>", listed, address, ports,
            _age(tree, now)]  # fmt: skip


def _budget(tree: Tree, now: int) -> list[Any]:
    spec = _part(tree, "spec")

    def shown(key: str) -> str:
        return "N/A" if spec.get(key) is None else str(spec[key])

    allowed = _part(tree, "status").get("disruptionsAllowed", 0)
    return [_name(tree), shown("minAvailable"), shown("maxUnavailable"), allowed, _age(tree, now)]


def _role_binding(tree: Tree, now: int) -> list[Any]:
    ref = tree.get("roleRef") or {}
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in tree.get("subjects") or ():
        name = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        by_kind.setdefault(subject.get("kind", ""), []).append(name)
    return [
        _name(tree), f"{ref.get('kind', '')}/{ref.get('name', '')}", _age(tree, now),
        ", ".join(by_kind["User"]), ", ".join(by_kind["Group"]),
        ", ".join(by_kind["ServiceAccount"]),
    ]  # fmt: skip


def _controller_revision(tree: Tree, now: int) -> list[Any]:
    owner = "<none>"
    for ref in tree["metadata"].get("ownerReferences") or ():
        if ref.get("controller"):
            group = ref.get("apiVersion", "").rpartition("/")[0]
            kind = ref.get("kind", "").lower()
            owner = f"{kind}.{group}/{ref['name']}" if group else f"{kind}/{ref['name']}"
    return [_name(tree), owner, tree.get("revision", 0), _age(tree, now)]


def _csi_driver(tree: Tree, now: int) -> list[Any]:
    spec = _part(tree, "spec")
    tokens = ",".join(r.get("audience", "") for r in spec.get("tokenRequests") or ())
    return [
        _name(tree), bool(spec.get("attachRequired", True)), bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")), tokens or "<unset>",
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or "<none>", _age(tree, now),
    ]  # fmt: skip


def _quota(tree: Tree, now: int) -> list[Any]:
    state = _part(tree, "status")
    hard, used = state.get("hard") or {}, state.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        text = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits.") else requests).append(text)
    return [_name(tree), ", ".join(requests), ", ".join(limits), _age(tree, now)]


def _autoscaler(tree: Tree, now: int) -> list[Any]:
    spec, state = _part(tree, "spec"), _part(tree, "status")
    ref = _part(spec, "scaleTargetRef")
    targets = []
    current = state.get("currentMetrics") or []
    for index, metric in enumerate(spec.get("metrics") or ()):
        seen = current[index] if index < len(current) else {}
        source = metric.get("resource") or {}
        target = source.get("target") or {}
        value = _part(_part(seen, "resource"), "current")
        name = source.get("name", metric.get("type", ""))
        if target.get("averageUtilization") is not None:
            now_value = value.get("averageUtilization")
            had = "<unknown>" if now_value is None else f"{now_value}%"
            targets.append(f"{name}: {had}/{target['averageUtilization']}%")
        else:
            wanted = target.get("averageValue") or target.get("value") or "<auto>"
            targets.append(f"{name}: {value.get('averageValue', '<unknown>')}/{wanted}")
    return [
        _name(tree), f"{ref.get('kind', '')}/{ref.get('name', '')}",
        ", ".join(targets) or "<none>",
        "<unset>" if spec.get("minReplicas") is None else str(spec["minReplicas"]),
        spec.get("maxReplicas", 0), state.get("currentReplicas", 0), _age(tree, now),
    ]  # fmt: skip


def _claim_state(tree: Tree) -> str:
    state = _part(tree, "status")
    words = []
    if tree["metadata"].get("deletionTimestamp"):
        words.append("deleted")
    if state.get("allocation") is None:
        if not words:
            words.append("pending")
    else:
        words.append("allocated")
        if state.get("reservedFor"):
            words.append("reserved")
    return ",".join(words)


def _plain(*paths: str) -> Row:
    """Name, the values at the paths, age."""

    def row(tree: Tree, now: int) -> list[Any]:
        cells: list[Any] = [_name(tree)]
        for path in paths:
            value: Any = tree
            for part in path.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            cells.append("" if value is None else value)
        return [*cells, _age(tree, now)]

    return row


def _component_status(tree: Tree, _now: int) -> list[Any]:
    healthy, message, error = "Unknown", "", ""
    for condition in tree.get("conditions") or ():
        if condition.get("type") == "Healthy":
            healthy = "Healthy" if condition.get("status") == "True" else "Unhealthy"
            message, error = condition.get("message", ""), condition.get("error", "")
    return [_name(tree), healthy, message, error]


def _usage(tree: Tree, _now: int) -> list[Any]:
    parts = [tree["usage"]] if "usage" in tree else [each["usage"] for each in tree["containers"]]
    total = {
        name: sum(parse(part[name]).milli_value() for part in parts if name in part)
        for name in usage.MEASURED
    }
    shown = usage.written(total)
    return [_name(tree), *(shown[name] for name in usage.MEASURED), tree["window"]]


ROWS: dict[str, Row] = {
    "/componentstatuses": _component_status,
    "metrics.k8s.io/nodes": _usage,
    "metrics.k8s.io/pods": _usage,
    "apps/deployments": _deployment,
    "apps/replicasets": _replica_set,
    "apps/statefulsets": _stateful_set,
    "apps/daemonsets": _daemon_set,
    "apps/controllerrevisions": _controller_revision,
    "batch/jobs": _job,
    "batch/cronjobs": _cron_job,
    "/replicationcontrollers": _replication_controller,
    "/persistentvolumeclaims": _claim,
    "/persistentvolumes": _volume,
    "/services": _service,
    "/nodes": _node,
    "/events": _event,
    "/endpoints": _endpoints,
    "/namespaces": _plain("status.phase"),
    "/serviceaccounts": _plain(),
    "/configmaps": lambda tree, now: [
        _name(tree), len(tree.get("data") or ()) + len(tree.get("binaryData") or ()),
        _age(tree, now),
    ],
    "/secrets": lambda tree, now: [
        _name(tree), tree.get("type", ""), len(tree.get("data") or ()), _age(tree, now),
    ],
    "/podtemplates": lambda tree, _now: [
        _name(tree), *_template({"spec": {"template": tree.get("template") or {}}}),
        _set(_part(_part(tree, "template"), "metadata").get("labels")),
    ],
    "/resourcequotas": _quota,
    "discovery.k8s.io/endpointslices": _endpoint_slice,
    "networking.k8s.io/ingresses": _ingress,
    "networking.k8s.io/networkpolicies": lambda tree, now: [
        _name(tree), _selector(_part(tree, "spec").get("podSelector") or {}), _age(tree, now),
    ],
    "networking.k8s.io/ingressclasses": lambda tree, now: [
        _name(tree), _part(tree, "spec").get("controller", ""),
        _parameters(_part(tree, "spec").get("parameters")), _age(tree, now),
    ],
    "policy/poddisruptionbudgets": _budget,
    "rbac.authorization.k8s.io/rolebindings": _role_binding,
    "rbac.authorization.k8s.io/clusterrolebindings": _role_binding,
    "apiregistration.k8s.io/apiservices": lambda tree, now: [
        _name(tree), *_hosted(tree), _age(tree, now),
    ],
    "coordination.k8s.io/leases": _plain("spec.holderIdentity"),
    "storage.k8s.io/storageclasses": lambda tree, now: [
        _class_name(tree), tree.get("provisioner", ""), tree.get("reclaimPolicy") or "Delete",
        tree.get("volumeBindingMode") or "Immediate", bool(tree.get("allowVolumeExpansion")),
        _age(tree, now),
    ],
    "storage.k8s.io/volumeattachments": lambda tree, now: [
        _name(tree), _part(tree, "spec").get("attacher", ""),
        _part(_part(tree, "spec"), "source").get("persistentVolumeName") or "",
        _part(tree, "spec").get("nodeName", ""), bool(_part(tree, "status").get("attached")),
        _age(tree, now),
    ],
    "storage.k8s.io/csidrivers": _csi_driver,
    "storage.k8s.io/csinodes": lambda tree, now: [
        _name(tree), len(_part(tree, "spec").get("drivers") or ()), _age(tree, now),
    ],
    "storage.k8s.io/volumeattributesclasses": _plain("driverName"),
    "scheduling.k8s.io/priorityclasses": lambda tree, now: [
        _name(tree), tree.get("value", 0), bool(tree.get("globalDefault")), _age(tree, now),
        tree.get("preemptionPolicy", ""),
    ],
    "node.k8s.io/runtimeclasses": _plain("handler"),
    "autoscaling/horizontalpodautoscalers": _autoscaler,
    "resource.k8s.io/resourceclaims": lambda tree, now: [
        _name(tree), _claim_state(tree), _age(tree, now),
    ],
    "resource.k8s.io/resourceclaimtemplates": _plain(),
    "resource.k8s.io/deviceclasses": _plain(),
    "resource.k8s.io/resourceslices": _plain("spec.nodeName", "spec.driver", "spec.pool.name"),
}  # fmt: skip


def _hosted(tree: Tree) -> tuple[str, str]:
    """Return the place of an API service, and its availability."""
    service = _part(tree, "spec").get("service")
    place = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    for each in _part(tree, "status").get("conditions") or ():
        if each.get("type") == "Available":
            state = each.get("status", "")
            return place, state if state == "True" else f"{state} ({each.get('reason', '')})"
    return place, "Unknown"


def _parameters(ref: Tree | None) -> str:
    if not ref:
        return "<none>"
    kind = ref.get("kind", "")
    if ref.get("apiGroup"):
        kind = f"{kind}.{ref['apiGroup']}"
    return f"{kind}/{ref.get('name', '')}"


def _class_name(tree: Tree) -> str:
    marks = tree["metadata"].get("annotations") or {}
    keys = ("storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class")  # fmt: skip
    suffix = " (default)" if any(marks.get(key) == "true" for key in keys) else ""
    return _name(tree) + suffix
