"""Conversations asked of a server over HTTP(S), and its answers with placeholders."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode, urlsplit

import yaml
from attrs import field, frozen

from tests.differential.corpus import NAMESPACE, Conversation
from tests.golden.masks import FIRST_REVISION, Masks

Json = Any

UIDS: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DIGEST: Final = re.compile(r'"[0-9A-F]{128}"')
_GENERATE: Final = re.compile(r'"?generateName"?: *("[^"]*")')
_GENERATED_LENGTH: Final = 58
_SUFFIX: Final = r"([bcdfghjklmnpqrstvwxz2456789]{5})(?![\w.-])"
_AGE: Final = re.compile(r"(?<![\w.])((\d+[smhdy])+|<invalid>)(?![\w.])")
_BUILD: Final = ("gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion")
_FOREIGN: Final = re.compile(r"(?<![\w<])[a-z]\d{8}(?![\w>])")
"""A namespace of another conversation, which is in the names of all that it makes outside of one."""
_SHARED: Final = ("groups", "items", "paths")
"""Lists of discovery and of collections, which show the work of all conversations."""
_SUMMARY: Final = re.compile(r"(json parse error: .*?)\([0-9a-f]{2,}(?: \.\.\.)?\)")
"""The beginning of a body in hexadecimal digits, in which masks would find versions."""
_RAW_SUMMARY: Final = re.compile(_SUMMARY.pattern.encode())
_SECOND: Final = 10**9
_SECONDS: Final = 20.0
"""A request that takes longer has no answer."""
_NO_TIMES = type("_NoTimes", (yaml.SafeLoader,), {})
_NO_TIMES.yaml_implicit_resolvers = {  # type: ignore[attr-defined]
    first: [(tag, pattern) for tag, pattern in each if tag != "tag:yaml.org,2002:timestamp"]
    for first, each in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class Server(Protocol):
    """A server that answers conversations, in the form of `want` in golden cases."""

    def ask(self, told: Conversation) -> Json:
        """Ask everything, clean up, and return the masked answers."""


@frozen
class Answer:
    """One answer as it came."""

    status: int
    headers: dict[str, str | list[str]] = field(factory=dict)
    body: bytes = b""


@frozen
class Place:
    """The address of a server, and the token of its client."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    token: str

    def connect(self) -> http.client.HTTPConnection:
        """A new connection."""
        if self.tls is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=_SECONDS)
        return http.client.HTTPSConnection(self.host, self.port, timeout=_SECONDS, context=self.tls)


def place_of(kubeconfig: Path) -> Place:
    """The current context of a kubeconfig: server, authority, and token or client certificate.

    Raises:
        ValueError: the file is not of that form.
    """
    try:
        config = yaml.safe_load(kubeconfig.read_text())
        by_name = {
            kind: {each["name"]: each[kind] for each in config[f"{kind}s"]}
            for kind in ("cluster", "user", "context")
        }
        context = by_name["context"][config["current-context"]]
        cluster, user = by_name["cluster"][context["cluster"]], by_name["user"][context["user"]]
        url = urlsplit(cluster["server"])
    except (OSError, KeyError, TypeError, yaml.YAMLError) as error:
        raise ValueError(
            f"{kubeconfig}: not a kubeconfig with a current context: {error!r}"
        ) from None
    tls = None
    if url.scheme == "https":
        tls = ssl.create_default_context()
        tls.check_hostname = False
        if "certificate-authority-data" in cluster:
            data = base64.b64decode(cluster["certificate-authority-data"]).decode()
            tls.load_verify_locations(cadata=data)
        elif "certificate-authority" in cluster:
            tls.load_verify_locations(kubeconfig.parent / cluster["certificate-authority"])
        else:
            tls.verify_mode = ssl.CERT_NONE
        if "client-certificate" in user:
            tls.load_cert_chain(user["client-certificate"], user["client-key"])
    port = url.port or (443 if tls else 80)
    return Place(url.hostname or "127.0.0.1", port, tls, user.get("token", ""))


