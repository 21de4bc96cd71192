"""Validation of security contexts."""

from __future__ import annotations

import re

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import (
    entries,
    local_descending_path,
    no_longer,
    one_of,
    problems,
    when,
)
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
)
from controlplane.apiserver.schema.internal_form import internal

__all__ = ["validate_pod_security", "validate_security_context"]

_ID_RANGE = "must be between 0 and 2147483647, inclusive"
_MAX_ID = 2**31 - 1
_SYSCTL_FORM = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_SYSCTL_TEXT = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")


def _identity(tree: Tree, key: str, path: str) -> list[FieldError]:
    value = tree.get(key)
    if value is None or 0 <= value <= _MAX_ID:
        return []
    return [invalid(f"{path}.{key}", value, _ID_RANGE)]


def _seccomp(profile: Tree | None, path: str) -> list[FieldError]:
    if profile is None:
        return []
    errors: list[FieldError] = []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    place = f"{path}.localhostProfile"
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        errors.append(not_supported(f"{path}.type", kind, _PROFILES))
    if kind != "Localhost":
        if local is not None:
            text = "can only be set when seccomp type is Localhost"
            errors.append(invalid(place, internal("SeccompProfile", profile), text))
    elif local is None:
        errors.append(required(place, "must be set when seccomp type is Localhost"))
    else:
        errors += local_descending_path(local, place)
    return errors


def _app_armor(profile: Tree | None, path: str) -> list[FieldError]:
    if profile is None:
        return []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    errors: list[FieldError] = []
    if kind == "Localhost":
        if local is None:
            text = "must be set when AppArmor type is Localhost"
            errors.append(required(f"{path}.localhostProfile", text))
        else:
            if local != local.strip():
                text = "must not be padded with whitespace"
                errors.append(invalid(f"{path}.localhostProfile", local, text))
            elif not local:
                text = "must be set when AppArmor type is Localhost"
                errors.append(required(f"{path}.localhostProfile", text))
            errors += no_longer(local, f"{path}.localhostProfile", 4095)
    elif kind in {"RuntimeDefault", "Unconfined"}:
        text = "can only be set when AppArmor type is Localhost"
        errors += when(local is not None, invalid, f"{path}.localhostProfile", local, text)
    elif not kind:
        errors.append(required(f"{path}.type", "type is required when appArmorProfile is set"))
    else:
        errors.append(not_supported(f"{path}.type", kind, _PROFILES))
    return errors


def validate_security_context(
    context: Tree, path: str, *, host_users: bool = True
) -> list[FieldError]:
    """Return the errors of the security context of a container."""
    errors: list[FieldError] = []
    if not context:
        return errors
    errors += _identity(context, "runAsUser", path)
    errors += _identity(context, "runAsGroup", path)
    mount = context.get("procMount")
    if mount is not None:
        errors += one_of(mount, f"{path}.procMount", ("Default", "Unmasked"))
        text = "`hostUsers` must be false to use `Unmasked`"
        errors += when(
            host_users and mount == "Unmasked", invalid, f"{path}.procMount", mount, text
        )
    errors += _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            errors.append(invalid(path, internal("SecurityContext", context), text))
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            errors.append(
                invalid(
                    path,
                    internal("SecurityContext", context),
                    (
                        "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` "
                        "CAP_SYS_ADMIN"
                    ),
                )
            )
    errors += _windows(context.get("windowsOptions"), f"{path}.windowsOptions")
    return errors + _app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NETBIOS = re.compile(r"[^\\/:*?\"<>|.][^\\/:*?\"<>|]{0,14}")
_DOMAIN = re.compile(
    r"[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)*"
)


_NOT_IN_USERS = '"/\\:;|=,+*?<>@[]'


