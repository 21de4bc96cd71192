"""Validation of pods and pod templates. Upstream: pkg/apis/core/validation/validation.go."""

from __future__ import annotations

import re
from collections.abc import Iterator

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import entries, local_descending_path, problems, when, word
from controlplane.apiserver.kinds.core.pods.containers import (
    restarts_init_containers,
    validate_containers,
    validate_ephemeral_containers,
    validate_image,
    validate_init_containers,
)
from controlplane.apiserver.kinds.core.pods.defaults import pod_requests
from controlplane.apiserver.kinds.core.pods.environment import PodScope
from controlplane.apiserver.kinds.core.pods.placement import (
    validate_affinity,
    validate_tolerations,
    validate_topology_spread,
)
from controlplane.apiserver.kinds.core.pods.security import validate_pod_security
from controlplane.apiserver.kinds.core.resources import validate_requirements
from controlplane.apiserver.kinds.core.volumes import validate_volumes
from controlplane.apiserver.kinds.metadata import validate_annotations, validate_labels
from controlplane.apiserver.kinds.selectors import label_name
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from controlplane.apiserver.schema.internal_form import internal
from controlplane.sharing.memory import by_identity

__all__ = ["pod_annotations", "pod_only", "validate_pod", "validate_pod_spec", "validate_template"]

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MIRROR = "kubernetes.io/config.mirror"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def validate_pod(tree: Tree) -> list[FieldError]:
    """Return the errors of a new pod, its metadata apart."""
    spec = tree["spec"]
    annotations = tree["metadata"].get("annotations")
    errors: list[FieldError] = []
    if annotations:
        errors += pod_annotations(annotations, spec, "metadata.annotations")
    if any(volume.get("ephemeral") is not None for volume in spec.get("volumes") or ()):
        # Claims are named after the pod: such a spec is looked through for each of them.
        name = tree["metadata"].get("name", "")
        errors += validate_pod_spec(spec, "spec", name=name, whole=True)
    else:
        errors += _spec_errors(spec)
    errors += pod_only(spec)
    text = "cannot be set on create"
    errors += when(spec.get("ephemeralContainers"), forbidden, "spec.ephemeralContainers", text)
    text = "cannot be set until all schedulingGates have been cleared"
    errors += when(
        spec.get("nodeName") and spec.get("schedulingGates"), forbidden, "spec.nodeName", text
    )
    if annotations:
        errors += _seccomp_agrees(annotations, spec) + _app_armor_agrees(annotations, spec)
    return errors


def pod_only(spec: Tree) -> list[FieldError]:
    """Return the errors of rules for pods that do not hold for templates."""
    errors: list[FieldError] = []
    if not spec.get("serviceAccountName"):
        errors += _tokens(spec)
    for key in ("containers", "initContainers"):
        for container, place in entries(spec, key, "spec"):
            errors += validate_image(container, place)
    return errors


def _each_container(spec: Tree, path: str) -> Iterator[tuple[Tree, str]]:
    """All containers with their places, in upstream's order."""
    for key in ("initContainers", "containers", "ephemeralContainers"):
        yield from entries(spec, key, path)


def _seccomp_agrees(annotations: Tree, spec: Tree) -> list[FieldError]:
    """Return the errors of old seccomp annotations that differ from the fields."""
    places = [(spec, "spec", _SECCOMP_POD)]
    places += [
        (container, place, _SECCOMP_CONTAINER + container.get("name", ""))
        for container, place in _each_container(spec, "spec")
    ]
    errors: list[FieldError] = []
    for holder, place, key in places:
        profile = (holder.get("securityContext") or {}).get("seccompProfile")
        if profile is not None and key in annotations:
            path = f"{place}.securityContext.seccompProfile"
            errors += _profile_agrees(annotations[key], profile, path, "seccomp")
    return errors


def _app_armor_agrees(annotations: Tree, spec: Tree) -> list[FieldError]:
    """Return the errors of old AppArmor annotations that differ from the fields."""
    if (spec.get("os") or {}).get("name") == "windows":
        return []
    whole = (spec.get("securityContext") or {}).get("appArmorProfile")
    errors: list[FieldError] = []
    for container, place in _each_container(spec, "spec"):
        own = (container.get("securityContext") or {}).get("appArmorProfile")
        profile = whole if own is None else own
        key = _APP_ARMOR + container.get("name", "")
        if profile is not None and key in annotations:
            path = f"{place}.securityContext.appArmorProfile"
            errors += _profile_agrees(annotations[key], profile, path, "apparmor")
    return errors


