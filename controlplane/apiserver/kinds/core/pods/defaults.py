"""Defaults of pods and pod templates. Upstream: pkg/apis/core/v1/defaults.go."""

from __future__ import annotations

import re
from functools import partial

from controlplane.api import quantity
from controlplane.api.equality import remembered
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.core.resources import resource_list, resources
from controlplane.apiserver.kinds.trees import each, filled, inside

__all__ = ["default_pod", "default_template", "default_volume_source", "pod_requests", "templated"]

_POD_SPEC: Tree = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}


_PROBE: Tree = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}


_CONTAINER: Tree = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}


_MODE = 0o644


# What the image reference parser accepts; other texts have no tag, not even the implied one.
_IMAGE = re.compile(
    r"([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*"
    r"(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*(:\w[\w.-]{0,127})?(@[A-Za-z][A-Za-z0-9]*:[0-9a-fA-F]{32,})?"
)


@remembered(4096)
def pull_policy(image: str) -> str:
    """Always for images without a tag or with tag latest, else IfNotPresent."""
    if len(image) > 255 - len("docker.io/library/") or not _IMAGE.fullmatch(image):
        return "IfNotPresent"
    name, _, digest = image.partition("@")
    last = name.rpartition("/")[2]
    tag = last.partition(":")[2]
    if not tag and not digest:
        tag = "latest"
    return "Always" if tag == "latest" else "IfNotPresent"


def _http_get(action: Tree) -> Tree:
    return filled(action, {"path": "/", "scheme": "HTTP"})


def _probe(probe: Tree) -> Tree:
    probe = filled(probe, _PROBE)
    return inside(probe, "httpGet", _http_get)


def _lifecycle(lifecycle: Tree) -> Tree:
    for hook in ("postStart", "preStop"):
        lifecycle = inside(lifecycle, hook, lambda h: inside(h, "httpGet", _http_get))
    return lifecycle


def _port(port: Tree) -> Tree:
    return port if port.get("protocol") else {**port, "protocol": "TCP"}


def field_ref(ref: Tree) -> Tree:
    """A reference to a pod field, in the version of the pod."""
    return filled(ref, {"apiVersion": "v1"})


def resource_field_ref(ref: Tree) -> Tree:
    """A reference to a container resource, with its divisor."""
    return filled(ref, {"divisor": "0"})


def _env(variable: Tree) -> Tree:
    source = variable.get("valueFrom")
    if source is None:
        return variable
    new = inside(source, "fieldRef", field_ref)
    new = inside(new, "resourceFieldRef", resource_field_ref)
    new = inside(new, "fileKeyRef", lambda ref: filled(ref, {"optional": False}))
    return variable if new is source else {**variable, "valueFrom": new}


def default_container(container: Tree) -> Tree:
    """Defaults of a container of any sort."""
    if (
        "imagePullPolicy" not in container
        or "terminationMessagePath" not in container
        or "terminationMessagePolicy" not in container
    ):
        defaults = dict(_CONTAINER)
        defaults["imagePullPolicy"] = pull_policy(container.get("image", ""))
        container = {**defaults, **container}
    if "ports" in container:
        container = each(container, "ports", _port)
    if "env" in container:
        container = each(container, "env", _env)
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if key in container:
            container = inside(container, key, _probe)
    if "lifecycle" in container:
        container = inside(container, "lifecycle", _lifecycle)
    if container.get("resources"):
        container = inside(container, "resources", resources)
    return container


def _mode_of(volume: Tree, key: str) -> Tree:
    return inside(volume, key, lambda source: filled(source, {"defaultMode": _MODE}))


_VOLUME_DEFAULTS: dict[str, Tree] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {
        "cachingMode": "ReadWrite",
        "kind": "Shared",
        "fsType": "ext4",
        "readOnly": False,
    },
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def _downward_item(item: Tree) -> Tree:
    item = inside(item, "fieldRef", field_ref)
    return inside(item, "resourceFieldRef", resource_field_ref)


def _downward(source: Tree) -> Tree:
    return each(source, "items", _downward_item)


def _projection(source: Tree) -> Tree:
    source = inside(source, "downwardAPI", _downward)
    return inside(
        source, "serviceAccountToken", lambda token: filled(token, {"expirationSeconds": 3600})
    )


def default_volume_source(volume: Tree) -> Tree:
    """Defaults of what may stand in a volume and in a persistent volume."""
    for key, defaults in _VOLUME_DEFAULTS.items():
        if key in volume:
            volume = inside(volume, key, partial(filled, defaults=defaults))
    return volume


def default_volume(volume: Tree) -> Tree:
    """Defaults of a pod's volume; without a source it becomes an emptyDir."""
    if len(volume) <= 1 and volume.keys() <= {"name"}:
        return {**volume, "emptyDir": {}}
    for key in ("secret", "configMap", "downwardAPI", "projected"):
        if key in volume:
            volume = _mode_of(volume, key)
    if "downwardAPI" in volume:
        volume = inside(volume, "downwardAPI", _downward)
    if "projected" in volume:
        volume = inside(volume, "projected", lambda source: each(source, "sources", _projection))
    if "ephemeral" in volume:
        volume = inside(volume, "ephemeral", _ephemeral)
    if "image" in volume:
        volume = inside(volume, "image", _image_volume)
    return default_volume_source(volume)


