"""OpenAPI v2 (Swagger): one document for everything, as JSON or in the protobuf form kubectl asks for.

Upstream: kube-openapi pkg/builder, pkg/handler and pkg/aggregator.
"""

from __future__ import annotations

import hashlib

from controlplane.api.tree import Tree
from controlplane.apiserver.front import openapi
from controlplane.apiserver.front.negotiation import parse_accept
from controlplane.apiserver.front.openapi_custom import published_v2
from controlplane.apiserver.front.openapi_protobuf import encoded
from controlplane.apiserver.front.served import Answer, Served
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.types import load_data

__all__ = ["answer", "document"]

_ASKED = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
_SENT = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PREFIX = "#/definitions/"


def answer(server: Served, http: HttpRequest) -> Answer:
    """The document in the form asked for. ApiError 406."""
    accept = http.headers.get("accept", "")
    media = ""
    for clause in parse_accept(accept) if accept else ():
        if clause.media_type in _ASKED:
            media = _SENT
            break
        if clause.media_type in ("application/json", "application/*", "*/*"):
            media = "application/json"
            break
    if accept and not media:
        raise status.not_acceptable(("application/json", *_ASKED))
    media = media or "application/json"
    digests = "".join(openapi.digest_of(server, name) for name in openapi.names(server))
    tag = f'"{hashlib.sha512((media + digests).encode()).hexdigest().upper()}"'
    headers: dict[str, str | list[str]] = {"ETag": tag, "Vary": "Accept"}
    if http.headers.get("if-none-match") == tag:
        return 304, headers, None, ""
    headers["Content-Type"] = media
    made = openapi.remembered(
        tag, lambda: encoded(document(server)) if media == _SENT else document(server)
    )
    return 200, headers, made, None


def document(server: Served) -> Tree:
    """The whole API as one Swagger document.

    Built-in resources have the precedence where a custom one has the same path.
    """
    paths: Tree = {}
    types: dict[str, None] = {}
    definitions: Tree = {}
    parameters: Tree = {}
    for info in server.table:
        if info.custom is not None:
            continue
        for path, methods in openapi.paths_of(info):
            paths[path] = {
                method: _operation_of(path, verb, kind) for method, (verb, kind) in methods.items()
            }
        if info.type_name:
            openapi.used(info.type_name, types, server.earlier)
            listed = f"{info.type_name}List"
            if listed in load_data("types")["types"]:
                openapi.used(listed, types, server.earlier)
    for name in types:
        definitions[name] = openapi.schema(name, _PREFIX, old=True, earlier=server.earlier)
    for info in server.table:
        if info.custom is not None:
            part = published_v2(info)
            paths = {**part.paths, **paths}
            definitions = {**part.definitions, **definitions}
            parameters.update(part.parameters)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": server.build["gitVersion"]},
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(definitions.items())),
        **({"parameters": dict(sorted(parameters.items()))} if parameters else {}),
    }


def _operation_of(path: str, verb: str, kind: Tree) -> Tree:
    action = {"create": "post", "update": "put"}.get(verb, verb)
    return {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind,
        "parameters": [
            {**each, "required": True} if each["in"] == "path" else each
            for each in openapi.parameters_of(path, verb)
        ],
        "responses": {"200": {"description": "OK"}},
    }
