"""Large lists: how far the served API server's memory grows over its rest while informers start.

400 Secrets of 1 MB, as in the published test of streaming lists. Every informer is a connection that
takes what it is sent and forgets it; a connection apart from the others reads slowly. Three forms:
lists assembled as a whole (`--without-fix 129334`, servers before 1.33), lists encoded item by item,
and a watch that begins with the state (sendInitialEvents).
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bench.bench_serve import Client, serving
from bench.harness import Row, resident

SECRETS = 400
SECRET_BYTES = 1_000_000
INFORMERS = (1, 4, 16, 32)
MIB = 1 << 20
PATH = "/api/v1/namespaces/default/secrets"
STREAM = (
    f"{PATH}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true"
    "&resourceVersionMatch=NotOlderThan"
)
FORMS = (
    ("list as a whole", PATH, ("--without-fix", "129334")),
    ("list item by item", PATH, ()),
    ("streaming list", STREAM, ()),
)
END = b'"k8s.io/initial-events-end"'
TAIL = 4096
SLOW_PAUSE_S = 0.003
"""How long the slow informer rests after every piece of at most `READ` bytes."""
READ = 1 << 18
WAIT_S = 600.0


def available() -> int:
    """Bytes of memory the machine could still give."""
    found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    assert found is not None
    return int(found[1]) * 1024


def secret(number: int) -> bytes:
    """A secret of `SECRET_BYTES` that does not compress."""
    data = base64.b64encode(random.Random(number).randbytes(SECRET_BYTES * 3 // 4)).decode()
    tree = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"secret-{number:04}"},
        "data": {"blob": data},
    }
    return json.dumps(tree).encode()


def informer(host: str, port: int, path: str, pause_s: float) -> int:
    """Take everything up to the end of the initial state; how many bytes it was."""
    with socket.create_connection((host, port)) as stream:
        stream.settimeout(WAIT_S)
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n".encode())
        total, tail = 0, b""
        while data := stream.recv(READ):
            total += len(data)
            tail = (tail + data[-TAIL:])[-TAIL:]
            if END in tail:
                break
            if pause_s:
                time.sleep(pause_s)
    return total


def informers(host: str, port: int, path: str, count: int, told: object) -> None:
    """All informers of a round, the last of several a slow one; in a process of their own."""
    totals: list[int] = []

    def one(number: int) -> None:
        pause = SLOW_PAUSE_S if number and number == count - 1 else 0.0
        totals.append(informer(host, port, path, pause))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.put((len(totals), min(totals)))  # type: ignore[attr-defined]


def round_of(pid: int, host: str, port: int, path: str, count: int) -> tuple[int, float]:
    """The most memory held while `count` informers start, in bytes, and how long that takes."""
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the high-water mark starts anew
    start = time.perf_counter()
    process = context.Process(target=informers, args=(host, port, path, count, told))
    process.start()
    served, least = told.get(timeout=WAIT_S)
    taken = time.perf_counter() - start
    process.join()
    assert served == count and least > SECRETS * SECRET_BYTES, (served, least)
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024, taken


def rows(repeat: int) -> Iterator[Row]:
    del repeat  # peaks of memory repeat well, and each takes long
    data = SECRETS * SECRET_BYTES
    for title, path, arguments in FORMS:
        with serving("--no-tls", "--nodes", "0", *arguments) as served:
            host, port, pid = served.host, served.port, served.pid
            client = Client(host, port)
            for number in range(SECRETS):
                client.send("POST", PATH, secret(number))
                assert client.answer() == 201
            time.sleep(1)
            rest = resident(pid)
            yield Row(f"memory: {title}, at rest", "MB", (rest / 1e6,))
            yield Row(f"memory: {title}, at rest over data", "times", (rest / data,))
            for count in INFORMERS:
                if "whole" in title and count * data * 1.3 > available():
                    print(
                        f"  {title}, {count} informers: left out, too little memory",
                        file=sys.stderr,
                    )
                    continue
                peak, taken = round_of(pid, host, port, path, count)
                yield Row(f"memory: {title}, {count} informers", "MB more", ((peak - rest) / 1e6,))
                yield Row(f"memory: {title}, {count} informers, time", "s", (taken,))
