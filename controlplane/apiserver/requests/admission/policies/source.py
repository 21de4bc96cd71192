"""The stored policies with their bindings, compiled: in force until the next refresh.

Upstream reads policies and bindings through informers and compiles them at most once a second, so a
new policy is enforced up to a second after it was written, and a deleted one that much longer: the
owner of a `Source` calls `refresh` when that second is over. Policies are called by name, where upstream
goes by the order of a map. Upstream: apiserver pkg/admission/plugin/policy/generic/policy_source.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from attrs import frozen

from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Lookup
from controlplane.apiserver.requests.admission.policies.matching import Criteria, criteria
from controlplane.apiserver.requests.admission.policies.parameters import Parameters
from controlplane.apiserver.schema.resources import ResourceInfo

__all__ = ["GROUP", "INTERVAL_NS", "Binding", "Hook", "Source", "Sources"]

GROUP: Final = "admissionregistration.k8s.io"
INTERVAL_NS: Final = 1_000_000_000
"""The interval between refreshes of the stored policies."""
T = TypeVar("T")
Kinds = Callable[[str, str], "ResourceInfo | None"]


@frozen(eq=False)
class Binding:
    """One binding, and which requests it is about."""

    name: str
    spec: Tree
    match: Criteria


@frozen(eq=False)
class Hook(Generic[T]):
    """One policy with its bindings. `problem` is why it cannot be asked."""

    name: str
    spec: Tree
    match: Criteria
    params: ResourceInfo | None
    problem: str
    bindings: tuple[Binding, ...]
    compiled: T


class Sources:
    """Those of several kinds of policies, each looked at for itself, as upstream has a goroutine for each."""

    def __init__(self, *sources: Source[Any]) -> None:
        self.each = sources

    def refresh(self) -> None:
        """Look at what is stored now, at all kinds."""
        for source in self.each:
            source.refresh()


class Source(Generic[T]):
    """The policies of one kind: `resource` and `resource` of its bindings, each compiled by `make`."""

    def __init__(
        self,
        lookup: Lookup,
        kinds: Kinds,
        resource: str,
        bindings: str,
        make: Callable[[Tree], T],
        ever_written: Callable[[str], bool],
        parameters: Parameters,
    ) -> None:
        self._lookup = lookup
        self._kinds = kinds
        self.resource = resource
        self._resources = (resource, bindings)
        self._make = make
        self._ever_written = ever_written
        self._parameters = parameters
        self._seen: tuple[tuple[str, int], ...] = ()
        self._made: dict[tuple[str, int], T] = {}
        self.hooks: tuple[Hook[T], ...] = ()

    def _stored(self) -> tuple[list[Object], list[Object]]:
        policies, bindings = (
            sorted(self._lookup.all(GROUP, name), key=lambda obj: obj.name)
            if self._ever_written(name)
            else []
            for name in self._resources
        )
        return policies, bindings

    def _marks(self, policies: list[Object], bindings: list[Object]) -> tuple[tuple[str, int], ...]:
        return tuple((obj.uid, obj.resource_version) for obj in (*policies, *bindings))

    def is_stale(self) -> bool:
        """Return whether policies or bindings differ from those at the last refresh."""
        if not self._seen and not any(map(self._ever_written, self._resources)):
            return False
        return self._marks(*self._stored()) != self._seen

    def waits(self) -> bool:
        """Return whether some policy's parameters are of a kind that was not served at the last refresh."""
        return any(hook.problem for hook in self.hooks)

    def refresh(self) -> None:
        """Look at what is stored now."""
        policies, bindings = self._stored()
        self._seen = self._marks(policies, bindings)
        kept: dict[tuple[str, int], T] = {}
        hooks = []
        for policy in policies:
            spec = policy.tree.get("spec") or {}
            bound = tuple(
                Binding(
                    obj.name,
                    obj.tree["spec"],
                    criteria(obj.tree["spec"].get("matchResources") or {}),
                )
                for obj in bindings
                if obj.tree["spec"].get("policyName") == policy.name
            )
            if not bound:
                continue
            mark = (policy.uid, policy.resource_version)
            compiled = kept[mark] = self._made.get(mark) or self._make(spec)
            params, problem = self._params(spec.get("paramKind"))
            match = criteria(spec.get("matchConstraints") or {})
            hooks.append(Hook(policy.name, spec, match, params, problem, bound, compiled))
        self._made = kept
        self.hooks = tuple(hooks)
        self._parameters.need(self.resource, [hook.params for hook in hooks if hook.params])

    def _params(self, kind: Tree | None) -> tuple[ResourceInfo | None, str]:
        if kind is None:
            return None, ""
        version, name = kind.get("apiVersion", ""), kind.get("kind", "")
        found = self._kinds(version, name)
        if found is not None:
            return found, ""
        shown = version if "/" in version else f"/{version}"
        return None, (f"failed to find resource referenced by paramKind: '{shown}, Kind={name}'")
