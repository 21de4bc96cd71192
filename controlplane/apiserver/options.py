"""Settings of an API server, and the build that it reports."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from attrs import field, frozen

from controlplane.api.aggregated_groups import AggregatedGroup
from controlplane.api.container_output import Output
from controlplane.api.host_access import LogOptions, Reached
from controlplane.api.object import Object
from controlplane.api.request import User
from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.api.usage import Stored as UsageObjects
from controlplane.api.usage import UsageSource
from controlplane.apiserver.schema.releases import LATEST, number
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.shell.files import Disks

__all__ = [
    "BUILD",
    "EMULATED_KEY",
    "ContainerLog",
    "Debugging",
    "ForeignReview",
    "Machines",
    "ServerOptions",
    "build_of",
]

BUILD: Tree = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",
    "gitCommit": "",
    "gitTreeState": "archive",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "go1.26.0",
    "compiler": "gc",
    "platform": "linux/amd64",
}
"""The answer of /version for the latest release."""


def build_of(release: str) -> Tree:
    """Return the answer of /version for a release such as "1.32"."""
    minor = release.partition(".")[2]
    if minor == BUILD["minor"]:
        return BUILD
    found = {**BUILD, "minor": minor, "gitVersion": f"v{release}.0"}
    if number(release) >= _TELLS_COMPATIBILITY:
        emulated = {"emulationMinor": minor, "minCompatibilityMinor": str(int(minor) - 1)}
        return {**found, **emulated}
    return {key: value for key, value in found.items() if not key.endswith(("Major", "Minor"))}


_TELLS_COMPATIBILITY: Final = 33
"""The minor release whose /version first says what it emulates and is compatible with."""


ContainerLog = Callable[[Tree, str, int, bool], Output]
"""The output of a container of a pod on a node up to a time, of its previous run or of the current one."""


EMULATED_KEY: Final = hashlib.sha256(b"tokens of an emulated world").digest()
"""The signing key where no server listens: no secret, so a server with external clients never accepts it."""

ForeignReview = Callable[[str, int, tuple[str, ...]], tuple[User, list[str]] | None]
"""A token's user at a time (ns), and the given audiences that it is valid for; None for an unknown token."""


COMPACTION_NS = 300 * SECOND
"""Upstream's default of `--etcd-compaction-interval`."""


def _healthy() -> dict[str, str]:
    return dict.fromkeys(("scheduler", "controller-manager", "etcd-0"), "")


class Machines(Protocol):
    """The machines of nodes, as far as exec and attach reach them."""

    @property
    def disks(self) -> Disks:
        """The content of volumes, and what containers wrote."""

    def waits(self, pod: Tree, container: str) -> bool:
        """Return whether the program of a container waits for a client at its standard input."""

    def kubelet(self, node: str) -> Any | None:
        """Return the mailbox in which a kubelet hears of such clients; None while it needs none."""


class NodePages(Protocol):
    """The pages of a server that stands for the kubelets of fake nodes."""

    @property
    def kinds(self) -> Mapping[str, tuple[str, str, str]]:
        """The custom kinds whose objects it goes by, with group, version and resource of each."""
        ...

    def text(
        self,
        path: str,
        nodes: Mapping[str, Tree],
        pods: Mapping[str, Sequence[Tree]],
        now: int,
        stored: UsageObjects,
    ) -> str | None:
        """Return the page at a path at a time (ns), by nodes and the pods of each node; None where there is none.

        `stored` returns the objects of one of `kinds`.
        """
        ...


Stored = Callable[[str, str, str], Iterable[Object[Any]]]
"""Returns the stored objects of a resource by group, version and name; none of one that is not served."""