def _windows_user(name: str) -> list[str]:
    """Return the errors of a Windows user name, with or without a domain."""
    what = "runAsUserName"
    if not name:
        return [f"{what} cannot be an empty string"]
    problems: list[str] = []
    if _CONTROL.search(name):
        return [f"{what} cannot contain control characters"]
    parts = name.split("\\")
    if len(parts) > 2:
        return [f"{what} cannot contain more than one backslash"]
    domain, user = (parts[0], parts[1]) if len(parts) == 2 else ("", parts[0])
    if len(parts) == 2:
        if len(domain) >= 256:
            text = f"{what}'s Domain length must be under 256 characters"
            problems.append(text)
        if not (_NETBIOS.fullmatch(domain) or _DOMAIN.fullmatch(domain)):
            problems.append(f"{what}'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        problems.append(f"{what}'s User cannot be empty")
    elif len(user) > 104:
        problems.append(f"{what}'s User length must not be longer than 104 characters")
    if user and not user.strip(". "):
        problems.append(f"{what}'s User cannot contain only periods or spaces")
    if any(char in _NOT_IN_USERS for char in user):
        text = f"{what}'s User cannot contain the following characters: {_NOT_IN_USERS}"
        problems.append(text)
    return problems


def _windows(options: Tree | None, path: str) -> list[FieldError]:
    if options is None:
        return []
    errors: list[FieldError] = []
    named = options.get("gmsaCredentialSpecName")
    if named is not None:
        place = f"{path}.gmsaCredentialSpecName"
        errors += problems(place, named, names.dns_subdomain(named))
    spec = options.get("gmsaCredentialSpec")
    if spec is not None and not spec:
        problem = "gmsaCredentialSpec cannot be an empty string"
        errors.append(invalid(f"{path}.gmsaCredentialSpec", spec, problem))
    elif spec is not None and len(spec.encode()) > 64 * 1024:
        text = "gmsaCredentialSpec size must be under 64 KiB"
        errors.append(invalid(f"{path}.gmsaCredentialSpec", spec, text))
    user = options.get("runAsUserName")
    if user is not None:
        errors += problems(f"{path}.runAsUserName", user, _windows_user(user))
    return errors


def validate_pod_security(context: Tree, spec: Tree, path: str) -> list[FieldError]:
    """Return the errors of the security context of a pod; `path` is that of the spec."""
    place = f"{path}.securityContext"
    errors = _identity(context, "fsGroup", place)
    errors += _identity(context, "runAsUser", place)
    errors += _identity(context, "runAsGroup", place)
    for group, spot in entries(context, "supplementalGroups", place):
        errors += when(
            not 0 <= group <= _MAX_ID,
            invalid,
            spot,
            group,
            _ID_RANGE,
        )
    errors += when(
        spec.get("shareProcessNamespace") and spec.get("hostPID"),
        invalid,
        f"{place}.shareProcessNamespace",
        True,
        "ShareProcessNamespace and HostPID cannot both be enabled",
    )
    errors += _sysctls(context.get("sysctls") or [], f"{place}.sysctls", spec)
    errors += _optional_one_of(context, "fsGroupChangePolicy", place, ("Always", "OnRootMismatch"))
    errors += _seccomp(context.get("seccompProfile"), f"{place}.seccompProfile")
    errors += _windows(context.get("windowsOptions"), f"{place}.windowsOptions")
    errors += _app_armor(context.get("appArmorProfile"), f"{place}.appArmorProfile")
    errors += _optional_one_of(context, "supplementalGroupsPolicy", place, ("Merge", "Strict"))
    # MountOption comes with gate SELinuxMount.
    return errors + _optional_one_of(context, "seLinuxChangePolicy", place, ("Recursive",))


def _optional_one_of(tree: Tree, key: str, path: str, choices: tuple[str, ...]) -> list[FieldError]:
    if key not in tree or tree[key] in choices:
        return []
    return [not_supported(f"{path}.{key}", tree[key], choices)]


def _sysctls(sysctls: list[Tree], path: str, spec: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    for index, sysctl in enumerate(sysctls):
        place = f"{path}[{index}]"
        name = sysctl.get("name", "")
        if not name:
            errors.append(required(f"{place}.name"))
        elif len(name) > 253 or not _SYSCTL_FORM.fullmatch(name):
            text = f"must have at most 253 characters and match regex {_SYSCTL_TEXT}"
            errors.append(invalid(f"{place}.name", name, text))
        elif name in seen:
            errors.append(duplicate(f"{place}.name", name))
        shared = _shared_with_host(name, spec)
        errors += when(
            shared, invalid, f"{place}.name", name, f"may not be specified when '{shared}' is true"
        )
        seen[name] = None
    return errors


_IPC_STARTS = ("kernel.shm", "kernel.msg", "fs.mqueue.")


def _shared_with_host(name: str, spec: Tree) -> str:
    """Return the field that gives the pod the host namespace of a sysctl; empty if none does.

    The first of the dots and slashes is the separator; the others belong to the names.
    """
    first = min((name.find(mark) for mark in "./" if mark in name), default=-1)
    if first >= 0 and name[first] == "/":
        name = name.translate(str.maketrans("./", "/."))
    if spec.get("hostNetwork") and name.startswith("net."):
        return "hostNetwork"
    if spec.get("hostIPC") and (name == "kernel.sem" or name.startswith(_IPC_STARTS)):
        return "hostIPC"
    return ""
