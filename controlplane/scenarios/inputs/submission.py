"""The submission of the user's objects: checked as a whole first, then submitted at their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.log import WARNING
from controlplane.api import identity
from controlplane.api.request import Request
from controlplane.api.times import SECOND
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests.installing import install
from controlplane.apiserver.requests.server import ApiServer
from controlplane.apiserver.schema.feature_gates import GATES, gate_of
from controlplane.apiserver.schema.resources import builtin_resources
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.client.loops.clientset import Client, Resource
from controlplane.errors import UsageError, either, nearest
from controlplane.gates import LATEST
from controlplane.scenarios.inputs.locating import field_of
from controlplane.scenarios.inputs.reading import CREATE, UPDATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors import Context
    from controlplane.scenarios.inputs.reading import Submission

Tree = dict[str, Any]
TRIES = 5
"""The number of times that a pod is submitted again, one second apart."""
_NO_ACCOUNT = "error looking up service account"


class Resources:
    """The resource of an object, by the API server's own table."""

    def __init__(self, server: ApiServer) -> None:
        self._table = server.table

    def of(self, submission: Submission) -> tuple[Resource, bool]:
        """The resource, and whether it is namespaced. Raises UsageError for a kind that no server has."""
        api_version, kind = submission.tree["apiVersion"], submission.tree["kind"]
        info = self._table.by_kind(api_version, kind)
        if info is None:
            text = f"no kind {kind!r} is registered for version {api_version!r}"
            served = [
                each.api_version
                for each in self._table
                if each.kind == kind and each.group == api_version.rpartition("/")[0]
            ]
            if gate := _gate_of(api_version, kind):
                text += f" (served with --feature-gates {gate}=true)"
            elif served:
                text += f" (served: {', '.join(dict.fromkeys(served))})"
            elif near := nearest(kind, (each.kind for each in self._table)):
                text += f"; did you mean {either(near)}?"
            raise submission.error("kind", text)
        return Resource(info.group, info.version, info.resource), info.namespaced


def _gate_of(api_version: str, kind: str) -> str:
    """Return the feature gate that serves a kind, "" if none does."""
    info = builtin_resources(gates=frozenset(GATES)).by_kind(api_version, kind)
    return "" if info is None else gate_of(info.group, info.version, info.resource)


def namespace_of(tree: Tree, *, namespaced: bool) -> str:
    """The namespace that a submission goes to; "default" when it names none."""
    if not namespaced:
        return ""
    return tree.get("metadata", {}).get("namespace") or "default"


ENABLING: Final = ("CustomResourceDefinition", "Namespace", "PriorityClass", "RuntimeClass")
"""Kinds whose objects others may wait for, wherever in the files they stand."""


class _Preflight:
    """Tries creations on a scratch server, and brings those that came too early into an order that works."""

    def __init__(self, now: int, options: ServerOptions) -> None:
        serials = iter(range(1, 1 << 62))
        self.now = now
        self.server = ApiServer(
            uid=lambda: identity.uid(next(serials)),
            suffix=lambda: identity.suffix(next(serials)),
            options=options,
        )
        self.server.bootstrap(now)
        self.resources = Resources(self.server)
        self.order: list[Submission] = []
        self._early: list[tuple[Submission, Exception]] = []

    def take(self, submission: Submission) -> None:
        """Try one, and what waited for it. Raises UsageError for what nothing that comes can mend."""
        if submission.verb != CREATE:
            self.order.append(submission)
            return
        refusal, may_wait = self._refused(submission)
        if refusal is not None:
            if not may_wait:
                raise refusal
            self._early.append((submission, refusal))
            return
        self.order.append(submission)
        if submission.tree["kind"] in ENABLING:
            waiting, self._early = self._early, []
            for each, _ in waiting:
                self.take(each)

    def end(self) -> None:
        """Raises UsageError if something still waits."""
        for _, refusal in self._early:
            raise refusal

    def _refused(self, submission: Submission) -> tuple[Exception | None, bool]:
        """The reason why the object cannot be created, if any, and whether another object may change that."""
        try:
            resource, namespaced = self.resources.of(submission)
        except UsageError as error:
            return error, True
        response = self.server.handle(
            Request(
                "create",
                resource.group,
                resource.version,
                resource.name,
                namespace_of(submission.tree, namespaced=namespaced),
                query={"fieldValidation": "Strict"},
                body=submission.tree,
            ),
            self.now,
        )
        if response.ok or (submission.exported and response.code == 409):
            return (
                None,
                False,
            )  # an exported object that the server has from the start stays as it is
        return _refusal(submission, response.tree), response.code in (403, 404)


