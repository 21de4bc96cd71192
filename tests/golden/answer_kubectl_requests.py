"""kubectl itself against our server: what it asks, what it prints, how it ends.

With a kubectl of the recorded release (see `kubectl_world.kubectl_of`) every command is run and
everything recorded is compared. Without one the recorded requests themselves are sent, in order,
and only the statuses that they get are compared; the report's note says which of the two was done.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import trio

from tests.golden import kubectl_replay
from tests.golden.kubectl_text import named, named_tree, other_cases_rows
from tests.golden.kubectl_world import Done, Session, command, kubectl_of, now_ns
from tests.golden.runner import difference

Json = Any

RELEASE = "1.32"
_LOGGED = re.compile(r"^<klog>.*\n", re.MULTILINE)


def note() -> str:
    """What was compared, for the report."""
    if kubectl_of(RELEASE) is not None and not _statuses_only():
        return f"kubectl {RELEASE} itself"
    return f"statuses of the recorded requests only: no kubectl {RELEASE} was run"


def _statuses_only() -> bool:
    return os.environ.get("GOLDEN_KUBECTL") == "replay"


def answer(case_in: Json) -> Json:
    """Our side of every command; marked when only requests were replayed."""
    program = kubectl_of(RELEASE)
    if program is None or _statuses_only():
        return {"case": case_in}
    return {"commands": trio.run(run, program, case_in)}


async def run(program: str, case: Json) -> list[Json]:
    """Run the case's commands one after the other, in a folder and home of their own."""
    session = Session(now_ns())
    for step in case.get("setup", ()):
        session.send(step)
    out = []
    with tempfile.TemporaryDirectory() as top:
        home, folder = Path(top, "home"), Path(top, "work")
        home.mkdir()
        folder.mkdir()
        for name, content in case.get("files", {}).items():
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / name).write_text(text, encoding="utf-8")
        # Its name is a part of its user agent, and so of managed fields.
        (home / "kubectl").symlink_to(Path(program).resolve())
        program = str(home / "kubectl")
        async with session.served():
            config = json.dumps(session.kubeconfig(case["namespace"]))
            (home / "kubeconfig").write_text(config, encoding="utf-8")
            places = {str(folder): "<dir>"}
            for asked in case["commands"]:
                done = await command(
                    session,
                    program,
                    asked["argv"],
                    folder,
                    home,
                    asked.get("env", {}),
                    asked.get("stdin", ""),
                )
                shown = _shown(done, session, places)
                out.append({**shown, "argv": asked["argv"], "namespace": case["namespace"]})
    return out


def _shown(done: Done, session: Session, places: dict[str, str]) -> Json:
    suffixes = session.suffixes
    return {
        "requests": [
            named_tree(asked.tree(), suffixes) for asked in done.asked if not asked.discovery
        ],
        "discovery": sorted({asked.path for asked in done.asked if asked.discovery}),
        "exitCode": done.code,
        "stdout": named(done.stdout, suffixes, places),
        "stderr": named(done.stderr, suffixes, places),
    }


def compare(want: Json, got: Json) -> str | None:
    """None, or all commands that differ, each by its first difference."""
    if "case" in got:
        return kubectl_replay.problem(got["case"], want)
    found = []
    for number, (wanted, ours) in enumerate(zip(want["commands"], got["commands"], strict=True)):
        problem = differs(wanted, ours)
        if problem:
            found.append(f"[{number}] {problem}")
    return "; ".join(found) or None


def differs(wanted: Json, ours: Json) -> str | None:
    """None, or how one command's outcome is another than the recorded one."""
    for part in ("exitCode", "stdout", "stderr", "requests", "discovery"):
        want, got = wanted.get(part), ours[part]
        if want is None:
            continue
        if part in ("stdout", "stderr"):
            want = named(want)
            if "<klog>" not in want:  # the recordings dropped such lines
                got = _LOGGED.sub("", got)
            if wanted.get(f"{part}Order") == "any" or _shuffles(ours["argv"]):
                want, got = _lines(want), _lines(got)
        elif part == "requests":
            want = named_tree(want)
            if wanted.get("requestOrder") == "any" or _shuffles(ours["argv"]):
                want, got = _multiset(want), _multiset(got)
        elif part == "discovery":
            want = sorted(set(want))
        problem = difference(want, got, part)
        if problem and part == "stdout" and isinstance(want, str):
            if other_cases_rows(want, ours["namespace"]) == got:
                continue
        if problem:
            return problem
    return None


def _shuffles(argv: list[str]) -> bool:
    """Whether kubectl itself works in random order: evictions side by side, labels of a Go map."""
    return argv[0] == "drain" or (argv[0] in ("label", "annotate") and "--list" in argv)


def _lines(text: str) -> list[str]:
    return sorted(line.rstrip() for line in text.splitlines())


def _multiset(requests: Json) -> Json:
    return sorted(requests, key=lambda entry: json.dumps(entry, sort_keys=True))
