"""Validation of containers."""

from __future__ import annotations

from attrs import define, field

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.validation.paths import local_descending_path, path_no_backsteps
from controlplane.apiserver.kinds.validation.resources import validate_requirements
from controlplane.apiserver.kinds.validation.security import validate_security_context
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_many,
)

__all__ = [
    "PodScope",
    "validate_containers",
    "validate_ephemeral_containers",
    "validate_field_ref",
    "validate_image",
    "validate_init_containers",
]

_PROTOCOLS = ("SCTP", "TCP", "UDP")

_PULL = ("Always", "IfNotPresent", "Never")
_MESSAGE = ("File", "FallbackToLogsOnError")
_ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_KNOWN_FIELDS = (*_ENV_FIELDS, "metadata.annotations", "metadata.labels", "spec.restartPolicy",
                 "spec.schedulerName", "status.phase", "status.nominatedNodeName",
                 "spec.hostNetwork")  # fmt: skip
_RESOURCE_FIELDS = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
    "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_BYTES = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"


@define(eq=False)
class PodScope:
    """The objects that containers of a pod refer to; `restarting_init`: init containers may restart for a resize."""

    volumes: dict[str, Tree] = field(factory=dict)
    claims: list[str] = field(factory=list)
    grace: int | None = None
    restart_policy: str = "Always"
    host_users: bool = True
    restarting_init: bool = False


def validate_containers(containers: list[Tree], scope: PodScope, path: str) -> list[FieldError]:
    """The regular containers of a pod."""
    if not containers:
        return [required(path)]
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    ports = False
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        errors += _common(container, scope, place)
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{place}.name", name))
        seen[name] = None
        ports = ports or "ports" in container
        errors += _running(container, scope, place)
        errors += _restart_policy(container, place)
    if ports:
        errors += _host_ports(containers, path)
    for index, container in enumerate(containers):
        if "env" in container:
            errors += _files_of_volumes(container, scope, f"{path}[{index}]")
    return errors


_RESTART = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
MAX_RULES = 20
MAX_CODES = 255