def _profile_agrees(said: str, profile: Tree, path: str, what: str) -> list[FieldError]:
    kind = profile.get("type", "")
    if kind == "Localhost" and said.startswith("localhost/"):
        if said.removeprefix("localhost/") == profile.get("localhostProfile"):
            return []
        text = f"{what} profile in annotation and field must match"
        return [forbidden(f"{path}.localhostProfile", text)]
    fits = {
        "Unconfined": ("unconfined",),
        "RuntimeDefault": ("runtime/default", "docker/default")
        if what == "seccomp"
        else ("runtime/default",),
        "Localhost": (),
    }.get(kind)
    if fits is None or said in fits:
        return []
    return [forbidden(f"{path}.type", f"{what} type in annotation and field must match")]


@by_identity
def _spec_errors(spec: Tree) -> list[FieldError]:
    """Pods of one template share their spec: it is looked through once."""
    return validate_pod_spec(spec, "spec", whole=True)


def _tokens(spec: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    for volume, place in entries(spec, "volumes", "spec"):
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            errors += when(
                source.get("serviceAccountToken") is not None,
                forbidden,
                f"{place}.projected.sources[{number}].serviceAccountToken",
                "must not be specified when serviceAccountName is not set",
            )
    return errors


def _bad_cost(annotations: Tree) -> bool:
    """Return whether a pod's deletion cost is given, but is not a 32 bit integer."""
    text = annotations.get(_DELETION_COST)
    if text is None:
        return False
    if not re.fullmatch(r"0|[1-9][0-9]*|-[0-9]+", text):
        return True
    return len(text) > 40 or not -(2**31) <= int(text) < 2**31


def _seccomp_named(profile: str, path: str) -> list[FieldError]:
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return []
    if profile.startswith("localhost/"):
        return local_descending_path(profile.removeprefix("localhost/"), path)
    return [invalid(path, profile, "must be a valid seccomp profile")]


def pod_annotations(
    annotations: Tree, spec: Tree, path: str, was: Tree | None = None
) -> list[FieldError]:
    """Annotations that mean something in a pod. `was` are those that they replace."""
    errors: list[FieldError] = []
    if _MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{_MIRROR}]", annotations[_MIRROR], text))
    if _bad_cost(annotations) and not _bad_cost(was or {}):
        text = "must be a 32bit integer"
        errors.append(invalid(f"{path}[{_DELETION_COST}]", annotations[_DELETION_COST], text))
    if _SECCOMP_POD in annotations:
        errors += _seccomp_named(annotations[_SECCOMP_POD], f"{path}.{_SECCOMP_POD}")
    for key in sorted(annotations):
        if key.startswith(_SECCOMP_CONTAINER):
            errors += _seccomp_named(annotations[key], f"{path}.{key}")
    for key in sorted(annotations):
        if key.startswith(_APP_ARMOR):
            name, profile = key[len(_APP_ARMOR) :], annotations[key]
            errors += when(
                not any(c.get("name") == name for c, _ in _each_container(spec, "")),
                invalid,
                f"{path}[{key}]",
                name,
                "container not found",
            )
            if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(
                "localhost/"
            ):
                text = f"invalid AppArmor profile name: {quote(profile)}"
                errors.append(invalid(f"{path}[{key}]", profile, text))
    return errors


