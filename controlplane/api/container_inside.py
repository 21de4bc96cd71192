"""The inside of an emulated container: its environment and the files of its volumes."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import field, frozen

from controlplane.api.tree import Tree

__all__ = ["ANSWER", "Find", "Inside", "answer_of", "front_of", "inside_of"]

Find = Callable[[str, str, str], Tree | None]
"""An object of the core group by resource, namespace and name."""
ANSWER = "emulate.controlplane/answer"
"""Annotation: what the pod's HTTP server says, with `.PORT` of one port only."""
_PARTS = ("containers", "initContainers", "ephemeralContainers")


@frozen
class Inside:
    """One container at one moment. `key` tells it from every other container of the run."""

    key: str
    hostname: str
    env: dict[str, str]
    files: dict[str, bytes]
    directory: str = "/"
    folders: tuple[str, ...] = ()
    """Where volumes are mounted, those without files too."""
    ports: tuple[int, ...] = ()
    """The ports that the pod's containers name; none: all."""
    answers: dict[str, str] = field(factory=dict)
    """The answers of the pod's HTTP servers by port, "" for all other ports."""


def front_of(pod: Tree) -> Inside:
    """The answers of a pod to connections on its ports."""
    spec, meta = pod["spec"], pod["metadata"]
    named = [port["containerPort"] for part in _PARTS for each in spec.get(part) or ()
             for port in each.get("ports") or ()]  # fmt: skip
    answers = {}
    for key, text in (meta.get("annotations") or {}).items():
        if key == ANSWER or key.startswith(f"{ANSWER}."):
            answers[key[len(ANSWER) + 1 :]] = text.replace("{pod}", meta["name"])
    return Inside(f"{meta.get('uid', '')}/", meta["name"], {}, {}, ports=tuple(named),
                  answers=answers)  # fmt: skip


def answer_of(
    inside: Inside,
    port: int,
    method: str,
    target: str,
    headers: Iterable[tuple[str, str]],
    body: str,
) -> str:
    """Return what the HTTP server at a port of a pod answers: its annotation's text, or the request itself."""
    text = inside.answers.get(str(port), inside.answers.get(""))
    if text is not None:
        return text
    lines = [f"pod: {inside.hostname}", f"port: {port}", f"{method} {target}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\n".join(lines) + "\n" + (f"\n{body}" if body else "")


def inside_of(pod: Tree, container: str, find: Find) -> Inside:
    """The inside of a container of a pod."""
    spec, meta = pod["spec"], pod["metadata"]
    told: Tree = next(
        each for part in _PARTS for each in spec.get(part) or () if each["name"] == container
    )
    namespace = meta.get("namespace", "")
    hostname = spec.get("hostname") or meta["name"]
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
           "HOSTNAME": hostname, "HOME": "/root", "KUBERNETES_SERVICE_HOST": "10.0.0.1",
           "KUBERNETES_SERVICE_PORT": "443"}  # fmt: skip
    for source in told.get("envFrom") or ():
        for key, data in _data_of(source, namespace, find).items():
            env[source.get("prefix", "") + key] = data.decode("utf-8", "replace")
    for each in told.get("env") or ():
        value = each.get("value")
        if value is None and each.get("valueFrom"):
            value = _referred(each["valueFrom"], pod, namespace, find)
        env[each["name"]] = _expanded(value or "", env)
    files = {
        "/etc/hostname": f"{hostname}\n".encode(),
        "/etc/hosts": b"127.0.0.1\tlocalhost\n",
        "/etc/resolv.conf": (
            f"search {namespace}.svc.cluster.local svc.cluster.local cluster.local\n"
            "nameserver 10.0.0.10\n"
        ).encode(),
    }
    volumes = {each["name"]: each for each in spec.get("volumes") or ()}
    for mount in told.get("volumeMounts") or ():
        for name, data in _volume(volumes.get(mount["name"]) or {}, pod, namespace, find):
            part = mount.get("subPath")
            if not part:
                files[f"{mount['mountPath'].rstrip('/')}/{name}"] = data
            elif part == name:
                files[mount["mountPath"]] = data
    key = f"{meta.get('uid', '')}/{container}"
    folders = tuple(
        mount["mountPath"].rstrip("/") or "/"
        for mount in told.get("volumeMounts") or ()
        if mount["mountPath"] not in files
    )
    return Inside(key, hostname, env, files, told.get("workingDir") or "/", folders)


def _expanded(text: str, env: dict[str, str]) -> str:
    for key, value in env.items():
        text = text.replace(f"$({key})", value)
    return text


def _content(found: Tree | None) -> dict[str, bytes]:
    """The data of a config map or secret."""
    if found is None:
        return {}
    data: dict[str, bytes] = {}
    for key, value in (found.get("data") or {}).items():
        secret = found.get("kind") == "Secret"
        data[key] = base64.b64decode(value) if secret else value.encode()
    for key, value in (found.get("binaryData") or {}).items():
        data[key] = base64.b64decode(value)
    return data


def _data_of(source: Tree, namespace: str, find: Find) -> dict[str, bytes]:
    for key, resource in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
        if key in source:
            return _content(find(resource, namespace, source[key].get("name", "")))
    return {}


def _referred(source: Tree, pod: Tree, namespace: str, find: Find) -> str:
    for key, resource in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        if key in source:
            data = _content(find(resource, namespace, source[key].get("name", "")))
            return data.get(source[key]["key"], b"").decode("utf-8", "replace")
    if "fieldRef" in source:
        return _field(pod, source["fieldRef"].get("fieldPath", ""))
    return ""


def _field(pod: Tree, path: str) -> str:
    """Return the downward API's value for a path."""
    bare, _, key = path.partition("[")
    value: Any = pod
    for step in bare.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if key and isinstance(value, dict):
        return str(value.get(key.strip("]'\""), ""))
    if isinstance(value, dict):
        return "\n".join(f'{name}="{each}"' for name, each in sorted(value.items()))
    return "" if value is None else str(value)


def _volume(volume: Tree, pod: Tree, namespace: str, find: Find) -> Iterator[tuple[str, bytes]]:
    """Files of a volume that the API tells of; others are empty."""
    for key, resource, named in (
        ("configMap", "configmaps", "name"),
        ("secret", "secrets", "secretName"),
    ):
        if key in volume:
            source = volume[key]
            yield from _chosen(source, _content(find(resource, namespace, source.get(named, ""))))
    if "downwardAPI" in volume:
        yield from _downward(volume["downwardAPI"], pod)
    for source in (volume.get("projected") or {}).get("sources") or ():
        for key, resource in (("configMap", "configmaps"), ("secret", "secrets")):
            if key in source:
                data = _content(find(resource, namespace, source[key].get("name", "")))
                yield from _chosen(source[key], data)
        if "downwardAPI" in source:
            yield from _downward(source["downwardAPI"], pod)


def _chosen(source: Tree, data: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    items = source.get("items")
    if not items:
        yield from data.items()
        return
    for item in items:
        if item["key"] in data:
            yield item["path"], data[item["key"]]


def _downward(source: Tree, pod: Tree) -> Iterator[tuple[str, bytes]]:
    for item in source.get("items") or ():
        if "fieldRef" in item:
            yield item["path"], _field(pod, item["fieldRef"].get("fieldPath", "")).encode()
