"""A served cluster over a file, written to for a long time: does it stay as large as it was?

    python -m bench.soak [--minutes 10] [--writers 4] [--speed 1] [--out] [--out-limit MiB]

Starts `controlplane serve --store sqlite:FILE` as a process, lets some clients create, patch and delete
config maps of three kilobytes and roll a deployment over HTTP as fast as they are answered, and prints every
half minute how much was written, how many Events there are, the process's memory (RSS) and the sizes of the file
and its write-ahead log. Events stay an hour, as upstream's do: until then they become more, and memory and file
with them. With a speed above 1 virtual time runs ahead, and with it compaction and that hour.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

EVERY_S = 30
PAGE = 4096
NAMES = 200
TEXT = "x" * 3000
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LABELS = {"app": "web"}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 10,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {
                "containers": [{"name": "main", "image": "web:0"}],
                "terminationGracePeriodSeconds": 1,
            },
        },
    },
}


class Load:
    """What the clients have done."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.writes = 0
        self.refused = 0
        self.over = threading.Event()

    def write(self, number: int) -> None:
        """One client: patches, deletes and creates, one after the other."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        turn = 0
        while not self.over.is_set():
            turn += 1
            name = f"c{number}-{turn % NAMES}"
            data = {"v": f"{TEXT}{turn}"}
            if turn % 7 == 0:
                calls = [("DELETE", f"{CONFIG_MAPS}/{name}", None)]
            else:
                calls = [("PATCH", f"{CONFIG_MAPS}/{name}", {"data": data})]
            if self._ask(connection, *calls[0]) == 404:
                self._ask(
                    connection, "POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": data}
                )

    def roll(self) -> None:
        """Another client: a deployment gets another image every five seconds."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self._ask(connection, "POST", DEPLOYMENTS, DEPLOYMENT)
        turn = 0
        while not self.over.wait(5):
            turn += 1
            containers = [{"name": "main", "image": f"web:{turn}"}]
            change = {"spec": {"template": {"spec": {"containers": containers}}}}
            self._ask(connection, "PATCH", f"{DEPLOYMENTS}/web", change)

    def virtual_minutes(self) -> float:
        """How late it is in the cluster."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/controlplane/time")
        told = json.load(connection.getresponse())
        connection.close()
        return float(told["virtual"]) / 60

    def events(self) -> int:
        """How many Events there are."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/api/v1/events?limit=1")
        told = json.load(connection.getresponse())
        connection.close()
        return len(told["items"]) + int(told["metadata"].get("remainingItemCount", 0))

    def _ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: object
    ) -> int:
        media = (
            "application/json" if method != "PATCH" else "application/strategic-merge-patch+json"
        )
        connection.request(method, path, body and json.dumps(body), {"Content-Type": media})
        answer = connection.getresponse()
        answer.read()
        self.writes += answer.status < 300
        self.refused += answer.status >= 400 and answer.status != 404
        return answer.status


def _megabytes(path: Path) -> float:
    return path.stat().st_size / 1e6 if path.exists() else 0.0


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def soak(minutes: float, writers: int, speed: str, folder: Path, *more: str) -> None:
    """Run it and print the table; `more` are further options of serve."""
    store = folder / "store.db"
    program = [sys.executable, "-c", "from controlplane.cli.main import main; main()"]
    arguments = ["serve", "--nodes", "2", "--no-tls", "--token", "", "--speed", speed]
    places = ["--kubeconfig", str(folder / "config"), "--store", f"sqlite:{store}"]
    served = subprocess.Popen(
        [*program, *arguments, *places, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert served.stdout is not None
    line = served.stdout.readline()
    url = line.split("# ", 1)[1].split(",", 1)[0]
    load = Load(int(url.rsplit(":", 1)[1]))
    clients = [threading.Thread(target=load.write, args=(each,)) for each in range(writers)]
    clients.append(threading.Thread(target=load.roll))
    for each in clients:
        each.start()
    begun = time.monotonic()
    print(
        f"{'minutes':>8}{'virtual':>9}{'writes':>10}{'refused':>9}{'events':>8}{'RSS MB':>9}{'file MB':>9}{'log MB':>8}"
        f"{'CPU s':>8}"
    )
    try:
        while True:
            past = time.monotonic() - begun
            memory = int(Path(f"/proc/{served.pid}/statm").read_text().split()[1]) * PAGE / 1e6
            log = store.with_name("store.db-wal")
            print(
                f"{past / 60:>8.1f}{load.virtual_minutes():>9.1f}{load.writes:>10}{load.refused:>9}"
                f"{load.events():>8}{memory:>9.0f}{_megabytes(store):>9.1f}{_megabytes(log):>8.1f}"
                f"{_cpu_seconds(served.pid):>8.1f}",
                flush=True,
            )
            if past >= minutes * 60:
                return
            time.sleep(min(EVERY_S, max(0.1, minutes * 60 - past)))
    finally:
        load.over.set()
        for each in clients:
            each.join()
        begun = time.monotonic()
        served.terminate()
        served.communicate()
        print(f"ended {time.monotonic() - begun:.1f} s after SIGTERM")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=soak.__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--speed", default="1", help="of virtual time, as of serve")
    parser.add_argument("--out", action="store_true", help="leave log and recording, as of serve")
    parser.add_argument("--out-limit", help="MiB of them that are kept, as of serve")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        more = ["--out", f"{folder}/out"] if options.out else []
        if options.out_limit:
            more += ["--out-limit", options.out_limit]
        soak(options.minutes, options.writers, options.speed, Path(folder), *more)


if __name__ == "__main__":
    main()
