"""Rules of volumes in pods and of persistent volumes: each source once. Upstream: pkg/apis/core/validation."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import (
    entries,
    local_name_path,
    path_no_backsteps,
    present,
    problems,
    when,
)
from controlplane.apiserver.kinds.core.persistent_volume_claims import validate_claim_spec
from controlplane.apiserver.kinds.core.pods.environment import (
    validate_field_ref,
    validate_resource_ref,
)
from controlplane.apiserver.kinds.core.volume_sources import (
    LONG,
    csi_driver_name,
    long_iscsi,
    needs,
    validate_azure_disk,
    validate_cinder,
    validate_claim,
    validate_csi,
    validate_ebs,
    validate_empty_dir,
    validate_fc,
    validate_flex,
    validate_flocker,
    validate_git_repo,
    validate_host_path,
    validate_image,
    validate_initiator,
    validate_iscsi,
    validate_nfs,
    validate_pd,
    validate_quobyte,
    validate_secret_ref,
    validate_storage_os,
)
from controlplane.apiserver.kinds.metadata import validate_annotations, validate_labels
from controlplane.apiserver.kinds.selectors import selector_shown, validate_label_selector
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)

__all__ = ["validate_volume_source", "validate_volumes"]

_VOLUME_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)


_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"


def _mode(source: Tree, key: str, path: str) -> list[FieldError]:
    mode = source.get(key)
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [invalid(f"{path}.{key}", mode, _MODE_TEXT)]


def _key_to_path(item: Tree, path: str) -> list[FieldError]:
    errors = present(item, "key", path)
    text = item.get("path", "")
    errors += when(not text, required, f"{path}.path")
    errors += local_name_path(text, f"{path}.path")
    return errors + _mode(item, "mode", path)


def _items(source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for item, place in entries(source, "items", path):
        errors += _key_to_path(item, place)
    return errors


def _secret(source: Tree, path: str) -> list[FieldError]:
    errors = present(source, "secretName", path)
    return errors + _mode(source, "defaultMode", path) + _items(source, path)


def _config_map(source: Tree, path: str) -> list[FieldError]:
    errors = present(source, "name", path)
    return errors + _mode(source, "defaultMode", path) + _items(source, path)


def _downward_items(items: list[Tree], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for item in items:
        text = item.get("path", "")
        errors += when(not text, required, f"{path}.path")
        errors += local_name_path(text, f"{path}.path")
        if item.get("fieldRef") is not None:
            errors += validate_field_ref(item["fieldRef"], _VOLUME_FIELDS, f"{path}.fieldRef")
            problem = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors += when(
                item.get("resourceFieldRef") is not None, invalid, path, "resource", problem
            )
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


_PROJECTIONS = (
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
)


def _projected(source: Tree, path: str) -> list[FieldError]:
    errors = _mode(source, "defaultMode", path)
    paths: dict[str, None] = {}
    for projection, place in entries(source, "sources", path):
        given = [key for key in _PROJECTIONS if projection.get(key) is not None]
        for key in given:
            errors += _projection(key, projection[key], f"{place}.{key}", path, paths)
        errors += when(
            len(given) > 1, forbidden, place, "may not specify more than 1 volume type per source"
        )
    return errors


def _projection(
    key: str, part: Tree, path: str, whole: str, paths: dict[str, None]
) -> list[FieldError]:
    """One part of a projected volume, which stands at `whole`; `paths` are those taken so far."""
    errors: list[FieldError] = []
    if key in {"secret", "configMap"}:
        errors += present(part, "name", path)
        for item, place in entries(part, "items", path):
            errors += _key_to_path(item, place)
            errors += _taken(item, whole, part.get("name", ""), paths)
    elif key == "downwardAPI":
        for item in part.get("items") or ():
            errors += _downward_items([item], path)
            errors += _taken(item, whole, item.get("path", ""), paths)
    elif key == "serviceAccountToken":
        seconds = part.get("expirationSeconds", 3600)
        problem = "may not specify a duration less than 10 minutes"
        errors += when(seconds < 600, invalid, f"{path}.expirationSeconds", seconds, problem)
        problem = "may not specify a duration larger than 2^32 seconds"
        errors += when(seconds > 1 << 32, invalid, f"{path}.expirationSeconds", seconds, problem)
        if not part.get("path"):
            errors.append(required(f"{whole}.path"))
        else:
            errors += local_name_path(part["path"], f"{whole}.path")
    elif key == "clusterTrustBundle":
        errors += _trust_bundle(part, path)
        text = part.get("path", "")
        errors += when(not text, required, f"{path}.path")
        errors += local_name_path(text, f"{path}.path")
        errors += when(text in paths, invalid, whole, text, "conflicting duplicate paths")
        paths[text] = None
    return errors


def _trust_bundle(part: Tree, path: str) -> list[FieldError]:
    """Return the errors of the choice of a trust bundle: one by name, or those of a signer."""
    name, signer = part.get("name"), part.get("signerName")
    selector = part.get("labelSelector")
    if name is not None and signer is not None:
        shown = {
            "Name": name,
            "SignerName": signer,
            "LabelSelector": selector_shown(selector),
            "Optional": part.get("optional"),
            "Path": part.get("path", ""),
        }
        return [invalid(path, shown, "only one of name and signerName may be used")]
    errors: list[FieldError] = []
    if name is not None:
        errors += when(not name, required, f"{path}.name", "must be a valid object name")
        if selector is not None:
            text = "labelSelector must be unset if name is specified"
            errors.append(invalid(f"{path}.labelSelector", selector_shown(selector), text))
    elif signer is not None:
        errors += when(not signer, required, f"{path}.signerName", "must be a valid signer name")
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


_META_FIELDS = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uID",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


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


def _pv_glusterfs(source: Tree, path: str) -> list[FieldError]:
    errors = needs("endpoints", "path")(source, path)
    space, place = source.get("endpointsNamespace"), f"{path}.endpointsNamespace"
    if space == "":
        text = "if the endpointnamespace is set, it must be a valid namespace name"
        errors.append(invalid(place, space, text))
    elif space is not None:
        errors += problems(place, space, names.dns_label(space))
    return errors


def _pv_iscsi(source: Tree, path: str, name: str) -> list[FieldError]:
    errors = needs("targetPortal")(source, path)
    errors += when(
        long_iscsi(source, name),
        invalid,
        f"{path}.targetportal",
        source.get("targetPortal", ""),
        LONG,
    )
    errors += validate_initiator(source.get("iqn", ""), f"{path}.iqn", "must be valid format")
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
    errors += validate_secret_ref(source, path, "name")
    if source.get("initiatorName"):
        place = f"{path}.initiatorname"
        errors += validate_initiator(source["initiatorName"], place, "must be valid format")
    return errors


def _pv_cinder(source: Tree, path: str) -> list[FieldError]:
    return validate_cinder(source, path, "namespace")


def _pv_storage_os(source: Tree, path: str) -> list[FieldError]:
    return validate_storage_os(source, path, "namespace")


def _pv_azure_file(source: Tree, path: str) -> list[FieldError]:
    errors = needs("secretName", "shareName")(source, path)
    return errors + when(source.get("secretNamespace") == "", required, f"{path}.secretNamespace")


def _pv_csi(source: Tree, path: str) -> list[FieldError]:
    errors = csi_driver_name(source.get("driver", ""), f"{path}.driver")
    errors += needs("volumeHandle")(source, path)
    for key in (
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ):
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
    "emptyDir": validate_empty_dir,
    "hostPath": validate_host_path,
    "gitRepo": validate_git_repo,
    "gcePersistentDisk": validate_pd,
    "awsElasticBlockStore": validate_ebs,
    "secret": _secret,
    "nfs": validate_nfs,
    "iscsi": validate_iscsi,
    "glusterfs": needs("endpoints", "path"),
    "flocker": validate_flocker,
    "persistentVolumeClaim": validate_claim,
    "rbd": needs("monitors", "image"),
    "cinder": validate_cinder,
    "cephfs": needs("monitors"),
    "quobyte": validate_quobyte,
    "downwardAPI": _downward,
    "fc": validate_fc,
    "flexVolume": validate_flex,
    "configMap": _config_map,
    "azureFile": needs("secretName", "shareName"),
    "vsphereVolume": needs("volumePath"),
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "azureDisk": validate_azure_disk,
    "storageos": validate_storage_os,
    "projected": _projected,
    "scaleIO": needs("gateway", "system", "volumeName"),
    "csi": validate_csi,
    "ephemeral": _ephemeral,
    "image": validate_image,
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
        errors += when(
            key == "iscsi" and long_iscsi(source, name), invalid, f"{path}.name", name, LONG
        )
    return errors if found else [*errors, required(path, _MISSING)]


def _made_claim(name: str, claim: str, path: str) -> list[FieldError]:
    """The claim that is made for an ephemeral volume has a proper name."""
    return [
        invalid(path, name, f"PVC name {quote(claim)}: {problem}")
        for problem in names.dns_subdomain(claim)
    ]


# In the order in which upstream looks at those of persistent volumes.
_PV_SOURCES: dict[str, _Check] = {
    "hostPath": validate_host_path,
    "gcePersistentDisk": validate_pd,
    "awsElasticBlockStore": validate_ebs,
    "glusterfs": _pv_glusterfs,
    "flocker": validate_flocker,
    "nfs": validate_nfs,
    "rbd": needs("monitors", "image"),
    "quobyte": validate_quobyte,
    "cephfs": needs("monitors"),
    "iscsi": needs(),  # with the volume's name: see below
    "cinder": _pv_cinder,
    "fc": validate_fc,
    "flexVolume": validate_flex,
    "azureFile": _pv_azure_file,
    "vsphereVolume": needs("volumePath"),
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "azureDisk": validate_azure_disk,
    "scaleIO": needs("gateway", "system", "volumeName"),
    "local": _local,
    "storageos": _pv_storage_os,
    "csi": _pv_csi,
}


def validate_volume_source(
    spec: Tree, path: str, name: str, *, reachable: bool
) -> list[FieldError]:
    """Return the errors of the source of a persistent volume; `reachable` says whether it has a node affinity.

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
        text = "Local volume requires node affinity"
        errors += when(key == "local" and not reachable, required, f"{path}.nodeAffinity", text)
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
        text = "must not reference a PVC that gets created for an ephemeral volume"
        errors += when(
            claim in made, invalid, f"{place}.persistentVolumeClaim.claimName", claim, text
        )
    return known, errors
