"""Rules of containers. Upstream: pkg/apis/core/validation."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import (
    at_most,
    local_descending_path,
    name_at,
    one_of,
    optional_one_of,
    present,
    problems,
    when,
    word,
)
from controlplane.apiserver.kinds.core.pods.environment import (
    PodScope,
    validate_env,
    validate_env_from,
    validate_files_of_volumes,
)
from controlplane.apiserver.kinds.core.pods.probes import validate_handler, validate_probe
from controlplane.apiserver.kinds.core.pods.security import validate_security_context
from controlplane.apiserver.kinds.core.resources import validate_requirements
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)

__all__ = [
    "restarts_init_containers",
    "validate_containers",
    "validate_ephemeral_containers",
    "validate_image",
    "validate_init_containers",
]

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL = ("Always", "IfNotPresent", "Never")
_MESSAGE = ("File", "FallbackToLogsOnError")


def validate_containers(containers: list[Tree], scope: PodScope, path: str) -> list[FieldError]:
    """Return the errors of the regular containers of a pod."""
    if not containers:
        return [required(path)]
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    ports = False
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        errors += _common(container, scope, place)
        name = container.get("name", "")
        errors += when(name in seen, duplicate, f"{place}.name", name)
        seen[name] = None
        ports = ports or "ports" in container
        errors += _running(container, scope, place)
        errors += _restart_policy(container, place)
    if ports:
        errors += _host_ports(containers, path)
    for index, container in enumerate(containers):
        if "env" in container:
            errors += validate_files_of_volumes(container, scope, f"{path}[{index}]")
    return errors


_RESTART = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
MAX_RULES = 20
MAX_CODES = 255


def _restart_policy(container: Tree, path: str) -> list[FieldError]:
    """Return the errors of a container's restart policy. Upstream: validateContainerRestartPolicy."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    errors = optional_one_of(policy, f"{path}.restartPolicy", _RESTART)
    if policy is None and rules:
        text = "must specify restartPolicy when restart rules are used"
        errors.append(required(f"{path}.restartPolicy", text))
    errors += at_most(rules, f"{path}.restartPolicyRules", MAX_RULES)
    for index, rule in enumerate(rules):
        place = f"{path}.restartPolicyRules[{index}]"
        errors += when(
            rule.get("action") not in _ACTIONS,
            not_supported,
            f"{place}.action",
            rule.get("action", ""),
            _ACTIONS,
        )
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(required(f"{place}.exitCodes", "must be specified"))
            continue
        operator, values = codes.get("operator", ""), codes.get("values") or []
        errors += one_of(operator, f"{place}.exitCodes.operator", ("In", "NotIn"))
        errors += at_most(values, f"{place}.exitCodes.values", MAX_CODES)
    return errors


def validate_init_containers(
    containers: list[Tree], regular: list[Tree], scope: PodScope, path: str
) -> list[FieldError]:
    """Return the errors of the init containers of a pod; those that restart always are sidecars."""
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
            text = "may not be set for init containers without restartPolicy=Always"
            errors += when(key in container, forbidden, f"{place}.{key}", text)
        if not scope.restarting_init:
            errors += [
                invalid(
                    f"{place}.resizePolicy[{number}].restartPolicy",
                    "RestartContainer",
                    "must not be set to 'RestartContainer' for non-sidecar initContainers",
                )
                for number, each in enumerate(container.get("resizePolicy") or ())
                if each.get("restartPolicy") == "RestartContainer"
            ]
    return errors


def restarts_init_containers(spec: Tree) -> bool:
    """Return whether an ordinary init container is to restart for a resize: older pods may have that."""
    return any(
        policy.get("restartPolicy") == "RestartContainer"
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") != "Always"
        for policy in container.get("resizePolicy") or ()
    )


_NOT_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
"""The fields that ephemeral containers may not have, in the order of the type."""


def validate_ephemeral_containers(
    containers: list[Tree], spec: Tree, scope: PodScope, path: str
) -> list[FieldError]:
    """Return the errors of the ephemeral containers of a pod."""
    errors: list[FieldError] = []
    others = [*(spec.get("containers") or ()), *spec.get("initContainers", ())]
    seen = {container.get("name", ""): None for container in others}
    targets = dict(seen)
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        errors += _common(container, scope, place)
        errors += validate_image(container, place)
        name = container.get("name", "")
        errors += when(name in seen, duplicate, f"{place}.name", name)
        seen[name] = None
        target = container.get("targetContainerName", "")
        errors += when(
            target and target not in targets, not_found, f"{place}.targetContainerName", target
        )
        for key in _NOT_EPHEMERAL:
            errors += when(
                container.get(key) or (key != "resources" and container.get(key) is not None),
                forbidden,
                f"{place}.{key}",
                "cannot be set for an Ephemeral Container",
            )
        for number, mount in enumerate(container.get("volumeMounts", ())):
            for key in ("subPath", "subPathExpr"):
                text = "cannot be set for an Ephemeral Container"
                errors += when(
                    mount.get(key), forbidden, f"{place}.volumeMounts[{number}].{key}", text
                )
    return errors


