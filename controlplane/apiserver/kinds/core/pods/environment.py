"""Rules of the environment of containers and of references to fields."""

from __future__ import annotations

from attrs import define, field

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import entries, name_at, path_no_backsteps, problems, when
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    invalid,
    not_found,
    not_supported,
    required,
)

__all__ = [
    "PodScope",
    "validate_env",
    "validate_env_from",
    "validate_field_ref",
    "validate_files_of_volumes",
    "validate_resource_ref",
]

_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)


_KNOWN_FIELDS = (
    *_ENV_FIELDS,
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
    "status.nominatedNodeName",
    "spec.hostNetwork",
)


_RESOURCE_FIELDS = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)


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


def validate_env(variables: list[Tree], path: str) -> list[FieldError]:
    """Return the errors of environment variables."""
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        place = f"{path}[{index}]"
        name = variable.get("name", "")
        errors += name_at(name, f"{place}.name", names.env_var_name)
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
    errors += when(
        not found,
        invalid,
        path,
        "",
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
        "`secretKeyRef` or `fileKeyRef`",
    )
    if variable.get("value"):
        errors += when(found, invalid, path, "", "may not be specified when `value` is not empty")
    elif len(found) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _key_ref(ref: Tree, path: str) -> list[FieldError]:
    name = ref.get("name", "")
    errors = [invalid(f"{path}.name", name, problem) for problem in names.dns_subdomain(name)]
    key = ref.get("key", "")
    return errors + name_at(key, f"{path}.key", names.config_key)


def _file_key_ref(ref: Tree, path: str) -> list[FieldError]:
    errors = name_at(ref.get("key", ""), f"{path}.key", names.env_var_name)
    volume, file = ref.get("volumeName", ""), ref.get("path", "")
    errors += name_at(volume, f"{path}.volumeName", names.dns_label)
    if not file:
        return [*errors, required(f"{path}.path")]
    return errors + path_no_backsteps(file, f"{path}.path")


def validate_files_of_volumes(container: Tree, scope: PodScope, path: str) -> list[FieldError]:
    """Return the errors of references to files with variables: each lies in a volume of the pod."""
    errors: list[FieldError] = []
    for variable, spot in entries(container, "env", path):
        ref = (variable.get("valueFrom") or {}).get("fileKeyRef")
        if ref is None:
            continue
        place, name = f"{spot}.valueFrom.fileKeyRef.volumeName", ref.get("volumeName", "")
        if name not in scope.volumes:
            errors.append(not_found(place, name))
        elif scope.volumes[name].get("emptyDir") is None:
            errors.append(invalid(place, name, "referenced volume must be of type emptyDir"))
    return errors


def validate_field_ref(ref: Tree, allowed: tuple[str, ...], path: str) -> list[FieldError]:
    """Return the errors of a reference to a field of the pod."""
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
            return problems(path, key, names.qualified_name(key.lower()))
        if base == "metadata.labels":
            return problems(path, key, names.qualified_name(key))
        if base not in _KNOWN_FIELDS:
            return [_unknown_field(text, path)]
        return [invalid(path, base, "does not support subscript")]
    if text not in _KNOWN_FIELDS:
        return [_unknown_field(text, path)]
    if text not in allowed:
        return [not_supported(f"{path}.fieldPath", text, allowed)]
    return []


def _unknown_field(text: str, path: str) -> FieldError:
    return invalid(
        f"{path}.fieldPath", text, f"error converting fieldPath: field label not supported: {text}"
    )


def validate_resource_ref(ref: Tree, path: str, *, volume: bool) -> list[FieldError]:
    """Return the errors of a reference to a resource of a container."""
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
    problem = f"only divisor's values {listed} are supported with the {what} resource"
    return [invalid(f"{path}.divisor", name, problem)]


def validate_env_from(sources: list[Tree], path: str) -> list[FieldError]:
    """Return the errors of the objects that bring environment variables."""
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        place = f"{path}[{index}]"
        prefix = source.get("prefix", "")
        if prefix:
            errors += problems(f"{place}.prefix", prefix, names.env_var_name(prefix))
        found = [key for key in ("configMapRef", "secretRef") if source.get(key) is not None]
        for key in found:
            named = source[key].get("name", "")
            if not named:
                errors.append(required(f"{place}.{key}.name"))
            else:
                # Upstream takes it for the start of a name, which may end with a dash.
                whole = f"{named[:-2]}a" if named[1:].endswith("-") else named
                texts = names.dns_subdomain(whole)
                errors += problems(f"{place}.{key}.name", named, texts)
        if not found:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(found) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors
