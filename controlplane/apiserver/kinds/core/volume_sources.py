"""Rules of single sources of volumes. Upstream: pkg/apis/core/validation."""

from __future__ import annotations

import re
from collections.abc import Callable

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import (
    local_descending_path,
    no_longer,
    one_of,
    optional_one_of,
    path_no_backsteps,
    present,
    problems,
    when,
)
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)

__all__ = [
    "LONG",
    "csi_driver_name",
    "long_iscsi",
    "needs",
    "validate_azure_disk",
    "validate_cinder",
    "validate_claim",
    "validate_csi",
    "validate_ebs",
    "validate_empty_dir",
    "validate_fc",
    "validate_flex",
    "validate_flocker",
    "validate_git_repo",
    "validate_host_path",
    "validate_image",
    "validate_initiator",
    "validate_iscsi",
    "validate_nfs",
    "validate_pd",
    "validate_quobyte",
    "validate_secret_ref",
    "validate_storage_os",
]

_HOST_PATHS = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)


_IQN = re.compile(r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+:[^,;*&$|\s]+")
_EUI = re.compile(r"eui.[A-Za-z0-9]{16}")
_NAA = re.compile(r"naa.[A-Za-z0-9]{32}")
_INITIATORS = {"iqn": _IQN.fullmatch, "eui": _EUI.fullmatch, "naa": _NAA.fullmatch}
"""The forms of the names of iSCSI nodes, by kind. Upstream's first one may begin anywhere in a name."""


def validate_empty_dir(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of an empty directory."""
    limit = source.get("sizeLimit")
    if limit is not None and quantity.parse(limit).sign() < 0:
        return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def validate_host_path(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of a path of the host."""
    text = source.get("path", "")
    if not text:
        return [required(f"{path}.path")]
    errors = path_no_backsteps(text, f"{path}.path")
    kind = source.get("type")
    return errors + optional_one_of(kind, f"{path}.type", _HOST_PATHS)


def validate_git_repo(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of a git repository."""
    errors = present(source, "repository", path)
    if source.get("directory"):
        errors += local_descending_path(source["directory"], f"{path}.directory")
    return errors


def validate_nfs(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of an NFS export."""
    errors = present(source, "server", path)
    text = source.get("path", "")
    errors += when(not text, required, f"{path}.path")
    errors += when(
        not text.startswith("/"), invalid, f"{path}.path", text, "must be an absolute path"
    )
    return errors


def validate_iscsi(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of an iSCSI disk."""
    errors = present(source, "targetPortal", path)
    errors += validate_initiator(source.get("iqn", ""), f"{path}.iqn")
    lun = source.get("lun", 0)
    errors += when(
        not 0 <= lun <= 255, invalid, f"{path}.lun", lun, "must be between 0 and 255, inclusive"
    )
    errors += when(
        (source.get("chapAuthDiscovery") or source.get("chapAuthSession"))
        and not source.get("secretRef"),
        required,
        f"{path}.secretRef",
    )
    if source.get("initiatorName"):
        errors += validate_initiator(source["initiatorName"], f"{path}.initiatorname")
    return errors


_STARTS = "must be valid format starting with iqn, eui, or naa"


def validate_initiator(name: str, path: str, unknown: str = _STARTS) -> list[FieldError]:
    """Return the errors of the name of an iSCSI node; `unknown` is the message for an unknown kind."""
    if not name:
        return [required(path)]
    fits = _INITIATORS.get(name[:3])
    if fits is None:
        return [invalid(path, name, unknown)]
    return [] if fits(name) else [invalid(path, name, "must be valid format")]


LONG = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
    "iscsi.initiatorName is specified."
)


def long_iscsi(source: Tree | None, name: str) -> bool:
    """Return whether the volume's name and the portal are too long together."""
    if source is None or source.get("initiatorName") is None:
        return False
    return len(f"{name}:{source.get('targetPortal', '')}".encode()) > 64


def validate_claim(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of a reference to a claim."""
    return [] if source.get("claimName") else [required(f"{path}.claimName")]


def validate_pd(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of a GCE disk."""
    return present(source, "pdName", path) + _partition(source, path)


def _partition(source: Tree, path: str) -> list[FieldError]:
    number = source.get("partition", 0)
    if 0 <= number <= 255:
        return []
    return [invalid(f"{path}.partition", number, "must be between 0 and 255, inclusive")]


def validate_ebs(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of an AWS disk."""
    return present(source, "volumeID", path) + _partition(source, path)


def needs(*keys: str) -> Callable[[Tree, str], list[FieldError]]:
    """Return a rule that the fields are given."""

    def check(source: Tree, path: str) -> list[FieldError]:
        return [required(f"{path}.{key}") for key in keys if not source.get(key)]

    return check


def validate_csi(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of a CSI volume in a pod."""
    driver = source.get("driver", "")
    errors = csi_driver_name(driver, f"{path}.driver")
    ref = source.get("nodePublishSecretRef")
    if ref is not None:
        name = ref.get("name", "")
        if not name:
            errors.append(required(f"{path}.nodePublishSecretRef.name"))
        else:
            errors += problems(f"{path}.name", name, names.dns_subdomain(name))
    return errors


def csi_driver_name(name: str, path: str) -> list[FieldError]:
    """The name of a CSI driver."""
    if not name:
        return [required(path)]
    return no_longer(name, path, 63) + problems(path, name, names.dns_subdomain(name.lower()))


def validate_image(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of an image volume."""
    errors = present(source, "reference", path)
    policy = source.get("pullPolicy", "")
    choices = ("Always", "IfNotPresent", "Never")
    return errors + one_of(policy, f"{path}.pullPolicy", choices)


def validate_fc(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of a fibre channel disk."""
    errors = when(
        not source.get("targetWWNs") and not source.get("wwids"),
        required,
        f"{path}.targetWWNs",
        "must specify either targetWWNs or wwids, but not both",
    )
    if source.get("targetWWNs") and source.get("wwids"):
        text = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(f"{path}.targetWWNs", source["targetWWNs"], text))
    if source.get("targetWWNs"):
        lun = source.get("lun")
        if lun is None:
            errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
        elif not 0 <= lun <= 255:
            errors.append(invalid(f"{path}.lun", lun, "must be between 0 and 255, inclusive"))
    return errors


def validate_flocker(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of a Flocker volume."""
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors = when(
        not name and not uid, required, path, "one of datasetName and datasetUUID is required"
    )
    text = "datasetName and datasetUUID can not be specified simultaneously"
    errors += when(name and uid, invalid, path, "resource", text)
    return errors + when("/" in name, invalid, f"{path}.datasetName", name, "must not contain '/'")


_REGISTRY = "must be a host:port pair or multiple pairs separated by commas"


def validate_quobyte(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of a Quobyte volume."""
    errors: list[FieldError] = []
    registry = source.get("registry", "")
    if not registry:
        errors.append(required(f"{path}.registry", _REGISTRY))
    elif len(source.get("tenant", "").encode()) >= 65:
        text = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(required(f"{path}.tenant", text))
    else:
        errors += [
            invalid(f"{path}.registry", registry, _REGISTRY)
            for pair in registry.split(",")
            if not _HOST_PORT.fullmatch(pair)
        ]
    return errors + needs("volume")(source, path)


_HOST_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*")
"""The addresses that Go's net.SplitHostPort accepts."""


def validate_flex(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of a flex volume."""
    errors = needs("driver")(source, path)
    for key in sorted(source.get("options") or {}):
        space = f".{key.partition('/')[0].lower()}"
        errors += when(
            space.endswith((".kubernetes.io", ".k8s.io")),
            invalid,
            f"{path}.options[{key}]",
            key,
            "kubernetes.io and k8s.io namespaces are reserved",
        )
    return errors


_CACHING = ("None", "ReadOnly", "ReadWrite")
_DISKS = ("Dedicated", "Managed", "Shared")
_MANAGED = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/"
    "{disk-id}"
)


_BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def validate_azure_disk(source: Tree, path: str) -> list[FieldError]:
    """Return the errors of an Azure disk."""
    errors = needs("diskName", "diskURI")(source, path)
    caching, kind, uri = source.get("cachingMode"), source.get("kind"), source.get("diskURI", "")
    errors += optional_one_of(caching, f"{path}.cachingMode", _CACHING)
    if kind is None:
        return errors
    errors += one_of(kind, f"{path}.kind", _DISKS)
    start, form = ("/subscriptions/", _MANAGED) if kind == "Managed" else ("https://", _BLOB)
    return errors + when(not uri.startswith(start), not_supported, f"{path}.diskURI", uri, (form,))


def validate_secret_ref(source: Tree, path: str, *parts: str) -> list[FieldError]:
    """Return the errors of a reference to a secret, in which the parts are needed."""
    ref = source.get("secretRef")
    if ref is None:
        return []
    return [required(f"{path}.secretRef.{part}") for part in parts if not ref.get(part)]


def validate_cinder(source: Tree, path: str, *parts: str) -> list[FieldError]:
    """Return the errors of a Cinder volume."""
    return needs("volumeID")(source, path) + validate_secret_ref(source, path, "name", *parts)


def validate_storage_os(source: Tree, path: str, *parts: str) -> list[FieldError]:
    """Return the errors of a StorageOS volume."""
    errors = needs("volumeName")(source, path)
    for key in ("volumeName", "volumeNamespace"):
        text = source.get(key, "")
        if text:
            errors += problems(f"{path}.{key}", text, names.dns_label(text))
    return errors + validate_secret_ref(source, path, "name", *parts)
