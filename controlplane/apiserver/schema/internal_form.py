"""Objects as upstream's internal types print: Go field names, in order, nothing left out.

Some validation messages quote the offending part, or the difference between old and new, in this
form.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache
from itertools import chain, islice
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.field_order import in_order
from controlplane.apiserver.schema.internal_types import INTERNAL_TYPES
from controlplane.apiserver.schema.work import spend

__all__ = ["internal"]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
# Where the internal pod keeps what the versioned one has in its spec.
_POD_LEVEL = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_ZEROS: dict[str, Any] = {'""': "", '"0"': "0", "?": None, "null": None, "0": 0, "false": False}


def _json_name(name: str) -> str:
    """The JSON name of a Go field: initials in lower case, as Kubernetes writes them."""
    special = {
        "SELinuxOptions": "seLinuxOptions",
        "GMSACredentialSpecName": "gmsaCredentialSpecName",
        "GMSACredentialSpec": "gmsaCredentialSpec",
        "DNSPolicy": "dnsPolicy",
        "DNSConfig": "dnsConfig",
        "OS": "os",
        "TTY": "tty",
        "FSGroup": "fsGroup",
        "FSGroupChangePolicy": "fsGroupChangePolicy",
        "SELinuxChangePolicy": "seLinuxChangePolicy",
        "IP": "ip",
        "HTTPGet": "httpGet",
        "TCPSocket": "tcpSocket",
        "GRPC": "grpc",
        "CSI": "csi",
        "NFS": "nfs",
        "PodIP": "podIP",
        "HostIP": "hostIP",
        "UID": "uid",
        "FSType": "fsType",
        "HostPID": "hostPID",
        "HostIPC": "hostIPC",
        "APIVersion": "apiVersion",
        "HTTPHeaders": "httpHeaders",
        "APIGroup": "apiGroup",
        "GCEPersistentDisk": "gcePersistentDisk",
        "RBD": "rbd",
        "ISCSI": "iscsi",
        "IQN": "iqn",
        "ISCSIInterface": "iscsiInterface",
        "AWSElasticBlockStore": "awsElasticBlockStore",
        "FC": "fc",
        "CephFS": "cephfs",
        "StorageOS": "storageos",
        "CEL": "cel",
        "PDName": "pdName",
        "WWIDs": "wwids",
        "PdID": "pdID",
        "SSLEnabled": "sslEnabled",
    }
    return special.get(name, name[:1].lower() + name[1:])


@cache
def _entries(kind: str) -> tuple[tuple[str, str, str], ...]:
    """Name, JSON name and form of each field of a type."""
    found = []
    for entry in INTERNAL_TYPES[kind].split():
        name, _, form = entry.partition(":")
        name, _, key = name.partition("=")
        found.append((name, key or _json_name(name), form))
    return tuple(found)


def internal(kind: str, tree: Tree, written: Any = None) -> Tree:
    """The tree of a versioned type in internal form.

    `written` is the same part of the document that the tree was read from, if it was: a list that
    stood there without items prints as such until it is stored, one that did not as none.
    """
    out: Tree = {}
    given: Tree = written if isinstance(written, dict) else {}
    if kind == "PodSpec":
        security = {
            **(tree.get("securityContext") or {}),
            **{key: tree[key] for key in _POD_LEVEL if key in tree},
        }
        tree = {**tree, "securityContext": security}
        given = {**given, "securityContext": {**(given.get("securityContext") or {}), **given}}
    entries = _entries(kind)
    spend(len(entries))
    for name, key, form in entries:
        value, was = tree.get(key), given.get(key)
        if form.startswith("@"):
            out[name] = None if value is None else in_order(_META + form[1:], value)
        elif form.startswith("*"):
            out[name] = None if value is None else internal(form[1:], value, was)
        elif form.startswith("="):
            out[name] = internal(form[1:], value or {}, was)
        elif not value and isinstance(was, list | dict) and not was and form[:2] in ("[]", "nu"):
            out[name] = was
        elif form.startswith("[]"):
            items = was if isinstance(was, list) and len(was) == len(value or ()) else ()
            out[name] = (
                None
                if not value
                else [
                    internal(form[2:], item, items[index] if items else None)
                    for index, item in enumerate(value)
                ]
            )
        elif type(value) is dict:  # a map, whose keys Go's JSON sorts
            out[name] = dict(sorted(value.items()))
        else:
            out[name] = _ZEROS[form] if value is None else value
    return out


def difference(old: Tree, new: Tree) -> str:
    """The unified difference of two internal forms, as upstream's diff of their JSON."""
    import difflib

    left, right = _lines(old), _lines(new)
    before, after = list(islice(left, _COMPARED)), list(islice(right, _COMPARED))
    if len(before) + len(after) > _COMPARED:
        before, after = _apart(chain(before, left), chain(after, right))
    found = list(difflib.unified_diff(before, after, n=3, lineterm=""))
    return "".join(f"{line}\n" for line in found[2:])


_COMPARED = 4000
"""Lines in all; of more only the beginnings of what differs are compared."""
_CONTEXT = 3


def _lines(tree: Tree) -> Iterator[str]:
    """The lines of an object as JSON, one after the other: most are not wanted."""
    import json

    parts: list[str] = []
    for part in json.JSONEncoder(indent=1, ensure_ascii=False).iterencode(tree):
        first, *others = part.split("\n")
        parts.append(first)
        for other in others:
            yield "".join(parts)
            parts = [other]
    yield "".join(parts)


def _apart(before: Iterator[str], after: Iterator[str]) -> tuple[list[str], list[str]]:
    """The lines from where two long texts come apart, a few before that included."""
    same: deque[str] = deque(maxlen=_CONTEXT)
    ours, theirs = next(before, None), next(after, None)
    while ours is not None and ours == theirs:
        spend(1)
        same.append(ours)
        ours, theirs = next(before, None), next(after, None)
    most = _COMPARED // 2 - len(same)
    left, right = ([] if each is None else [each] for each in (ours, theirs))
    return (
        [*same, *islice(chain(left, before), most)],
        [*same, *islice(chain(right, after), most)],
    )
