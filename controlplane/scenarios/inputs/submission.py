"""How the user's objects get into the cluster: checked as a whole first, then submitted at their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.log import WARNING
from controlplane.api import identity
from controlplane.api.request import Request
from controlplane.api.times import SECOND
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests.server import ApiServer
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.loops.clientset import Client, Resource
from controlplane.scenarios.inputs.reading import CREATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors import Context
    from controlplane.scenarios.inputs.reading import Submission

Tree = dict[str, Any]
TRIES = 5
"""How often pods are submitted again, a second apart."""
_NO_ACCOUNT = "error looking up service account"


class Resources:
    """Which resource an object belongs to, by the API server's own table."""

    def __init__(self, server: ApiServer) -> None:
        self._table = server.table

    def of(self, submission: Submission) -> tuple[Resource, bool]:
        """The resource, and whether it is namespaced. Raises UsageError for a kind that nobody serves."""
        api_version, kind = submission.tree["apiVersion"], submission.tree["kind"]
        info = self._table.by_kind(api_version, kind)
        if info is None:
            raise submission.error(
                "kind", f"no kind {kind!r} is registered for version {api_version!r}"
            )
        return Resource(info.group, info.version, info.resource), info.namespaced


def namespace_of(tree: Tree, *, namespaced: bool) -> str:
    """The namespace that a submission goes to; "default" when it names none."""
    if not namespaced:
        return ""
    return tree.get("metadata", {}).get("namespace") or "default"


def preflight(
    submissions: Sequence[Submission], nodes: Sequence[Tree], now: int, disabled: Sequence[str]
) -> Resources:
    """Try every creation on a scratch API server, so that bad input is refused before anything runs.

    Gives the resources that the server knows in the end, those that the submissions define included.

    Raises UsageError with the first refusal: file, line, object, field and message.
    """
    serials = iter(range(1, 1 << 62))
    server = ApiServer(
        uid=lambda: identity.uid(next(serials)),
        suffix=lambda: identity.suffix(next(serials)),
        options=ServerOptions(disabled=tuple(disabled)),
    )
    server.bootstrap(now)
    resources = Resources(server)
    for submission in submissions:
        if submission.verb != CREATE:
            continue
        resource, namespaced = resources.of(submission)
        namespace = namespace_of(submission.tree, namespaced=namespaced)
        response = server.handle(
            Request(
                "create",
                resource.group,
                resource.version,
                resource.name,
                namespace,
                query={"fieldValidation": "Strict"},
                body=submission.tree,
            ),
            now,
        )
        if not response.ok:
            raise _refusal(submission, response.tree)
    for tree in nodes:
        response = server.handle(Request("create", resource="nodes", body=tree), now)
        if not response.ok:
            raise _node_refusal(tree, response.tree)
    return resources


def _node_refusal(tree: Tree, status: Tree) -> Exception:
    from controlplane.errors import UsageError

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
    return submission.error("", " ".join(str(status.get("message", "refused")).split()))


async def submit(ctx: Context, submissions: Sequence[Submission], resources: Resources) -> None:
    """Main task of the user: every submission at its time, one after the other. A refusal goes into the log.

    Pods whose namespace has no account yet are submitted again, as whoever applies a new namespace together
    with its pods has to.
    """
    client = Client(ctx)
    early: list[Submission] = []
    for submission in submissions:
        if submission.at_ns > ctx.now:
            await ctx.sleep_until(submission.at_ns, point="user.submit")
        try:
            await _submit(client, submission, resources)
        except ApiError as error:
            if _NO_ACCOUNT in str(error):
                early.append(submission)
            elif not is_not_found(error):
                _refused(ctx, error)
    for again in range(TRIES):
        if early:
            await ctx.sleep(SECOND, point="user.submit")
        waiting, early = early, []
        for submission in waiting:
            try:
                await _submit(client, submission, resources)
            except ApiError as error:
                if _NO_ACCOUNT in str(error) and again < TRIES - 1:
                    early.append(submission)
                else:
                    _refused(ctx, error)


async def _submit(client: Client, submission: Submission, resources: Resources) -> None:
    resource, namespaced = resources.of(submission)
    namespace = namespace_of(submission.tree, namespaced=namespaced)
    if submission.verb == CREATE:
        await client.create(resource, submission.tree, namespace)
    else:
        await client.delete(resource, namespace, submission.tree["metadata"]["name"])


def _refused(ctx: Context, error: ApiError) -> None:
    ctx.log("user.refused", level=WARNING, data={"message": str(error)})