def _restart_policy(container: Tree, path: str) -> list[FieldError]:
    """Return the errors of a container's restart policy. Upstream: validateContainerRestartPolicy."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    errors: list[FieldError] = []
    if policy is not None and policy not in _RESTART:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _RESTART))
    if policy is None and rules:
        text = "must specify restartPolicy when restart rules are used"
        errors.append(required(f"{path}.restartPolicy", text))
    if len(rules) > MAX_RULES:
        errors.append(too_many(f"{path}.restartPolicyRules", len(rules), MAX_RULES))
    for index, rule in enumerate(rules):
        place = f"{path}.restartPolicyRules[{index}]"
        if rule.get("action") not in _ACTIONS:
            errors.append(not_supported(f"{place}.action", rule.get("action", ""), _ACTIONS))
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(required(f"{place}.exitCodes", "must be specified"))
            continue
        operator, values = codes.get("operator", ""), codes.get("values") or []
        if operator not in ("In", "NotIn"):
            errors.append(not_supported(f"{place}.exitCodes.operator", operator, ("In", "NotIn")))
        if len(values) > MAX_CODES:
            errors.append(too_many(f"{place}.exitCodes.values", len(values), MAX_CODES))
    return errors


def validate_init_containers(
    containers: list[Tree], regular: list[Tree], scope: PodScope, path: str
) -> list[FieldError]:
    """The init containers of a pod; those that restart always are sidecars."""
    errors: list[FieldError] = []
    seen = {container.get("name", ""): None for container in regular}
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        errors += _common(container, scope, place)
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{place}.name", name))
        elif name:
            seen[name] = None
        errors += _host_ports([container], path, at=index)
        policy = container.get("restartPolicy")
        errors += _restart_policy(container, place)
        if policy == "Always":
            errors += _running(container, scope, place)
            continue
        for key in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if key in container:
                errors.append(forbidden(
                    f"{place}.{key}",
                    "may not be set for init containers without restartPolicy=Always",
                ))  # fmt: skip
        if not scope.restarting_init:
            errors += [
                invalid(
                    f"{place}.resizePolicy[{number}].restartPolicy", "RestartContainer",
                    "must not be set to 'RestartContainer' for non-sidecar initContainers",
                )
                for number, each in enumerate(container.get("resizePolicy") or ())
                if each.get("restartPolicy") == "RestartContainer"
            ]  # fmt: skip
    return errors


def restarts_init_containers(spec: Tree) -> bool:
    """Return whether an ordinary init container is to restart for a resize: older pods may have that."""
    return any(
        policy.get("restartPolicy") == "RestartContainer"
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") != "Always"
        for policy in container.get("resizePolicy") or ()
    )


_NOT_EPHEMERAL = ("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules",
                  "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")  # fmt: skip
"""The fields that ephemeral containers may not have, in the order of the type."""


def validate_ephemeral_containers(
    containers: list[Tree], spec: Tree, scope: PodScope, path: str
) -> list[FieldError]:
    """The ephemeral containers of a pod."""
    errors: list[FieldError] = []
    others = [*(spec.get("containers") or ()), *spec.get("initContainers", ())]
    seen = {container.get("name", ""): None for container in others}
    targets = dict(seen)
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        errors += _common(container, scope, place)
        errors += validate_image(container, place)
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{place}.name", name))
        seen[name] = None
        target = container.get("targetContainerName", "")
        if target and target not in targets:
            errors.append(not_found(f"{place}.targetContainerName", target))
        for key in _NOT_EPHEMERAL:
            if container.get(key) or (key != "resources" and container.get(key) is not None):
                errors.append(
                    forbidden(f"{place}.{key}", "cannot be set for an Ephemeral Container")
                )
        for number, mount in enumerate(container.get("volumeMounts", ())):
            for key in ("subPath", "subPathExpr"):
                if mount.get(key):
                    errors.append(forbidden(f"{place}.volumeMounts[{number}].{key}",
                                            "cannot be set for an Ephemeral Container"
                                            ))  # fmt: skip
    return errors


def validate_image(container: Tree, path: str) -> list[FieldError]:
    """The image of a pod's container; a template's may be padded."""
    image = container.get("image", "")
    if image == image.strip():
        return []
    return [invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]


def _common(container: Tree, scope: PodScope, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    name = container.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        problems = names.dns_label(name)
        if problems:
            errors += [invalid(f"{path}.name", name, problem) for problem in problems]
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy", "")
    if policy not in _MESSAGE:
        errors.append(
            not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGE, sort=False)
            if policy else required(f"{path}.terminationMessagePolicy")
        )  # fmt: skip
    if "ports" in container:
        errors += _ports(container["ports"], f"{path}.ports")
    if "env" in container:
        errors += _env(container["env"], f"{path}.env")
    if "envFrom" in container:
        errors += _env_from(container["envFrom"], f"{path}.envFrom")
    if "volumeMounts" in container:
        errors += _mounts(container, scope, f"{path}.volumeMounts")
    if "volumeDevices" in container:
        errors += _devices(container, scope, f"{path}.volumeDevices")
    pull = container.get("imagePullPolicy", "")
    if pull not in _PULL:
        errors.append(
            not_supported(f"{path}.imagePullPolicy", pull, _PULL)
            if pull else required(f"{path}.imagePullPolicy")
        )  # fmt: skip
    if container.get("resources"):
        errors += validate_requirements(container["resources"], f"{path}.resources", scope.claims)
    if "resizePolicy" in container:
        errors += _resize_policy(container["resizePolicy"], scope, f"{path}.resizePolicy")
    if "securityContext" in container:
        errors += validate_security_context(
            container["securityContext"], f"{path}.securityContext", host_users=scope.host_users
        )
    return errors


def _running(container: Tree, scope: PodScope, path: str) -> list[FieldError]:
    """Hooks and probes."""
    errors: list[FieldError] = []
    lifecycle = container.get("lifecycle")
    if lifecycle is not None:
        for hook in ("postStart", "preStop"):
            if lifecycle.get(hook) is not None:
                errors += _handler(lifecycle[hook], scope, f"{path}.lifecycle.{hook}")
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(key)
        if probe is not None:
            errors += _probe(probe, scope, f"{path}.{key}", key)
    return errors


def _ports(ports: list[Tree], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        name = port.get("name", "")
        if name:
            problems = names.port_name(name)
            if problems:
                errors += [invalid(f"{place}.name", name, problem) for problem in problems]
            elif name in seen:
                errors.append(duplicate(f"{place}.name", name))
            else:
                seen[name] = None
        number = port.get("containerPort", 0)
        if not number:
            errors.append(required(f"{place}.containerPort"))
        else:
            errors += [
                invalid(f"{place}.containerPort", number, p) for p in names.port_number(number)
            ]
        host = port.get("hostPort", 0)
        if host:
            errors += [invalid(f"{place}.hostPort", host, p) for p in names.port_number(host)]
        protocol = port.get("protocol", "")
        if not protocol:
            errors.append(required(f"{place}.protocol"))
        elif protocol not in _PROTOCOLS:
            errors.append(not_supported(f"{place}.protocol", protocol, _PROTOCOLS))
    return errors


def _host_ports(containers: list[Tree], path: str, at: int | None = None) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: dict[str, None] = {}
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            text = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if text in taken:
                place = index if at is None else at
                errors.append(duplicate(f"{path}[{place}].ports[{number}].hostPort", text))
            taken[text] = None
    return errors


def _env(variables: list[Tree], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        place = f"{path}[{index}]"
        name = variable.get("name", "")
        if not name:
            errors.append(required(f"{place}.name"))
        else:
            errors += [invalid(f"{place}.name", name, p) for p in names.env_var_name(name)]
        if "valueFrom" in variable:
            errors += _value_from(variable, f"{place}.valueFrom")
    return errors


_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def _value_from(variable: Tree, path: str) -> list[FieldError]:
    source = variable["valueFrom"]
    errors: list[FieldError] = []
    found = [key for key in _SOURCES if source.get(key) is not None]
    if "fieldRef" in found:
        errors += validate_field_ref(source["fieldRef"], _ENV_FIELDS, f"{path}.fieldRef")
    if "resourceFieldRef" in found:
        errors += validate_resource_ref(
            source["resourceFieldRef"], f"{path}.resourceFieldRef", volume=False
        )
    for key in ("configMapKeyRef", "secretKeyRef"):
        if key in found:
            errors += _key_ref(source[key], f"{path}.{key}")
    if "fileKeyRef" in found:
        errors += _file_key_ref(source["fileKeyRef"], f"{path}.fileKeyRef")
    if not found:
        errors.append(invalid(path, "", (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`"
        )))  # fmt: skip
    if variable.get("value"):
        if found:
            errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(found) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _key_ref(ref: Tree, path: str) -> list[FieldError]:
    name = ref.get("name", "")
    errors = [invalid(f"{path}.name", name, problem) for problem in names.dns_subdomain(name)]
    key = ref.get("key", "")
    if not key:
        errors.append(required(f"{path}.key"))
    else:
        errors += [invalid(f"{path}.key", key, problem) for problem in names.config_key(key)]
    return errors


def _file_key_ref(ref: Tree, path: str) -> list[FieldError]:
    errors = [] if ref.get("key") else [required(f"{path}.key")]
    volume, file = ref.get("volumeName", ""), ref.get("path", "")
    if not volume:
        errors.append(required(f"{path}.volumeName"))
    else:
        errors += [invalid(f"{path}.volumeName", volume, p) for p in names.dns_label(volume)]
    if not file:
        return [*errors, required(f"{path}.path")]
    return errors + path_no_backsteps(file, f"{path}.path")


def _files_of_volumes(container: Tree, scope: PodScope, path: str) -> list[FieldError]:
    """A file with variables lies in a volume of the pod."""
    errors: list[FieldError] = []
    for index, variable in enumerate(container.get("env") or ()):
        ref = (variable.get("valueFrom") or {}).get("fileKeyRef")
        name = "" if ref is None else ref.get("volumeName", "")
        if name and name not in scope.volumes:
            place = f"{path}.env[{index}].valueFrom.fileKeyRef.volumeName"
            errors.append(not_found(place, name))
    return errors


def validate_field_ref(ref: Tree, allowed: tuple[str, ...], path: str) -> list[FieldError]:
    """A reference to a field of the pod."""
    if not ref.get("apiVersion"):
        return [required(f"{path}.apiVersion")]
    text = ref.get("fieldPath", "")
    if not text:
        return [required(f"{path}.fieldPath")]
    if ref["apiVersion"] != "v1":
        why = f"error converting fieldPath: unsupported pod version: {ref['apiVersion']}"
        return [invalid(f"{path}.fieldPath", text, why)]
    base, subscripted, key = text.removesuffix("']").partition("['")
    if base and subscripted and text.endswith("']"):
        if base == "metadata.annotations":
            return [invalid(path, key, p) for p in names.qualified_name(key.lower())]
        if base == "metadata.labels":
            return [invalid(path, key, p) for p in names.qualified_name(key)]
        if base not in _KNOWN_FIELDS:
            return [_unknown_field(text, path)]
        return [invalid(path, base, "does not support subscript")]
    if text not in _KNOWN_FIELDS:
        return [_unknown_field(text, path)]
    if text not in allowed:
        return [not_supported(f"{path}.fieldPath", text, allowed)]
    return []


def _unknown_field(text: str, path: str) -> FieldError:
    return invalid(f"{path}.fieldPath", text,
                   f"error converting fieldPath: field label not supported: {text}")  # fmt: skip


def validate_resource_ref(ref: Tree, path: str, *, volume: bool) -> list[FieldError]:
    """A reference to a resource of a container."""
    name = ref.get("resource", "")
    errors: list[FieldError] = []
    if volume and not ref.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not name:
        errors.append(required(f"{path}.resource"))
    elif name not in _RESOURCE_FIELDS and not name.startswith(_HUGE_PAGES):
        errors.append(not_supported(f"{path}.resource", name, _RESOURCE_FIELDS))
    if name in _RESOURCE_FIELDS or name.startswith(_HUGE_PAGES):
        errors += _divisor(name, ref.get("divisor", "0"), path)
    return errors


_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")


def _divisor(name: str, text: str, path: str) -> list[FieldError]:
    divisor = quantity.parse(text)
    if divisor.is_zero():
        return []
    if name.endswith(".cpu"):
        allowed: tuple[str, ...] = ("1m", "1")
        listed, what = "1m and 1", "cpu"
    else:
        allowed = tuple(_BYTES.split(", "))
        listed = _BYTES
        what = name.partition(".")[2]
        if what == "ephemeral-storage":
            what = "local ephemeral storage"
        elif what.startswith("hugepages-"):
            what = "hugepages"
    if divisor.canonical() in allowed:
        return []
    return [invalid(f"{path}.divisor", name,
                    f"only divisor's values {listed} are supported with the {what} resource"
                    )]  # fmt: skip


def _env_from(sources: list[Tree], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        place = f"{path}[{index}]"
        prefix = source.get("prefix", "")
        if prefix:
            errors += [invalid(f"{place}.prefix", prefix, p) for p in names.env_var_name(prefix)]
        found = [key for key in ("configMapRef", "secretRef") if source.get(key) is not None]
        for key in found:
            named = source[key].get("name", "")
            if not named:
                errors.append(required(f"{place}.{key}.name"))
            else:
                # Upstream takes it for the start of a name, which may end with a dash.
                whole = f"{named[:-2]}a" if named[1:].endswith("-") else named
                problems = names.dns_subdomain(whole)
                errors += [invalid(f"{place}.{key}.name", named, p) for p in problems]
        if not found:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(found) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


_PROPAGATION = ("Bidirectional", "HostToContainer", "None")

_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def _mounts(container: Tree, scope: PodScope, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    places: dict[str, None] = {}
    devices = {
        device.get("name", ""): device.get("devicePath", "")
        for device in container.get("volumeDevices") or ()
    }
    for index, mount in enumerate(container["volumeMounts"]):
        place = f"{path}[{index}]"
        name, target = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{place}.name"))
        if name not in scope.volumes:
            errors.append(not_found(f"{place}.name", name))
        if not target:
            errors.append(required(f"{place}.mountPath"))
        if target in places:
            errors.append(invalid(f"{place}.mountPath", target, "must be unique"))
        places[target] = None
        if name in devices:
            errors.append(invalid(f"{place}.name", name,
                                  "must not already exist in volumeDevices"))  # fmt: skip
        if target in devices.values():
            errors.append(invalid(f"{place}.mountPath", target,
                                  "must not already exist as a path in volumeDevices"
                                  ))  # fmt: skip
        if mount.get("subPath"):
            errors += local_descending_path(mount["subPath"], f"{path}.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                errors.append(invalid(f"{place}.subPathExpr", mount["subPathExpr"],
                                      "subPathExpr and subPath are mutually exclusive"
                                      ))  # fmt: skip
            errors += local_descending_path(mount["subPathExpr"], f"{path}.subPathExpr")
        if "mountPropagation" in mount:
            errors += _propagation(mount["mountPropagation"], container,
                                   f"{path}.mountPropagation")  # fmt: skip
        if "recursiveReadOnly" in mount:
            errors += _recursive(mount, f"{path}.recursiveReadOnly")
    return errors


def _propagation(mode: str, container: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if mode not in _PROPAGATION:
        errors.append(not_supported(path, mode, _PROPAGATION))
    privileged = (container.get("securityContext") or {}).get("privileged")
    if mode == "Bidirectional" and not privileged:
        errors.append(forbidden(path, (
            "Bidirectional mount propagation is available only to privileged containers"
        )))  # fmt: skip
    return errors


def _recursive(mount: Tree, path: str) -> list[FieldError]:
    mode = mount["recursiveReadOnly"]
    errors: list[FieldError] = []
    if mode not in _RECURSIVE:
        errors.append(not_supported(path, mode, _RECURSIVE))
    elif mode != "Disabled":
        if not mount.get("readOnly"):
            errors.append(forbidden(path, "may only be specified when readOnly is true"))
        if mount.get("mountPropagation", "None") != "None":
            errors.append(forbidden(path, "may only be specified when mountPropagation is None or "
                                          "not specified"))  # fmt: skip
    return errors


def _devices(container: Tree, scope: PodScope, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    places: dict[str, None] = {}
    mounts = {
        mount.get("name", ""): mount.get("mountPath", "")
        for mount in container.get("volumeMounts") or ()
    }
    for index, device in enumerate(container["volumeDevices"]):
        place = f"{path}[{index}]"
        name, target = device.get("name", ""), device.get("devicePath", "")
        if not name:
            errors.append(required(f"{place}.name"))
        if name in seen:
            errors.append(invalid(f"{place}.name", name, "must be unique"))
        source = scope.volumes.get(name)
        if source is None:
            errors.append(not_found(f"{place}.name", name))
        elif source.get("persistentVolumeClaim") is None and source.get("ephemeral") is None:
            errors.append(invalid(f"{place}.name", name, (
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block "
                "mode"
            )))  # fmt: skip
        if not target:
            errors.append(required(f"{place}.devicePath"))
        if target in places:
            errors.append(invalid(f"{place}.devicePath", target, "must be unique"))
        if ".." in target.split("/"):
            errors.append(invalid(f"{place}.devicePath", target,
                                  "can not contain backsteps ('..')"))  # fmt: skip
        else:
            places[target] = None
        if name in mounts:
            errors.append(invalid(f"{place}.name", name,
                                  "must not already exist in volumeMounts"))  # fmt: skip
        if target in mounts.values():
            errors.append(invalid(f"{place}.devicePath", target,
                                  "must not already exist as a path in volumeMounts"
                                  ))  # fmt: skip
        if name:
            seen[name] = None
    return errors


_RESIZABLE = ("cpu", "memory")

_RESIZE = ("NotRequired", "RestartContainer")


def _resize_policy(policies: list[Tree], scope: PodScope, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen[name] = None
        if not name:
            errors.append(required(path))
        elif name not in _RESIZABLE:
            errors.append(not_supported(path, name, _RESIZABLE))
        if not restart:
            errors.append(required(path))
        elif restart not in _RESIZE:
            errors.append(not_supported(path, restart, _RESIZE))
        if scope.restart_policy == "Never" and restart != "NotRequired":
            errors.append(invalid(path, restart,
                                  "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
                                  ))  # fmt: skip
    return errors


_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def _handler(handler: Tree, scope: PodScope, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    found = 0
    for key in _HANDLERS:
        action = handler.get(key)
        if action is None:
            continue
        place = f"{path}.{key}"
        if found:
            errors.append(forbidden(place, "may not specify more than 1 handler type"))
            continue
        found += 1
        if key == "exec":
            if not action.get("command"):
                errors.append(required(f"{place}.command"))
        elif key == "httpGet":
            errors += _http_get(action, place)
        elif key == "tcpSocket":
            errors += port_or_name(action.get("port", 0), f"{place}.port")
        elif key == "grpc":
            port = action.get("port", 0)
            errors += [invalid(f"{place}.port", port, p) for p in names.port_number(port)]
        else:
            errors += _sleep(action.get("seconds", 0), scope, place)
    if not found:
        errors.append(required(path, "must specify a handler type"))
    return errors


def _sleep(seconds: int, scope: PodScope, path: str) -> list[FieldError]:
    if scope.grace is None:
        return []
    if 0 <= seconds <= scope.grace:
        return []
    return [invalid(path, seconds, (
        "must be non-negative and less than terminationGracePeriodSeconds "
        f"({scope.grace})"
    ))]  # fmt: skip


def port_or_name(port: int | str | None, path: str) -> list[FieldError]:
    """A port by number or by name."""
    port = 0 if port is None else port
    problems = names.port_name(port) if isinstance(port, str) else names.port_number(port)
    return [invalid(path, port, problem) for problem in problems]


def _http_get(action: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not action.get("path"):
        errors.append(required(f"{path}.path"))
    errors += port_or_name(action.get("port", 0), f"{path}.port")
    scheme = action.get("scheme", "")
    if scheme not in ("HTTP", "HTTPS"):
        errors.append(not_supported(f"{path}.scheme", scheme, ("HTTP", "HTTPS")))
    for header in action.get("httpHeaders") or ():
        name = header.get("name", "")
        errors += [invalid(f"{path}.httpHeaders", name, p) for p in names.http_header(name)]
    return errors


_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold",
           "failureThreshold")  # fmt: skip


def _probe(probe: Tree, scope: PodScope, path: str, key: str) -> list[FieldError]:
    errors = _handler({k: v for k, v in probe.items() if k in _HANDLERS}, scope, path)
    for name in _COUNTS:
        value = probe.get(name, 0)
        if value < 0:
            errors.append(invalid(f"{path}.{name}", value, "must be greater than or equal to 0"))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", grace,
                              "must be greater than 0"))  # fmt: skip
    if key == "readinessProbe":
        if grace is not None:
            errors.append(invalid(f"{path}.terminationGracePeriodSeconds", grace,
                                  "must not be set for readinessProbes"))  # fmt: skip
    elif probe.get("successThreshold", 0) != 1:
        errors.append(invalid(f"{path}.successThreshold", probe.get("successThreshold", 0),
                              "must be 1"))  # fmt: skip
    return errors


__all__ += ["port_or_name", "validate_resource_ref"]