class Debugging(Protocol):
    """Tells what pods on fake nodes lead to: None leaves the answer to the emulated container."""

    def at(self, stored: Stored) -> Debugging:
        """Return the same with the objects of the API as they are now."""
        ...

    def log(
        self, namespace: str, pod: str, container: str, options: LogOptions, *, previous: bool
    ) -> Reached | None:
        """Return what has the log of a container."""
        ...

    def exec(self, namespace: str, pod: str, container: str) -> Reached | None:
        """Return how a command in a container is run, without the command."""
        ...

    def attach(self, namespace: str, pod: str, container: str) -> Reached | None:
        """Return what has the output of a container."""
        ...

    def ports(self, namespace: str, pod: str) -> Reached | None:
        """Return what the ports of a pod lead to."""
        ...

    def topics(self) -> Mapping[str, int]:
        """Return the number of objects of each topic, such as Logs."""
        ...


@frozen
class ServerOptions:
    """The settings of an API server.

    Args:
        disabled: admission plugins to leave out.
        auto_namespaces: objects may be created in namespaces that do not exist.
        track_fields: every write records the managers of fields. Server-side apply needs that, and it costs time.
        authorize: users are restricted to the stored roles; else everything is allowed.
        watch_window: the number of events that a watch cache keeps for watches that start in the past.
        exact_windows: no watch begins before what a cache can serve (fix 49992).
        streams_lists: lists are sent item by item, never assembled as a whole (fix 129334).
        keeps_successors: an update that ends a deletion removes only the object that it has looked at (proposed
            repair 77952).
        deletes_as_listed: DELETECOLLECTION deletes only what is as its list had it, or still matches (proposed repair
            here1).
        address: the address at which clients reach the server, as discovery reports it.
        build: the answer of /version.
        components: the components that /componentstatuses reports, with the error of each.
        measures_usage: `metrics.k8s.io` is served.
        aggregated: the groups that other processes answer, by name.
        usage: tells the usage of pods; without it their annotations do.
        node_pages: pages that the server of fake nodes has.
        debugging: tells what logs, exec, attach and ports of pods on fake nodes lead to on the machine.
        container_log: returns the output of containers of pods on nodes; without it no node can be reached.
        machines: the machines that exec and attach reach.
        release: the release that determines resources, versions and fields.
        old_versions: serve some versions that ended before 1.25, too.
        registers_groups: versions of custom resources have an APIService while they are served.
        foreign_review: returns the user of a token that was signed elsewhere, and those of some audiences that it
            is valid for.
        notice_at_creation: the warning for the creation of an object of a resource, "" for none; its last
            argument says whether an external client has watched the resource.
        static_tokens: the user of each token that the server was started with, by the token's digest.
        token_key: 32 bytes that tokens of service accounts are signed with.
        webhook_actor: returns the actor that answers for a host of webhooks, "" if there is none; without it no
            webhook is called.
        compaction_ns: the interval (ns) at which a server with a store of its own compacts it up to the previous
            round; 0: never.
        gates: the feature gates that are on although they are off by default.
    """

    disabled: tuple[str, ...] = ()
    auto_namespaces: bool = False
    track_fields: bool = False
    authorize: bool = False
    watch_window: int = 10_000
    exact_windows: bool = True
    streams_lists: bool = True
    keeps_successors: bool = False
    deletes_as_listed: bool = False
    address: str = "127.0.0.1:6443"
    build: Tree = field(factory=lambda: BUILD)
    components: Mapping[str, str] = field(factory=_healthy)
    measures_usage: bool = False
    aggregated: Mapping[str, AggregatedGroup] = field(factory=dict)
    usage: UsageSource | None = None
    node_pages: NodePages | None = None
    debugging: Debugging | None = None
    container_log: ContainerLog | None = None
    machines: Machines | None = field(default=None, repr=False)
    notice_at_creation: Callable[[ResourceInfo, Tree, bool], str] | None = None
    webhook_actor: Callable[[str], str] | None = None
    release: str = LATEST
    old_versions: bool = False
    registers_groups: bool = False
    compaction_ns: int = 0
    foreign_review: ForeignReview | None = None
    static_tokens: Mapping[str, User] = field(factory=dict, repr=False)
    token_key: bytes = field(default=EMULATED_KEY, repr=False)
    gates: frozenset[str] = frozenset()

    @property
    def earlier(self) -> str:
        """The release, "" if it is the latest one."""
        return "" if self.release == LATEST else self.release
