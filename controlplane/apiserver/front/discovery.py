"""Paths that are no resources: discovery, version, health.

Upstream: apiserver pkg/endpoints/discovery, pkg/server/healthz.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

from controlplane.api.tree import Tree
from controlplane.api.version_names import version_preference
from controlplane.apiserver.front import openapi, openapi_v2
from controlplane.apiserver.front.negotiation import check_media, media_of, parse_accept
from controlplane.apiserver.front.plain_text import TEXT, page_not_found, plain_answer
from controlplane.apiserver.front.served import Answer, Served
from controlplane.apiserver.requests.routing import HttpRequest, no_such_method, no_such_path
from controlplane.apiserver.requests.token_keys import ALGORITHM, token_key
from controlplane.apiserver.requests.tokens import ISSUER
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.resources import ResourceInfo, SubresourceInfo

__all__ = ["answer", "group_versions"]

_MEDIA = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_AGGREGATED: Final = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The parameters of an aggregated document's media type."""
_HOOKS = (
    "start-apiserver-admission-initializer",
    "generic-apiserver-start-informers",
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "storage-object-count-tracker-hook",
    "start-apiextensions-informers",
    "start-apiextensions-controllers",
    "crd-informer-synced",
    "start-system-namespaces-controller",
    "peer-endpoint-reconciler-controller",
    "start-cluster-authentication-info-controller",
    "start-kube-apiserver-identity-lease-controller",
    "start-kube-apiserver-identity-lease-garbage-collector",
    "storage-readiness",
    "start-legacy-token-tracking-controller",
    "start-service-ip-repair-controllers",
    "rbac/bootstrap-roles",
    "scheduling/bootstrap-system-priority-classes",
    "priority-and-fairness-config-producer",
    "bootstrap-controller",
    "start-kubernetes-service-cidr-controller",
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-wait-for-first-sync",
    "apiservice-discovery-controller",
    "kube-apiserver-autoregistration",
)
"""In the order in which they were registered, as a verbose answer lists them."""
_LATE_HOOKS = (
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
)
_STARTED = (
    *(f"poststarthook/{hook}" for hook in _HOOKS),
    "autoregister-completion",
    *(f"poststarthook/{hook}" for hook in _LATE_HOOKS),
)
_LIVE = ("ping", "log", "loopback-serving-certificate", "etcd", *_STARTED)
_CHECKS = {
    "healthz": _LIVE,
    "livez": _LIVE,
    "readyz": ("ping", "log", "informer-sync", *_STARTED, "shutdown"),
}


_OPENID = "/.well-known/openid-configuration"
_JWKS = "/openid/v1/jwks"
_JWKS_MEDIA: Final = "application/jwk-set+json"
_PUBLIC = {"Cache-Control": "public, max-age=3600"}


def answer(server: Served, http: HttpRequest) -> Answer:
    """Code, headers, JSON body, text body.

    Some paths are served exactly as they are written, those of routes also with slashes at their end.
    Upstream: apiserver pkg/server/handler.go, pkg/server/mux.
    """
    path = http.path
    head = path.split("/")[1]
    if head in _CHECKS:
        return _health(server, head, path.removeprefix(f"/{head}"), http)
    if path in ("/", "/index.html"):
        return _json({"paths": _paths(server)})
    if path in ("/apis", "/apis/"):
        media = _aggregated_media(http) if path == "/apis" else ""
        if media:
            return _aggregated(server, http, media, legacy=False)
        groups = _groups(server, by_version=True)
        tree = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        return _written(http, tree, routed=False)
    if head == "openapi":
        if path == "/openapi/v2":
            return openapi_v2.answer(server, http)
        return openapi.answer(server, path, http)
    parts = path.strip("/").split("/")
    if head == "apis" and parts[1:] and parts[1]:
        return _group(server, http, parts)
    if head in _ROUTED:
        return _routed(server, http, path.rstrip("/"))
    return page_not_found()


_ROUTED: Final = ("api", "version", ".well-known", "openid")
"""The first parts of paths that have routes."""


def _routed(server: Served, http: HttpRequest, path: str) -> Answer:
    """Answer a path of a route. ApiError 404, 405, 406."""
    if path == "/version":
        _get_only(http)
        _check_content(http, ("application/json",))
        check_media(http.headers.get("accept", ""), ("application/json",))
        text = json.dumps(server.build, indent=2)
        return 200, {"Content-Type": "application/json"}, server.build, text
    if path == _OPENID:
        _get_only(http)
        return _json(_openid(server), **_PUBLIC)
    if path == _JWKS:
        _get_only(http)
        check_media(http.headers.get("accept", ""), (_JWKS_MEDIA,))
        keys = {"keys": [dict(token_key(server.token_key).public)]}
        return 200, {"Content-Type": _JWKS_MEDIA, **_PUBLIC}, None, json.dumps(keys)
    if path == "/api":
        _get_only(http)
        _check_content(http, _MEDIA)
        check_media(http.headers.get("accept", ""))
        media = _aggregated_media(http)
        if media:
            return _aggregated(server, http, media, legacy=True)
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": server.address}]
        tree: Tree = {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": addresses,
        }
        return _written(http, tree, routed=False)
    if path == "/api/v1":
        _get_only(http)
        _check_content(http, _MEDIA)
        return _written(http, _resource_list(server, "", "v1"), routed=True)
    if path.startswith(("/api/", "/version/")):
        raise no_such_path()
    return page_not_found()


