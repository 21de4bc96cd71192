"""The checks of the Pod Security Standards, by version.

A check returns why a pod fails it: a reason and details. Upstream: pod-security-admission/policy,
a file for each check, and registry.go for their order: baseline's by name, then restricted's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.requests.admission.pod_security.levels import Level

__all__ = ["Failure", "failures", "shown"]


class Failure(NamedTuple):
    """The reason and details of a pod's violation of a standard."""

    reason: str
    detail: str


Check = Callable[[Tree, Tree], "Failure | None"]
"""By metadata and spec."""


def shown(found: Iterable[Failure]) -> str:
    """All failures in one line."""
    return ", ".join(
        f"{each.reason} ({each.detail})" if each.detail else each.reason for each in found
    )


def failures(level: Level, meta: Tree, spec: Tree, newest: int) -> list[Failure]:
    """Return the violations of a level by a pod; `newest` is the minor version that counts as the latest."""
    if not level.strictness:
        return []
    found = []
    for check in _checks(level.name, min(level.minor, newest, _NEWEST)):
        failure = check(meta, spec)
        if failure is not None:
            found.append(failure)
    return found


# -- helpers -------------------------------------------------------------------------------------


def _containers(spec: Tree) -> Iterator[Tree]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(part) or ()


def _security(part: Tree) -> Tree:
    return part.get("securityContext") or {}


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(f'"{text}"' for text in texts)


def _plural(word: str, names: list[str]) -> str:
    return f"{word}{'' if len(names) == 1 else 's'} {_quoted(names)}"


def _setters(pod: bool, names: list[str]) -> str:
    """The pod, containers, or both."""
    return " and ".join(
        [*(["pod"] if pod else []), *([_plural("container", names)] if names else [])]
    )


def _offending(spec: Tree, offends: Callable[[Tree], Any]) -> tuple[bool, list[str]]:
    """Return whether the pod's own security context offends, and the names of the containers whose contexts do."""
    names = [each["name"] for each in _containers(spec) if offends(_security(each))]
    return bool(offends(_security(spec))), names


def _is_windows(spec: Tree) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def _own_users(spec: Tree) -> bool:
    return spec.get("hostUsers") is False


def _unless(excused: Callable[[Tree], bool], check: Check) -> Check:
    return lambda meta, spec: None if excused(spec) else check(meta, spec)


# -- baseline ------------------------------------------------------------------------------------


def _privileged(_meta: Tree, spec: Tree) -> Failure | None:
    names = [c["name"] for c in _containers(spec) if _security(c).get("privileged")]
    if not names:
        return None
    who = _plural("container", names)
    return Failure("privileged", f"{who} must not set securityContext.privileged=true")


def _host_namespaces(_meta: Tree, spec: Tree) -> Failure | None:
    found = [f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    return Failure("host namespaces", ", ".join(found)) if found else None


def _host_paths(_meta: Tree, spec: Tree) -> Failure | None:
    names = [v["name"] for v in spec.get("volumes") or () if v.get("hostPath") is not None]
    return Failure("hostPath volumes", _plural("volume", names)) if names else None


def _host_ports(_meta: Tree, spec: Tree) -> Failure | None:
    names: list[str] = []
    ports: dict[str, None] = {}
    for container in _containers(spec):
        used = [str(p["hostPort"]) for p in container.get("ports") or () if p.get("hostPort")]
        if used:
            names.append(container["name"])
            ports.update(dict.fromkeys(used))
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    what = "hostPort" if len(ports) == 1 else "hostPorts"
    return Failure(
        "hostPort", f"{_plural('container', names)} {verb} {what} {', '.join(sorted(ports))}"
    )


def _hosts_of(handler: Tree | None) -> list[str]:
    found = [((handler or {}).get(key) or {}).get("host") for key in ("httpGet", "tcpSocket")]
    return [host for host in found if host]


def _probe_hosts(_meta: Tree, spec: Tree) -> Failure | None:
    names: dict[str, None] = {}
    hosts: dict[str, None] = {}
    for container in _containers(spec):
        lifecycle = container.get("lifecycle") or {}
        handlers = [container.get(k) for k in ("livenessProbe", "readinessProbe", "startupProbe")]
        handlers += [lifecycle.get("postStart"), lifecycle.get("preStop")]
        found = [host for handler in handlers for host in _hosts_of(handler)]
        if found:
            names[container["name"]] = None
            hosts.update(dict.fromkeys(found))
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    detail = f"{_plural('container', sorted(names))} {verb} "
    return Failure(
        "probe or lifecycle host", detail + _plural("probe or lifecycle host", sorted(hosts))
    )


_DEFAULT_CAPABILITIES: Final = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)


