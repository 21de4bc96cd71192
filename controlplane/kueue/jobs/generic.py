"""Jobs of kinds that are not built in: the interface between Kueue and a user's class.

Upstream's name for it is GenericJob (`pkg/controller/jobframework/interface.go`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from attrs import define

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.field_errors import FieldError
from controlplane.client.resources import Resource
from controlplane.errors import UsageError
from controlplane.kueue.jobs.kinds import Steps
from controlplane.kueue.jobs.objects import Kind
from controlplane.kueue.jobs.pod_sets import (
    Info,
    PermanentError,
    merge_into,
    pod_set,
    restore,
    topology_request,
)
from controlplane.kueue.jobs.workloads import ObjectJob

__all__ = ["GenericJob", "check_class", "framework_of"]

NEEDED = ("pod_sets", "started", "restored", "is_active", "finished", "pods_ready")
"""The methods that a class must define."""


@define
class GenericJob(ObjectJob):
    """A job of a kind of one's own, which Kueue queues and admits as it does with a batch/Job.

    A class derived from this one names its `kind` and the `plural` of its resource, and defines `pod_sets`, `started`,
    `restored`, `is_active`, `finished` and `pods_ready`. Kueue makes an instance for each reconcile and each admission
    review; `tree` is the object as it was read. Trees are shared: a method that changes one returns a new one.

    The object is suspended by `spec.suspend`; a kind that does that otherwise defines `is_suspended` and
    `suspended`, too.

    Attributes:
        kind: group, version and kind.
        plural: the name of the resource in the API, such as "jobsets".
        tree: the object.
    """

    kind: ClassVar[Kind]
    plural: ClassVar[str]

    # -- a class may define ------------------------------------------------------------------------

    def is_suspended(self) -> bool:
        """Return whether the job keeps its pods from running: `spec.suspend` is true."""
        return self.tree["spec"].get("suspend") is True

    def suspended(self, tree: Tree) -> Tree:
        """The object suspended: `spec.suspend` is true."""
        return {**tree, "spec": {**tree["spec"], "suspend": True}}

    def validate(self, old: Tree | None) -> Sequence[FieldError]:
        """Return further errors of the object at its creation, or at an update of `old`."""
        return ()

    # -- what a class may use ----------------------------------------------------------------------

    def pod_set(
        self,
        name: str,
        template: Tree,
        count: int,
        *,
        minimum: int | None = None,
        index_label: str = "",
        sub_group: tuple[str, int] | None = None,
    ) -> Tree:
        """A pod set of the Workload, with the topology that annotations of its template ask for.

        Args:
            name: its name, unique in the job.
            template: the pod template.
            count: the number of pods.
            minimum: the fewest pods with which the job may start (partial admission); one pod set may have it.
            index_label: the label that numbers the pods.
            sub_group: the label that numbers sub-groups of pods, and their count.
        """
        annotations = (template.get("metadata") or {}).get("annotations") or {}
        topology = topology_request(annotations, self.around.gates, index_label, sub_group)
        if topology is not None and not index_label:
            del topology["podIndexLabel"]
        return pod_set(name.lower(), template, count, topology, minimum)

    def merged(self, template: Tree, info: Info) -> Tree:
        """A pod template with the node selector, tolerations, labels, annotations and gates of an admission added.

        Raises:
            PermanentError: The template has other values already; the Workload then ends with FailedToStart.
        """
        return merge_into(template, info, self.around.gates)

    def original(self, template: Tree, info: Info) -> Tree:
        """A pod template with these parts as they were before the start."""
        return restore(template, info)

    # -- what Kueue calls --------------------------------------------------------------------------

    def run(self, infos: Sequence[Info], message: str) -> Steps:
        """Start the job with one request."""
        expected = len(self.pod_sets())
        if len(infos) != expected:
            text = f"invalid podset infos: expecting {expected} podset, got {len(infos)}"
            raise PermanentError(text)
        yield from ObjectJob.run(self, infos, message)

    def stop(self, infos: Sequence[Info], reason: str, message: str) -> Steps:
        """Suspend the job with one request; its templates stay where they do not fit to the Workload's pod sets."""
        fitting = infos if len(infos) == len(self.pod_sets()) else ()
        return (yield from ObjectJob.stop(self, fitting, reason, message))


def framework_of(kind: Kind) -> str:
    """The name of a kind's integration, as in `integrations.frameworks`: "jobset.x-k8s.io/jobset"."""
    return f"{kind.group}/{kind.kind.lower()}"


def resource_of(cls: type[GenericJob]) -> Resource[Any]:
    """The resource of the objects."""
    return Resource(cls.kind.group, cls.kind.version, cls.plural)


def check_class(cls: type[GenericJob], place: str, taken: Sequence[str]) -> None:
    """Refuse a class that does not say what it has to.

    Args:
        cls: the class.
        place: the module that defines it, for the message.
        taken: names of kinds that Kueue knows already.

    Raises:
        UsageError: A part is missing or wrong; the text names it.
    """
    at = f"{place}: class {cls.__name__}"
    kind = getattr(cls, "kind", None)
    if not isinstance(kind, Kind) or not all(kind):
        raise UsageError(f"{at}: kind: expected Kind(GROUP, VERSION, KIND)")
    if kind.kind in taken:
        raise UsageError(f"{at}: kind: Kueue has an integration of a kind {kind.kind} already")
    plural = getattr(cls, "plural", None)
    if not isinstance(plural, str) or not plural:
        raise UsageError(f'{at}: plural: expected the name of a resource, such as "jobsets"')
    for name in NEEDED:
        if getattr(cls, name) is getattr(GenericJob, name):
            raise UsageError(f"{at}: {name}: expected a method")
