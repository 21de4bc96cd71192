"""Validation of volume sources, of pods and of persistent volumes."""

from __future__ import annotations

import re
from collections.abc import Callable

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.metadata import validate_annotations, validate_labels
from controlplane.apiserver.kinds.validation.claims import validate_claim_spec
from controlplane.apiserver.kinds.validation.containers import (
    validate_field_ref,
    validate_resource_ref,
)
from controlplane.apiserver.kinds.validation.paths import local_descending_path, path_no_backsteps
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)

__all__ = ["csi_driver_name", "validate_sources", "validate_volumes"]

_VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name",
                  "metadata.namespace", "metadata.uid")  # fmt: skip

_HOST_PATHS = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File",
               "FileOrCreate", "Socket")  # fmt: skip
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_IQN = re.compile(
    r"iqn\.\d{4}-\d{2}\.(?:(?:[a-z0-9-]+\.)++[a-z0-9-]*|[a-z0-9-]+)[a-z0-9]"
    r"(:[^,;*&$|\s]+)?",
    re.IGNORECASE,
)
"""Upstream says `([[:alnum:]-]+\\.?)+[[:alnum:]]`: the same texts, but for what backtracking takes."""
_EUI = re.compile(r"eui\.[a-f0-9]{16}", re.IGNORECASE)
_NAA = re.compile(r"naa\.[a-f0-9]{32}", re.IGNORECASE)


def _mode(source: Tree, key: str, path: str) -> list[FieldError]:
    mode = source.get(key)
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [invalid(f"{path}.{key}", mode, _MODE_TEXT)]


def _empty_dir(source: Tree, path: str) -> list[FieldError]:
    limit = source.get("sizeLimit")
    if limit is not None and quantity.parse(limit).sign() < 0:
        return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _host_path(source: Tree, path: str) -> list[FieldError]:
    text = source.get("path", "")
    if not text:
        return [required(f"{path}.path")]
    errors = path_no_backsteps(text, f"{path}.path")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATHS:
        errors.append(not_supported(f"{path}.type", kind, _HOST_PATHS))
    return errors


