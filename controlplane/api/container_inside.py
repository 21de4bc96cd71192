"""The inside of an emulated container: its environment and the files of its volumes."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import field, frozen

from controlplane.api import cgroups
from controlplane.api.quantity import QuantityError, parse
from controlplane.api.service_variables import variables_of
from controlplane.api.times import SECOND, parse_time
from controlplane.api.tree import Tree

__all__ = [
    "ANSWER",
    "Find",
    "Inside",
    "Mount",
    "answer_of",
    "container_of",
    "front_of",
    "inside_of",
    "mount_error",
    "services_at_start",
    "volume_place",
]

Find = Callable[[str, str, str], Tree | None]
"""An object of the core group by resource, namespace and name."""
ANSWER = "emulate.controlplane/answer"
"""Annotation: what the pod's HTTP server says, with `.PORT` of one port only."""
_PARTS = ("containers", "initContainers", "ephemeralContainers")


@frozen
class Mount:
    """A volume in a container: the path, the place that holds its files, and the directory of the place.

    A volume whose files come from the API can only be read; it has a place where others of its files are on a disk.
    """

    path: str
    place: str = ""
    sub_path: str = ""
    read_only: bool = False
    of_api: bool = False
    """Files that its place does not have are those of the API."""


@frozen
class Inside:
    """One container at one moment. `key` tells it from every other container of the run."""

    key: str
    hostname: str
    env: dict[str, str]
    files: dict[str, bytes]
    directory: str = "/"
    folders: tuple[str, ...] = ()
    """The directories at which volumes are mounted, those without files too."""
    mounts: tuple[Mount, ...] = ()
    layer: str = ""
    """The place of what is written outside of volumes."""
    command: tuple[str, ...] = ()
    """The words of the container's program; () where only its image knows them."""
    image: str = ""
    stdin: bool = False
    tty: bool = False
    now: int = 0
    """Nanoseconds since 1970."""
    waits: bool = False
    """The container's program waits for a client at its standard input."""
    read_only: bool = False
    """The root file system is only read."""
    node: str = ""
    user: int = 0
    group: int = 0
    groups: tuple[int, ...] = ()
    """The user id of the program, its group and its further groups."""
    ports: tuple[int, ...] = ()
    """The ports that the pod's containers name; none: all."""
    answers: dict[str, str] = field(factory=dict)
    """The answers of the pod's HTTP servers by port, "" for all other ports."""


def container_of(pod: Tree, name: str) -> Tree:
    """Return the container, init container or ephemeral container of a pod by its name.

    Raises:
        LookupError: the pod has no such container.
    """
    for each in _containers(pod):
        if each["name"] == name:
            return each
    raise LookupError(f"pod {pod['metadata']['name']} has no container {name}")


def _containers(pod: Tree) -> Iterator[Tree]:
    for part in _PARTS:
        yield from pod["spec"].get(part) or ()


def front_of(pod: Tree) -> Inside:
    """The answers of a pod to connections on its ports."""
    meta = pod["metadata"]
    named = [port["containerPort"] for each in _containers(pod) for port in each.get("ports") or ()]
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


def inside_of(
    pod: Tree,
    container: str,
    find: Find,
    *,
    now: int = 0,
    container_id: str | None = None,
    services: Iterable[Tree] = (),
) -> Inside:
    """The inside of a container of a pod.

    Args:
        pod: its tree.
        container: its name.
        find: finds objects of the core group.
        now: nanoseconds since 1970.
        container_id: of the run; by default that of the pod's status.
        services: the Services of all namespaces.

    Raises:
        LookupError: the pod has no such container.
    """
    spec, meta = pod["spec"], pod["metadata"]
    told = container_of(pod, container)
    namespace = meta.get("namespace", "")
    hostname = _hostname(pod)
    env = _environment(pod, told, find, services)
    files = {
        "/etc/hostname": f"{hostname}\n".encode(),
        "/etc/hosts": b"127.0.0.1\tlocalhost\n",
        "/etc/resolv.conf": (
            f"search {namespace}.svc.cluster.local svc.cluster.local cluster.local\n"
            "nameserver 10.0.0.10\n"
        ).encode(),
        **cgroups.files_of(told, _status_of(pod, container)),
    }
    volumes = {each["name"]: each for each in spec.get("volumes") or ()}
    mounts: list[Mount] = []
    for mount in told.get("volumeMounts") or ():
        volume = volumes.get(mount["name"]) or {}
        path = mount["mountPath"].rstrip("/") or "/"
        part = mount.get("subPath") or _expanded(mount.get("subPathExpr") or "", env)
        part = part.strip("/")
        place = _place(volume, pod, find)
        of_api = not place or "projected" in volume
        mounts.append(Mount(path, place, part, bool(mount.get("readOnly")) or of_api, of_api))
        for name, data in _volume(volume, pod, namespace, find):
            if not part:
                files[f"{path.rstrip('/')}/{name}"] = data
            elif part == name:
                files[path] = data
            elif name.startswith(f"{part}/"):
                files[f"{path.rstrip('/')}/{name[len(part) + 1 :]}"] = data
    key = f"{meta.get('uid', '')}/{container}"
    if container_id is None:
        container_id = _running_id(pod, container)
    return Inside(
        key,
        hostname,
        {**_given(hostname), **env},
        files,
        told.get("workingDir") or "/",
        folders=tuple(each.path for each in mounts if each.path not in files),
        mounts=tuple(mounts),
        layer=f"layer/{key}/{container_id}",
        command=command_of(told, env),
        image=told.get("image", ""),
        stdin=bool(told.get("stdin")),
        tty=bool(told.get("tty")),
        now=now,
        node=spec.get("nodeName", ""),
        **_identity(spec.get("securityContext") or {}, told.get("securityContext") or {}),
    )


