"""From an HTTP request to a `Request`: paths, verbs, bodies.

Pure: the HTTP rim hands in method, path, query, headers and body. What is no API request (discovery,
health, unknown paths) is answered by other modules. Upstream: apiserver pkg/endpoints/request.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from attrs import define, evolve, field, frozen

from controlplane.api.flags import flag
from controlplane.api.request import ADMIN, Request, User
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.selectable import field_selector
from controlplane.apiserver.requests.listing import check_list_options
from controlplane.apiserver.requests.options import check_write_options
from controlplane.apiserver.schema import go_json, status
from controlplane.apiserver.schema.cbor.writing import MEDIA_TYPE as CBOR
from controlplane.apiserver.schema.codec import META_STRUCT, kind_error
from controlplane.apiserver.schema.json_values import json_type
from controlplane.apiserver.schema.raw_extension import keep_texts
from controlplane.apiserver.schema.resources import ResourceInfo, ResourceTable

__all__ = [
    "CONNECT",
    "READ_METHODS",
    "HttpRequest",
    "RequestLine",
    "Target",
    "check_path",
    "parse_path",
    "request_line",
    "to_request",
]

LONGEST_KNOWN = 1024
"""Longer paths are parsed each time, as memory for them would be the client's to fill."""
READ_METHODS = ("GET", "HEAD", "OPTIONS")
BODY_LIMIT = 3 * 1024 * 1024
MEDIA_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_CONNECT_VERBS = {
    "log": ("get",),
    "proxy": ("get", "create", "update", "patch", "delete"),
}
"""The verbs of subresources that connect to a node, where they are not only GET and POST."""
CONNECT = ("exec", "attach", "portforward", "proxy")


