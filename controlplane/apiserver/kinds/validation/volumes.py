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
from controlplane.apiserver.kinds.validation.paths import (
    local_descending_path,
    local_name_path,
    path_no_backsteps,
)
from controlplane.apiserver.kinds.validation.selectors import (
    selector_shown,
    validate_label_selector,
)
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
)

__all__ = ["csi_driver_name", "validate_volume_source", "validate_volumes"]

_VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name",
                  "metadata.namespace", "metadata.uid")  # fmt: skip

_HOST_PATHS = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File",
               "FileOrCreate", "Socket")  # fmt: skip
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_IQN = re.compile(r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+:[^,;*&$|\s]+")
_EUI = re.compile(r"eui.[A-Za-z0-9]{16}")
_NAA = re.compile(r"naa.[A-Za-z0-9]{32}")
_INITIATORS = {"iqn": _IQN.fullmatch, "eui": _EUI.fullmatch, "naa": _NAA.fullmatch}
"""The forms of the names of iSCSI nodes, by kind. Upstream's first one may begin anywhere in a name."""


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
    errors += local_name_path(text, f"{path}.path")
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
    if not text.startswith("/"):
        errors.append(invalid(f"{path}.path", text, "must be an absolute path"))
    return errors


def _iscsi(source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not source.get("targetPortal"):
        errors.append(required(f"{path}.targetPortal"))
    errors += _initiator(source.get("iqn", ""), f"{path}.iqn")
    lun = source.get("lun", 0)
    if not 0 <= lun <= 255:
        errors.append(invalid(f"{path}.lun", lun, "must be between 0 and 255, inclusive"))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and not source.get(
        "secretRef"
    ):
        errors.append(required(f"{path}.secretRef"))
    if source.get("initiatorName"):
        errors += _initiator(source["initiatorName"], f"{path}.initiatorname")
    return errors


_STARTS = "must be valid format starting with iqn, eui, or naa"


def _initiator(name: str, path: str, unknown: str = _STARTS) -> list[FieldError]:
    """Return the errors of the name of an iSCSI node; `unknown` is the message for an unknown kind."""
    if not name:
        return [required(path)]
    fits = _INITIATORS.get(name[:3])
    if fits is None:
        return [invalid(path, name, unknown)]
    return [] if fits(name) else [invalid(path, name, "must be valid format")]


_LONG = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
    "iscsi.initiatorName is specified."
)


def _long_iscsi(source: Tree | None, name: str) -> bool:
    """Return whether the volume's name and the portal are too long together."""
    if source is None or source.get("initiatorName") is None:
        return False
    return len(f"{name}:{source.get('targetPortal', '')}".encode()) > 64


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
        errors += local_name_path(text, f"{path}.path")
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


_PROJECTIONS = ("secret", "configMap", "downwardAPI", "serviceAccountToken",
                "clusterTrustBundle", "podCertificate")  # fmt: skip


def _projected(source: Tree, path: str) -> list[FieldError]:
    errors = _mode(source, "defaultMode", path)
    paths: dict[str, None] = {}
    for index, projection in enumerate(source.get("sources") or ()):
        place = f"{path}.sources[{index}]"
        given = [key for key in _PROJECTIONS if projection.get(key) is not None]
        for key in given:
            errors += _projection(key, projection[key], f"{place}.{key}", path, paths)
        if len(given) > 1:
            errors.append(forbidden(place, "may not specify more than 1 volume type per source"))
    return errors


def _projection(
    key: str, part: Tree, path: str, whole: str, paths: dict[str, None]
) -> list[FieldError]:
    """One part of a projected volume, which stands at `whole`; `paths` are those taken so far."""
    errors: list[FieldError] = []
    if key in {"secret", "configMap"}:
        if not part.get("name"):
            errors.append(required(f"{path}.name"))
        for index, item in enumerate(part.get("items") or ()):
            errors += _key_to_path(item, f"{path}.items[{index}]")
            errors += _taken(item, whole, part.get("name", ""), paths)
    elif key == "downwardAPI":
        for item in part.get("items") or ():
            errors += _downward_items([item], path)
            errors += _taken(item, whole, item.get("path", ""), paths)
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
            errors.append(required(f"{whole}.path"))
        else:
            errors += local_name_path(part["path"], f"{whole}.path")
    elif key == "clusterTrustBundle":
        errors += _trust_bundle(part, path)
        text = part.get("path", "")
        if not text:
            errors.append(required(f"{path}.path"))
        errors += local_name_path(text, f"{path}.path")
        if text in paths:
            errors.append(invalid(whole, text, "conflicting duplicate paths"))
        paths[text] = None
    return errors


def _trust_bundle(part: Tree, path: str) -> list[FieldError]:
    """Return the errors of the choice of a trust bundle: one by name, or those of a signer."""
    name, signer = part.get("name"), part.get("signerName")
    selector = part.get("labelSelector")
    if name is not None and signer is not None:
        shown = {
            "Name": name, "SignerName": signer, "LabelSelector": selector_shown(selector),
            "Optional": part.get("optional"), "Path": part.get("path", ""),
        }  # fmt: skip
        return [invalid(path, shown, "only one of name and signerName may be used")]
    errors: list[FieldError] = []
    if name is not None:
        if not name:
            errors.append(required(f"{path}.name", "must be a valid object name"))
        if selector is not None:
            errors.append(invalid(f"{path}.labelSelector", selector_shown(selector),
                                  "labelSelector must be unset if name is specified"
                                  ))  # fmt: skip
    elif signer is not None:
        if not signer:
            errors.append(required(f"{path}.signerName", "must be a valid signer name"))
        errors += validate_label_selector(selector, f"{path}.labelSelector")
    else:
        errors.append(required(path, "either name or signerName must be specified"))
    return errors


def _taken(item: Tree, whole: str, shown: str, paths: dict[str, None]) -> list[FieldError]:
    """Two parts of a projected volume do not write the same file."""
    text = item.get("path", "")
    if not text:
        return []
    again = text in paths
    paths[text] = None
    return [invalid(whole, shown, "conflicting duplicate paths")] if again else []


def _csi(source: Tree, path: str) -> list[FieldError]:
    driver = source.get("driver", "")
    errors = csi_driver_name(driver, f"{path}.driver")
    ref = source.get("nodePublishSecretRef")
    if ref is not None:
        name = ref.get("name", "")
        if not name:
            errors.append(required(f"{path}.nodePublishSecretRef.name"))
        else:
            errors += [invalid(f"{path}.name", name, p) for p in names.dns_subdomain(name)]
    return errors


def csi_driver_name(name: str, path: str) -> list[FieldError]:
    """The name of a CSI driver."""
    if not name:
        return [required(path)]
    errors: list[FieldError] = []
    if len(name) > 63:
        errors.append(too_long(path, 63))
    return errors + [invalid(path, name, p) for p in names.dns_subdomain(name.lower())]


_META_FIELDS = ("name", "generateName", "namespace", "selfLink", "uID", "resourceVersion",
                "generation", "creationTimestamp", "deletionTimestamp",
                "deletionGracePeriodSeconds", "ownerReferences", "finalizers",
                "managedFields")  # fmt: skip
_SPELT = {"uID": "uid"}  # upstream makes only the first letter of the Go name small
_META_POINTERS = ("deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields")


def _ephemeral(source: Tree, path: str) -> list[FieldError]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [required(f"{path}.volumeClaimTemplate")]
    place = f"{path}.volumeClaimTemplate"
    meta = template.get("metadata") or {}
    errors = validate_annotations(meta.get("annotations") or {}, f"{place}.metadata.annotations")
    errors += validate_labels(meta.get("labels") or {}, f"{place}.metadata.labels")
    errors += [
        forbidden(f"{place}.metadata.{key}", "cannot be set")
        for key in _META_FIELDS
        if meta.get(_SPELT.get(key, key)) or (key in _META_POINTERS and meta.get(key) is not None)
    ]
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


def _flocker(source: Tree, path: str) -> list[FieldError]:
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors: list[FieldError] = []
    if not name and not uid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uid:
        errors.append(invalid(path, "resource", (
            "datasetName and datasetUUID can not be specified simultaneously"
        )))  # fmt: skip
    if "/" in name:
        errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return errors


_REGISTRY = "must be a host:port pair or multiple pairs separated by commas"


def _quobyte(source: Tree, path: str) -> list[FieldError]:
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
    return errors + _needs("volume")(source, path)


_HOST_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*")
"""The addresses that Go's net.SplitHostPort accepts."""


def _flex(source: Tree, path: str) -> list[FieldError]:
    errors = _needs("driver")(source, path)
    for key in sorted(source.get("options") or {}):
        space = f".{key.partition('/')[0].lower()}"
        if space.endswith((".kubernetes.io", ".k8s.io")):
            errors.append(invalid(f"{path}.options[{key}]", key,
                                  "kubernetes.io and k8s.io namespaces are reserved"
                                  ))  # fmt: skip
    return errors


_CACHING = ("None", "ReadOnly", "ReadWrite")
_DISKS = ("Dedicated", "Managed", "Shared")
_MANAGED = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/"
    "{disk-id}"
)
_BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def _azure_disk(source: Tree, path: str) -> list[FieldError]:
    errors = _needs("diskName", "diskURI")(source, path)
    caching, kind, uri = source.get("cachingMode"), source.get("kind"), source.get("diskURI", "")
    if caching is not None and caching not in _CACHING:
        errors.append(not_supported(f"{path}.cachingMode", caching, _CACHING))
    if kind is None:
        return errors
    if kind not in _DISKS:
        errors.append(not_supported(f"{path}.kind", kind, _DISKS))
    start, form = ("/subscriptions/", _MANAGED) if kind == "Managed" else ("https://", _BLOB)
    if not uri.startswith(start):
        errors.append(not_supported(f"{path}.diskURI", uri, (form,)))
    return errors


