"""Validation of pods and pod templates. Upstream: pkg/apis/core/validation/validation.go."""

from __future__ import annotations

from controlplane.api import quantity
from controlplane.api.recent import by_identity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.metadata import validate_labels
from controlplane.apiserver.kinds.validation.containers import (
    PodScope,
    restarts_init_containers,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from controlplane.apiserver.kinds.validation.resources import validate_requirements
from controlplane.apiserver.kinds.validation.security import validate_pod_security
from controlplane.apiserver.kinds.validation.selectors import (
    label_name,
    validate_affinity,
    validate_tolerations,
    validate_topology_spread,
)
from controlplane.apiserver.kinds.validation.volumes import validate_volumes
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from controlplane.apiserver.schema.internal_form import internal

__all__ = ["validate_pod", "validate_pod_spec", "validate_template"]

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MIRROR = "kubernetes.io/config.mirror"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def validate_pod(tree: Tree) -> list[FieldError]:
    """What is wrong with a new pod, its metadata apart."""
    spec = tree["spec"]
    annotations = tree["metadata"].get("annotations")
    errors: list[FieldError] = []
    if annotations:
        errors += pod_annotations(annotations, spec, "metadata.annotations")
    errors += _spec_errors(spec)
    if not spec.get("serviceAccountName"):
        errors += _tokens(spec)
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            image = container.get("image", "")
            if image != image.strip():
                errors.append(invalid(f"spec.{key}[{index}].image", image,
                                      "must not have leading or trailing whitespace"
                                      ))  # fmt: skip
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers",
                                "cannot be set on create"))  # fmt: skip
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName",
                                "cannot be set until all schedulingGates have been cleared"
                                ))  # fmt: skip
    return errors


@by_identity
def _spec_errors(spec: Tree) -> list[FieldError]:
    """Pods of one template share their spec: it is looked through once."""
    return validate_pod_spec(spec, "spec")


def _tokens(spec: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, volume in enumerate(spec.get("volumes") or ()):
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                errors.append(forbidden(
                    f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken",
                    "must not be specified when serviceAccountName is not set",
                ))  # fmt: skip
    return errors


def pod_annotations(annotations: Tree, spec: Tree, path: str) -> list[FieldError]:
    """Annotations that mean something in a pod."""
    errors: list[FieldError] = []
    if _MIRROR in annotations and not spec.get("nodeName"):
        errors.append(invalid(f"{path}[{_MIRROR}]", annotations[_MIRROR],
                              "must set spec.nodeName if mirror pod annotation is set"
                              ))  # fmt: skip
    for key in sorted(annotations):
        if key.startswith(_APP_ARMOR):
            profile = annotations[key]
            if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(
                "localhost/"
            ):
                errors.append(invalid(f"{path}[{key}]", profile,
                                      f'invalid AppArmor profile name: "{profile}"'
                                      ))  # fmt: skip
            container = key[len(_APP_ARMOR) :]
            listed = [*(spec.get("containers") or ()), *spec.get("initContainers", ())]
            if not any(c.get("name") == container for c in listed):
                errors.append(invalid(f"{path}[{key}]", container, "container not found"))
    return errors


def validate_template(template: Tree, path: str) -> list[FieldError]:
    """The template of a workload."""
    from controlplane.apiserver.kinds.metadata import validate_annotations

    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    errors: list[FieldError] = []
    if meta.get("labels"):
        errors += validate_labels(meta["labels"], f"{path}.labels")
    annotations = meta.get("annotations") or {}
    if annotations:
        errors += validate_annotations(annotations, f"{path}.annotations")
        errors += pod_annotations(annotations, spec, f"{path}.annotations")
    errors += validate_pod_spec(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        errors.append(forbidden(f"{path}.spec.ephemeralContainers",
                                "ephemeral containers not allowed in pod template"
                                ))  # fmt: skip
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


def validate_pod_spec(spec: Tree, path: str, was: Tree | None = None) -> list[FieldError]:
    """A pod spec, in a pod or in a template; `was` is what it replaces."""
    scope = _scope(spec, was)
    errors: list[FieldError] = []
    if "volumes" in spec:
        scope.volumes, errors = validate_volumes(spec["volumes"], f"{path}.volumes")
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
    if spec.get("resources"):
        errors += validate_requirements(
            spec["resources"], f"{path}.resources", scope.claims, pod_level=True
        )
        errors += _pod_level(spec, f"{path}.resources")
    if spec.get("hostNetwork"):
        errors += _host_network(spec, path)
    policy = spec.get("restartPolicy", "")
    if policy not in _RESTART:
        errors.append(
            not_supported(f"{path}.restartPolicy", policy, _RESTART, sort=False)
            if policy else required(f"{path}.restartPolicy")
        )  # fmt: skip
    dns = spec.get("dnsPolicy", "")
    if dns not in _DNS:
        errors.append(
            not_supported(f"{path}.dnsPolicy", dns, _DNS, sort=False)
            if dns else required(f"{path}.dnsPolicy")
        )  # fmt: skip
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
    for key, rule in (("serviceAccountName", names.dns_subdomain),
                      ("nodeName", names.dns_subdomain)):  # fmt: skip
        if spec.get(key):
            errors += [invalid(f"{path}.{key}", spec[key], problem) for problem in rule(spec[key])]
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline,
                              "must be between 1 and 2147483647, inclusive"))  # fmt: skip
    for key in ("hostname", "subdomain"):
        if spec.get(key):
            errors += [invalid(f"{path}.{key}", spec[key], p) for p in names.dns_label(spec[key])]
    told = spec.get("hostnameOverride")
    if told is not None:
        errors += [invalid(f"{path}.hostnameOverride", told, p) for p in names.dns_subdomain(told)]
    if spec.get("tolerations"):
        errors += validate_tolerations(spec["tolerations"], f"{path}.tolerations")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        place = f"{path}.hostAliases[{index}]"
        ip = alias.get("ip", "")
        errors += [invalid(f"{place}.ip", ip, problem) for problem in names.ip_problems(ip)]
        for number, host in enumerate(alias.get("hostnames") or ()):
            errors += [
                invalid(f"{place}.hostnames[{number}]", host, p) for p in names.dns_subdomain(host)
            ]
    if spec.get("priorityClassName"):
        name = spec["priorityClassName"]
        errors += [invalid(f"{path}.priorityClassName", name, p) for p in names.dns_subdomain(name)]
    if "runtimeClassName" in spec:
        name = spec["runtimeClassName"]
        errors += [invalid(f"{path}.runtimeClassName", name, p) for p in names.dns_subdomain(name)]
    policy = spec.get("preemptionPolicy")
    choices = ("PreemptLowerPriority", "Never")
    if policy is not None and policy not in choices:
        errors.append(
            not_supported(f"{path}.preemptionPolicy", policy, choices, sort=False)
            if policy else required(f"{path}.preemptionPolicy")
        )  # fmt: skip
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