def _json(tree: Any, **headers: str) -> Answer:
    return 200, {"Content-Type": "application/json", **headers}, tree, None


def _openid(server: Served) -> dict[str, Any]:
    """Return the OpenID configuration, which points to the key that service account tokens are signed with."""
    return {
        "issuer": ISSUER,
        "jwks_uri": f"https://{server.address}{_JWKS}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
    }


def _get_only(http: HttpRequest) -> None:
    if http.method != "GET":
        raise no_such_method()


def _check_content(http: HttpRequest, consumed: tuple[str, ...]) -> None:
    """415 for a media type of the request that the route does not read, even without a body."""
    media = http.headers.get("content-type", "").partition(";")[0].strip()
    if media not in ("", "*/*", *consumed):
        raise status.ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def _health(server: Served, name: str, rest: str, http: HttpRequest) -> Answer:
    """Answer a check of liveness or readiness; a fault of the store fails all three.

    `rest`: the path after `/healthz`.
    """
    check = rest.removeprefix("/")
    checks = _CHECKS[name]
    if rest and (check not in (*checks, "etcd") or not rest.startswith("/")):
        return page_not_found()
    excluded = http.query.get("exclude", ())
    trouble = server.trouble()
    if trouble and check in ("", "etcd") and "etcd" not in excluded:
        return _unhealthy(name, checks, trouble, alone=bool(check))
    if check:
        return 200, {"Content-Type": TEXT}, None, "ok"
    if "verbose" not in http.query:
        return plain_answer(200, "ok")
    lines = "".join(f"[+]{each} {'excluded: ' * (each in excluded)}ok\n" for each in checks)
    unknown = ",".join(f'"{each}"' for each in sorted({*excluded} - {*checks}))
    if unknown:
        lines += f"warn: some health checks cannot be excluded: no matches for {unknown}\n"
    return plain_answer(200, f"{lines}{name} check passed\n")


def _unhealthy(name: str, checks: Sequence[str], trouble: str, *, alone: bool) -> Answer:
    """A check that is asked for alone gives its reason, all together do not."""
    if alone:
        text = f"internal server error: {trouble}\n"
    else:
        named = checks if "etcd" in checks else (*checks[:2], "etcd", *checks[2:])
        lines = "".join(
            "[-]etcd failed: reason withheld\n" if each == "etcd" else f"[+]{each} ok\n"
            for each in named
        )
        text = f"{lines}{name} check failed\n"
    return plain_answer(500, text)


# -- groups --------------------------------------------------------------------------------------


def group_versions(server: Served, group: str) -> list[str]:
    """The served versions of a group, preferred one first."""
    for known in server.table.groups:
        if known["name"] == group:
            return [entry["version"] for entry in known["versions"]]
    found = server.table.versions(group)
    return sorted(found, key=version_preference, reverse=True)


def _group_tree(group: str, versions: list[str]) -> Tree:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _groups(server: Served, *, by_version: bool = False) -> list[Tree]:
    """All groups: built-in ones in their order, then custom ones by name.

    `by_version`: custom groups by their APIServices, which are named version first.
    Upstream: kube-aggregator pkg/apis/apiregistration/v1/helper.
    """
    custom: dict[str, str] = {}
    for info in server.table:
        if info.custom is not None and not server.table.built_in(info.group):
            name = f"{info.version}.{info.group}" if by_version else info.group
            custom[info.group] = min(name, custom.get(info.group, name))
    listed = sorted(custom, key=lambda group: custom[group])
    return [
        *server.table.groups,
        *(_group_tree(group, group_versions(server, group)) for group in listed),
    ]


def _group(server: Served, http: HttpRequest, parts: list[str]) -> Answer:
    """Answer /apis/GROUP and /apis/GROUP/VERSION; anything below them is served elsewhere."""
    group = parts[1]
    versions = group_versions(server, group)
    if not versions:
        return page_not_found()
    built_in = server.table.built_in(group)
    if len(parts) == 2:
        if http.path not in (f"/apis/{group}", f"/apis/{group}/"):
            return page_not_found()
        tree = {"kind": "APIGroup", "apiVersion": "v1", **_group_tree(group, versions)}
        return _written(http, tree, routed=False)
    if len(parts) > 3 or parts[2] not in versions:
        if built_in:
            raise no_such_path()
        return page_not_found()
    if built_in:
        _get_only(http)
        _check_content(http, _MEDIA)
    return _written(http, _resource_list(server, group, parts[2]), routed=True)