class HttpServer:
    """A server that is asked over connections: one for each thread that asks.

    `prefix` begins the names of the namespaces, which are nine characters long, as in the recordings.
    """

    def __init__(self, place: Place, prefix: str) -> None:
        self.place = place
        self._prefix = prefix
        self._number = (
            int(time.time()) % 100_000 * 1000
        )  # names of an earlier run may still be there
        self._lock = threading.Lock()
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []

    def __enter__(self) -> HttpServer:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._connections:
            each.close()

    def namespace(self) -> str:
        """A name that was not used before."""
        with self._lock:
            self._number += 1
            return f"{self._prefix}{self._number:0{9 - len(self._prefix)}}"

    def get(self, path: str) -> Json:
        """The parsed answer to a plain request, None for an error."""
        answer = self.send("GET", path, {}, b"")
        return json.loads(answer.body) if answer.status == 200 else None

    def send(self, method: str, target: str, headers: dict[str, Any], body: bytes) -> Answer:
        """One request. A header that is None is left out."""
        sent = {
            "User-Agent": "golden/1.0",
            "Accept": "application/json",
            "Authorization": f"Bearer {self.place.token}" if self.place.token else None,
        }
        names = {name.lower(): name for name in sent}
        for name, value in headers.items():
            sent[names.get(name.lower(), name)] = value
        for attempt in (0, 1):
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = self.place.connect()
                self._connections.append(connection)
            try:
                return self._exchange(connection, method, target, sent, body)
            except (OSError, http.client.HTTPException) as error:
                self._drop(connection)
                if attempt or isinstance(error, TimeoutError):
                    return Answer(0, {}, type(error).__name__.encode())
        raise AssertionError

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        connection.close()
        self._connections.remove(connection)
        self._local.connection = None

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        headers: dict[str, Any],
        body: bytes,
    ) -> Answer:
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers.items():
            if value is not None:
                for each in value if isinstance(value, list) else [value]:
                    connection.putheader(name, str(each).encode())
        if body or method in ("POST", "PUT", "PATCH"):
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        with connection.getresponse() as response:
            data = response.read()
            found: dict[str, str | list[str]] = {}
            for name, raw in response.getheaders():
                value = raw.encode("latin-1").decode("utf-8", "replace")
                title = "ETag" if name.lower() == "etag" else name.title()
                if title == "Warning":
                    found.setdefault(title, [])
                    found[title].append(value)  # type: ignore[union-attr]
                else:
                    found.setdefault(title, value)
            if response.will_close:
                self._drop(connection)
            return Answer(response.status, found, data)

    def ask(self, told: Conversation) -> Json:
        """Ask everything, clean up, and return the masked answers."""
        return Talk(self, told).run()


