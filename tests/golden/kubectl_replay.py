"""The requests that kubectl sent, sent again to a server in this process: only statuses are compared.

What this cannot check: which requests kubectl would send to us, and what it would print. Versions,
uids and continue tokens in the recorded requests are those of the recorded server; ours are put in
where a request names its object. A request whose outcome hangs on a token that only an earlier
answer of ours could give is sent all the same, with that token.
"""

from __future__ import annotations

import json
import re
from typing import Any

from controlplane.apiserver.front.answering import HttpAnswer
from controlplane.apiserver.front.answering import answer as serve
from controlplane.apiserver.loops.http_server import json_request
from controlplane.apiserver.requests.routing import HttpRequest
from tests.golden.answer_crud import ADMIN, START
from tests.golden.kubectl_world import Session

Json = Any

_MEMBER = re.compile(r"(/api/v1|/apis/[^/]+/[^/]+)(/namespaces/[^/]+)?/[^/]+/[^/]+")


def problem(case: Json, want: Json) -> str | None:
    """None, or the first request whose status is another than the recorded one."""
    session = Session(START)
    for step in case.get("setup", ()):
        session.send(step)
    sender = _Sender(session)
    for number, command in enumerate(want["commands"]):
        for request in command.get("requests") or ():
            if "\ufffd" in request.get("bodyText", ""):
                continue  # the recording keeps no bytes that are not text
            wanted = request.get("status")
            got = sender.send(request)
            if wanted is not None and not _agree(wanted, got):
                place = f"{request['method']} {request['path']}"
                return f"[{number}] {place}: want status {wanted}, got {got}"
    return None


def _agree(wanted: int, got: int) -> bool:
    """304 and 200 are the same answer to clients with and without a cache."""
    return wanted == got or {wanted, got} == {200, 304}


class _Sender:
    """Sends recorded requests, with our versions and uids in them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._token = ""

    def send(self, request: Json) -> int:
        """The status that one request gets."""
        session = self._session
        query = {}
        for key, value in (request.get("query") or {}).items():
            values = value if isinstance(value, list) else [value]
            query[key] = [self._filled(str(each), request["path"]) for each in values]
        headers = {key.lower(): value for key, value in (request.get("headers") or {}).items()}
        headers.setdefault("user-agent", "kubectl/v1.32.5")
        body = b""
        if "body" in request:
            body = self._filled(json.dumps(request["body"]), request["path"]).encode()
        elif "bodyText" in request:
            body = request["bodyText"].encode()
        http = HttpRequest(request["method"], request["path"], query, headers, body, ADMIN)
        result = serve(session.core, json_request(http), session.start)
        session.core.advance()
        if not isinstance(result, HttpAnswer):
            result.watcher.stop()
            return 200
        if isinstance(result.tree, dict):
            meta = result.tree.get("metadata")
            self._token = (meta or {}).get("continue", "") if isinstance(meta, dict) else ""
        return result.code

    def _filled(self, text: str, path: str) -> str:
        text = text.replace("<continue>", self._token)
        text = text.replace("<random 300-599>", "400").replace("<time>", "2031-01-01T00:00:00Z")
        if "<rv>" not in text and "<uid>" not in text:
            return text
        version, uid = self._identity(path)
        return text.replace("<rv>", version).replace("<uid>", uid)

    def _identity(self, path: str) -> tuple[str, str]:
        """Version and uid of the object that a path names; the store's version for others."""
        core = self._session.core
        found = _MEMBER.match(path)
        if found is not None:
            asked = serve(core, HttpRequest("GET", found[0], {}, {}, b"", ADMIN), START)
            if isinstance(asked, HttpAnswer) and asked.code == 200:
                meta = asked.tree["metadata"]
                return meta.get("resourceVersion", "0"), meta.get("uid", "")
        return str(core.store.revision), "aaaaaaaa-0000-4000-8000-000000000000"
