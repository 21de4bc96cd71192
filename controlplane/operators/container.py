"""The surroundings of an operator's process: those of the container that it stands for.

Environment and files are what the emulated container has (downward API, config maps, secrets); the API server's
address and the credentials are those of the session. Upstream: client-go rest.InClusterConfig.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from controlplane.api.container_inside import inside_of
from controlplane.api.container_output import state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from controlplane.api.container_inside import Find
    from controlplane.api.tree import Tree
    from controlplane.operators.description import ProcessRule

__all__ = [
    "ACCOUNT",
    "Credentials",
    "Life",
    "Surroundings",
    "lives",
    "services_of",
    "surroundings",
]

ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""The folder in which client-go finds token, ca.crt and namespace."""
INHERITED: Final = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_DIR", "LD_LIBRARY_PATH")
"""Variables of this process that the command may need to start."""
_OWN: Final = ("PATH", "HOME")
"""Variables of the emulated container that mean nothing to a command of this machine."""
_LAID_OUT: Final = ("secret", "configMap", "projected", "downwardAPI")
"""Kinds of volumes whose files are laid out."""


@frozen
class Life:
    """One life of a container that runs as a process: the pod, the container's name, its id and the rule."""

    pod: Tree = field(repr=False)
    container: str
    container_id: str
    rule: ProcessRule

    @property
    def key(self) -> tuple[str, str]:
        """The container over all its lives."""
        return self.pod["metadata"]["uid"], self.container

    @property
    def name(self) -> str:
        """The pod's namespace and name."""
        meta = self.pod["metadata"]
        return f"{meta['namespace']}/{meta['name']}"


@frozen
class Credentials:
    """The address of the API server, and the token by which it knows the pod's service account."""

    host: str
    port: int
    token: str = field(repr=False)
    authority: bytes = field(repr=False)


@frozen
class Surroundings:
    """The inputs of a process: command line, environment, files by path, and the folders of its volumes."""

    command: tuple[str, ...]
    directory: str
    hostname: str
    env: dict[str, str]
    files: dict[str, bytes] = field(repr=False)
    folders: tuple[str, ...] = ()


def lives(pods: Iterable[Tree], rules: Iterable[ProcessRule]) -> Iterator[Life]:
    """Yield the running containers that are processes, and what each is."""
    rules = tuple(rules)
    for pod in pods:
        if pod["metadata"].get("deletionTimestamp"):
            continue
        for each in pod["spec"].get("containers") or ():
            rule = next((r for r in rules if fnmatchcase(each.get("image") or "", r.image)), None)
            known = state_of(pod, each["name"])
            if rule is not None and "running" in (known.get("state") or {}):
                yield Life(pod, each["name"], known.get("containerID") or "", rule)


def surroundings(
    life: Life, find: Find, credentials: Credentials, inherited: Mapping[str, str]
) -> Surroundings:
    """Return what the process of a container's life gets.

    Args:
        life: the container.
        find: looks objects of the core group up.
        credentials: of the API server.
        inherited: the environment of this process.
    """
    inside = inside_of(life.pod, life.container, find)
    meta = life.pod["metadata"]
    env = {key: inherited[key] for key in INHERITED if key in inherited}
    env["HOME"] = inherited.get("HOME", "/")
    env |= {key: value for key, value in inside.env.items() if key not in _OWN}
    env["KUBERNETES_SERVICE_HOST"] = credentials.host
    env["KUBERNETES_SERVICE_PORT"] = str(credentials.port)
    env["KUBERNETES_SERVICE_PORT_HTTPS"] = str(credentials.port)
    env["PYTHONUNBUFFERED"] = "1"
    env |= dict(life.rule.env)
    spec = next(each for each in life.pod["spec"]["containers"] if each["name"] == life.container)
    folders = tuple(_folders(life.pod, spec))
    files = {
        path: data
        for path, data in inside.files.items()
        if any(path.startswith(f"{folder}/") for folder in folders)
    }
    files[f"{ACCOUNT}/token"] = credentials.token.encode()
    files[f"{ACCOUNT}/ca.crt"] = credentials.authority
    files[f"{ACCOUNT}/namespace"] = meta["namespace"].encode()
    return Surroundings(
        tuple(_command(life.rule.command, spec)),
        life.rule.directory,
        inside.hostname,
        env,
        files,
        tuple(dict.fromkeys((*folders, ACCOUNT))),
    )


def _command(command: Iterable[str], spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of the command; `{args}` stands for the container's arguments."""
    for word in command:
        if word == "{args}":
            yield from spec.get("args") or ()
        else:
            yield word


def _folders(pod: Tree, spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield where the volumes are mounted whose files are laid out."""
    kinds = {
        each["name"]
        for each in pod["spec"].get("volumes") or ()
        if any(kind in each for kind in _LAID_OUT)
    }
    for mount in spec.get("volumeMounts") or ():
        path = mount["mountPath"].rstrip("/")
        if mount["name"] in kinds and not mount.get("subPath") and path:
            yield path


def services_of(trees: Iterable[Tree], rules: Iterable[ProcessRule]) -> dict[str, int]:
    """Return the ports of this machine at which the services of processes answer, by `NAME.NAMESPACE`.

    A process listens at its container's port. The first port of a service counts, as of webhooks' services.
    """
    trees, rules = list(trees), tuple(rules)
    made = [_template_of(tree, rules) for tree in trees]
    templates = [each for each in made if each is not None]
    found: dict[str, int] = {}
    for tree in trees:
        spec = tree.get("spec") or {}
        selector, ports = spec.get("selector"), spec.get("ports")
        if tree.get("kind") != "Service" or not selector or not ports:
            continue
        namespace = tree["metadata"].get("namespace") or "default"
        for place, labels, containers in templates:
            if place == namespace and selector.items() <= labels.items():
                port = _port_of(ports[0], containers)
                if port:
                    found[f"{tree['metadata']['name']}.{namespace}"] = port
    return found


def _template_of(
    tree: Tree, rules: tuple[ProcessRule, ...]
) -> tuple[str, dict[str, str], list[Tree]] | None:
    """Return namespace, labels and containers of a workload's or pod's process; None of others."""
    pod = tree if tree.get("kind") == "Pod" else (tree.get("spec") or {}).get("template")
    if not isinstance(pod, dict):
        return None
    containers = [
        each
        for each in (pod.get("spec") or {}).get("containers") or ()
        if any(fnmatchcase(each.get("image") or "", rule.image) for rule in rules)
    ]
    if not containers:
        return None
    namespace = (tree.get("metadata") or {}).get("namespace") or "default"
    return namespace, (pod.get("metadata") or {}).get("labels") or {}, containers


def _port_of(port: Mapping[str, Any], containers: Iterable[Tree]) -> int:
    target = port.get("targetPort") or port.get("port") or 0
    if isinstance(target, int):
        return target
    if str(target).isdigit():
        return int(target)
    for each in containers:
        for known in each.get("ports") or ():
            if known.get("name") == target:
                return int(known["containerPort"])
    return 0