def validate_image(container: Tree, path: str) -> list[FieldError]:
    """Return the errors of the image of a pod's container; a template's may be padded."""
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
        texts = names.dns_label(name)
        if texts:
            errors += problems(f"{path}.name", name, texts)
    errors += present(container, "image", path)
    policy = container.get("terminationMessagePolicy", "")
    errors += word(policy, f"{path}.terminationMessagePolicy", _MESSAGE, sort=False)
    if "ports" in container:
        errors += _ports(container["ports"], f"{path}.ports")
    if "env" in container:
        errors += validate_env(container["env"], f"{path}.env")
    if "envFrom" in container:
        errors += validate_env_from(container["envFrom"], f"{path}.envFrom")
    if "volumeMounts" in container:
        errors += _mounts(container, scope, f"{path}.volumeMounts")
    if "volumeDevices" in container:
        errors += _devices(container, scope, f"{path}.volumeDevices")
    pull = container.get("imagePullPolicy", "")
    errors += word(pull, f"{path}.imagePullPolicy", _PULL)
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
                errors += validate_handler(lifecycle[hook], scope, f"{path}.lifecycle.{hook}")
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(key)
        if probe is not None:
            errors += validate_probe(probe, scope, f"{path}.{key}", key)
    return errors


def _ports(ports: list[Tree], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        name = port.get("name", "")
        if name:
            texts = names.port_name(name)
            if texts:
                errors += problems(f"{place}.name", name, texts)
            elif name in seen:
                errors.append(duplicate(f"{place}.name", name))
            else:
                seen[name] = None
        number = port.get("containerPort", 0)
        errors += name_at(number, f"{place}.containerPort", names.port_number)
        host = port.get("hostPort", 0)
        if host:
            errors += problems(f"{place}.hostPort", host, names.port_number(host))
        protocol = port.get("protocol", "")
        errors += word(protocol, f"{place}.protocol", _PROTOCOLS)
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
        errors += when(not name, required, f"{place}.name")
        errors += when(name not in scope.volumes, not_found, f"{place}.name", name)
        errors += when(not target, required, f"{place}.mountPath")
        errors += when(target in places, invalid, f"{place}.mountPath", target, "must be unique")
        places[target] = None
        text = "must not already exist in volumeDevices"
        errors += when(name in devices, invalid, f"{place}.name", name, text)
        text = "must not already exist as a path in volumeDevices"
        errors += when(target in devices.values(), invalid, f"{place}.mountPath", target, text)
        if mount.get("subPath"):
            errors += local_descending_path(mount["subPath"], f"{path}.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                text = "subPathExpr and subPath are mutually exclusive"
                errors.append(invalid(f"{place}.subPathExpr", mount["subPathExpr"], text))
            errors += local_descending_path(mount["subPathExpr"], f"{path}.subPathExpr")
        if "mountPropagation" in mount:
            errors += _propagation(mount["mountPropagation"], container, f"{path}.mountPropagation")
        if "recursiveReadOnly" in mount:
            errors += _recursive(mount, f"{path}.recursiveReadOnly")
    return errors


def _propagation(mode: str, container: Tree, path: str) -> list[FieldError]:
    errors = one_of(mode, path, _PROPAGATION)
    privileged = (container.get("securityContext") or {}).get("privileged")
    text = "Bidirectional mount propagation is available only to privileged containers"
    errors += when(mode == "Bidirectional" and not privileged, forbidden, path, text)
    return errors


def _recursive(mount: Tree, path: str) -> list[FieldError]:
    mode = mount["recursiveReadOnly"]
    errors: list[FieldError] = []
    if mode not in _RECURSIVE:
        errors.append(not_supported(path, mode, _RECURSIVE))
    elif mode != "Disabled":
        text = "may only be specified when readOnly is true"
        errors += when(not mount.get("readOnly"), forbidden, path, text)
        text = "may only be specified when mountPropagation is None or not specified"
        errors += when(mount.get("mountPropagation", "None") != "None", forbidden, path, text)
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
        errors += when(not name, required, f"{place}.name")
        errors += when(name in seen, invalid, f"{place}.name", name, "must be unique")
        source = scope.volumes.get(name)
        if source is None:
            errors.append(not_found(f"{place}.name", name))
        elif source.get("persistentVolumeClaim") is None and source.get("ephemeral") is None:
            errors.append(
                invalid(
                    f"{place}.name",
                    name,
                    (
                        "can only use volume source type of PersistentVolumeClaim or Ephemeral for block "
                        "mode"
                    ),
                )
            )
        errors += when(not target, required, f"{place}.devicePath")
        errors += when(target in places, invalid, f"{place}.devicePath", target, "must be unique")
        if ".." in target.split("/"):
            text = "can not contain backsteps ('..')"
            errors.append(invalid(f"{place}.devicePath", target, text))
        else:
            places[target] = None
        errors += when(
            name in mounts, invalid, f"{place}.name", name, "must not already exist in volumeMounts"
        )
        text = "must not already exist as a path in volumeMounts"
        errors += when(target in mounts.values(), invalid, f"{place}.devicePath", target, text)
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
        errors += when(name in seen, duplicate, f"{path}[{index}]", name)
        seen[name] = None
        errors += word(name, path, _RESIZABLE)
        errors += word(restart, path, _RESIZE)
        errors += when(
            scope.restart_policy == "Never" and restart != "NotRequired",
            invalid,
            path,
            restart,
            "must be 'NotRequired' when pod `restartPolicy` is 'Never'",
        )
    return errors
