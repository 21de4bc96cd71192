"""Common parts of controllers: caches, handlers that queue keys, and a reconcile for each of the queues.

A controller is decisions only. It asks its `Host` for the time and for its queues, tells it events,
and yields effects (`controllers.effects`). `controllers.loops.manager` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.client.indexer import Indexer
from controlplane.client.resources import Resource
from controlplane.controllers.common.effects import Reconcile

if TYPE_CHECKING:
    from controlplane.api.aggregated_groups import Refused
    from controlplane.api.generic import V
    from controlplane.api.object import Object
    from controlplane.api.usage import UsageSource
    from controlplane.api.view import View
    from controlplane.client.election import ElectionConfig
    from controlplane.controllers.common.rest_mapper import RESTMapper, ServedKind
    from controlplane.gates import FixGates
    from controlplane.metrics.family import Family

NORMAL = "Normal"
WARNING = "Warning"


class Queue(Protocol):
    """A work queue, as a controller sees it. Times are nanoseconds."""

    def add(self, key: str) -> None:
        """Ask for a key to be reconciled."""

    def add_after(self, key: str, delay_ns: int, *, idle: bool = False) -> None:
        """Ask for it later. An idle delay does not keep the run from settling."""

    def add_rate_limited(self, key: str, *, idle: bool = False) -> None:
        """Ask for it after a backoff that grows until `forget`, or until it is reconciled without error."""

    def forget(self, key: str) -> None:
        """The backoff of this key begins anew."""

    def failures(self, key: str) -> int:
        """Return the number of failures in a row of this key."""

    def relax(self, key: str) -> None:
        """A delay of this key need not be awaited: nothing depends on it any more."""


class Host(Protocol):
    """The interface of a controller to its runner."""

    @property
    def now(self) -> int:
        """Nanoseconds since the Unix epoch."""

    @property
    def features(self) -> Mapping[str, bool]:
        """The feature gates that controllers know (`controllers.features`)."""

    @property
    def fixes(self) -> FixGates:
        """The fixes of published races that are in force."""

    def start_work(self, work: Work) -> None:
        """Start the workers of a queue that a running controller turned out to need."""
        ...

    @property
    def usage(self) -> UsageSource | None:
        """Tells the usage of pods; None: their annotations do."""

    @property
    def rest_mapper(self) -> RESTMapper:
        """The kinds that are served."""

    @property
    def root_ca(self) -> str:
        """The certificate against which pods check the API server's (PEM)."""

    def queue(self, name: str) -> Queue:
        """The queue of this name; the controller's `queues` says what is done with its keys."""

    def event(self, about: View | Tree, kind: str, reason: str, message: str) -> None:
        """Report an event about an object, or about what a reference names; `kind` is Normal or Warning."""

    def log(self, event: str, about: View, data: Tree) -> None:
        """Write an event of the vocabulary about an object to the log."""


class Caches:
    """The stores of the shared informers: one per resource, with the indexes of all readers."""

    def __init__(self) -> None:
        self.stores: dict[Resource[Any], Indexer[Any]] = {}

    def of(
        self, resource: Resource[V], **index: Callable[[Object[V]], tuple[str, ...]]
    ) -> Indexer[V]:
        """The cache of a resource, with these indexes; ask while controllers are being made."""
        found = self.stores.get(resource)
        if found is None:
            found = self.stores[resource] = Indexer()
        found.add_indexes(**index)
        return found


class Handlers(NamedTuple):
    """Handlers of changes of one resource. The flag says that the final state is unknown."""

    added: Callable[[Object[Any]], None]
    updated: Callable[[Object[Any], Object[Any]], None]
    deleted: Callable[[Object[Any], bool], None]


@frozen
class Work:
    """The reconcile of the keys of a queue.

    After `max_retries` failures in a row a key is dropped until it is asked for again; None never
    drops. `workers` None is the manager's default.
    """

    queue: str
    reconcile: Callable[[str], Reconcile[None]]
    max_retries: int | None = None
    workers: int | None = None
    backoff_ns: tuple[int, int] | None = None
    """The first and the longest backoff of a key; upstream's default limiter unless given."""
    on_demand: bool = False
    """The workers start with the first key, which `add_after` adds: most worlds have none."""
    on_followers: bool = False
    """Replicas that do not lead work the queue, too (`Controller.election`)."""


@frozen
class Periodic:
    """A periodic task; it does not keep a run from settling."""

    name: str
    interval_ns: int
    reconcile: Callable[[], Reconcile[None]]
    after_ns: int = 0
    """The time of the first run, counted from the start."""


class Controller:
    """One controller's memory."""

    name: ClassVar[str]
    """As `--controllers` of upstream's controller manager calls it."""

    any_kind: ClassVar[bool] = False
    """The controller watches objects of all kinds, also of those that are defined later."""

    component: ClassVar[str] = ""
    """The source of its events; its name unless said otherwise."""

    client_rate: ClassVar[tuple[int, int] | None] = None
    """The limit of its requests as a process of its own: requests per second, and the size of a burst."""

    client_rate_by_kind: ClassVar[bool] = False
    """Each kind of objects has this limit of its own, as with clients of controller-runtime."""

    replicas: ClassVar[int] = 1
    """The number of its processes. Of several one leads."""

    election: ClassVar[ElectionConfig | None] = None
    """The Lease and the times of the leader election; None for the defaults."""

    warm: ClassVar[bool] = False
    """All replicas run from the start: the leader works its queues, and the others those that are `on_followers`.
    Else replicas that do not lead run nothing."""

    answers: ClassVar[bool] = False
    """Requests for an aggregated group come to this controller, in a process of its own (`answer`)."""

    def __init__(self, host: Host, caches: Caches) -> None:
        self.host = host

    def elected(self) -> None:
        """Called when this replica is elected, before the workers of its other queues start."""

    def answer(self, request: Tree) -> Tree | Refused:
        """Return the answer to a request for an aggregated group (`controlplane.api.aggregated_groups`)."""
        raise NotImplementedError

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Return the handlers of changes, by resource."""
        return {}

    def handlers_of_kind(self, kind: ServedKind) -> Handlers | None:
        """Return the handlers of changes of a custom kind that is served from now on, if any."""
        return None

    def defined_later(self) -> Sequence[Resource[Any]]:
        """Return the custom resources among those it reads for whose definition its process does not wait."""
        return ()

    def work(self) -> Sequence[Work]:
        """The queues, and what is done with their keys."""
        return ()

    def families(self) -> Iterable[Family]:
        """Return a snapshot of the controller's metrics."""
        return ()

    def periodic(self) -> Sequence[Periodic]:
        """Return the periodic tasks."""
        return ()

    @classmethod
    def goes_on(cls) -> Sequence[str]:
        """Return the work that a longer run would show after the run has settled, one line each."""
        return ()


def ignore(*_: Any) -> None:
    """The handler that does nothing."""