def _secret_ref(source: Tree, path: str, *parts: str) -> list[FieldError]:
    ref = source.get("secretRef")
    if ref is None:
        return []
    return [required(f"{path}.secretRef.{part}") for part in parts if not ref.get(part)]


def _cinder(source: Tree, path: str, *parts: str) -> list[FieldError]:
    return _needs("volumeID")(source, path) + _secret_ref(source, path, "name", *parts)


def _storage_os(source: Tree, path: str, *parts: str) -> list[FieldError]:
    errors = _needs("volumeName")(source, path)
    for key in ("volumeName", "volumeNamespace"):
        text = source.get(key, "")
        if text:
            errors += [invalid(f"{path}.{key}", text, p) for p in names.dns_label(text)]
    return errors + _secret_ref(source, path, "name", *parts)


# -- of persistent volumes -----------------------------------------------------------------------


def _pv_glusterfs(source: Tree, path: str) -> list[FieldError]:
    errors = _needs("endpoints", "path")(source, path)
    space, place = source.get("endpointsNamespace"), f"{path}.endpointsNamespace"
    if space == "":
        text = "if the endpointnamespace is set, it must be a valid namespace name"
        errors.append(invalid(place, space, text))
    elif space is not None:
        errors += [invalid(place, space, p) for p in names.dns_label(space)]
    return errors


