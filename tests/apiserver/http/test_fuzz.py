"""Whatever comes over HTTP gets an answer of a client's fault at worst, and leaves nothing behind."""

import json
import random
import re
import socket
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from controlplane.apiserver.front.answering import WatchAnswer
from tests.apiserver.http.served_thread import served_thread
from tests.apiserver.http.session import request
from tests.apiserver.test_malformed_fuzz import CORE, OBJECTS, PLAIN, requests

NAMES = ("a", "d", "s", "m", "t", "default", "things.x.io", "o", "kubernetes")
QUIET = settings(
    database=None,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def server():
    with served_thread() as found:
        for path, body in OBJECTS:
            found.ask("POST", path, json.dumps(body).encode())
        yield found
        assert found.panics == []
        assert found.defects == 0


def check(server, method, target, body, **headers):
    code, answer = server.ask(method, target, body, **headers)
    text = ""
    if code >= 500:
        try:
            text = json.loads(answer).get("message", "")
        except ValueError:
            text = answer.decode("utf-8", "replace")
    assert code < 500 or any(part in text for part in PLAIN), (method, target, body, code, text)
    return code


@pytest.mark.slow
@given(requests())
@settings(QUIET, max_examples=60)
def test_malformed_requests_over_http(server, http):
    target = http.path + ("?" + urlencode(http.query, doseq=True) if http.query else "")
    headers = {name.title().replace("-", "_"): value for name, value in http.headers.items()}
    check(server, http.method, target, http.body, **headers)


def test_a_defect_in_an_event_ends_its_watch_and_not_the_server(monkeypatch):
    def fail(*_):
        raise KeyError("name")

    with served_thread() as server:
        monkeypatch.setattr(WatchAnswer, "render", fail)
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        assert server.ask("GET", "/api/v1/namespaces?watch=1", Accept=table)[0] == 200
        assert server.ask("GET", "/version")[0] == 200
        assert [panic["error"] for panic in server.panics] == ["KeyError: 'name'"]


# -- from our own OpenAPI ------------------------------------------------------------------------


def operations(server):
    """All operations of all documents, as schemathesis sees them."""
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    index = json.loads(server.ask("GET", "/openapi/v3")[1])
    for path in sorted(index["paths"]):
        document = json.loads(server.ask("GET", f"/openapi/v3/{path}")[1])
        if document.get("paths"):
            schema = schemathesis.openapi.from_dict(document)
            yield from (found.ok() for found in schema.get_all_operations())


def exercise(server, operation, examples, chance):
    """Requests that fit an operation's schema, and requests that do not; how many were answered."""
    from schemathesis import GenerationMode

    sent = 0
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

        @settings(QUIET, max_examples=examples)
        @given(operation.as_strategy(generation_mode=mode))
        def run(case):
            nonlocal sent
            send(server, case, chance)
            sent += 1

        run()
    return sent


def send(server, case, chance):
    path = case.path
    for name, value in (case.path_parameters or {}).items():
        if name == "namespace" and chance.random() < 0.8:
            value = "default"
        elif name == "name" and chance.random() < 0.7:
            value = chance.choice(NAMES)
        path = path.replace(f"{{{name}}}", quote(str(value), safe="", errors="replace"))
    query = "?" + urlencode(case.query, doseq=True, errors="replace") if case.query else ""
    body = None
    if case.media_type is not None and type(case.body).__name__ != "NotSet":
        body = case.body
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
    headers = {"Content_Type": case.media_type or "application/json"}
    for name, value in (case.headers or {}).items():
        text = str(value)
        if re.fullmatch(r"[A-Za-z-]+", name) and text.isascii() and text.isprintable():
            headers[name.replace("-", "_")] = text
    check(server, case.method, path + query, body, **headers)


@pytest.mark.slow
def test_requests_made_from_some_of_our_openapi(server):
    chance = random.Random(1)
    chosen = list(operations(server))[::60]
    sent = sum(exercise(server, operation, 1, chance) for operation in chosen)
    assert sent >= len(chosen) > 5


@pytest.mark.nightly
def test_requests_made_from_a_third_of_our_openapi(server):
    chance = random.Random(2)
    chosen = list(operations(server))[1::3]
    sent = sum(exercise(server, operation, 1, chance) for operation in chosen)
    assert sent >= len(chosen) > 150


# -- nothing is left behind ----------------------------------------------------------------------


def spoil(port, chance):
    """One connection that sends something malformed, or half of something, and goes away."""
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}).encode()
    raw = request("POST", f"{CORE}/configmaps", body)
    deep = request("POST", f"{CORE}/configmaps", b'{"a":' * 20_000)
    choices = (
        raw[: chance.randrange(len(raw))],
        bytes(chance.randrange(256) for _ in range(200)),
        request("POST", f"{CORE}/configmaps", b"{" * chance.randrange(1, 50_000)),
        deep,
        request("GET", f"{CORE}/pods?limit={'9' * 50}"),
        request("GET", f"{CORE}/pods?watch=true"),
        request("PATCH", f"{CORE}/pods/none", raw),
        request("GET", "/" + "%41" * 5_000),
        raw.replace(b"HTTP/1.1", b"HTTP/7.7"),
    )
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stream:
        try:
            stream.sendall(chance.choice(choices))
            if chance.random() < 0.5:
                stream.shutdown(socket.SHUT_WR)
                stream.settimeout(0.2)
                stream.recv(1000)
        except OSError:
            return


def resident():
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_malformed_input_leaves_nothing_in_memory():
    chance = random.Random(5)
    with served_thread(keep=False) as server:
        for _ in range(1000):
            spoil(server.port, chance)
        before = resident()
        for _ in range(3000):
            spoil(server.port, chance)
        grown = resident() - before
        assert server.ask("GET", "/healthz") == (200, b"ok")
        assert server.defects == 0
    assert grown < 16, f"{grown:.0f} MB more"