@define(eq=False)
class HttpRequest:
    """The request that the HTTP boundary received. Header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, list[str]] = field(factory=dict)
    headers: Mapping[str, str] = field(factory=dict)
    body: bytes = b""
    user: User = ADMIN
    cbor: bool = False
    """CBOR is served (gate CBORServingAndStorage)."""
    unread: str = ""
    """The reason why the body, in CBOR, cannot be read."""

    @property
    def line(self) -> RequestLine:
        """Its first line, with the path parsed."""
        return request_line(self.method, self.path)

    @property
    def target(self) -> Target | None:
        """The target of its path; None for paths that lead to no API."""
        return self.line.target


@frozen
class Target:
    """The parts of an API path; `watch` for the old /watch/ paths, `proxied` for the older /proxy/ ones.

    `routed`: no part but the namespace is empty, as in every path that is served. `blank`: the namespace is.
    """

    group: str
    version: str
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    watch: bool = False
    routed: bool = True
    proxied: bool = False
    blank: bool = False


@frozen
class RequestLine:
    """The first line of a request: all that is known before its headers and its body are looked at."""

    method: str
    path: str
    target: Target | None

    @property
    def writes(self) -> bool:
        """Return whether it may change something."""
        return self.method not in READ_METHODS

    @property
    def may_write_many(self) -> bool:
        """Return whether it may write very many objects: the deletion of a collection."""
        target = self.target
        return self.method == "DELETE" and target is not None and not target.name


def request_line(method: str, path: str) -> RequestLine:
    """The first line of a request with its path parsed: once for all stations that ask for it."""
    return _known_line(method, path) if len(path) <= LONGEST_KNOWN else _line(method, path)


def _line(method: str, path: str) -> RequestLine:
    return RequestLine(method, path, parse_path(path))


_known_line = lru_cache(maxsize=1024)(_line)


def parse_path(path: str) -> Target | None:
    """The target of a path below /api/v1 or /apis/group/version; None for other paths.

    Slashes at both ends do not count; others do, so parts may be empty.
    Upstream: apiserver pkg/endpoints/request RequestInfoFactory.
    """
    parts = path.strip("/").split("/")
    if len(parts) >= 2 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 3 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = bool(rest) and rest[0] == "watch"
    proxied = bool(rest) and rest[0] == "proxy"
    if watch or proxied:
        rest = rest[1:]
    namespace, blank = "", False
    if rest and rest[0] == "namespaces":
        if len(rest) >= 3 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
            blank = not namespace
        elif len(rest) >= 2:
            namespace = rest[1]
    if not rest:
        return Target(group, version, watch=watch, proxied=proxied)
    resource = rest[0]
    name = rest[1] if len(rest) > 1 else ""
    sub = rest[2] if len(rest) > 2 and not proxied else ""
    return Target(
        group,
        version,
        resource,
        namespace if resource != "namespaces" else "",
        name,
        sub,
        "/".join(rest[3:]),
        watch,
        routed=not (proxied or path.startswith("//"))
        and all((group or parts[0] == "api", version, *rest)),
        proxied=proxied,
        blank=blank,
    )


def _first(query: Mapping[str, list[str]]) -> dict[str, str]:
    return {key: values[0] for key, values in query.items() if values}


def no_such_path() -> status.ApiError:
    """404 for a path that nothing serves."""
    return status.ApiError(404, "NotFound", "the server could not find the requested resource", {})


def no_such_method() -> status.ApiError:
    """405 for a method that a path does not know."""
    return status.ApiError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    )


def to_request(table: ResourceTable, http: HttpRequest, target: Target) -> Request:
    """The API request of an HTTP request to a resource. ApiError 4xx."""
    info = table.get(target.group, target.version, target.resource)
    custom = info is not None and info.custom is not None
    if info is None:
        raise no_such_path()
    if not custom:
        check_path(info, target)
    query = _first(http.query)
    if len(http.query.get("dryRun", ())) > 1:
        query["dryRun"] = "\n".join(http.query["dryRun"])
    if custom:
        verb, target = _custom_verb(info, http, target, query)
    else:
        verb = _verb(http.method, target, query)
        _check_method(info, target, verb)
    headers, content = http.headers, http.headers.get("content-type", "")
    body: Tree | None = None
    issues: tuple[str, ...] = ()
    raw = b""
    if verb in _WRITES and len(http.body) > BODY_LIMIT:
        raise status.too_large(BODY_LIMIT)
    if target.subresource == "proxy":  # the body is for the server behind it, and is not read here
        raw = http.body
    elif verb == "patch":
        raw = http.body
        if content.partition(";")[0].strip() not in PATCH_TYPES and not custom:
            raise status.ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        if http.unread:
            raise status.bad_request(f"error decoding CBOR: {http.unread}")
    elif verb in ("create", "update") and target.subresource not in CONNECT:
        sub = info.subresources.get(target.subresource)
        media = media_type(content, cbor=http.cbor)
        if query:  # before a word of the body is read, as upstream does
            check_write_options(Request(verb, query=query))
        kind = sub.kind if sub is not None else info.kind
        if http.unread:
            problem = f"unable to determine group/version/kind: {http.unread}"
            raise _unrecognized(kind, problem, http.body)
        body, issues = read_body(media, http.body, kind)
        if custom and not body.get("kind") and target.subresource != "scale":
            text = http.body.decode("utf-8", "replace")
            raise _unrecognized(info.kind, f"Object 'Kind' is missing in '{text}'", http.body)
    elif verb in ("delete", "deletecollection"):
        if verb == "deletecollection" and query:  # the list's options come first, too
            check_list_options(query)
            field_selector(info, query.get("fieldSelector", ""))
        if http.unread:
            raise status.bad_request(f"unable to determine group/version/kind: {http.unread}")
        body = _read_delete_options(content, http.body, cbor=http.cbor)
    return Request(
        verb,
        target.group,
        target.version,
        target.resource,
        target.namespace,
        target.name,
        target.subresource,
        query,
        body,
        content,
        headers.get("user-agent", ""),
        http.user,
        headers.get("accept", ""),
        raw,
        http.path,
        issues,
        headers.get("upgrade", ""),
    )


_WRITES = ("create", "update", "patch", "delete", "deletecollection")


def _verb(method: str, target: Target, query: Tree) -> str:
    if method in ("GET", "HEAD"):
        watching = target.watch or flag(query.get("watch"))
        if watching and not target.subresource and (target.watch or not target.name):
            return "watch"
        return "get" if target.name else "list"
    if target.watch:  # such a path is authorized as a watch, and is nothing else
        raise no_such_method()
    if method == "DELETE":
        return "delete" if target.name else "deletecollection"
    verb = _VERBS.get(method)
    if verb is None and method == "OPTIONS" and target.subresource == "proxy":
        return "get"  # every method goes to what is behind the proxy
    if verb is None:
        raise no_such_method()
    return verb


_CUSTOM_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def _custom_verb(
    info: ResourceInfo, http: HttpRequest, target: Target, query: Tree
) -> tuple[str, Target]:
    """The verb of a request for custom resources, which have no routes, and its target. ApiError 400, 404, 405, 415.

    A new object is named in its body; a name in the path is ignored.
    Upstream: apiextensions-apiserver pkg/apiserver/customresource_handler.go.
    """
    sub = target.subresource
    if sub and sub not in info.subresources:
        raise status.not_found(info, target.name)
    known = http.method in _CUSTOM_METHODS
    verb = _verb(http.method, target, query) if known else ""
    if not known or (sub and verb not in ("get", "update", "patch")):
        raise status.method_not_supported(info, verb)
    if verb == "create":
        return verb, evolve(target, name="")
    if verb == "patch":
        kinds = [kind for kind in PATCH_TYPES if "strategic" not in kind]
        if http.headers.get("content-type", "").partition(";")[0] not in kinds:
            raise status.unsupported_media_type(kinds)
    if verb in ("update", "patch") and not target.name:
        raise status.bad_request("name must be provided")
    return verb, target


def check_path(info: ResourceInfo, target: Target) -> None:
    """Refuse a path below a resource that has no route, for every method. ApiError 404."""
    if target.rest and target.subresource != "proxy":
        raise no_such_path()
    if target.subresource and target.subresource not in info.subresources:
        raise no_such_path()
    if target.name and not any(each in info.verbs for each in _OF_ONE):
        if not target.subresource:
            raise no_such_path()  # reviews and bindings are only ever made
    within = bool(target.namespace) or target.blank
    if within != info.namespaced and (within or target.name):
        raise no_such_path()


_OF_ONE = ("get", "update", "patch", "delete")


def _check_method(info: ResourceInfo, target: Target, verb: str) -> None:
    """405 where the path exists but not with this method."""
    if target.subresource:
        sub = info.subresources[target.subresource]
        if target.subresource in CONNECT or target.subresource == "log":
            if (
                verb not in _CONNECT_VERBS.get(target.subresource, ("get", "create"))
                and verb not in sub.verbs
            ):
                raise no_such_method()
            return
        if verb not in sub.verbs:
            raise no_such_method()
        return
    if verb == "create" and target.name:
        raise no_such_method()
    if verb in ("update", "patch") and not target.name:
        raise no_such_method()
    clusterwide = info.namespaced and not (target.namespace or target.blank)
    if clusterwide and verb not in ("list", "watch", "create", "deletecollection"):
        raise no_such_path()
    if clusterwide and verb in ("create", "deletecollection"):
        if info.resource not in _CLUSTERWIDE_CREATES:
            raise no_such_method()
    if verb not in info.verbs:
        raise no_such_method()


_CLUSTERWIDE_CREATES: tuple[str, ...] = ()


def _summary(raw: bytes, limit: int = 30) -> str:
    """The beginning of a body as error messages show it: JSON as it is, the rest in hex."""
    if not raw:
        return "<empty>"
    cut = raw[:limit]
    text = cut.decode("utf-8", "replace") if raw[:1] == b"{" else binascii.hexlify(cut).decode()
    return text + " ..." if len(raw) > limit else text


def _unrecognized(kind: str, problem: str, raw: bytes) -> status.ApiError:
    return status.bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {problem} ({_summary(raw)})"
    )


def media_type(content_type: str, *, cbor: bool = False) -> str:
    """Return the media type of the body of a create or update; the default is JSON. ApiError 415."""
    media = (content_type.strip() or "application/json").partition(";")[0].strip().lower()
    if media not in _BODIES:
        raise status.unsupported_media_type(_media_types(cbor=cbor))
    return media


def _media_types(*, cbor: bool) -> tuple[str, ...]:
    return (*MEDIA_TYPES, CBOR) if cbor else MEDIA_TYPES


_BODIES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


def read_body(media: str, raw: bytes, kind: str) -> tuple[Tree, tuple[str, ...]]:
    """The parsed body of a create or update, and what a strict reader minds about it. ApiError 400."""
    issues: tuple[str, ...] = ()
    if media == "application/json":
        try:
            body = go_json.parse_json(raw)
        except go_json.TextError as error:
            raise _unrecognized(
                kind, f"couldn't get version/kind; json parse error: {error}", raw
            ) from None
    elif media == "application/yaml":
        try:
            body = go_json.parse_yaml(raw)
        except go_json.YamlDuplicates as error:
            body = error.value
            issues = (str(error),)
        except go_json.TextError as error:
            raise _unrecognized(kind, str(error), raw) from None
    else:
        raise _unrecognized(
            kind,
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
            raw,
        )
    if body is None:
        body = {}
    checked = _checked(body, kind, raw)
    if media == "application/json":
        keep_texts(kind, checked, raw)
    return checked, issues


def _checked(body: Any, kind: str, raw: bytes) -> Tree:
    if not isinstance(body, dict):
        found = json_type(body)
        raise _unrecognized(
            kind,
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go "
            f"value of type {META_STRUCT}",
            raw,
        )
    problem = kind_error(body)
    if problem:
        raise _unrecognized(kind, problem, raw)
    version = body.get("apiVersion")
    if isinstance(version, str) and version.count("/") > 1:
        raise _unrecognized(kind, f"unexpected GroupVersion string: {version}", raw)
    return body


_DELETE_SCHEME = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"


def _read_delete_options(content_type: str, raw: bytes, *, cbor: bool = False) -> Tree | None:
    if not raw:
        return None
    media = content_type.partition(";")[0].strip()
    yaml = media == "application/yaml"
    try:
        if yaml:
            body = go_json.parse_yaml(raw)
        elif media in ("", "application/json"):
            body = go_json.parse_json(raw)
        else:
            raise status.unsupported_media_type(_media_types(cbor=cbor))
    except go_json.TextError as error:
        at = "" if yaml else "couldn't get version/kind; json parse error: "
        raise status.bad_request(f"{at}{error}") from None
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise status.bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{json_type(body)} into Go value of type {META_STRUCT}"
        )
    problem = kind_error(body)
    if problem:
        raise status.bad_request(problem)
    kind = body.get("kind") or "DeleteOptions"
    if kind != "DeleteOptions":
        version = body.get("apiVersion", "")
        raise status.bad_request(
            f'no kind "{kind}" is registered for version "{version}" in scheme "{_DELETE_SCHEME}"'
        )
    return dict(body)