def _added(spec: Tree, allowed: frozenset[str]) -> tuple[list[str], list[str]]:
    """Containers that add capabilities that are not allowed, and these."""
    names: list[str] = []
    capabilities: dict[str, None] = {}
    for container in _containers(spec):
        given = (_security(container).get("capabilities") or {}).get("add") or ()
        wrong = [name for name in given if name not in allowed]
        if wrong:
            names.append(container["name"])
            capabilities.update(dict.fromkeys(wrong))
    return names, sorted(capabilities)


def _must_not_add(names: list[str], capabilities: list[str]) -> str:
    who, what = _plural("container", names), _quoted(capabilities)
    return f"{who} must not include {what} in securityContext.capabilities.add"


def _capabilities(_meta: Tree, spec: Tree) -> Failure | None:
    names, wrong = _added(spec, _DEFAULT_CAPABILITIES)
    return Failure("non-default capabilities", _must_not_add(names, wrong)) if names else None


def _proc_mount(_meta: Tree, spec: Tree) -> Failure | None:
    found = {
        c["name"]: value
        for c in _containers(spec)
        if (value := _security(c).get("procMount", "Default")) != "Default"
    }
    if not found:
        return None
    who, values = _plural("container", list(found)), _quoted(sorted(dict.fromkeys(found.values())))
    return Failure("procMount", f"{who} must not set securityContext.procMount to {values}")


def _profile(context: Tree, key: str) -> str:
    kind: str = (context.get(key) or {}).get("type", "RuntimeDefault")
    return kind


_ALLOWED_PROFILES: Final = ("Localhost", "RuntimeDefault")
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"


def _bad_profiles(spec: Tree, key: str) -> tuple[bool, list[str], list[str]]:
    """Return whether the pod, and the containers that, set a profile that is not allowed, and these profiles."""
    pod, names = _offending(spec, lambda context: _profile(context, key) not in _ALLOWED_PROFILES)
    contexts = [_security(spec), *map(_security, _containers(spec))]
    values = sorted(dict.fromkeys(_profile(each, key) for each in contexts))
    return pod, names, [value for value in values if value not in _ALLOWED_PROFILES]