def preflight(
    submissions: Sequence[Submission],
    nodes: Sequence[Tree],
    now: int,
    disabled: Sequence[str],
    release: str = LATEST,
    *,
    old_versions: bool = False,
    gates: frozenset[str] = frozenset(),
    installed: Sequence[tuple[Resource[Any], Tree]] = (),
) -> tuple[Resources, tuple[Submission, ...]]:
    """Try every creation on a scratch API server of the release, so that bad input is refused before anything runs.

    Gives the resources that the server knows in the end, those that the submissions define included,
    and the submissions in an order that works: what stands before its namespace, its definition or
    its class comes right after that. What is `installed` is there before them.

    Raises UsageError with the first refusal: file, line, object, field and message.
    """
    options = ServerOptions(
        disabled=tuple(disabled), release=release, old_versions=old_versions, gates=gates
    )
    tried = _Preflight(now, options)
    install(tried.server, installed, now)
    for submission in submissions:
        tried.take(submission)
    tried.end()
    for tree in nodes:
        response = tried.server.handle(Request("create", resource="nodes", body=tree), now)
        if not response.ok:
            raise _node_refusal(tree, response.tree)
    return tried.resources, tuple(tried.order)


def _node_refusal(tree: Tree, status: Tree) -> Exception:
    return UsageError(
        f"Node {tree['metadata']['name']}: {' '.join(str(status.get('message')).split())}"
    )


def _refusal(submission: Submission, status: Tree) -> Exception:
    causes = (status.get("details") or {}).get("causes") or []
    if causes:
        first = causes[0]
        return submission.error(
            first.get("field", ""), " ".join(str(first.get("message", "")).split())
        )
    message = " ".join(str(status.get("message", "refused")).split())
    return submission.error(field_of(message, submission.tree), message)


async def submit(ctx: Context, submissions: Sequence[Submission], resources: Resources) -> None:
    """Main task of the user: submit every object at its time, in order. A refusal goes into the log.

    Pods whose namespace has no account yet, and objects whose kind this server does not serve yet, are submitted
    again, as a client that applies both together has to.
    """
    client = Client(ctx)
    early: list[Submission] = []
    for submission in submissions:
        if submission.at_ns > ctx.now:
            await ctx.sleep_until(submission.at_ns, point="user.submit")
        try:
            await _submit(client, submission, resources)
        except ApiError as error:
            if _is_early(submission, error):
                early.append(submission)
            elif not is_not_found(error) and not _is_there(submission, error):
                _refused(ctx, error)
    for again in range(TRIES):
        if early:
            await ctx.sleep(SECOND, point="user.submit")
        waiting, early = early, []
        for submission in waiting:
            try:
                await _submit(client, submission, resources)
            except ApiError as error:
                if _is_early(submission, error) and again < TRIES - 1:
                    early.append(submission)
                else:
                    _refused(ctx, error)


def _is_early(submission: Submission, error: ApiError) -> bool:
    return _NO_ACCOUNT in str(error) or (submission.verb == CREATE and is_not_found(error))


def _is_there(submission: Submission, error: ApiError) -> bool:
    """Return whether the server has an exported object already, from its own start."""
    return submission.exported and is_already_exists(error)


async def _submit(client: Client, submission: Submission, resources: Resources) -> None:
    resource, namespaced = resources.of(submission)
    namespace = namespace_of(submission.tree, namespaced=namespaced)
    if submission.verb == CREATE:
        await client.create(resource, submission.tree, namespace)
    elif submission.verb == UPDATE:
        await client.update(resource, submission.tree)
    else:
        await client.delete(resource, namespace, submission.tree["metadata"]["name"])


def _refused(ctx: Context, error: ApiError) -> None:
    ctx.log("user.refused", level=WARNING, data={"message": str(error)})
