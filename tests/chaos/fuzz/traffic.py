"""Conversations: which requests a seed stands for.

A stream is cut into episodes, each for a fresh server: the seed of an episode is all that it needs, and it does
not depend on what is answered. Recorded conversations are followed, mostly with something spoilt, and others
are made of what a server serves; several go on in turns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from tests.chaos.fuzz import making, seeds, spoiling, standing
from tests.chaos.fuzz.making import Served
from tests.chaos.fuzz.messages import PROTOBUF, Message
from tests.chaos.fuzz.process import prepared_tree
from tests.chaos.fuzz.spoiling import as_cbor, as_json, as_protobuf, as_yaml, broken, spoilt

Json = Any
JSON, YAML, CBOR = "application/json", "application/yaml", "application/cbor"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
EPISODE = 300
NAMES = ("a", "b", "x", "o", "d")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
USUAL = (JSON, JSON, JSON, "", "*/*", YAML, PROTOBUF, f"{PROTOBUF}, {JSON}", TABLE)
ACCEPTS = (
    CBOR,
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    f"{YAML};as=Table;v=v1;g=meta.k8s.io",
    ";;",
    "a",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
    f"{CBOR},{TABLE},{JSON}",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "text/html",
    "application/json;q=0.x",
    f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v9;g=x",
    f"{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;stream=watch",
    "image/*,*/*;q=0.1",
    f"{JSON};as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
)
MEDIA = (
    JSON,
    YAML,
    PROTOBUF,
    CBOR,
    MERGE,
    STRATEGIC,
    JSON_PATCH,
    APPLY,
    "",
    "text/plain",
    "x",
    "application/*",
    "application/json; charset=utf-8",
    "application/apply-patch+cbor",
    "application/x-www-form",
)
PARAMETERS = (
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "resourceVersion",
    "limit",
    "continue",
    "labelSelector",
    "fieldSelector",
    "watch",
    "timeoutSeconds",
    "resourceVersionMatch",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "pretty",
    "propagationPolicy",
    "gracePeriodSeconds",
    "includeObject",
    "container",
    "tailLines",
    "sinceSeconds",
    "limitBytes",
    "orphanDependents",
    "sinceTime",
    "timestamps",
    "previous",
    "follow",
    "stdout",
    "command",
    "x",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "timeout",
    "verbose",
    "exclude",
    "shardSelector",
    "stream",
)
ARGUMENTS = (
    "",
    "All",
    "Strict",
    "Warn",
    "Ignore",
    "true",
    "false",
    "0",
    "1",
    "2",
    "-1",
    "x",
    "99",
    "a=b",
    "a in",
    "a in (b)",
    "a in (b",
    "!",
    "!a",
    "metadata.name=a",
    "metadata.namespace!=x",
    "spec.nodeName=n",
    "=",
    "NotOlderThan",
    "Exact",
    "\u0661",
    "\u00b2",
    "9" * 30,
    "9" * 5000,
    "1.5",
    "=,=",
    "a>b",
    "a>1",
    "a,b,!c",
    "e30",
    "\x00",
    "@rv@",
    "@old@",
    "@continue@",
    "Object",
    "None",
    "Metadata",
    "Foreground",
    "Background",
    "Orphan",
    "2030-01-01T00:00:00Z",
    "1h",
    "status.phase=Running",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6IngiLCJzdGFydCI6MX0",
    "m" * 129,
    "é",
    "\ud7ff",
    "involvedObject.name=a",
    "type=Opaque",
    "spec.x=1",
    "1s",
    "a\\,b=c",
    "a==b,c notin (d,e)",
    "a notin ()",
)
PAGES = (
    "/",
    "/api",
    "/api/",
    "/apis",
    "/apis/",
    "/api/v1",
    "/apis/apps",
    "/apis/apps/v1",
    "/apis/x.io",
    "/apis/x.io/v1",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/api/v1",
    "/openapi/v3/apis/apps/v1",
    "/openapi/v3/apis/x.io/v1",
    "/openapi/v3/nope",
    "/version",
    "/healthz",
    "/livez",
    "/readyz",
    "/healthz/ping",
    "/readyz/nope",
    "/metrics",
    "/livez/etcd",
    "/openid/v1/jwks",
    "/.well-known/openid-configuration",
    "/logs",
    "/debug/pprof",
    "/apis//",
    "//",
    "/api/v1/nope",
    "/apis/nope/v1/x",
    "/api/v2/pods",
    "/apis/apps/v9/deployments",
    "/%00",
    "/api/v1/namespaces/%2e%2e",
    "/api/v1/watch/pods",
    "/api/v1/watch/namespaces/default/pods/a",
    "/api/v1/namespaces//pods",
    "/api/v1/namespaces/default/pods/a/b/c/d",
    "/apis/apps/v1/namespaces/default/deployments/d/scale/x",
    "/é",
    "/api/v1/componentstatuses",
    "/api/v1/componentstatuses/etcd-0",
    "/apis/metrics.k8s.io/v1beta1/nodes",
    "/controlplane/time",
    "/controlplane/nope",
    "/flagz",
    "/statusz",
)


@cache
def served() -> tuple[Served, ...]:
    """What the server of an episode serves."""
    return tuple(making.walked(prepared_tree))


def requests(
    seed: int, number: int, namespace: str = "default", length: int = EPISODE
) -> list[Message]:
    """The requests of one episode."""
    draw = Random(f"{seed} {number}")
    talks: list[Iterator[Message]] = []
    found: list[Message] = []
    while len(found) < length:
        if len(talks) < 3:
            talks.append(_talk(draw, namespace))
        each = draw.choice(talks)
        message = next(each, None)
        if message is None:
            talks.remove(each)
        else:
            found.append(message)
    return found


def _talk(draw: Random, namespace: str) -> Iterator[Message]:
    what = draw.random()
    if what < 0.5:
        number = draw.randrange(seeds.count())
        return _recorded(draw, seeds.conversation(number, namespace), namespace)
    if what < 0.84:
        return _made(draw, draw.choice(served()), namespace)
    if what < 0.9:
        return _standing(draw, namespace)
    return _looking(draw, namespace)


# -- recorded conversations ----------------------------------------------------------------------


def _recorded(draw: Random, steps: list[Json], namespace: str) -> Iterator[Message]:
    """A recorded conversation, up to twenty requests of it; what is spoilt may also be sent as it was."""
    start = 0 if len(steps) <= 20 or draw.random() < 0.5 else draw.randrange(len(steps) - 19)
    spoils = draw.choice((0.0, 0.3, 0.6))
    for step in steps[start : start + 20]:
        if draw.random() < spoils:
            yield _step(draw, step, namespace, spoil=True)
            if draw.random() < 0.5:
                continue
        yield _step(draw, step, namespace, spoil=False)


def _step(draw: Random, step: Json, namespace: str, *, spoil: bool) -> Message:
    headers = {"accept": JSON, "user-agent": "fuzz/1.0"}
    for key, given in step.get("headers", {}).items():
        headers[key.lower()] = ", ".join(given) if isinstance(given, list) else str(given)
    query = {
        key: [str(each) for each in (given if isinstance(given, list) else [given])]
        for key, given in step.get("query", {}).items()
    }
    path, method = step["path"], step["method"]
    if "bodyText" in step:
        raw = step["bodyText"].encode("utf-8", "surrogatepass")
        raw = broken(draw, raw) if spoil else raw
    elif "body" in step:
        headers.setdefault("content-type", JSON)
        media = headers["content-type"].partition(";")[0]
        if not spoil or draw.random() < 0.2:
            return _message(draw, method, path, query, headers, step["body"], spoil=spoil)
        tree = spoilt(draw, step["body"], draw.choice(VALUES_OF_OTHERS))
        while draw.random() < 0.3:
            tree = spoilt(draw, tree, step["body"])
        if media == JSON_PATCH and draw.random() < 0.4:
            tree = spoiling.operations(draw, step["body"])
        return _message(draw, method, path, query, headers, tree, spoil=True)
    else:
        raw = b""
    if spoil:
        method, path = _elsewhere(draw, method, path, namespace)
        query |= _parameters(draw)
        _odd_headers(draw, headers)
    return Message(method, _target(path, query), _listed(headers), raw)


VALUES_OF_OTHERS: tuple[Json, ...] = (
    None,
    {"spec": {"a": 1}},
    {"metadata": {"name": "x", "labels": {"a": "b"}}},
    {"spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}},
    {"spec": {"template": {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}}},
)


def _message(
    draw: Random,
    method: str,
    path: str,
    query: dict[str, list[str]],
    headers: dict[str, str],
    tree: Json,
    *,
    spoil: bool,
) -> Message:
    """A request with a tree as its body, in its media type or, where it may be, in another."""
    media = headers.get("content-type", JSON).partition(";")[0]
    if media == JSON and method in ("POST", "PUT", "DELETE"):
        media = draw.choice((JSON, JSON, JSON, YAML, PROTOBUF, PROTOBUF, CBOR if spoil else JSON))
    raw = None
    if media == PROTOBUF:
        raw = as_protobuf(tree)
        if raw is None or b"@rv@" in raw or b"@uid@" in raw or b"@old@" in raw:
            raw, media = None, JSON
    if media in (YAML, APPLY):
        raw = as_yaml(draw, tree)
    elif media == CBOR:
        raw = as_cbor(tree)
    if raw is None:
        raw = as_json(tree, plain=draw.random() < 0.7)
    if spoil:
        if draw.random() < 0.15:
            raw = broken(draw, raw)
        if draw.random() < 0.05:
            media = draw.choice(MEDIA)
        if draw.random() < 0.3:
            query = {**query, **_parameters(draw)}
        if draw.random() < 0.1:
            method, path = _elsewhere(draw, method, path, "default")
        _odd_headers(draw, headers)
    headers = {**headers, "content-type": media}
    return Message(method, _target(path, query), _listed(headers), raw)


# -- made conversations --------------------------------------------------------------------------


def _made(draw: Random, each: Served, namespace: str) -> Iterator[Message]:
    """A creation from the schema, and what may follow on the object and its subresources."""
    name = draw.choice(NAMES)
    path = each.path(namespace if draw.random() < 0.95 else draw.choice(("kube-system", "none")))
    tree = _first(draw, each, name, namespace)
    yield _sent(draw, "POST", path, tree)
    for _ in range(draw.randrange(1, 9)):
        what = draw.random()
        at = f"{path}/{name}"
        if draw.random() < 0.15:
            tree = making.made(draw, each, name)
        else:
            tree = spoilt(draw, tree, tree)
            if not isinstance(tree, dict):
                tree = making.made(draw, each, name)
        if what < 0.12:
            yield _sent(draw, "POST", path, tree)
        elif what < 0.3:
            meta = draw.choice(({"resourceVersion": "@rv@"}, {"resourceVersion": "@old@"}, {}))
            given = tree.get("metadata")
            known = given if isinstance(given, dict) else {}
            yield _sent(draw, "PUT", at, {**tree, "metadata": {**known, "name": name, **meta}})
        elif what < 0.6:
            yield _patched(draw, at, tree)
        elif what < 0.78 and each.subresources:
            sub, verbs, api_version, kind = draw.choice(each.subresources)
            yield _under(draw, f"{at}/{sub}", verbs, api_version, kind, tree, name)
        elif what < 0.86:
            yield _read(draw, draw.choice((path, at)), watch=draw.random() < 0.3)
        elif what < 0.93:
            yield _sent(draw, "DELETE", at, _options(draw))
        elif what < 0.95:
            yield _sent(draw, "DELETE", path, _options(draw))
        else:
            method, target = _elsewhere(draw, "PUT", at, namespace)
            yield _sent(draw, method, target, tree)
    yield _read(draw, f"{path}/{name}", watch=False)


def _first(draw: Random, each: Served, name: str, namespace: str) -> Json:
    """An object to begin with: one that was created once, or one made from the schema."""
    bank = seeds.good(namespace).get(f"{each.group}/{each.resource}")
    if not bank or draw.random() < 0.4:
        return making.made(draw, each, name)
    tree = json.loads(json.dumps(draw.choice(bank)))
    if each.group != "apiextensions.k8s.io" and isinstance(tree.get("metadata"), dict):
        tree["metadata"]["name"] = name
    tree["apiVersion"] = each.api_version
    return tree


def _sent(draw: Random, method: str, path: str, tree: Json) -> Message:
    headers = {"accept": _accept(draw), "user-agent": "fuzz/1.0"}
    query = _parameters(draw) if draw.random() < 0.15 else {}
    if tree is None:
        return Message(method, _target(path, query), _listed(headers))
    return _message(draw, method, path, query, headers, tree, spoil=draw.random() < 0.15)


def _patched(draw: Random, path: str, tree: Json) -> Message:
    media = draw.choice((MERGE, STRATEGIC, JSON_PATCH, APPLY, APPLY))
    headers = {"accept": _accept(draw), "user-agent": "fuzz/1.0", "content-type": media}
    query = _parameters(draw) if draw.random() < 0.15 else {}
    if media == APPLY:
        query.setdefault("fieldManager", [draw.choice(("m", "n", "kubectl"))])
        if draw.random() < 0.4:
            query["force"] = ["true"]
    if media == JSON_PATCH:
        return _message(
            draw, "PATCH", path, query, headers, spoiling.operations(draw, tree), spoil=False
        )
    if draw.random() < 0.3 and isinstance(tree, dict) and media != APPLY and tree:
        key = draw.choice(list(tree))
        tree = {key: tree[key]}
    return _message(draw, "PATCH", path, query, headers, tree, spoil=draw.random() < 0.15)


def _under(
    draw: Random,
    path: str,
    verbs: tuple[str, ...],
    api_version: str,
    kind: str,
    tree: Json,
    name: str,
) -> Message:
    """A request to a subresource."""
    verb = draw.choice(verbs or ("get",))
    if verb == "patch":
        return _patched(draw, path, tree)
    if verb in ("get", "list", "watch", "deletecollection"):
        return _read(draw, path, watch=False)
    if verb == "delete":
        return _sent(draw, "DELETE", path, None)
    body = tree
    if kind in _BODIES:
        body = json.loads(json.dumps(_BODIES[kind]))
        body |= {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
        if draw.random() < 0.5:
            body = spoilt(draw, body, tree)
    return _sent(draw, "POST" if verb == "create" else "PUT", path, body)


_BODIES: dict[str, Json] = {
    "Scale": {"spec": {"replicas": 2}},
    "Binding": {"target": {"kind": "Node", "name": "n"}},
    "Eviction": {"deleteOptions": {"gracePeriodSeconds": 0}},
    "TokenRequest": {"spec": {"audiences": ["a"], "expirationSeconds": 700}},
}


def _options(draw: Random) -> Json:
    if draw.random() < 0.4:
        return None
    options = {"kind": "DeleteOptions", "apiVersion": "v1"} | draw.choice(
        (
            {"gracePeriodSeconds": 0},
            {"gracePeriodSeconds": 1},
            {"preconditions": {"uid": "@uid@"}},
            {"preconditions": {"resourceVersion": "@rv@"}},
            {"propagationPolicy": "Orphan"},
            {"orphanDependents": True},
            {"propagationPolicy": "Foreground"},
            {"dryRun": ["All"]},
            {"dryRun": []},
            {},
            {"preconditions": {"resourceVersion": "@old@"}},
        )
    )
    return options if draw.random() < 0.8 else spoilt(draw, options)


def _looking(draw: Random, namespace: str) -> Iterator[Message]:
    """Reads of all sorts."""
    for _ in range(draw.randrange(1, 12)):
        if draw.random() < 0.4:
            yield _read(draw, draw.choice(PAGES), watch=False)
            continue
        each = draw.choice(served())
        path = each.path(draw.choice((namespace, "kube-system", "none")))
        if draw.random() < 0.2:
            path = each.path("x").replace("/namespaces/x/", "/")
        if draw.random() < 0.3:
            path += f"/{draw.choice(NAMES)}"
            if each.subresources and draw.random() < 0.5:
                path += f"/{draw.choice(each.subresources)[0]}"
        yield _read(draw, path, watch=draw.random() < 0.3)


def _read(draw: Random, path: str, *, watch: bool) -> Message:
    query: dict[str, list[str]] = {}
    if watch:
        query = {"watch": ["1"], "timeoutSeconds": ["1"]}
        if draw.random() < 0.3:
            query |= {
                "sendInitialEvents": ["true"],
                "resourceVersionMatch": ["NotOlderThan"],
                "allowWatchBookmarks": ["true"],
            }
        if draw.random() < 0.3:
            query["resourceVersion"] = [draw.choice(("0", "1", "@rv@", "@old@"))]
    if draw.random() < 0.4:
        query = {**_parameters(draw), **query}
    method = draw.choice(("GET",) * 20 + ("HEAD", "OPTIONS", "TRACE", "get"))
    headers = {"accept": _accept(draw), "user-agent": draw.choice(("fuzz/1.0", "curl/8", ""))}
    _odd_headers(draw, headers)
    return Message(method, _target(path, query), _listed(headers))


# -- what is rarely reached ----------------------------------------------------------------------


def _standing(draw: Random, namespace: str) -> Iterator[Message]:
    """A conversation with what few others reach; a third of it is spoilt, and mostly sent right as well."""
    for method, path, media, body, more in standing.steps(draw, namespace):
        headers = {"accept": _accept(draw), "user-agent": "fuzz/1.0", **more}
        place, _, asked = path.partition("?")
        query = parse_qs(asked)
        if draw.random() < 0.3:
            tree = body if body is None else spoilt(draw, body, draw.choice(VALUES_OF_OTHERS))
            odd = {**query, **_parameters(draw)}
            given = {**headers, "content-type": media}
            if body is None:
                yield Message(method, _target(place, odd), _listed(headers))
            else:
                yield _message(draw, method, place, odd, given, tree, spoil=True)
            if draw.random() < 0.3:
                continue
        if body is None:
            yield Message(method, _target(place, query), _listed(headers))
        else:
            given = {**headers, "content-type": media}
            yield _message(draw, method, place, query, given, body, spoil=False)


# -- parts ---------------------------------------------------------------------------------------


def _parameters(draw: Random) -> dict[str, list[str]]:
    return {
        draw.choice(PARAMETERS): [draw.choice(ARGUMENTS) for _ in range(draw.choice((1, 1, 1, 2)))]
        for _ in range(draw.choice((1, 1, 2, 3)))
    }


def _accept(draw: Random) -> str:
    return draw.choice(ACCEPTS if draw.random() < 0.12 else USUAL)


def _odd_headers(draw: Random, headers: dict[str, str]) -> None:
    what = draw.random()
    if what < 0.04:
        headers["impersonate-user"] = draw.choice(
            (
                "jane",
                "system:serviceaccount:default:default",
                "system:anonymous",
                "system:node:n",
                "é",
                "",
            )
        )
        if draw.random() < 0.5:
            headers["impersonate-group"] = draw.choice(("system:masters", "a, b", ""))
    elif what < 0.05:
        headers["impersonate-group"] = "a"
    elif what < 0.06:
        headers["impersonate-extra-scopes"] = draw.choice(("a", ""))
    elif what < 0.08:
        headers["if-none-match"] = draw.choice(('"x"', "*", '""'))
    elif what < 0.09:
        headers["accept-encoding"] = draw.choice(("gzip", "br", "gzip;q=0"))
    elif what < 0.11:
        headers["accept"] = _accept(draw)
    elif what < 0.12:
        headers["upgrade"] = draw.choice(("websocket", "SPDY/3.1", "x"))


def _elsewhere(draw: Random, method: str, path: str, namespace: str) -> tuple[str, str]:
    """Another method, or another place."""
    what = draw.random()
    if what < 0.4:
        return draw.choice(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "X")), path
    if what < 0.6:
        return method, path + draw.choice(
            ("/status", "/scale", "/x", "/", "/log", "/a/b", "%2f", "/exec", "//")
        )
    if what < 0.8:
        return method, path.rpartition("/")[0] or "/"
    each = draw.choice(served())
    return method, f"{each.path(namespace)}/{draw.choice(NAMES)}"


def _listed(headers: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key, each) for key, each in headers.items() if each)


def _target(path: str, query: dict[str, list[str]]) -> str:
    target = quote(path, safe="/%:@~!$&'()*+,;=-._", errors="replace")
    if query:
        more = urlencode(query, doseq=True, errors="replace").replace("%40rv%40", "@rv@")
        more = more.replace("%40old%40", "@old@").replace("%40continue%40", "@continue@")
        target += "?" + more
    return target