def _pv_iscsi(source: Tree, path: str, name: str) -> list[FieldError]:
    errors = _needs("targetPortal")(source, path)
    if _long_iscsi(source, name):
        errors.append(invalid(f"{path}.targetportal", source.get("targetPortal", ""), _LONG))
    errors += _initiator(source.get("iqn", ""), f"{path}.iqn", "must be valid format")
    lun = source.get("lun", 0)
    if not 0 <= lun <= 255:
        errors.append(invalid(f"{path}.lun", lun, "must be between 0 and 255, inclusive"))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and not source.get(
        "secretRef"
    ):
        errors.append(required(f"{path}.secretRef"))
    errors += _secret_ref(source, path, "name")
    if source.get("initiatorName"):
        place = f"{path}.initiatorname"
        errors += _initiator(source["initiatorName"], place, "must be valid format")
    return errors


def _pv_cinder(source: Tree, path: str) -> list[FieldError]:
    return _cinder(source, path, "namespace")


def _pv_storage_os(source: Tree, path: str) -> list[FieldError]:
    return _storage_os(source, path, "namespace")


def _pv_azure_file(source: Tree, path: str) -> list[FieldError]:
    errors = _needs("secretName", "shareName")(source, path)
    if source.get("secretNamespace") == "":
        errors.append(required(f"{path}.secretNamespace"))
    return errors


def _pv_csi(source: Tree, path: str) -> list[FieldError]:
    errors = csi_driver_name(source.get("driver", ""), f"{path}.driver")
    errors += _needs("volumeHandle")(source, path)
    for key in ("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef",
                "nodeExpandSecretRef"):  # fmt: skip
        ref = source.get(key)
        if ref is None:
            continue
        for part, rule in (("name", names.dns_subdomain), ("namespace", names.dns_label)):
            text, place = ref.get(part, ""), f"{path}.{key}.{part}"
            errors += [invalid(place, text, p) for p in rule(text)] if text else [required(place)]
    return errors