def _git_repo(source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not source.get("repository"):
        errors.append(required(f"{path}.repository"))
    if source.get("directory"):
        errors += local_descending_path(source["directory"], f"{path}.directory")
    return errors


def _key_to_path(item: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not item.get("key"):
        errors.append(required(f"{path}.key"))
    text = item.get("path", "")
    if not text:
        errors.append(required(f"{path}.path"))
    errors += local_descending_path(text, f"{path}.path")
    return errors + _mode(item, "mode", path)


def _items(source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(source.get("items") or ()):
        errors += _key_to_path(item, f"{path}.items[{index}]")
    return errors


def _secret(source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not source.get("secretName"):
        errors.append(required(f"{path}.secretName"))
    return errors + _mode(source, "defaultMode", path) + _items(source, path)


def _config_map(source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not source.get("name"):
        errors.append(required(f"{path}.name"))
    return errors + _mode(source, "defaultMode", path) + _items(source, path)


def _nfs(source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not source.get("server"):
        errors.append(required(f"{path}.server"))
    text = source.get("path", "")
    if not text:
        errors.append(required(f"{path}.path"))
    elif not text.startswith("/"):
        errors.append(invalid(f"{path}.path", text, "must be an absolute path"))
    return errors


def _iscsi(source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not source.get("targetPortal"):
        errors.append(required(f"{path}.targetPortal"))
    iqn = source.get("iqn", "")
    if not iqn:
        errors.append(required(f"{path}.iqn"))
    else:
        fits = {
            "iqn": _IQN.fullmatch, "eui": _EUI.fullmatch, "naa": _NAA.fullmatch,
        }.get(iqn[:3])  # fmt: skip
        if fits is None:
            errors.append(invalid(f"{path}.iqn", iqn,
                                  "must be valid format starting with iqn, eui, or naa"
                                  ))  # fmt: skip
        elif not fits(iqn):
            errors.append(invalid(f"{path}.iqn", iqn, "must be valid format"))
    lun = source.get("lun", 0)
    if not 0 <= lun <= 255:
        errors.append(invalid(f"{path}.lun", lun, "must be between 0 and 255, inclusive"))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and not source.get(
        "secretRef"
    ):
        errors.append(required(f"{path}.secretRef"))
    return errors


def _claim(source: Tree, path: str) -> list[FieldError]:
    return [] if source.get("claimName") else [required(f"{path}.claimName")]


def _pd(source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not source.get("pdName"):
        errors.append(required(f"{path}.pdName"))
    return errors + _partition(source, path)


def _partition(source: Tree, path: str) -> list[FieldError]:
    number = source.get("partition", 0)
    if 0 <= number <= 255:
        return []
    return [invalid(f"{path}.partition", number, "must be between 0 and 255, inclusive")]


def _ebs(source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not source.get("volumeID"):
        errors.append(required(f"{path}.volumeID"))
    return errors + _partition(source, path)


def _needs(*keys: str) -> Callable[[Tree, str], list[FieldError]]:
    def check(source: Tree, path: str) -> list[FieldError]:
        return [required(f"{path}.{key}") for key in keys if not source.get(key)]

    return check


def _downward_items(items: list[Tree], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for item in items:
        text = item.get("path", "")
        if not text:
            errors.append(required(f"{path}.path"))
        errors += local_descending_path(text, f"{path}.path")
        if item.get("fieldRef") is not None:
            errors += validate_field_ref(item["fieldRef"], _VOLUME_FIELDS, f"{path}.fieldRef")
            if item.get("resourceFieldRef") is not None:
                errors.append(invalid(path, "resource", (
                    "fieldRef and resourceFieldRef can not be specified simultaneously"
                )))  # fmt: skip
        elif item.get("resourceFieldRef") is not None:
            errors += validate_resource_ref(
                item["resourceFieldRef"], f"{path}.resourceFieldRef", volume=True
            )
        else:
            errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
        errors += _mode(item, "mode", path)
    return errors


def _downward(source: Tree, path: str) -> list[FieldError]:
    return _mode(source, "defaultMode", path) + _downward_items(source.get("items") or [], path)


def _projected(source: Tree, path: str) -> list[FieldError]:
    errors = _mode(source, "defaultMode", path)
    paths: dict[str, None] = {}
    for index, projection in enumerate(source.get("sources") or ()):
        place = f"{path}.sources[{index}]"
        found = 0
        for key in ("secret", "configMap", "downwardAPI", "serviceAccountToken",
                    "clusterTrustBundle", "podCertificate"):  # fmt: skip
            part = projection.get(key)
            if part is None:
                continue
            if found:
                errors.append(forbidden(place, "may not specify more than 1 volume type "
                                                          "per source"))  # fmt: skip
                continue
            found += 1
            errors += _projection(key, part, f"{place}.{key}", paths)
    return errors


def _projection(key: str, part: Tree, path: str, paths: dict[str, None]) -> list[FieldError]:
    errors: list[FieldError] = []
    if key in {"secret", "configMap"}:
        if not part.get("name"):
            errors.append(required(f"{path}.name"))
        errors += _items(part, path)
        errors += _unique_paths(part, path, paths)
    elif key == "downwardAPI":
        errors += _downward_items(part.get("items") or [], path)
        errors += _unique_paths(part, path, paths)
    elif key == "serviceAccountToken":
        seconds = part.get("expirationSeconds", 3600)
        if seconds < 600:
            errors.append(invalid(f"{path}.expirationSeconds", seconds,
                                  "may not specify a duration less than 10 minutes"
                                  ))  # fmt: skip
        if seconds > 1 << 32:
            errors.append(invalid(f"{path}.expirationSeconds", seconds,
                                  "may not specify a duration larger than 2^32 seconds"
                                  ))  # fmt: skip
        if not part.get("path"):
            errors.append(required(f"{path}.path"))
        elif local_descending_path(part["path"], path):
            errors += local_descending_path(part["path"], f"{path}.path")
    return errors


def _unique_paths(part: Tree, path: str, paths: dict[str, None]) -> list[FieldError]:
    errors: list[FieldError] = []
    for item in part.get("items") or ():
        text = item.get("path", "")
        if text and text in paths:
            errors.append(invalid(path, text, "conflicting duplicate paths"))
        paths[text] = None
    return errors


def _csi(source: Tree, path: str) -> list[FieldError]:
    driver = source.get("driver", "")
    errors = csi_driver_name(driver, f"{path}.driver")
    ref = source.get("nodePublishSecretRef")
    if ref is not None and not ref.get("name"):
        errors.append(required(f"{path}.nodePublishSecretRef.name"))
    return errors


def csi_driver_name(name: str, path: str) -> list[FieldError]:
    """The name of a CSI driver."""
    if not name:
        return [required(path)]
    errors: list[FieldError] = []
    if len(name) > 63:
        errors.append(too_long(path, 63))
    return errors + [invalid(path, name, p) for p in names.dns_subdomain(name.lower())]


def _ephemeral(source: Tree, path: str) -> list[FieldError]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [required(f"{path}.volumeClaimTemplate")]
    place = f"{path}.volumeClaimTemplate"
    meta = template.get("metadata") or {}
    errors = validate_annotations(meta.get("annotations") or {}, f"{place}.metadata.annotations")
    errors += validate_labels(meta.get("labels") or {}, f"{place}.metadata.labels")
    return errors + validate_claim_spec(template.get("spec") or {}, f"{place}.spec")


def _image(source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not source.get("reference"):
        errors.append(required(f"{path}.reference"))
    policy = source.get("pullPolicy", "")
    choices = ("Always", "IfNotPresent", "Never")
    if policy not in choices:
        errors.append(not_supported(f"{path}.pullPolicy", policy, choices))
    return errors


def _fc(source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not source.get("targetWWNs") and not source.get("wwids"):
        errors.append(required(f"{path}.targetWWNs", (
            "must specify either targetWWNs or wwids, but not both"
        )))  # fmt: skip
    if source.get("targetWWNs") and source.get("wwids"):
        errors.append(invalid(f"{path}.targetWWNs", source["targetWWNs"],
                              "targetWWNs and wwids can not be specified simultaneously"
                              ))  # fmt: skip
    if source.get("targetWWNs"):
        lun = source.get("lun")
        if lun is None:
            errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
        elif not 0 <= lun <= 255:
            errors.append(invalid(f"{path}.lun", lun, "must be between 0 and 255, inclusive"))
    return errors


_Check = Callable[[Tree, str], list[FieldError]]

# In the order in which upstream looks at them: of several sources the first counts.
_SOURCES: dict[str, _Check] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": _git_repo,
    "gcePersistentDisk": _pd,
    "awsElasticBlockStore": _ebs,
    "secret": _secret,
    "nfs": _nfs,
    "iscsi": _iscsi,
    "glusterfs": _needs("endpoints", "path"),
    "flocker": _needs(),
    "persistentVolumeClaim": _claim,
    "rbd": _needs("monitors", "image"),
    "cinder": _needs("volumeID"),
    "cephfs": _needs("monitors"),
    "quobyte": _needs("registry", "volume"),
    "downwardAPI": _downward,
    "fc": _fc,
    "configMap": _config_map,
    "azureFile": _needs("secretName", "shareName"),
    "flexVolume": _needs("driver"),
    "vsphereVolume": _needs("volumePath"),
    "photonPersistentDisk": _needs("pdID"),
    "portworxVolume": _needs("volumeID"),
    "azureDisk": _needs("diskName", "diskURI"),
    "storageos": _needs("volumeName"),
    "projected": _projected,
    "scaleIO": _needs("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}


def validate_sources(
    volume: Tree, path: str, missing: str, more: str = "may not specify more than 1 volume type",
    overrides: dict[str, _Check] | None = None, tolerated: str = "",
) -> list[FieldError]:  # fmt: skip
    """A volume has exactly one source; a second one that is `tolerated` goes unnoticed, as upstream."""
    errors: list[FieldError] = []
    found = 0
    for key, check in {**_SOURCES, **(overrides or {})}.items():
        source = volume.get(key)
        if source is None:
            continue
        if found and key != tolerated:
            errors.append(forbidden(f"{path}.{key}", more))
            continue
        found += 1
        errors += check(source, f"{path}.{key}")
    if not found:
        errors.append(required(path, missing))
    return errors


def validate_volumes(volumes: list[Tree], path: str) -> tuple[dict[str, Tree], list[FieldError]]:
    """The volumes of a pod; answers the good ones by name, too."""
    known: dict[str, Tree] = {}
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        place = f"{path}[{index}]"
        found = validate_sources(volume, place, "must specify a volume type")
        name = volume.get("name", "")
        if not name:
            found.append(required(f"{place}.name"))
        else:
            found += [invalid(f"{place}.name", name, problem) for problem in names.dns_label(name)]
        if name in known:
            found.append(duplicate(f"{place}.name", name))
        if found:
            errors += found
        else:
            known[name] = volume
    return known, errors