def _entries(info: ResourceInfo) -> list[Tree]:
    return [info.entry, *(sub.entry for sub in info.subresources.values())]


def _resource_list(server: Served, group: str, version: str) -> Tree:
    resources = [
        entry for info in server.table.in_version(group, version) for entry in _entries(info)
    ]
    resources.sort(key=lambda entry: entry["name"])
    tree: Tree = {
        "kind": "APIResourceList",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }
    if group:
        tree["apiVersion"] = "v1"
    return tree


# -- aggregated discovery ------------------------------------------------------------------------


def _aggregated_media(http: HttpRequest) -> str:
    """Return the media type in which the aggregated form is wanted, "" where only a plain one is.

    Plain alternatives do not count, whatever their order, where there is one for the aggregated form. Upstream:
    apiserver endpoints/discovery/aggregated (wrapper.go, negotiation.go).
    """
    for clause in parse_accept(http.headers.get("accept", "")):
        wanted = clause.parameters
        if wanted.get("as", "") == "APIGroupDiscoveryList" and (
            wanted.get("v") == "v2" and wanted.get("g") == "apidiscovery.k8s.io"
        ):
            media = media_of(clause, _MEDIA)
            if media:  # the document has no form in protobuf here
                return media if media in _MEDIA[:2] else _MEDIA[0]
    return ""


def _written(http: HttpRequest, tree: Tree, *, routed: bool) -> Answer:
    """Return a plain discovery document in the form that the client accepts. ApiError 406.

    `routed`: the path has a route of its own, which refuses unknown media types first.
    Upstream: responsewriters.WriteObjectNegotiated with DefaultEndpointRestrictions.
    """
    header = http.headers.get("accept", "")
    if header and routed:
        check_media(header)
    for clause in parse_accept(header) if header else ():
        media = "" if clause.parameters.get("as") else media_of(clause, _MEDIA)
        if media:
            return 200, {"Content-Type": media}, tree, None
    if header:
        raise status.not_acceptable(_MEDIA)
    return _json(tree)


def _aggregated(server: Served, http: HttpRequest, media: str, *, legacy: bool) -> Answer:
    if legacy:
        items: list[Tree] = [{"metadata": {}, "versions": [_discovered(server, "", "v1")]}]
    else:
        items = [
            {
                "metadata": {"name": entry["name"]},
                "versions": [
                    _discovered(server, entry["name"], v["version"]) for v in entry["versions"]
                ],
            }
            for entry in _groups(server)
        ]
    tree = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }
    digest = hashlib.sha512(json.dumps(tree, sort_keys=True).encode()).hexdigest().upper()
    tag = f'"{digest}"'
    headers: dict[str, str | list[str]] = {"ETag": tag, "Vary": "Accept"}
    if http.headers.get("if-none-match") == tag:
        return 304, headers, None, ""
    return 200, {"Content-Type": media + _AGGREGATED, **headers}, tree, None


def _discovered(server: Served, group: str, version: str) -> Tree:
    return {
        "version": version,
        "freshness": "Current",
        "resources": [
            _discovered_resource(info)
            for info in sorted(
                server.table.in_version(group, version), key=lambda info: info.resource
            )
        ],
    }


def _response_kind(info: ResourceInfo, entry: Tree) -> Tree:
    group, version = entry.get("group", ""), entry.get("version", "")
    if info.custom is not None and not group:
        group, version = info.group, info.version
    return {"group": group, "kind": entry["kind"], "version": version}


def _discovered_resource(info: ResourceInfo) -> Tree:
    entry = info.entry
    tree: Tree = {
        "resource": info.resource,
        "responseKind": _response_kind(info, entry),
        "scope": "Namespaced" if info.namespaced else "Cluster",
        "singularResource": entry.get("singularName", ""),
        "verbs": entry["verbs"],
    }
    for key in ("shortNames", "categories"):
        if entry.get(key):
            tree[key] = entry[key]
    if info.subresources:
        tree["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response_kind(info, sub.entry),
                "verbs": sub.entry["verbs"],
            }
            for sub in _subresources(info)
        ]
    return tree


def _subresources(info: ResourceInfo) -> list[SubresourceInfo]:
    """Subresources by name; those of custom resources in upstream's order, status before scale."""
    found = list(info.subresources.values())
    return sorted(found, key=lambda sub: sub.name) if info.custom is None else found


def _paths(server: Served) -> list[str]:
    paths = [_OPENID, "/api", "/api/v1", "/apis", "/apis/"]
    for entry in _groups(server):
        paths.append(f"/apis/{entry['name']}")
        paths += [f"/apis/{version['groupVersion']}" for version in entry["versions"]]
    for head in ("healthz", "livez", "readyz"):
        paths.append(f"/{head}")
        paths += [f"/{head}/{check}" for check in _CHECKS[head]]
    paths += [
        "/flagz",
        "/metrics",
        "/metrics/slis",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        _JWKS,
        "/statusz",
        "/version",
    ]
    return sorted(paths)
