"""Pages of 500 pods of few and of very many: in process, and over TLS by `wrk` (Debian's package of that name).

Forms: the first page, one from a continue token in the middle, with selectors, as kubectl's table, and from the watch
cache. Beside each rate stands the time that the server's processor takes for a page.
"""

from __future__ import annotations

import json
import re
import shutil
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from bench.bench_apiserver import PAGE, core
from bench.bench_serve import Served, processor_seconds, serving
from bench.harness import Row, resident
from controlplane.api.request import Request
from controlplane.apiserver.front.answering import HttpAnswer, answer
from controlplane.apiserver.http.answer_bodies import encoded
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.requests.server import ApiServer
from controlplane.cluster_config import EPOCH_NS

COUNTS = (500, 5_000, 50_000, 100_000)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
JSON = "application/json"
FORMS = (
    ("", JSON, {}),
    (", from a token", JSON, {"continue": ""}),
    (", label of half", JSON, {"labelSelector": "half=1"}),
    (", field of all", JSON, {"fieldSelector": "spec.nodeName="}),
    (", table", TABLE, {}),
    (", table from a token", TABLE, {"continue": ""}),
    (", table, label of half", TABLE, {"labelSelector": "half=1"}),
    (", of the cache", JSON, {"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"}),
)
PATH = "/api/v1/pods"
READS = 30
SECONDS = 4
CONNECTIONS = 2
SERVE = ("--nodes", "0", "--without", "scheduler,controllers,kubelets", "--speed", "max")


def pod(number: int) -> dict[str, Any]:
    """Return a pod that stays unscheduled: no scheduler has the name in its spec."""
    labels = {"app": "web", "half": str(number % 2)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number:06}", "namespace": "default", "labels": labels},
        "spec": {"schedulerName": "absent", "containers": [{"name": "main", "image": "app:1"}]},
    }


def filled(count: int) -> ApiServer:
    """A server's core with that many pods."""
    server = core(track_fields=True)
    for number in range(count):
        body = pod(number)
        asked = Request("create", resource="pods", namespace="default", body=body)
        assert server.handle(asked, EPOCH_NS).ok
    server.advance()
    return server


def read(server: ApiServer, accept: str, query: dict[str, str]) -> bytes:
    """An answer as bytes."""
    given = {key: [value] for key, value in query.items()}
    http = HttpRequest("GET", PATH, given, {"accept": accept}, b"")
    answered = answer(server, http, EPOCH_NS)
    assert isinstance(answered, HttpAnswer)
    assert answered.code == 200
    return b"".join(encoded(answered, pretty=False))


def queries(token: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Name, form and query of every figure; without a token those that need one are left out."""
    for name, accept, query in FORMS:
        if "continue" not in query:
            yield name, accept, {"limit": str(PAGE), **query}
        elif token:
            yield name, accept, {"limit": str(PAGE), "continue": token}


def in_process(count: int) -> Iterator[Row]:
    """The thread's processor time from the request to the bytes of its answer."""
    server = filled(count)
    half = json.loads(read(server, JSON, {"limit": str(count // 2)}))
    token = half["metadata"].get("continue", "") if count > PAGE else ""
    for name, accept, query in queries(token):
        read(server, accept, query)
        taken = []
        for _ in range(READS):
            start = time.thread_time()
            read(server, accept, query)
            taken.append(1000 * (time.thread_time() - start))
        median = statistics.median(taken)
        yield Row(f"page of {PAGE} pods of {count:,}{name}, in process", "ms", (median,))


def asked(served: Served, query: dict[str, str]) -> dict[str, Any]:
    """The metadata of a list."""
    url = f"https://{served.host}:{served.port}{PATH}?{urlencode(query)}"
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE  # it is our own server, on this machine
    with urlopen(url, context=trusting) as found:
        meta: dict[str, Any] = json.load(found)["metadata"]
    return meta


def over_tls(count: int, repeat: int) -> Iterator[Row]:
    """Measure the rate at which `wrk` reads pages of a served cluster, and the processor time of the server."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "pods.json")
        items = [pod(number) for number in range(count)]
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        with serving(*SERVE, str(file)) as served:
            while asked(served, {"limit": "1"}).get("remainingItemCount", 0) < count - 1:
                time.sleep(1)
            title = f"page of {PAGE} pods of {count:,}"
            rest, token = resident(served.pid), ""
            while token := asked(served, {"limit": str(PAGE), "continue": token}).get("continue"):
                pass
            more = (resident(served.pid) - rest) / count
            yield Row(f"{title}, memory after all were read", "bytes more a pod", (more,))
            middle = asked(served, {"limit": str(count // 2)})
            token = middle.get("continue", "") if count > PAGE else ""
            for name, accept, query in queries(token):
                rates, spent = [], []
                for _ in range(repeat):
                    before = processor_seconds(served.pid)
                    rate, pages = wrk(served, accept, query)
                    spent.append(1000 * (processor_seconds(served.pid) - before) / pages)
                    rates.append(rate)
                yield Row(f"{title}{name}, over TLS", "pages/s", tuple(rates))
                yield Row(f"{title}{name}, over TLS, server", "ms", tuple(spent))


def wrk(served: Served, accept: str, query: dict[str, str]) -> tuple[float, int]:
    """Pages a second, and how many there were."""
    url = f"https://{served.host}:{served.port}{PATH}?{urlencode(query)}"
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "--timeout", "30s"]
    command += ["-H", f"Accept: {accept}", url]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in text, text
    rate, pages = (
        re.search(r"Requests/sec:\s+([\d.]+)", text),
        re.search(r"(\d+) requests in", text),
    )
    assert rate is not None
    assert pages is not None
    return float(rate[1]), int(pages[1])


def rows(repeat: int) -> Iterator[Row]:
    for count in COUNTS:
        yield from in_process(count)
    if shutil.which("wrk") is None:
        print("pages: nothing over TLS: there is no wrk", file=sys.stderr)
        return
    for count in COUNTS:
        yield from over_tls(count, repeat)