def validate_template(template: Tree, path: str) -> list[FieldError]:
    """Return the errors of the template of a workload."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    errors: list[FieldError] = []
    if meta.get("labels"):
        errors += validate_labels(meta["labels"], f"{path}.labels")
    annotations = meta.get("annotations") or {}
    if annotations:
        errors += validate_annotations(annotations, f"{path}.annotations")
        errors += pod_annotations(annotations, spec, f"{path}.annotations")
    errors += validate_pod_spec(spec, f"{path}.spec")
    text = "ephemeral containers not allowed in pod template"
    errors += when(
        spec.get("ephemeralContainers"), forbidden, f"{path}.spec.ephemeralContainers", text
    )
    return errors


def _scope(spec: Tree, was: Tree | None) -> PodScope:
    claims: list[str] = [claim.get("name", "") for claim in spec.get("resourceClaims") or ()]
    return PodScope(
        claims=claims,
        grace=spec.get("terminationGracePeriodSeconds"),
        restart_policy=spec.get("restartPolicy", ""),
        host_users=spec.get("hostUsers", True),
        restarting_init=was is not None and restarts_init_containers(was),
    )


def validate_pod_spec(
    spec: Tree, path: str, was: Tree | None = None, name: str = "", *, whole: bool = False
) -> list[FieldError]:
    """Return the errors of a pod spec; `was` is what it replaces.

    `whole` says that it stands in a pod, not in a template; `name` is the pod's.
    """
    scope = _scope(spec, was)
    errors: list[FieldError] = []
    if "volumes" in spec:
        scope.volumes, errors = validate_volumes(spec["volumes"], f"{path}.volumes", name)
    if "resourceClaims" in spec:
        errors += _resource_claims(spec["resourceClaims"], f"{path}.resourceClaims")
    containers = spec.get("containers") or []
    errors += validate_containers(containers, scope, f"{path}.containers")
    if "initContainers" in spec:
        errors += validate_init_containers(
            spec["initContainers"], containers, scope, f"{path}.initContainers"
        )
    if "ephemeralContainers" in spec:
        errors += validate_ephemeral_containers(
            spec["ephemeralContainers"], spec, scope, f"{path}.ephemeralContainers"
        )
    if spec.get("resources") is not None and (spec.get("os") or {}).get("name") == "windows":
        errors.append(forbidden(f"{path}.resources", "may not be set for a windows pod"))
    elif spec.get("resources"):
        errors += validate_requirements(
            spec["resources"], f"{path}.resources", scope.claims, pod_level=True
        )
        errors += _pod_level(spec, f"{path}.resources")
    if spec.get("hostNetwork"):
        errors += _host_network(spec, path, whole=whole)
    policy = spec.get("restartPolicy", "")
    errors += word(policy, f"{path}.restartPolicy", _RESTART, sort=False)
    dns = spec.get("dnsPolicy", "")
    errors += word(dns, f"{path}.dnsPolicy", _DNS, sort=False)
    if spec.get("nodeSelector"):
        errors += validate_labels(spec["nodeSelector"], f"{path}.nodeSelector")
    if spec.get("securityContext") or spec.get("shareProcessNamespace"):
        errors += validate_pod_security(spec.get("securityContext") or {}, spec, path)
    if spec.get("affinity"):
        errors += validate_affinity(spec["affinity"], f"{path}.affinity")
    if "dnsConfig" in spec or dns == "None":
        errors += _dns_config(spec.get("dnsConfig"), dns, f"{path}.dnsConfig")
    errors += _gates(spec, path)
    if "topologySpreadConstraints" in spec:
        errors += validate_topology_spread(
            spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints"
        )
    errors += _host_process(spec, path)
    if spec.get("hostUsers") is False:
        errors += _host_users(spec, path)
    return errors + _names(spec, path)


def _names(spec: Tree, path: str) -> list[FieldError]:
    """The rest of the spec: names, deadlines, tolerations, classes."""
    errors: list[FieldError] = []
    for key, rule in (
        ("serviceAccountName", names.dns_subdomain),
        ("nodeName", names.dns_subdomain),
    ):
        if spec.get(key):
            errors += problems(f"{path}.{key}", spec[key], rule(spec[key]))
    deadline = spec.get("activeDeadlineSeconds")
    errors += when(
        deadline is not None and not 1 <= deadline <= 2**31 - 1,
        invalid,
        f"{path}.activeDeadlineSeconds",
        deadline,
        "must be between 1 and 2147483647, inclusive",
    )
    for key in ("hostname", "subdomain"):
        if spec.get(key):
            errors += problems(f"{path}.{key}", spec[key], names.dns_label(spec[key]))
    told = spec.get("hostnameOverride")
    if told is not None:
        errors += problems(f"{path}.hostnameOverride", told, names.dns_subdomain(told))
    if spec.get("tolerations"):
        errors += validate_tolerations(spec["tolerations"], f"{path}.tolerations")
    for alias, place in entries(spec, "hostAliases", path):
        ip = alias.get("ip", "")
        errors += problems(f"{place}.ip", ip, names.ip_problems(ip))
        for host, spot in entries(alias, "hostnames", place):
            errors += problems(spot, host, names.dns_subdomain(host))
    if spec.get("priorityClassName"):
        name = spec["priorityClassName"]
        errors += problems(f"{path}.priorityClassName", name, names.dns_subdomain(name))
    if "runtimeClassName" in spec:
        name = spec["runtimeClassName"]
        errors += problems(f"{path}.runtimeClassName", name, names.dns_subdomain(name))
    policy = spec.get("preemptionPolicy")
    choices = ("PreemptLowerPriority", "Never")
    if policy is not None and policy not in choices:
        errors.append(
            not_supported(f"{path}.preemptionPolicy", policy, choices, sort=False)
            if policy
            else required(f"{path}.preemptionPolicy")
        )
    errors += validate_requirements({"limits": spec.get("overhead") or {}}, f"{path}.overhead")
    return errors + _os(spec, path)


def _os(spec: Tree, path: str) -> list[FieldError]:
    system = spec.get("os")
    if system is None:
        return []
    name = system.get("name", "")
    if not name:
        return [required(f"{path}.os.name")]
    if name not in ("linux", "windows"):
        return [not_supported(f"{path}.os", name, ("linux", "windows"))]
    if name == "windows":
        return _windows_pod(spec, path)
    return _linux_pod(spec, path)


_NOT_OF_WINDOWS = (
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
)
"""The fields that a pod of Windows may not set, in upstream's order."""
_IF_NOT_EMPTY = ("hostPID", "hostIPC", "securityContext.sysctls")
_NOT_OF_WINDOWS_CONTAINERS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def _windows_pod(spec: Tree, path: str) -> list[FieldError]:
    text = "cannot be set for a windows pod"
    errors: list[FieldError] = []
    for name in _NOT_OF_WINDOWS:
        place, _, key = name.rpartition(".")
        value = ((spec.get(place) or {}) if place else spec).get(key)
        errors += when(
            value or (value is not None and name not in _IF_NOT_EMPTY),
            forbidden,
            f"{path}.{name}",
            text,
        )
    for container, place in _each_container(spec, path):
        context = container.get("securityContext") or {}
        errors += [
            forbidden(f"{place}.securityContext.{key}", text)
            for key in _NOT_OF_WINDOWS_CONTAINERS
            if context.get(key) is not None
        ]
    return errors