def _app_armor(meta: Tree, spec: Tree) -> Failure | None:
    pod, names, values = _bad_profiles(spec, "appArmorProfile")
    setters = [who] if (who := _setters(pod, names)) else []
    notes = sorted(
        f'{key}="{value}"'
        for key, value in (meta.get("annotations") or {}).items()
        if key.startswith(_APP_ARMOR)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    if notes:
        setters.append("annotation" if len(notes) == 1 else "annotations")
    if not setters:
        return None
    values += notes
    reason = f"forbidden AppArmor profile{'' if len(values) == 1 else 's'}"
    who = " and ".join(setters)
    return Failure(reason, f"{who} must not set AppArmor profile type to {_quoted(values)}")


_SE_TYPES: Final = ("", "container_t", "container_init_t", "container_kvm_t")


def _se_linux(_meta: Tree, spec: Tree, types: tuple[str, ...]) -> Failure | None:
    def options(context: Tree) -> Tree:
        return context.get("seLinuxOptions") or {}

    def offends(context: Tree) -> bool:
        given = options(context)
        return given.get("type", "") not in types or bool(given.get("user") or given.get("role"))

    pod, names = _offending(spec, offends)
    if not (pod or names):
        return None
    all_given = [options(_security(spec)), *(options(_security(c)) for c in _containers(spec))]
    wrong = sorted(
        dict.fromkeys(t for each in all_given if (t := each.get("type", "")) not in types)
    )
    parts = [_plural("type", wrong)] if wrong else []
    parts += [
        f"{key} may not be set" for key in ("user", "role") if any(g.get(key) for g in all_given)
    ]
    who = _setters(pod, names)
    return Failure(
        "seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(parts)}"
    )


_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF: Final = "container.seccomp.security.alpha.kubernetes.io/"


def _seccomp_notes(meta: Tree, spec: Tree) -> Failure | None:
    notes = meta.get("annotations") or {}
    keys = [_SECCOMP, *(f"{_SECCOMP_OF}{c['name']}" for c in _containers(spec))]
    wrong = sorted(
        dict.fromkeys(
            f'{key}="{notes[key]}"'
            for key in keys
            if key in notes
            and notes[key] not in ("runtime/default", "docker/default")
            and not notes[key].startswith("localhost/")
        )
    )
    if not wrong:
        return None
    what = "annotation" if len(wrong) == 1 else "annotations"
    return Failure("seccompProfile", f"forbidden {what} {', '.join(wrong)}")


def _seccomp(_meta: Tree, spec: Tree) -> Failure | None:
    pod, names, values = _bad_profiles(spec, "seccompProfile")
    if not (pod or names):
        return None
    who = _setters(pod, names)
    what = f"must not set securityContext.seccompProfile.type to {_quoted(values)}"
    return Failure("seccompProfile", f"{who} {what}")


_SYSCTLS: Final = (
    (
        0,
        (
            "kernel.shm_rmid_forced",
            "net.ipv4.ip_local_port_range",
            "net.ipv4.tcp_syncookies",
            "net.ipv4.ping_group_range",
            "net.ipv4.ip_unprivileged_port_start",
        ),
    ),
    (27, ("net.ipv4.ip_local_reserved_ports",)),
    (
        29,
        (
            "net.ipv4.tcp_keepalive_time",
            "net.ipv4.tcp_fin_timeout",
            "net.ipv4.tcp_keepalive_intvl",
            "net.ipv4.tcp_keepalive_probes",
        ),
    ),
    (32, ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")),
)


def _sysctls(_meta: Tree, spec: Tree, minor: int) -> Failure | None:
    allowed = {name for since, names in _SYSCTLS if since <= minor for name in names}
    wrong = [s["name"] for s in _security(spec).get("sysctls") or () if s["name"] not in allowed]
    return Failure("forbidden sysctls", ", ".join(wrong)) if wrong else None


def _host_process(_meta: Tree, spec: Tree) -> Failure | None:
    pod, names = _offending(spec, lambda c: (c.get("windowsOptions") or {}).get("hostProcess"))
    if not (pod or names):
        return None
    who = _setters(pod, names)
    return Failure(
        "hostProcess", f"{who} must not set securityContext.windowsOptions.hostProcess=true"
    )


# -- restricted ----------------------------------------------------------------------------------


def _escalation(_meta: Tree, spec: Tree) -> Failure | None:
    names = [
        c["name"]
        for c in _containers(spec)
        if _security(c).get("allowPrivilegeEscalation") is not False
    ]
    if not names:
        return None
    who = _plural("container", names)
    text = f"{who} must set securityContext.allowPrivilegeEscalation=false"
    return Failure("allowPrivilegeEscalation != false", text)


def _capabilities_dropped(_meta: Tree, spec: Tree) -> Failure | None:
    keeping = [
        c["name"]
        for c in _containers(spec)
        if "ALL" not in ((_security(c).get("capabilities") or {}).get("drop") or ())
    ]
    names, wrong = _added(spec, frozenset(("NET_BIND_SERVICE",)))
    details = []
    if keeping:
        who = _plural("container", keeping)
        details.append(f'{who} must set securityContext.capabilities.drop=["ALL"]')
    if names:
        details.append(_must_not_add(names, wrong))
    return Failure("unrestricted capabilities", "; ".join(details)) if details else None


_VOLUMES: Final = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)


def _volume_types(_meta: Tree, spec: Tree) -> Failure | None:
    names: list[str] = []
    types: dict[str, None] = {}
    for volume in spec.get("volumes") or ():
        given = [key for key, value in volume.items() if key != "name" and value is not None]
        if not any(key in _VOLUMES for key in given):
            names.append(volume["name"])
            types[given[0] if given else "unknown"] = None
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    what = _plural("restricted volume type", sorted(types))
    return Failure("restricted volume types", f"{_plural('volume', names)} {verb} {what}")


def _non_root(_meta: Tree, spec: Tree) -> Failure | None:
    pod, names = _offending(spec, lambda context: context.get("runAsNonRoot") is False)
    reason = "runAsNonRoot != true"
    if pod or names:
        who = _setters(pod, names)
        return Failure(reason, f"{who} must not set securityContext.runAsNonRoot=false")
    if _security(spec).get("runAsNonRoot"):
        return None
    silent = [c["name"] for c in _containers(spec) if _security(c).get("runAsNonRoot") is None]
    if not silent:
        return None
    who = _plural("container", silent)
    return Failure(reason, f"pod or {who} must set securityContext.runAsNonRoot=true")


def _root_user(_meta: Tree, spec: Tree) -> Failure | None:
    pod, names = _offending(spec, lambda context: context.get("runAsUser") == 0)
    if not (pod or names):
        return None
    return Failure("runAsUser=0", f"{_setters(pod, names)} must not set runAsUser=0")


def _seccomp_set(meta: Tree, spec: Tree) -> Failure | None:
    found = _seccomp(meta, spec)
    if found is not None or _security(spec).get("seccompProfile") is not None:
        return found
    silent = [c["name"] for c in _containers(spec) if _security(c).get("seccompProfile") is None]
    if not silent:
        return None
    who = _plural("container", silent)
    text = f'pod or {who} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Failure("seccompProfile", text)


# -- by version ----------------------------------------------------------------------------------


@frozen
class _Since:
    """A check from a minor version on, until the next one of its name; `instead` of another one."""

    name: str
    minor: int
    check: Check
    instead: str = ""


_BASELINE: Final = (
    _Since("appArmorProfile", 0, _app_armor),
    _Since("capabilities_baseline", 0, _capabilities),
    _Since("hostNamespaces", 0, _host_namespaces),
    _Since("hostPathVolumes", 0, _host_paths),
    _Since("hostPorts", 0, _host_ports),
    _Since("hostProbesAndHostLifecycle", 34, _probe_hosts),
    _Since("privileged", 0, _privileged),
    _Since("procMount", 0, _proc_mount),
    _Since("procMount", 35, _unless(_own_users, _proc_mount)),
    _Since("seLinuxOptions", 0, partial(_se_linux, types=_SE_TYPES)),
    _Since("seLinuxOptions", 31, partial(_se_linux, types=(*_SE_TYPES, "container_engine_t"))),
    _Since("seccompProfile_baseline", 0, _seccomp_notes),
    _Since("seccompProfile_baseline", 19, _seccomp),
    *(_Since("sysctls", since, partial(_sysctls, minor=since)) for since, _ in _SYSCTLS),
    _Since("windowsHostProcess", 0, _host_process),
)
_RESTRICTED: Final = (
    _Since("allowPrivilegeEscalation", 8, _escalation),
    _Since("allowPrivilegeEscalation", 25, _unless(_is_windows, _escalation)),
    _Since("capabilities_restricted", 22, _capabilities_dropped, "capabilities_baseline"),
    _Since(
        "capabilities_restricted",
        25,
        _unless(_is_windows, _capabilities_dropped),
        "capabilities_baseline",
    ),
    _Since("procMount_restricted", 35, _proc_mount, "procMount"),
    _Since("restrictedVolumes", 0, _volume_types, "hostPathVolumes"),
    _Since("runAsNonRoot", 0, _non_root),
    _Since("runAsNonRoot", 35, _unless(_own_users, _non_root)),
    _Since("runAsUser", 23, _root_user),
    _Since("runAsUser", 35, _unless(_own_users, _root_user)),
    _Since("seccompProfile_restricted", 19, _seccomp_set, "seccompProfile_baseline"),
    _Since(
        "seccompProfile_restricted",
        25,
        _unless(_is_windows, _seccomp_set),
        "seccompProfile_baseline",
    ),
)
_NEWEST: Final = max(each.minor for each in (*_BASELINE, *_RESTRICTED))


@lru_cache(maxsize=128)
def _checks(level: str, minor: int) -> tuple[Check, ...]:
    """The checks of a level as of a version, in order."""
    groups = [_BASELINE] if level == "baseline" else [_BASELINE, _RESTRICTED]
    chosen: dict[str, _Since] = {}
    for group in groups:
        chosen.update((each.name, each) for each in group if each.minor <= minor)
    replaced = {each.instead for each in chosen.values()}
    return tuple(each.check for name, each in chosen.items() if name not in replaced)