def _image_volume(source: Tree) -> Tree:
    return filled(source, {"pullPolicy": pull_policy(source.get("reference", ""))})


def _ephemeral(source: Tree) -> Tree:
    def template(claim: Tree) -> Tree:
        return inside(
            claim,
            "spec",
            lambda spec: inside(filled(spec, {"volumeMode": "Filesystem"}), "resources", resources),
        )

    return inside(source, "volumeClaimTemplate", template)


def _host_ports(container: Tree) -> Tree:
    def port(entry: Tree) -> Tree:
        if entry.get("hostPort"):
            return entry
        return {**entry, "hostPort": entry.get("containerPort", 0)}

    return each(container, "ports", port)


def default_pod_spec(spec: Tree) -> Tree:
    """Defaults that pods and templates share."""
    spec = filled(spec, _POD_SPEC)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account and (
        spec.get("serviceAccountName") != account or spec.get("serviceAccount") != account
    ):
        spec = {**spec, "serviceAccountName": account, "serviceAccount": account}
    spec = each(spec, "containers", default_container)
    if "initContainers" in spec:
        spec = each(spec, "initContainers", default_container)
    if "ephemeralContainers" in spec:
        spec = each(spec, "ephemeralContainers", default_container)
    if "volumes" in spec:
        spec = each(spec, "volumes", default_volume)
    if "overhead" in spec:
        spec = inside(spec, "overhead", resource_list)
    if "resources" in spec:
        spec = inside(spec, "resources", resources)
    return spec


def _requests_from_limits(container: Tree) -> Tree:
    amounts = container.get("resources")
    if not amounts or not amounts.get("limits"):
        return container
    limits, requests = amounts["limits"], amounts.get("requests") or {}
    if limits.keys() <= requests.keys():
        return container
    missing = {name: amount for name, amount in limits.items() if name not in requests}
    return {**container, "resources": {**amounts, "requests": {**requests, **missing}}}


def default_pod(pod: Tree) -> Tree:
    """Defaults of a pod."""
    spec = pod.get("spec") or {}
    new = default_pod_spec(spec)
    if "enableServiceLinks" not in new:
        new = {**new, "enableServiceLinks": True}
    if new.get("hostNetwork"):
        new = each(each(new, "containers", _host_ports), "initContainers", _host_ports)
    new = each(new, "containers", _requests_from_limits)
    if "initContainers" in new:
        new = each(new, "initContainers", _requests_from_limits)
    if new.get("resources"):
        new = _pod_level_requests(new)
    return pod if new is spec else {**pod, "spec": new}


def _pod_level_requests(spec: Tree) -> Tree:
    """Requests of the pod as a whole follow from its containers, then from its limits."""
    amounts = spec["resources"]
    limits, requests = amounts.get("limits") or {}, amounts.get("requests") or {}
    if not limits:
        return spec
    totals = pod_requests(spec)
    new = dict(requests)
    for name, total in totals.items():
        if name in new:
            continue
        if name in ("cpu", "memory") or (name.startswith("hugepages-") and name not in limits):
            new[name] = total
    for name, amount in limits.items():
        if name not in new and (name in ("cpu", "memory") or name.startswith("hugepages-")):
            new[name] = amount
    if new == requests:
        return spec
    return {**spec, "resources": {**amounts, "requests": new}}


def pod_requests(spec: Tree) -> Tree:
    """Return the total requests of a pod's containers, init containers included."""
    totals: dict[str, quantity.Quantity] = {}
    restartable: dict[str, quantity.Quantity] = {}
    peaks: dict[str, quantity.Quantity] = {}

    def add(into: dict[str, quantity.Quantity], name: str, amount: quantity.Quantity) -> None:
        into[name] = into[name].add(amount) if name in into else amount

    for container in spec.get("containers") or ():
        for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
            add(totals, name, quantity.parse(text))
    for container in spec.get("initContainers") or ():
        wanted = (container.get("resources") or {}).get("requests") or {}
        always = container.get("restartPolicy") == "Always"
        for name, text in wanted.items():
            amount = quantity.parse(text)
            if always:
                add(totals, name, amount)
                add(restartable, name, amount)
                amount = restartable[name]
            elif name in restartable:
                amount = amount.add(restartable[name])
            if name not in peaks or amount.cmp(peaks[name]) > 0:
                peaks[name] = amount
    for name, amount in peaks.items():
        if name not in totals or amount.cmp(totals[name]) > 0:
            totals[name] = amount
    return {name: amount.canonical() for name, amount in totals.items()}


def default_template(template: Tree) -> Tree:
    """Defaults of a pod template."""
    return inside(template, "spec", default_pod_spec)


def templated(spec: Tree) -> Tree:
    """The spec of a workload with the defaults of its template."""
    return inside(spec, "template", default_template)