def _hostname(pod: Tree) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])


def _given(hostname: str) -> dict[str, str]:
    """The variables that the runtime and the image set: references to them are not expanded."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": path, "HOSTNAME": hostname, "HOME": "/root"}


def services_at_start(pod: Tree, container: str, services: Iterable[Tree]) -> list[Tree]:
    """Return the Services that were there when a running container was started: later ones gave it no variables."""
    state = ((_status_of(pod, container) or {}).get("state") or {}).get("running") or {}
    if "startedAt" not in state:
        return list(services)
    end = parse_time(state["startedAt"]) + SECOND
    return [each for each in services if parse_time(each["metadata"]["creationTimestamp"]) < end]


def _environment(
    pod: Tree, container: Tree, find: Find, services: Iterable[Tree] = ()
) -> dict[str, str]:
    """The environment variables of a container, with references in place.

    Upstream: makeEnvironmentVariables of pkg/kubelet/kubelet_pods.go. Those of Services are overridden by all others.
    """
    namespace = pod["metadata"].get("namespace", "")
    links = pod["spec"].get("enableServiceLinks") is not False
    env = variables_of(services, namespace, links=links)
    for source in container.get("envFrom") or ():
        for key, data in _data_of(source, namespace, find).items():
            env[source.get("prefix", "") + key] = data.decode("utf-8", "replace")
    for each in container.get("env") or ():
        value = each.get("value")
        if value is None and each.get("valueFrom"):
            value = _referred(each["valueFrom"], pod, namespace, find, container["name"])
        env[each["name"]] = _expanded(value or "", env)
    return env


def _identity(of_pod: Tree, own: Tree) -> dict[str, Any]:
    """The user and the groups that security contexts ask for; root where they say nothing of them."""

    def chosen(field: str) -> int:
        return int(own.get(field, of_pod.get(field)) or 0)

    more = [*(of_pod.get("supplementalGroups") or ())]
    if "fsGroup" in of_pod:
        more.append(of_pod["fsGroup"])
    group = chosen("runAsGroup")
    groups = tuple(dict.fromkeys((group, *more)))
    return {
        "user": chosen("runAsUser"),
        "group": group,
        "groups": groups,
        "read_only": bool(own.get("readOnlyRootFilesystem")),
    }


def mount_error(pod: Tree, container: str, find: Find) -> str:
    """Return why a container's mounts cannot be made, "" if they can: paths in volumes that lead out of them.

    Upstream: `makeMounts` of pkg/kubelet/kubelet_pods.go, `ExpandContainerVolumeMounts` of pkg/kubelet/container.
    """
    told = container_of(pod, container)
    mounts = told.get("volumeMounts") or ()
    env = {}
    if any(each.get("subPathExpr") for each in mounts):
        env = _environment(pod, told, find)
    for each in mounts:
        path = each.get("subPath") or ""
        if text := each.get("subPathExpr"):
            names = {found[2] for found in _REFERENCE.finditer(text) if found[1] != "$"}
            missing = sorted(name for name in names if not env.get(name))
            if missing:
                return f"missing value for {', '.join(missing)}"
            path = _expanded(text, env)
        if path.startswith("/"):
            return f"error SubPath `{path}` must not be an absolute path"
        if ".." in path.split("/"):
            return f"unable to provision SubPath `{path}`: must not contain '..'"
    return ""


def command_of(container: Tree, env: dict[str, str]) -> tuple[str, ...]:
    """Return the words of a container's program, with variables in place; () where only its image knows them."""
    words = (*(container.get("command") or ()), *(container.get("args") or ()))
    return tuple(_expanded(word, env) for word in words)


