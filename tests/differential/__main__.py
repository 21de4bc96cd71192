"""Ask a real API server and ours random conversations, and report how far they agree.

    python -m tests.differential --real KUBECONFIG [--again KUBECONFIG] [--ours in-process|KUBECONFIG]

Needs a kube-apiserver 1.36.2 of one's own that is of no other use: the conversations are hostile. Its
store should begin at a revision of six digits, as that of the recordings did, and its static token is
`admin-token` (README beside this file). The real server is asked twice, in two namespaces, or a second
one is asked; what these two answer differently is dropped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.differential import openapi, wire
from tests.differential.asking import HttpServer, Server, place_of
from tests.differential.comparing import Report, Verdict, judged
from tests.differential.corpus import Conversation, corpus
from tests.differential.generating import class_names, conversations
from tests.differential.mutating import Grammar
from tests.differential.ours import InProcess
from tests.differential.served import served
from tests.differential.shrinking import shrunk


def _arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--real", type=Path, required=True, help="kubeconfig of the real server")
    parser.add_argument("--again", type=Path, help="kubeconfig of a second real server")
    parser.add_argument("--ours", default="in-process", help="in-process, or a kubeconfig")
    parser.add_argument("--classes", default="", help="names of classes, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--conversations", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument(
        "--shrink", type=int, default=0, metavar="N", help="shrink the first N causes"
    )
    parser.add_argument("--json", type=Path, help="write figures, causes and examples to this file")
    return parser.parse_args(given)


class Asker:
    """The servers of one run."""

    def __init__(self, real: Server, again: Server, ours: Server, wired: Server) -> None:
        self._real, self._again, self._ours, self._wired = real, again, ours, wired

    def judge(self, told: Conversation) -> Verdict:
        """Ask a conversation of all of them."""
        ours = self._wired if told.of == wire.CLASS else self._ours
        return judged(told, self._real, self._again, ours)

    def all(self, told: Iterator[Conversation], threads: int) -> Iterator[Verdict]:
        """Verdicts: first on conversations that may overlap, then on those that may not.

        Conversations about fixed addresses and ports may overlap with any but each other.
        """
        lanes: dict[str, list[Conversation]] = {"": [], "addresses": [], "alone": []}
        for each in told:
            lanes[_lane(each)].append(each)
        with ThreadPoolExecutor(threads) as pool:
            in_turn = pool.submit(lambda: [self.judge(each) for each in lanes["addresses"]])
            yield from pool.map(self.judge, lanes[""])
            yield from in_turn.result()
        yield from map(self.judge, lanes["alone"])


_ALONE = (
    "is-default-class",
    "globalDefault",
    "webhookconfigurations",
    "flowcontrol.apiserver.k8s.io",
    "apiregistration.k8s.io",
)
"""Marks of requests that may change the answers to other conversations."""
_ADDRESSES = ("10.0.0.", '"nodePort": 3')


def _lane(told: Conversation) -> str:
    """Return with which others a conversation must not overlap: those of a lane, or any."""
    text = json.dumps(told.steps)
    if any(word in text for word in _ALONE) or any(map(_reaches_others, told.steps)):
        return "alone"
    return "addresses" if any(word in text for word in _ADDRESSES) else ""


def _reaches_others(step: dict[str, Any]) -> bool:
    """Return whether a request makes an admission policy that may not keep to its namespace, or changes one so."""
    body = step.get("body")
    if "admissionpolicies/" in step.get("path", "") and step["method"] in ("PATCH", "PUT"):
        return "matchConstraints" in json.dumps([body, step.get("bodyText")])
    if not isinstance(body, dict) or not str(body.get("kind")).endswith("AdmissionPolicy"):
        return False
    spec = body.get("spec")
    return not isinstance(spec, dict) or "<ns>" not in json.dumps(spec.get("matchConstraints"))


def main(given: list[str]) -> int:
    """Run it; 1 if anything differs."""
    options = _arguments(given)
    try:
        real_place = place_of(options.real)
        again_place = place_of(options.again) if options.again else real_place
        ours_place = None if options.ours == "in-process" else place_of(Path(options.ours))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    with ExitStack() as stack:
        enter = stack.enter_context
        real, again = enter(HttpServer(real_place, "q")), enter(HttpServer(again_place, "w"))
        if ours_place is None:
            ours: Server = InProcess()
            wired: Server = enter(HttpServer(enter(served()), "v"))
        else:
            ours = wired = enter(HttpServer(ours_place, "v"))
        grammar = Grammar(corpus(), openapi.read(real.get))
        known = class_names(grammar)
        names = [name for name in options.classes.split(",") if name] or known
        if unknown := [name for name in names if name not in known]:
            print(
                f"--classes: no class {unknown[0]}; there are {', '.join(known)}", file=sys.stderr
            )
            return 2
        asker, report = Asker(real, again, ours, wired), Report()
        told = conversations(options.seed, options.conversations, names, grammar)
        for number, each in enumerate(asker.all(told, options.threads), 1):
            report.add(each)
            if number % 200 == 0 and options.json:  # a long run may be looked at, and may end early
                options.json.write_text(json.dumps(report.tree(), ensure_ascii=False, indent=1))
        print(report.table())
        tree = report.tree()
        for cause in tree["causes"][: options.shrink]:
            found = report.causes[cause["cause"]][0]
            small = shrunk(found, asker.judge)
            cause["shrunk"] = {"difference": small.first, **small.told.tree()}
            print(json.dumps(cause["shrunk"], ensure_ascii=False))
        if options.json:
            options.json.write_text(json.dumps(tree, ensure_ascii=False, indent=1))
    return 1 if report.causes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
