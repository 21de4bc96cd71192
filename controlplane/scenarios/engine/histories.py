"""The API requests of a run's users and their answers, object by object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from actors import LinkBroken, Timeout
from controlplane.client.errors import ApiError, is_already_exists, is_conflict, is_not_found
from controlplane.client.loops.clientset import Client
from controlplane.scenarios.engine.linearizability import Call, State, Version

if TYPE_CHECKING:
    from actors import Context
    from controlplane.api.object import Object
    from controlplane.api.request import Request, Response

VERBS = ("get", "create", "update", "patch", "delete")
Key = tuple[str, str, str]
"""Resource, namespace, name."""


class History:
    """The requests of one run's users and their answers, by key."""

    def __init__(self, resources: tuple[str, ...], *, cached_reads: bool) -> None:
        self.resources = resources
        self.cached_reads = cached_reads
        self.calls: dict[Key, list[Call]] = {}
        self._moment = 0

    def moment(self) -> int:
        """The number of the next moment."""
        self._moment += 1
        return self._moment

    def looks_at(self, request: Request) -> bool:
        """Return whether the request is one of those that count."""
        return (
            request.resource in self.resources
            and request.verb in VERBS
            and not request.subresource
            and (self.cached_reads or "resourceVersion" not in request.query)
        )


class RecordingClient(Client):
    """A client whose calls on single objects are written down."""

    __slots__ = ("_history",)

    def __init__(self, ctx: Context, history: History) -> None:
        super().__init__(ctx)
        self._history = history

    async def call(self, request: Request) -> Response:
        """`Client.call`, and what came of it."""
        history = self._history
        if not history.looks_at(request):
            return await super().call(request)
        begun = Call(
            request.verb,
            "unknown",
            history.moment(),
            expected=_expected(request),
            who=self._ctx.actor,
        )
        key = (request.resource, request.namespace, _name(request))
        calls = history.calls.setdefault(key, [])
        calls.append(begun)
        at = len(calls) - 1
        try:
            response = await super().call(request)
        except ApiError as error:
            answer = _refusal(error)
            if answer:
                calls[at] = evolve(begun, answer=answer, end=history.moment())
            raise
        except (LinkBroken, Timeout):
            raise  # perhaps it happened
        seen = None if response.object is None else _version(response.object)
        calls[at] = evolve(begun, answer="ok", seen=seen, end=history.moment())
        return response


def _name(request: Request) -> str:
    if request.name:
        return request.name
    name: str = request.body["metadata"].get("name", "")
    return name


def _expected(request: Request) -> Version:
    """The preconditions of the request."""
    body = request.body if isinstance(request.body, dict) else {}
    found = body.get("preconditions") if request.verb == "delete" else body.get("metadata")
    if request.verb == "create" or not found:
        return Version("", 0)
    return Version(found.get("uid", ""), int(found.get("resourceVersion", 0) or 0))


def _refusal(error: ApiError) -> str:
    """The object state that a refusal implies; "" if none: the request may have taken effect."""
    if is_not_found(error):
        return "not-found"
    if is_already_exists(error):
        return "exists"
    return "conflict" if is_conflict(error) else ""


def _version(obj: Object) -> State:
    return Version(obj.uid, obj.resource_version)