def _status_of(pod: Tree, container: str) -> Tree | None:
    status = pod.get("status") or {}
    for part in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for each in status.get(part) or ():
            if each.get("name") == container:
                found: Tree = each
                return found
    return None


def _running_id(pod: Tree, container: str) -> str:
    """The id of the run that a pod's status shows."""
    return str((_status_of(pod, container) or {}).get("containerID") or "")


def _place(volume: Tree, pod: Tree, find: Find) -> str:
    """The place that holds the files of a volume; "" of one whose files come from the API."""
    meta, spec = pod["metadata"], pod["spec"]
    name = volume.get("name", "")
    if "hostPath" in volume:
        path = (volume["hostPath"].get("path") or "/").rstrip("/")
        return f"node/{spec.get('nodeName', '')}{path}"
    if "csi" in volume or "emptyDir" in volume or _holds_token(volume):
        return volume_place(meta.get("uid", ""), name)
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
    if "ephemeral" in volume:
        claim = f"{meta['name']}-{name}"
    if not claim:
        return ""
    found = find("persistentvolumeclaims", meta.get("namespace", ""), claim) or {}
    bound = (found.get("spec") or {}).get("volumeName", "")
    return f"volume/{bound}" if bound else ""


def volume_place(uid: str, volume: str) -> str:
    """Return the place of a volume that lives with its pod."""
    return f"pod/{uid}/{volume}"


def _holds_token(volume: Tree) -> bool:
    sources = (volume.get("projected") or {}).get("sources") or ()
    return any("serviceAccountToken" in each for each in sources)


_ADDRESSES = ("status.hostIPs", "status.podIPs")
_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")


def _expanded(text: str, env: dict[str, str]) -> str:
    """Return a text with the variables in `$(NAME)` in place; `$$` is a dollar sign.

    Upstream: third_party/forked/golang/expansion.
    """

    def value(found: re.Match[str]) -> str:
        return "$" if found[1] == "$" else env.get(found[2], found[0])

    return _REFERENCE.sub(value, text) if "$" in text else text


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


def _referred(source: Tree, pod: Tree, namespace: str, find: Find, container: str) -> str:
    for key, resource in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        if key in source:
            data = _content(find(resource, namespace, source[key].get("name", "")))
            return data.get(source[key]["key"], b"").decode("utf-8", "replace")
    if "fieldRef" in source:
        return _field(pod, source["fieldRef"].get("fieldPath", ""))
    if "resourceFieldRef" in source:
        return _resource(pod, source["resourceFieldRef"], container, find)
    return ""


def _resource(pod: Tree, source: Tree, container: str, find: Find) -> str:
    """The value of a resource of a container, in units of the divisor. Upstream: pkg/api/v1/resource/helpers.go."""
    name = source.get("containerName") or container
    told: Tree = next((each for each in _containers(pod) if each["name"] == name), {})
    kind, _, resource = source.get("resource", "").partition(".")
    text = ((told.get("resources") or {}).get(kind) or {}).get(resource)
    if text is None and kind == "limits":
        node = find("nodes", "", pod["spec"].get("nodeName", "")) or {}
        text = ((node.get("status") or {}).get("allocatable") or {}).get(resource)
    divisor = source.get("divisor") or "1"
    try:
        amount, unit = parse(text or "0"), parse("1" if divisor == "0" else divisor)
    except QuantityError:
        return "0"
    if resource == "cpu":
        return str(-(-amount.milli_value() // (unit.milli_value() or 1)))
    return str(-(-amount.value() // (unit.value() or 1)))


def _field(pod: Tree, path: str) -> str:
    """Return the downward API's value for a path."""
    bare, _, key = path.partition("[")
    value: Any = pod
    for step in bare.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if bare in _ADDRESSES and isinstance(value, list):
        return ",".join(str(each.get("ip", "")) for each in value)
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
        yield from _downward(volume["downwardAPI"], pod, find)
    for source in (volume.get("projected") or {}).get("sources") or ():
        for key, resource in (("configMap", "configmaps"), ("secret", "secrets")):
            if key in source:
                data = _content(find(resource, namespace, source[key].get("name", "")))
                yield from _chosen(source[key], data)
        if "downwardAPI" in source:
            yield from _downward(source["downwardAPI"], pod, find)


def _chosen(source: Tree, data: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    items = source.get("items")
    if not items:
        yield from data.items()
        return
    for item in items:
        if item["key"] in data:
            yield item["path"], data[item["key"]]


def _downward(source: Tree, pod: Tree, find: Find) -> Iterator[tuple[str, bytes]]:
    for item in source.get("items") or ():
        if "fieldRef" in item:
            yield item["path"], _field(pod, item["fieldRef"].get("fieldPath", "")).encode()
        elif "resourceFieldRef" in item:
            yield item["path"], _resource(pod, item["resourceFieldRef"], "", find).encode()