def _local(source: Tree, path: str) -> list[FieldError]:
    text = source.get("path", "")
    if not text:
        return [required(f"{path}.path")]
    return path_no_backsteps(text, f"{path}.path")


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
    "flocker": _flocker,
    "persistentVolumeClaim": _claim,
    "rbd": _needs("monitors", "image"),
    "cinder": _cinder,
    "cephfs": _needs("monitors"),
    "quobyte": _quobyte,
    "downwardAPI": _downward,
    "fc": _fc,
    "flexVolume": _flex,
    "configMap": _config_map,
    "azureFile": _needs("secretName", "shareName"),
    "vsphereVolume": _needs("volumePath"),
    "photonPersistentDisk": _needs("pdID"),
    "portworxVolume": _needs("volumeID"),
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
    "projected": _projected,
    "scaleIO": _needs("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}


_INSIDE = {"gcePersistentDisk": "persistentDisk"}
"""The paths of the parts within a source in upstream's messages."""
_SECOND = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""The paths of a surplus source in upstream's messages."""
_MORE = "may not specify more than 1 volume type"
_MISSING = "must specify a volume type"


def _sources(volume: Tree, path: str, name: str, pod: str) -> list[FieldError]:
    """A volume has exactly one source. `pod` is the pod's name, empty in templates."""
    errors: list[FieldError] = []
    found = 0
    for key, check in _SOURCES.items():
        source = volume.get(key)
        if source is None:
            continue
        if found:
            errors.append(forbidden(f"{path}.{_SECOND.get(key, key)}", _MORE))
        else:
            errors += check(source, f"{path}.{_INSIDE.get(key, key)}")
            if key == "ephemeral" and pod and name:
                errors += _made_claim(name, f"{pod}-{name}", f"{path}.name")
        found += 1
        if key == "iscsi" and _long_iscsi(source, name):
            errors.append(invalid(f"{path}.name", name, _LONG))
    return errors if found else [*errors, required(path, _MISSING)]


def _made_claim(name: str, claim: str, path: str) -> list[FieldError]:
    """The claim that is made for an ephemeral volume has a proper name."""
    return [
        invalid(path, name, f"PVC name {go_quote(claim)}: {problem}")
        for problem in names.dns_subdomain(claim)
    ]


# In the order in which upstream looks at those of persistent volumes.
_PV_SOURCES: dict[str, _Check] = {
    "hostPath": _host_path,
    "gcePersistentDisk": _pd,
    "awsElasticBlockStore": _ebs,
    "glusterfs": _pv_glusterfs,
    "flocker": _flocker,
    "nfs": _nfs,
    "rbd": _needs("monitors", "image"),
    "quobyte": _quobyte,
    "cephfs": _needs("monitors"),
    "iscsi": _needs(),  # with the volume's name: see below
    "cinder": _pv_cinder,
    "fc": _fc,
    "flexVolume": _flex,
    "azureFile": _pv_azure_file,
    "vsphereVolume": _needs("volumePath"),
    "photonPersistentDisk": _needs("pdID"),
    "portworxVolume": _needs("volumeID"),
    "azureDisk": _azure_disk,
    "scaleIO": _needs("gateway", "system", "volumeName"),
    "local": _local,
    "storageos": _pv_storage_os,
    "csi": _pv_csi,
}


def validate_volume_source(
    spec: Tree, path: str, name: str, *, reachable: bool
) -> list[FieldError]:
    """The source of a persistent volume; `reachable` says whether it has a node affinity.

    A second source that is a flex volume goes unnoticed, as upstream.
    """
    errors: list[FieldError] = []
    found = 0
    for key, check in _PV_SOURCES.items():
        source = spec.get(key)
        if source is None:
            continue
        if found and key != "flexVolume":
            errors.append(forbidden(f"{path}.{_SECOND.get(key, key)}", _MORE))
            continue
        found += 1
        place = f"{path}.{_INSIDE.get(key, key)}"
        errors += _pv_iscsi(source, place, name) if key == "iscsi" else check(source, place)
        if key == "local" and not reachable:
            errors.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    return errors if found else [*errors, required(path, _MISSING)]


def validate_volumes(
    volumes: list[Tree], path: str, pod: str = ""
) -> tuple[dict[str, Tree], list[FieldError]]:
    """The volumes of a pod; answers the good ones by name, too. `pod` is the pod's name, if known."""
    known: dict[str, Tree] = {}
    errors: list[FieldError] = []
    made = {
        f"{pod}-{volume.get('name', '')}": None
        for volume in volumes
        if pod and volume.get("ephemeral") is not None
    }
    for index, volume in enumerate(volumes):
        place = f"{path}[{index}]"
        name = volume.get("name", "")
        found = _sources(volume, place, name, pod)
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
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        if claim in made:
            errors.append(invalid(f"{place}.persistentVolumeClaim.claimName", claim,
                                  "must not reference a PVC that gets created for an ephemeral "
                                  "volume"))  # fmt: skip
    return known, errors
