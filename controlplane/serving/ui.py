"""The page of a served cluster: its files for every client, its data for authorized ones.

The files say nothing of the cluster, and are what a browser asks for before it has a token; the page
sends the token with everything else. A policy lets a browser run and ask for nothing but what came from
this server. What is shown is answered without the world, between two steps; what the page changes, it
changes through the API.

    GET  /controlplane/ui/               the page
    GET  /controlplane/ui/model?since=N  what happened after step N (from the first for -1); with `texts` and
                                         `tasks`, the numbers of those that are known
    POST /controlplane/ui/json           objects of YAML text as JSON: a browser knows no YAML
    GET  /controlplane/ui/scheduler      the scheduler's configuration as YAML, with all defaults
    GET  /controlplane/ui/recording      run.rec of the session up to now
    GET  /controlplane/ui/forks          forks of this session, and how they went
    POST /controlplane/ui/forks          begin one: step, and if wanted seed, strategy, seconds, add (YAML)
    GET  /controlplane/ui/forks?id=1     a fork's model
"""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from controlplane.apiserver.front.answering import HttpAnswer
from controlplane.apiserver.requests.routing import no_such_method
from controlplane.apiserver.schema.status import ApiError, bad_request, too_large
from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.apiserver.loops.http_host import Page
    from controlplane.apiserver.requests.routing import HttpRequest
    from controlplane.serving.forks import Forks
    from controlplane.serving.live import Live

__all__ = ["ROOT", "assets", "pages"]

ROOT: Final = "/controlplane/ui/"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
JSON: Final = {"Content-Type": "application/json", "Cache-Control": "no-store"}
INDEX: Final = "index.html"
YAML: Final = {"Content-Type": "application/yaml", "Cache-Control": "no-store"}
TEXT_LIMIT: Final = 128 * 1024
"""Bytes of YAML that are read between two steps."""


def assets() -> dict[str, HttpAnswer]:
    """The files of the page, by path."""
    found = {}
    for file in resources.files("controlplane.page").joinpath("static").iterdir():
        suffix = file.name[file.name.rfind(".") :]
        if suffix in _TYPES:
            headers: dict[str, str | list[str]] = {"Content-Type": _TYPES[suffix], **_SAFE}
            answer = HttpAnswer(200, headers, text=file.read_text(encoding="utf-8"))
            found[ROOT + file.name] = answer
    found[ROOT] = found[ROOT + INDEX]
    found[ROOT.rstrip("/")] = HttpAnswer(302, {"Location": ROOT, **_SAFE}, text="")
    return found


def pages(live: Live, forks: Forks, scheduler: str) -> Mapping[str, Page]:
    """The page's requests, by path. Raises ApiError 400, 404, 405.

    `scheduler` is the scheduler's configuration as YAML, "" where a scenario builds it in Python.
    """

    async def model(http: HttpRequest) -> HttpAnswer:
        _only(http, "GET")
        since = _number(http, "since", -1)
        known = None
        if "texts" in http.query and "tasks" in http.query:
            known = max(_number(http, "texts", 0), 0), max(_number(http, "tasks", 0), 0)
        return HttpAnswer(200, dict(JSON), text=(await live.since(since, known)).decode())

    async def configuration(http: HttpRequest) -> HttpAnswer:
        _only(http, "GET")
        if not scheduler:
            raise ApiError(
                404, "NotFound", "the scenario builds the scheduler's configuration in Python"
            )
        return HttpAnswer(200, dict(YAML), text=scheduler)

    async def recording(http: HttpRequest) -> HttpAnswer:
        _only(http, "GET")
        made = await live.recording()
        headers: dict[str, str | list[str]] = {
            "Content-Type": "application/octet-stream",
            "Content-Disposition": 'attachment; filename="run.rec"',
            "Cache-Control": "no-store",
        }
        return HttpAnswer(200, headers, packed=made.to_bytes())

    async def forked(http: HttpRequest) -> HttpAnswer:
        _only(http, "GET", "POST")
        try:
            if http.method == "POST":
                return HttpAnswer(202, dict(JSON), await forks.begin(_tree(http)))
            if "id" not in http.query:
                return HttpAnswer(200, dict(JSON), forks.listed())
            found = forks.model(_number(http, "id", 0))
        except UsageError as error:
            raise bad_request(str(error)) from None
        if found is None:
            raise ApiError(404, "NotFound", "there is no such fork, or it is not done")
        return HttpAnswer(200, dict(JSON), text=found)

    return {
        ROOT + "model": model,
        ROOT + "json": _as_json,
        ROOT + "scheduler": configuration,
        ROOT + "recording": recording,
        ROOT + "forks": forked,
    }


def _as_json(http: HttpRequest) -> HttpAnswer:
    from controlplane.scenarios.inputs.manifests import load_text

    _only(http, "POST")
    if len(http.body) > TEXT_LIMIT:
        raise too_large(TEXT_LIMIT)
    try:
        found = load_text(http.body.decode("utf-8-sig"), "text")
    except UnicodeDecodeError:
        raise bad_request("the text is not UTF-8") from None
    except UsageError as error:
        raise bad_request(str(error)) from None
    return HttpAnswer(200, dict(JSON), [each.tree for each in found])


def _only(http: HttpRequest, *methods: str) -> None:
    if http.method not in methods:
        raise no_such_method()


def _number(http: HttpRequest, name: str, default: int) -> int:
    text = (http.query.get(name) or [str(default)])[0]
    if not text.removeprefix("-").isdecimal() or len(text) > 18:
        raise bad_request(f"{name} {text[:40]!r}: expected a whole number")
    return int(text)


def _tree(http: HttpRequest) -> dict[str, Any]:
    try:
        found = json.loads(http.body)
    except (ValueError, RecursionError):
        raise bad_request("the body is not JSON") from None
    if not isinstance(found, dict):
        raise bad_request("the body is no object")
    return found
