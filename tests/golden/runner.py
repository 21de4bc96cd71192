"""Reads golden files, asks the adapter of each for our answers, and counts.

A golden file holds one case per line, `{"id", "in", "want"}`. The adapter of `name.jsonl` is the
module `tests.golden.answer_name`; see the README beside this file.
"""

from __future__ import annotations

import gzip
import json
import lzma
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import attrs

HERE: Final = Path(__file__).parent
DATA: Final = HERE / "data"
ENDINGS: Final = (".jsonl", ".jsonl.xz", ".jsonl.gz")


class _Unanswered:
    """What an adapter returns for a case that nothing here decides yet."""

    def __repr__(self) -> str:
        return "UNANSWERED"


UNANSWERED: Final = _Unanswered()

Json = Any
Answer = Callable[[Json], Json]
Compare = Callable[[Json, Json], str | None]


class Case(NamedTuple):
    """One line of a golden file."""

    id: str
    input: Json
    want: Json


class Adapter(NamedTuple):
    """How the cases of one file are answered and compared, and how much that comparison says."""

    answer: Answer
    compare: Compare
    note: Callable[[], str] = str


@attrs.define
class Tally:
    """Outcome of one file; `agreed` holds case ids, `failures` (case id, difference)."""

    name: str
    unanswered: int = 0
    agreed: list[str] = attrs.field(factory=list)
    failures: list[tuple[str, str]] = attrs.field(factory=list)
    note: str = ""

    @property
    def passed(self) -> int:
        return len(self.agreed)

    @property
    def failed(self) -> int:
        return len(self.failures)

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return (
            f"{self.name}: passed {self.passed}, failed {self.failed}, "
            f"unanswered {self.unanswered}{note}"
        )


def stem(path: Path) -> str:
    """What answers a file: `queue_trace` for `queue_trace.jsonl.xz`, `crud` for `crud.policy.jsonl.xz`."""
    return path.name.partition(".")[0]


def label(path: Path) -> str:
    """Area and file, as reports show it: `further/crud.policy`."""
    return f"{path.parent.name}/{path.name.partition('.jsonl')[0]}"


def golden_files(roots: Iterable[Path], area: str | None = None) -> list[Path]:
    """The golden files below some folders (or the files themselves), sorted by area and name."""
    found: dict[Path, None] = {}
    for root in roots:
        candidates = [root] if root.is_file() else sorted(root.rglob("*"))
        for path in candidates:
            if path.name.endswith(ENDINGS) and (area is None or path.parent.name == area):
                found[path] = None
    return sorted(found, key=label)


@lru_cache(maxsize=1)
def _lines(path: Path) -> list[str]:
    opener: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opener(path, "rt", encoding="utf-8") as lines:
        return [line for line in lines if line.strip()]


def read_cases(path: Path, shard: int = 0, shards: int = 1) -> Iterator[Case]:
    """Every `shards`-th case of a file, beginning with case number `shard`; .xz and .gz are unpacked."""
    for line in _lines(path)[shard::shards]:
        case = json.loads(line)
        if "in" in case:
            yield Case(case["id"], case["in"], case.get("want"))
        else:  # inputs and answers side by side; the adapter's `compare` finds them
            yield Case(case["id"], case, case)


def adapter_for(path: Path) -> Adapter | None:
    """The adapter of a file, None when there is none yet."""
    name = f"tests.golden.answer_{stem(path)}"
    if find_spec(name) is None:
        return None
    module = import_module(name)
    return Adapter(
        module.answer, getattr(module, "compare", difference), getattr(module, "note", str)
    )


def run_case(adapter: Adapter, case: Case) -> str | _Unanswered | None:
    """None when our answer agrees, the difference when not, UNANSWERED when there is none."""
    try:
        got = adapter.answer(case.input)
        if got is UNANSWERED:
            return UNANSWERED
        return adapter.compare(case.want, got)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return f"{type(error).__name__}: {error} ({where})"


def run_file(path: Path, shard: int = 0, shards: int = 1) -> Tally:
    """Runs the cases of one shard of a file; see `read_cases`."""
    tally = Tally(label(path))
    adapter = adapter_for(path)
    if adapter is not None:
        tally.note = adapter.note()
    for case in read_cases(path, shard, shards):
        result = UNANSWERED if adapter is None else run_case(adapter, case)
        if result is UNANSWERED:
            tally.unanswered += 1
        elif result is None:
            tally.agreed.append(case.id)
        else:
            tally.failures.append((case.id, str(result)))
    return tally


def difference(want: Json, got: Json, path: str = "want") -> str | None:
    """The first place where two JSON values differ, None when they are equal.

    Tuples count as lists; true is not 1.
    """
    if isinstance(want, dict) and isinstance(got, dict):
        for key in want:
            if key not in got:
                return f"{path}.{key}: expected {_short(want[key])}, got nothing"
        for key in got:
            if key not in want:
                return f"{path}.{key}: expected nothing, got {_short(got[key])}"
        pairs = [(f"{path}.{key}", want[key], got[key]) for key in want]
    elif isinstance(want, list) and isinstance(got, (list, tuple)):
        pairs = [(f"{path}[{i}]", *pair) for i, pair in enumerate(zip(want, got, strict=False))]
        if len(want) != len(got):
            for inner, a, b in pairs:
                found = difference(a, b, inner)
                if found:
                    return found
            return (
                f"{path}: expected {len(want)} entries {_short(want)}, got {len(got)} {_short(got)}"
            )
    elif isinstance(want, bool) or isinstance(got, bool):
        return None if want is got else f"{path}: expected {_short(want)}, got {_short(got)}"
    else:
        return None if want == got else f"{path}: expected {_short(want)}, got {_short(got)}"
    for inner, a, b in pairs:
        found = difference(a, b, inner)
        if found:
            return found
    return None


def _short(value: Json) -> str:
    try:
        text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    except TypeError:
        text = repr(value)
    return text if len(text) <= 600 else f"{text[:600]}..."
