"""The import of an export: its objects are applied one kind after the other, and several of a kind at once.

Upstream: kubernetes-sigs/kube-scheduler-simulator, simulator/snapshot/snapshot.go. It begins with the objects of all
kinds of a stage at once, in this order; here each kind waits for the one before, so that no pod is refused
because its priority class is on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from controlplane.errors import UsageError
from controlplane.scenarios.inputs.simulator_files import (
    CONFIG,
    IN_ORDER,
    KINDS,
    Kind,
    imported,
    names_claim,
)
from controlplane.serving.inner_requests import AGENT, InnerRequests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.request import User
    from controlplane.api.tree import Tree
    from controlplane.serving.inner_requests import Ask, Pending

__all__ = ["Import", "ImportFailed", "checked"]

AT_ONCE: Final = 16
"""The number of objects of a kind that are applied at once. Upstream: as many as there are CPUs."""
MANAGER: Final = "simulator"
"""The manager of the fields of imported objects."""


class ImportFailed(Exception):
    """The API server refused an object; what was applied before it stays."""


def checked(file: Tree) -> Tree:
    """Return the document of an import. Raises UsageError."""
    for name in KINDS:
        items = file.get(name)
        if items is not None and not isinstance(items, list):
            raise UsageError(f"{name}: expected a list")
        for number, item in enumerate(items or ()):
            meta = item.get("metadata") if isinstance(item, dict) else None
            if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
                raise UsageError(f"{name}[{number}]: metadata.name: required")
    if not isinstance(file.get(CONFIG), dict | None):
        raise UsageError(f"{CONFIG}: expected an object")
    return file


@frozen
class Import:
    """The requests of one import."""

    ask: Ask
    _user: User
    _requests: InnerRequests = field(init=False)

    @_requests.default
    def _made_requests(self) -> InnerRequests:
        return InnerRequests(self.ask, AGENT)

    async def apply(self, file: Tree) -> None:
        """Apply the objects of a checked document. Raises ImportFailed for the first refusal."""
        stages, _ = imported(file)
        for stage in stages:
            for _, kind in IN_ORDER:
                trees = [tree for each, tree in stage if each is kind]
                for at in range(0, len(trees), AT_ONCE):
                    await self._apply(kind, trees[at : at + AT_ONCE])

    async def _apply(self, kind: Kind, trees: Sequence[Tree]) -> None:
        trees = [await self._bound(tree) if names_claim(tree) else tree for tree in trees]
        pending = [(tree, self._begin(kind, tree)) for tree in trees]
        failed = ""
        for tree, asked in pending:
            code, answer = await asked.answer()
            if code == 409 and "resourceVersion" in tree["metadata"]:
                # The object changed since the export, which is what an import is to undo.
                meta = {**tree["metadata"]}
                del meta["resourceVersion"]
                code, answer = await self._begin(kind, {**tree, "metadata": meta}).answer()
            if code >= 300 and not failed:
                failed = f"apply {kind.kind}: {answer.get('message', code)}"
        if failed:
            raise ImportFailed(failed)

    def _begin(self, kind: Kind, tree: Tree) -> Pending:
        return self._requests.begin(
            "PATCH",
            kind.path_of(tree),
            tree,
            query={"fieldManager": [MANAGER], "force": ["true"]},
            content_type="application/apply-patch+yaml",
            user=self._user,
        )

    async def _bound(self, volume: Tree) -> Tree:
        """A volume with the uid of its claim in this cluster, without one if the claim is not there."""
        reference: dict[str, Any] = {**volume["spec"]["claimRef"]}
        claim = {
            "metadata": {
                "namespace": reference.get("namespace", ""),
                "name": reference.get("name", ""),
            }
        }
        code, answer = await self._requests.begin(
            "GET", KINDS["pvcs"].path_of(claim), user=self._user
        ).answer()
        reference.pop("uid", None)
        if code == 200:
            reference["uid"] = answer["metadata"]["uid"]
        return {**volume, "spec": {**volume["spec"], "claimRef": reference}}