class Talk:
    """One conversation with one server."""

    def __init__(self, server: HttpServer, told: Conversation) -> None:
        self._server = server
        self._namespace = server.namespace()
        text = json.dumps([told.setup, told.steps], ensure_ascii=False)
        self._setup, self._steps = json.loads(text.replace(NAMESPACE, self._namespace))
        self._latest = FIRST_REVISION
        start = time.time_ns() - 60 * _SECOND
        self._masks = Masks(UIDS, start, lambda: self._latest, managed=told.managed)
        self._tags: dict[str, str] = {}
        self._made: dict[str, None] = {}
        self._generated: dict[str, re.Pattern[str]] = {}

    def run(self) -> Json:
        """All answers, masked."""
        try:
            for step in self._setup:
                answer = self._ask(step)
                assert answer.status < 300, (step, answer)
            responses = [self._step(step) for step in self._steps]
        finally:
            self._clean_up()
        found = {"responses": responses, "rvOrder": self._masks.version_order()}
        text = json.dumps(found, ensure_ascii=False)
        shown: Json = comparable(json.loads(text.replace(self._namespace, NAMESPACE)))
        return {**shown, "values": self._masks.names.values}

    def _step(self, step: Json) -> Json:
        if "waitSeconds" in step:
            time.sleep(min(float(step["waitSeconds"]), 3.0))
            return {}
        if "waitEstablished" in step:
            self._wait(step["waitEstablished"], established=True)
            return {}
        if "waitGone" in step:
            self._wait(step["waitGone"], established=False)
            return {}
        answer = self._ask(step)
        self._learn(answer.body)
        if step.get("watch") and answer.status == 200 and _streamed(answer):
            return {
                "status": 200,
                "headers": {"Content-Type": "application/json"},
                "events": list(self._events(answer.body)),
            }
        plain = Answer(answer.status, answer.headers, _RAW_SUMMARY.sub(rb"\1(<hex>)", answer.body))
        return self._masks.response(plain.status, plain.headers, _body(plain))

    def _ask(self, step: Json) -> Answer:
        step = self._masks.actual(step, time.time_ns())
        target = step.get("target")
        if target is None:
            target = quote(step["path"], safe="/:@!$&'()*+,;=~")
            if step.get("query"):
                target += "?" + urlencode(step["query"], doseq=True)
        headers = dict(step.get("headers") or {})
        body = b""
        if "body" in step:
            headers.setdefault("Content-Type", "application/json")
            body = json.dumps(step["body"], sort_keys=True).encode()
        elif "bodyText" in step:
            body = step["bodyText"].encode(errors="surrogatepass")
        if _DIGEST.fullmatch(str(headers.get("If-None-Match", ""))):
            headers["If-None-Match"] = self._tags.get(target, "")
        self._masks.sent += body.decode(errors="replace")
        for literal in _GENERATE.findall(body.decode(errors="replace")):
            with contextlib.suppress(ValueError):
                prefix = json.loads(literal)[:_GENERATED_LENGTH]
                self._generated.setdefault(prefix, re.compile(re.escape(prefix) + _SUFFIX))
        answer = self._server.send(step["method"], target, headers, body)
        if "ETag" in answer.headers:
            self._tags[target] = str(answer.headers["ETag"])
        if answer.status == 201:
            self._note(step, answer)
        return answer

    def _learn(self, body: bytes) -> None:
        """Note generated names and the newest version, which masks need."""
        text = body.decode(errors="replace")
        for pattern in self._generated.values():
            for suffix in pattern.findall(text):
                if suffix not in self._masks.sent:
                    self._masks.suffixes.setdefault(suffix)
        for version in re.findall(r'"?resourceVersion"?: ?"(\d+)"', text):
            self._latest = max(self._latest, int(version))

    def _events(self, body: bytes) -> Iterator[Json]:
        for line in body.decode(errors="replace").splitlines():
            try:
                tree = json.loads(line)
                shown = self._masks.event(tree)
            except (ValueError, KeyError, TypeError):
                shown = {"text": self._masks.normal_text(line)}
            if shown is not None:
                yield shown

    def _wait(self, name: str, *, established: bool) -> None:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        for _ in range(20):
            tree = self._server.get(path)
            if tree is None:
                break
            conditions = (tree.get("status") or {}).get("conditions") or ()
            served = any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
            if established and served:
                break
            time.sleep(0.1)
        time.sleep(0.7 if established else 0.3)

    # ------------------------------------------------------------------ afterwards

    def _note(self, step: Json, answer: Answer) -> None:
        """Remember the path of what was created."""
        path = (step.get("target") or step["path"]).partition("?")[0]
        with contextlib.suppress(ValueError, KeyError, TypeError):
            name = json.loads(answer.body)["metadata"]["name"]
            if step["method"] == "POST" and not path.endswith(f"/{name}"):
                path = f"{path.rstrip('/')}/{name}"
            self._made[path] = None

    def _clean_up(self) -> None:
        """Delete everything that was created: later conversations must not meet it."""
        send = self._server.send
        merge = {"Content-Type": "application/merge-patch+json"}
        for path in reversed(self._made):
            target = quote(path, safe="/:@!$&'()*+,;=~")
            query = "?gracePeriodSeconds=0&propagationPolicy=Background"
            if send("DELETE", target + query, {}, b"").status == 404:
                continue
            if path.startswith("/api/v1/namespaces/") and path.count("/") == 4:
                tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": path[19:]}}
                json_type = {"Content-Type": "application/json"}
                send("PUT", f"{target}/finalize", json_type, json.dumps(tree).encode())
            answer = send("PATCH", target, merge, b'{"metadata":{"finalizers":null}}')
            if answer.status == 200:
                send("DELETE", target + query, {}, b"")


def _streamed(answer: Answer) -> bool:
    """Return whether an answer is the events of a watch, not one object or list."""
    first = answer.body.partition(b"\n")[0]
    try:
        tree = json.loads(first) if first else {}
    except ValueError:
        return True
    return not first or (isinstance(tree, dict) and set(tree) == {"type", "object"})


def comparable(value: Json, key: str = "") -> Json:
    """A tree without what tells builds apart or others made, with `<age>` for each age in a cell of a Table."""
    if isinstance(value, dict):
        known = _BUILD if "gitVersion" in value else ("serverAddress",)
        known = (*known, "length") if value.get("binary") is True else known
        names = [name for name in value if name not in known]
        return {name: comparable(value[name], name) for name in names}
    if isinstance(value, list):
        if key in _SHARED:
            value = [item for item in value if not _FOREIGN.search(json.dumps(item))]
        return [comparable(item, key) for item in value]
    if not isinstance(value, str):
        return value
    return _AGE.sub("<age>", value) if key == "cells" else _SUMMARY.sub(r"\1(<hex>)", value)


def _body(answer: Answer) -> Json:
    """The body as the recordings show it: parsed, as text, or as what it begins with."""
    media = str(answer.headers.get("Content-Type", "")).partition(";")[0]
    if "protobuf" in media:
        return {"binary": True, "length": len(answer.body), "prefix": answer.body[:4].hex()}
    try:
        text = answer.body.decode()
    except UnicodeDecodeError:
        return {"binary": True, "length": len(answer.body), "prefix": answer.body[:4].hex()}
    with contextlib.suppress(ValueError, yaml.YAMLError):
        if media.endswith("json"):
            return json.loads(text)
        if media.endswith("yaml"):
            return yaml.load(text, _NO_TIMES)
    return text