def _linux_pod(spec: Tree, path: str) -> list[FieldError]:
    text = "windows options cannot be set for a linux pod"
    return [
        forbidden(f"{place}.securityContext.windowsOptions", text)
        for holder, place in ((spec, path), *_each_container(spec, path))
        if (holder.get("securityContext") or {}).get("windowsOptions") is not None
    ]


def _resource_claims(claims: list[Tree], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    for index, claim in enumerate(claims):
        place = f"{path}[{index}]"
        name = claim.get("name", "")
        if not name:
            errors.append(required(f"{place}.name"))
        elif name in seen:
            errors.append(duplicate(f"{place}.name", name))
        else:
            seen[name] = None
            errors += problems(f"{place}.name", name, names.dns_label(name))
        given = [
            key
            for key in ("resourceClaimName", "resourceClaimTemplateName")
            if claim.get(key) is not None
        ]
        if len(given) > 1:
            errors.append(
                invalid(
                    place,
                    internal("PodResourceClaim", claim),
                    (
                        "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
                    ),
                )
            )
        if not given:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(place, internal("PodResourceClaim", claim), text))
        for key in given:
            errors += problems(f"{place}.{key}", claim[key], names.dns_subdomain(claim[key]))
    return errors


def _pod_level(spec: Tree, path: str) -> list[FieldError]:
    """Requests of the pod cover those of its containers; no container limit exceeds the pod's."""
    errors: list[FieldError] = []
    amounts = spec["resources"]
    requests, limits = amounts.get("requests") or {}, amounts.get("limits") or {}
    totals = pod_requests(spec)
    for name in sorted(requests):
        total = totals.get(name)
        if total is not None and quantity.parse(total).cmp(quantity.parse(requests[name])) > 0:
            text = f"must be greater than or equal to aggregate container requests of {total}"
            errors.append(invalid(f"{path}.requests[{name}]", requests[name], text))
    for container, place in entries(spec, "containers", path):
        own = (container.get("resources") or {}).get("limits") or {}
        for name in sorted(limits):
            if name in own and quantity.parse(own[name]).cmp(quantity.parse(limits[name])) > 0:
                text = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid(f"{place}[{name}].limits", own[name], text))
    return errors


