"""Admission webhooks: servers that are called for writes, and the handling of their answers.

The decisions here are pure: a call is an operation (`Review`) that the handling yields, as it does its
operations on the store. Only webhooks whose host has a server are called; others are stored and
ignored. Validating webhooks are called one after the other, where upstream calls them at once and returns
the first refusal. Upstream: apiserver pkg/admission/plugin/webhook.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import frozen

from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Context, Lookup
from controlplane.apiserver.requests.admission.policies.attributes import (
    Attributes,
    attributes_of,
    exempt,
    in_version,
)
from controlplane.apiserver.requests.admission.policies.expressions import (
    MATCH_BUDGET,
    Budget,
    BudgetError,
    Compiled,
    Expressions,
)
from controlplane.apiserver.requests.admission.policies.matching import Criteria, criteria
from controlplane.apiserver.requests.admission.policies.source import GROUP
from controlplane.apiserver.requests.admission.policies.validating import conditions_hold, scope_of
from controlplane.apiserver.requests.authorization.access import Access
from controlplane.apiserver.requests.patching.json_patch import JsonPatchError, json_patch
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.resources import ResourceInfo, ResourceTable
from controlplane.apiserver.storage.transactions import Review, Reviewed, Steps

__all__ = ["MUTATING", "VALIDATING", "Webhooks", "place_of"]

MUTATING: Final = "mutatingwebhookconfigurations"
VALIDATING: Final = "validatingwebhookconfigurations"
_KNOWN: Final = ("v1", "v1beta1")


@frozen(eq=False)
class _Hook:
    """One webhook of a configuration."""

    name: str
    spec: Tree
    match: Criteria
    host: str
    url: str
    expressions: Expressions
    conditions: tuple[Compiled, ...]

    @property
    def fails(self) -> bool:
        """A failed call refuses the request."""
        return bool(self.spec.get("failurePolicy", "Fail") == "Fail")

    @property
    def seconds(self) -> int:
        """The timeout of a call in seconds."""
        return int(self.spec.get("timeoutSeconds", 10))


def place_of(spec: Tree) -> tuple[str, str]:
    """The host that a webhook is asked of, without the port if it is a service, and its URL."""
    client = spec.get("clientConfig") or {}
    service = client.get("service")
    if service is None:
        url = client.get("url") or ""
        return urlsplit(url).netloc, url
    host = f"{service['name']}.{service['namespace']}.svc"
    return host, f"https://{host}:{service.get('port', 443)}{service.get('path') or '/'}"


def _hook(spec: Tree) -> _Hook:
    seconds = spec.get("timeoutSeconds", 10)
    host, url = place_of(spec)
    expressions = Expressions((), params=False)
    conditions = tuple(
        expressions.compile(c["expression"]) for c in spec.get("matchConditions") or ()
    )
    return _Hook(
        spec["name"],
        spec,
        criteria(spec),
        host,
        f"{url}?timeout={seconds}s",
        expressions,
        conditions,
    )


class Webhooks:
    """The webhooks of one server.

    `actor` names the actor that answers for a host, "" for none, `read` converts an object in the version of
    the request to its stored form, `again` calls the plugins before the webhooks for a changed object once
    more, `uid` names a call, `convert` calls the conversion webhook of a custom kind.
    """

    def __init__(
        self,
        lookup: Lookup,
        table: ResourceTable,
        access: Access,
        actor: Callable[[str], str] | None,
        ever_written: Callable[[str], bool],
        read: Callable[[Context, Tree], Tree],
        uid: Callable[[], str],
        convert: Callable[[Any, Tree, str], Steps[Tree]],
    ) -> None:
        self._convert = convert
        self._lookup = lookup
        self._table = table
        self._access = access
        self._actor = actor
        self._ever_written = ever_written
        self._read = read
        self._uid = uid
        self._made: dict[tuple[str, int], tuple[_Hook, ...]] = {}

    def stored(self) -> bool:
        """Return whether any call may be made: then handling waits in between."""
        return self._actor is not None and (
            self._ever_written(MUTATING) or self._ever_written(VALIDATING)
        )

    def _hooks(self, resource: str) -> Iterable[_Hook]:
        """The webhooks that are answered for, by the names of their configurations, in their order there."""
        assert self._actor is not None
        if not self._ever_written(resource):
            return
        for obj in sorted(self._lookup.all(GROUP, resource), key=lambda each: each.name):
            mark = (obj.uid, obj.resource_version)
            made = self._made.get(mark)
            if made is None:
                made = tuple(_hook(spec) for spec in obj.tree.get("webhooks") or ())
                self._made[mark] = made
            yield from (hook for hook in made if self._actor(hook.host))

    # -- mutating --------------------------------------------------------------------------------

    def mutate(
        self,
        ctx: Context,
        tree: Tree,
        old: Tree | None,
        again: Callable[[Context, Tree, Tree | None], Tree],
        *,
        changed: bool,
    ) -> Steps[Tree]:
        """The tree after all mutating webhooks, and after `again` if they or others before them `changed` it.

        ApiError.
        """
        if self._actor is None or exempt(ctx.info):
            return again(ctx, tree, old) if changed else tree
        asked: list[_Hook] = []
        repeat: dict[str, _Hook] = {}
        for hook in self._hooks(MUTATING):
            new = yield from self._asked_to_change(ctx, hook, tree, old, asked)
            if new != tree:
                changed, tree = True, new
                repeat.update((each.name, each) for each in asked[:-1] if _again(each))
        if not changed:
            return tree
        plain = again(ctx, tree, old)
        if plain != tree:
            tree = plain
            repeat.update((each.name, each) for each in asked if _again(each))
        for hook in repeat.values():
            tree = yield from self._asked_to_change(ctx, hook, tree, old, [])
        return tree

    def _asked_to_change(
        self, ctx: Context, hook: _Hook, tree: Tree, old: Tree | None, asked: list[_Hook]
    ) -> Steps[Tree]:
        given = attributes_of(ctx, tree, old)
        info = self._concerned(ctx, hook, given)
        if info is None:
            return tree
        asked.append(hook)
        response = yield from self._call(ctx, hook, given, info)
        patch = None if response is None else response.get("patch")
        if not patch:
            return tree
        shown = yield from self._shown(info, tree)
        try:
            operations = json.loads(base64.b64decode(patch, validate=True))
            patched = json_patch(shown, operations)
        except (binascii.Error, ValueError, JsonPatchError) as error:
            raise status.internal_error(str(error)) from None
        if shown == patched:
            return tree
        if ctx.info.custom is not None:
            patched = yield from self._shown(ctx.info, patched)
        return self._read(ctx, patched)

    def _shown(self, info: ResourceInfo, tree: Tree | None) -> Steps[Any]:
        """An object in the version of a resource; a conversion webhook is called if there is one. ApiError."""
        custom = info.custom
        if tree is None or custom is None or custom.webhook is None:
            return in_version(info, tree)
        return (yield from self._convert(custom, tree, info.version))

    # -- validating ------------------------------------------------------------------------------

    def validate(self, ctx: Context, tree: Tree | None, old: Tree | None) -> Steps[None]:
        """Raise if a validating webhook refuses. ApiError."""
        if self._actor is None or exempt(ctx.info):
            return
        for hook in self._hooks(VALIDATING):
            given = attributes_of(ctx, tree, old)
            info = self._concerned(ctx, hook, given)
            if info is not None:
                yield from self._call(ctx, hook, given, info)

    # -- one call --------------------------------------------------------------------------------

    def _concerned(self, ctx: Context, hook: _Hook, given: Attributes) -> ResourceInfo | None:
        """Return the resource as which a webhook sees the request; None if it does not match."""

        def namespace(name: str) -> Tree | None:
            found = ctx.find("", "namespaces", "", name)
            return None if found is None else found.tree

        try:
            match = hook.match.match(given, self._table, namespace)
        except LookupError:
            raise status.not_found(self._lookup.info("", "namespaces"), given.namespace) from None
        if match is None:
            return None
        if hook.conditions:
            scope = scope_of(given, match.info, None, None, self._access)
            try:
                results = hook.expressions.compute(hook.conditions, scope, Budget(MATCH_BUDGET))
                holds, problem = conditions_hold(results, fails=hook.fails)
            except BudgetError as error:
                holds, problem = False, str(error) if hook.fails else ""
            if problem:
                raise status.forbidden(given.info, given.name, problem)
            if not holds:
                return None
        if given.dry_run and hook.spec.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise status.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        return match.info

    def _call(
        self, ctx: Context, hook: _Hook, given: Attributes, info: ResourceInfo
    ) -> Steps[Tree | None]:
        """The answer of a webhook that allows; None if it failed and that does not matter. ApiError."""
        versions = hook.spec.get("admissionReviewVersions") or ()
        version = next((each for each in versions if each in _KNOWN), "v1")
        uid = self._uid()
        new = yield from self._shown(info, given.object)
        old = yield from self._shown(info, given.old)
        review = {
            "apiVersion": f"admission.k8s.io/{version}",
            "kind": "AdmissionReview",
            "request": _request(given, info, uid, new, old),
        }
        client = hook.spec.get("clientConfig") or {}
        assert self._actor is not None
        answered: Reviewed = yield Review(
            self._actor(hook.host),
            hook.url,
            review,
            hook.seconds * SECOND,
            client.get("caBundle", ""),
        )
        problem = answered.error
        if problem and not answered.plain:
            problem = f'Post "{hook.url}": {problem}'
        response = None if problem else _response(answered.body, uid, review)
        if isinstance(response, str):
            problem = response
        if problem:
            ctx.annotate(f"failed-open.webhook.admission.k8s.io/{hook.name}", problem)
            if not hook.fails:
                return None
            text = f'failed calling webhook "{hook.name}": failed to call webhook: {problem}'
            raise status.internal_error(text)
        assert isinstance(response, dict)
        for text in response.get("warnings") or ():
            ctx.warn(str(text))
        for key, value in sorted((response.get("auditAnnotations") or {}).items()):
            ctx.annotate(f"{hook.name}/{key}", str(value))
        if not response.get("allowed"):
            raise _denial(hook.name, response.get("status") or {})
        return response


def _again(hook: _Hook) -> bool:
    return bool(hook.spec.get("reinvocationPolicy") == "IfNeeded")


def _request(
    given: Attributes, info: ResourceInfo, uid: str, new: Tree | None, old: Tree | None
) -> Tree:
    group, version, kind = given.kind
    user = given.user
    own = {
        "group": given.info.group,
        "version": given.info.version,
        "resource": given.info.resource,
    }
    shown = {"group": info.group, "version": info.version, "kind": info.kind}
    who: Tree = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    request: Tree = {
        "uid": uid,
        "kind": {"group": group, "version": version, "kind": kind} if given.subresource else shown,
        "resource": {"group": info.group, "version": info.version, "resource": info.resource},
        "requestKind": {"group": group, "version": version, "kind": kind},
        "requestResource": own,
        "operation": given.operation,
        "userInfo": {key: value for key, value in who.items() if value},
        "object": new,
        "oldObject": old,
        "dryRun": given.dry_run,
        "options": given.options,
    }
    for key, value in (
        ("subResource", given.subresource),
        ("name", given.name),
        ("requestSubResource", given.subresource),
        ("namespace", given.namespace),
    ):
        if value:
            request[key] = value
    return request


def _response(body: Any, uid: str, review: Tree) -> Tree | str:
    """The response within an answer, or what is wrong with it. Upstream: webhook/request/admissionreview.go."""
    if not isinstance(body, dict):
        return (
            f"couldn't get version/kind; json parse error: unexpected answer {type(body).__name__}"
        )
    if (body.get("apiVersion"), body.get("kind")) != (review["apiVersion"], review["kind"]):
        wanted = f"{review['apiVersion']}, Kind={review['kind']}"
        return f"expected webhook response of {wanted}, got {body.get('apiVersion')}, Kind={body.get('kind')}"
    response = body.get("response")
    if not isinstance(response, dict):
        return "webhook response was absent"
    if response.get("uid") != uid:
        return f'expected response.uid="{uid}", got "{response.get("uid", "")}"'
    if response.get("patch") and response.get("patchType") != "JSONPatch":
        kind = response.get("patchType")
        if not kind:
            return "webhook returned response.patch but not response.patchType"
        return f'webhook returned invalid response.patchType of "{kind}"'
    return response


def _denial(name: str, given: Tree) -> status.ApiError:
    """Upstream: webhook/errors/statuserror.go."""
    text = f'admission webhook "{name}" denied the request'
    said = given.get("message") or given.get("reason") or ""
    text = f"{text}: {said}" if said else f"{text} without explanation"
    code = given.get("code") or 0
    return status.ApiError(
        max(int(code), 400), given.get("reason") or "", text, given.get("details")
    )