_LINUX_ONLY = (
    ("seLinuxOptions", "seLinuxOptions"), ("seccompProfile", "seccompProfile"),
    ("fsGroup", "fsGroup"), ("fsGroupChangePolicy", "fsGroupChangePolicy"),
    ("seLinuxChangePolicy", "seLinuxChangePolicy"), ("sysctls", "sysctls"),
    ("runAsUser", "runAsUser"), ("runAsGroup", "runAsGroup"),
    ("supplementalGroups", "supplementalGroups"),
    ("supplementalGroupsPolicy", "supplementalGroupsPolicy"),
)  # fmt: skip


def _windows_pod(spec: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    place = f"{path}.securityContext"
    context = spec.get("securityContext") or {}
    text = "cannot be set for a windows pod"
    for key in ("appArmorProfile", "seLinuxOptions"):
        if key in context:
            errors.append(forbidden(f"{place}.{key}", text))
    if spec.get("hostUsers") is not None:
        errors.append(forbidden(f"{path}.hostUsers", text))
    for key in ("hostPID", "hostIPC"):
        if spec.get(key):
            errors.append(forbidden(f"{path}.{key}", text))
    for key, _ in _LINUX_ONLY[1:]:
        if context.get(key) is not None:
            errors.append(forbidden(f"{place}.{key}", text))
    if spec.get("shareProcessNamespace"):
        errors.append(forbidden(f"{path}.shareProcessNamespace", text))
    return errors


def _linux_pod(spec: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    text = "windows options cannot be set for a linux pod"
    if "windowsOptions" in (spec.get("securityContext") or {}):
        errors.append(forbidden(f"{path}.securityContext.windowsOptions", text))
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            if "windowsOptions" in (container.get("securityContext") or {}):
                errors.append(forbidden(
                    f"{path}.{key}[{index}].securityContext.windowsOptions", text
                ))  # fmt: skip
    return errors


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
            errors += [invalid(f"{place}.name", name, p) for p in names.dns_label(name)]
        given = [key for key in ("resourceClaimName", "resourceClaimTemplateName")
                 if claim.get(key) is not None]  # fmt: skip
        if len(given) > 1:
            errors.append(invalid(place, internal("PodResourceClaim", claim), (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )))  # fmt: skip
        if not given:
            errors.append(invalid(place, internal("PodResourceClaim", claim), (
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            )))  # fmt: skip
        for key in given:
            errors += [
                invalid(f"{place}.{key}", claim[key], p) for p in names.dns_subdomain(claim[key])
            ]
    return errors


def _pod_level(spec: Tree, path: str) -> list[FieldError]:
    """Requests of the pod cover those of its containers; no container limit exceeds the pod's."""
    from controlplane.apiserver.kinds.defaulting.pods import pod_requests

    errors: list[FieldError] = []
    amounts = spec["resources"]
    requests, limits = amounts.get("requests") or {}, amounts.get("limits") or {}
    totals = pod_requests(spec)
    for name in sorted(requests):
        total = totals.get(name)
        if total is not None and quantity.parse(total).cmp(quantity.parse(requests[name])) > 0:
            errors.append(invalid(f"{path}.requests[{name}]", requests[name], (
                f"must be greater than or equal to aggregate container requests of {total}"
            )))  # fmt: skip
    for index, container in enumerate(spec.get("containers") or ()):
        own = (container.get("resources") or {}).get("limits") or {}
        for name in sorted(limits):
            if name in own and quantity.parse(own[name]).cmp(quantity.parse(limits[name])) > 0:
                errors.append(invalid(
                    f"{path}.containers[{index}][{name}].limits", own[name],
                    f"must be less than or equal to pod limits of {limits[name]}",
                ))  # fmt: skip
    return errors


def _host_network(spec: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            for number, port in enumerate(container.get("ports") or ()):
                if port.get("hostPort") != port.get("containerPort"):
                    errors.append(invalid(
                        f"{path}.{key}[{index}].ports[{number}].containerPort",
                        port.get("containerPort", 0),
                        "must match `hostPort` when `hostNetwork` is true",
                    ))  # fmt: skip
    return errors


def _dns_config(config: Tree | None, policy: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if policy == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            errors.append(required(f"{path}.nameservers", (
                "must provide at least one DNS nameserver when `dnsPolicy` is None"
            )))  # fmt: skip
    if config is None:
        return errors
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > 3:
        errors.append(invalid(f"{path}.nameservers", servers,
                              "must not have more than 3 nameservers"))  # fmt: skip
    for index, server in enumerate(servers):
        errors += [
            invalid(f"{path}.nameservers[{index}]", server, p) for p in names.ip_problems(server)
        ]
    if len(searches) > 32:
        errors.append(invalid(f"{path}.searches", searches,
                              "must not have more than 32 search paths"))  # fmt: skip
    if len(" ".join(searches)) > 2048:
        errors.append(invalid(f"{path}.searches", searches, (
            "must not have more than 2048 characters (including spaces) in the search list"
        )))  # fmt: skip
    for index, search in enumerate(searches):
        text = search.removesuffix(".") if search != "." else ""
        if text:
            errors += [
                invalid(f"{path}.searches[{index}]", search, p)
                for p in names.underscore_subdomain(text)
            ]
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(required(f"{path}.options[{index}]", "must not be empty"))
    return errors


def _gates(spec: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        errors += label_name(
            gate.get("conditionType", ""), f"{path}.readinessGates[{index}].conditionType"
        )
    seen: dict[str, None] = {}
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        place = f"{path}.schedulingGates[{index}]"
        name = gate.get("name", "")
        errors += [invalid(place, name, problem) for problem in names.qualified_name(name)]
        if name in seen:
            errors.append(duplicate(place, name))
        seen[name] = None
    return errors


def _host_process(spec: Tree, path: str) -> list[FieldError]:
    """Windows host process containers come all or none, and share the host's network."""
    context = spec.get("securityContext") or {}
    pod = (context.get("windowsOptions") or {}).get("hostProcess")
    counted = 0
    with_process = 0
    containers = [*spec.get("initContainers", ()), *(spec.get("containers") or ())]
    if pod is None and not any("securityContext" in c for c in containers):
        return []
    errors: list[FieldError] = []
    for container in containers:
        own = ((container.get("securityContext") or {}).get("windowsOptions") or {}).get(
            "hostProcess"
        )
        counted += 1
        value = own if own is not None else pod
        if value:
            with_process += 1
    if with_process:
        if with_process != counted:
            errors.append(invalid(path, "", (
                "If pod contains any hostProcess containers then all containers must be "
                "HostProcess containers"
            )))  # fmt: skip
        if not spec.get("hostNetwork"):
            errors.append(invalid(f"{path}.hostNetwork", False,
                                  "hostNetwork must be true if pod contains any hostProcess "
                                  "containers"))  # fmt: skip
    return errors


def _host_users(spec: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(key):
            errors.append(forbidden(f"{path}.{key}", "when `hostUsers` is false"))
    return errors