def _host_network(spec: Tree, path: str, *, whole: bool) -> list[FieldError]:
    """On the host's network a port is the host's; a template may leave that to the pod."""
    errors: list[FieldError] = []
    for container, place in entries(spec, "containers", path):
        for port, spot in entries(container, "ports", place):
            host, own = port.get("hostPort", 0), port.get("containerPort", 0)
            text = "must match `containerPort` when `hostNetwork` is true"
            errors += when(host != own and (whole or host), invalid, f"{spot}.hostPort", host, text)
    return errors


def _dns_config(config: Tree | None, policy: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if policy == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            problem = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", problem)]
    if config is None:
        return errors
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    problem = "must not have more than 3 nameservers"
    errors += when(len(servers) > 3, invalid, f"{path}.nameservers", servers, problem)
    for index, server in enumerate(servers):
        errors += problems(f"{path}.nameservers[{index}]", server, names.ip_problems(server))
    problem = "must not have more than 32 search paths"
    errors += when(len(searches) > 32, invalid, f"{path}.searches", searches, problem)
    problem = "must not have more than 2048 characters (including spaces) in the search list"
    errors += when(
        len(" ".join(searches).encode()) > 2048, invalid, f"{path}.searches", searches, problem
    )
    for index, search in enumerate(searches):
        if search != ".":
            text = search.removesuffix(".")
            errors += problems(f"{path}.searches[{index}]", text, names.underscore_subdomain(text))
    for option, place in entries(config, "options", path):
        errors += when(not option.get("name"), required, place, "must not be empty")
    return errors


def _gates(spec: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for gate, spot in entries(spec, "readinessGates", path):
        errors += label_name(gate.get("conditionType", ""), f"{spot}.conditionType")
    seen: dict[str, None] = {}
    for gate, place in entries(spec, "schedulingGates", path):
        name = gate.get("name", "")
        errors += problems(place, name, names.qualified_name(name))
        errors += when(name in seen, duplicate, place, name)
        seen[name] = None
    return errors


def _host_process(spec: Tree, path: str) -> list[FieldError]:
    """Windows host process containers come all or none, and share the host's network."""
    context = spec.get("securityContext") or {}
    pod = (context.get("windowsOptions") or {}).get("hostProcess")
    containers = list(_each_container(spec, path))
    if pod is None and not any("securityContext" in c for c, _ in containers):
        return []
    counted = 0
    with_process = 0
    errors: list[FieldError] = []
    for container, place in containers:
        options = (container.get("securityContext") or {}).get("windowsOptions") or {}
        own = options.get("hostProcess")
        if pod is not None and own is not None and pod != own:
            errors.append(
                invalid(
                    f"{place}.securityContext.windowsOptions.hostProcess",
                    own,
                    (
                        "pod hostProcess value must be identical if both are specified, was "
                        f"{str(pod).lower()}"
                    ),
                )
            )
        counted += 1
        if own if own is not None else pod:
            with_process += 1
    if with_process:
        errors += when(
            with_process != counted,
            invalid,
            path,
            "",
            "If pod contains any hostProcess containers then all containers must be "
            "HostProcess containers",
        )
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        errors += when(not spec.get("hostNetwork"), invalid, f"{path}.hostNetwork", False, text)
    return errors


def _host_users(spec: Tree, path: str) -> list[FieldError]:
    return [
        forbidden(f"{path}.{place}", "when `pod.Spec.HostUsers` is false")
        for key, place in (
            ("hostNetwork", "hostNetwork"),
            ("hostPID", "HostPID"),
            ("hostIPC", "HostIPC"),
        )
        if spec.get(key)
    ]
