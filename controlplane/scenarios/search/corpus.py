"""A search that is kept in a folder: it goes on where it ended, and every different failure has a place.

The folder has `campaign.json` (what is searched, how far, the counts), `classes.txt` (the causal
classes seen, one a line) and `findings/N/` for each failure: its recording, and once it was made
short also log, objects and story. Counts are written after each piece, so that what a killed search
loses is the piece it was at.

When the scenario's source has changed since, counts and classes begin anew, and the findings are tried again first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from actors import EventLog, Replay, private_files
from controlplane.errors import UsageError
from controlplane.scenarios.engine.execution import Execution, make_folder
from controlplane.scenarios.search.findings import STILL, try_again
from controlplane.scenarios.search.findings import load as load_finding
from controlplane.scenarios.search.replaying import RECORDING, load
from controlplane.scenarios.search.tally import Failing, Seen, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.search.findings import Attempt

FORMAT = 1
CAMPAIGN, CLASSES, FINDINGS = "campaign.json", "classes.txt", "findings"


class Corpus:
    """The folder of one search. Raises UsageError when it holds another one, or cannot be read."""

    def __init__(self, folder: Path, plan: Plan, strategy: str, seed: int) -> None:
        self.folder = folder
        self._plan = plan
        self._what = {"plan": _plain(plan.header()), "strategy": strategy, "seed": seed}
        self.tally = Tally()
        self.pieces = 0
        """The number of pieces that were run."""
        self._places: dict[tuple[str, str], int] = {}
        self._written = 0
        self.changed = False
        """True if the source of the scenario, or of its inputs, has changed since: the search begins anew."""
        self._stored: list[int] = []
        make_folder(folder)
        if (folder / CAMPAIGN).exists():
            self._read()

    @property
    def known(self) -> int:
        """The number of different failures that it holds."""
        return len(self._places)

    def place(self, failing: Failing) -> Path:
        """The folder of a failure."""
        return self.folder / FINDINGS / str(self._places[failing.identity])

    def try_again(self) -> Iterator[tuple[int, Attempt]]:
        """Try the findings of the changed code's corpus again: the number and the outcome of each.

        Those that still break are findings of this search, too, with a recording of the code as it is.
        """
        for number in self._stored:
            place = self.folder / FINDINGS / str(number)
            finding = load_finding(place)
            attempt = try_again(self._plan, finding)
            yield number, attempt
            if attempt.outcome == STILL:
                attempt.run.recording().save(place / RECORDING)
                self._places[finding.identity] = number
                self._add(attempt, finding.lines)
        self._stored = []

    def _add(self, attempt: Attempt, lines: tuple[str, ...]) -> None:
        result = attempt.run.result
        under = attempt.run.plan.options["plan"]
        failing = Failing(
            0, 0, 0, result.verdict, result.reason, result.choices, lines=lines if under else ()
        )
        self.tally.add(Seen(0, 0, {}, {}, (), (failing,)))

    def note(self, tally: Tally, seen: Seen) -> None:
        """One more piece was run; `tally` is the sum with it."""
        self.pieces += 1
        for identity in {each.identity: None for each in seen.failing}:
            self._keep(next(each for each in tally.failing if each.identity == identity))
        path = self.folder / CLASSES
        if not path.exists():
            private_files.touch(path)
        with path.open("a", encoding="utf-8") as file:
            for each in list(tally.classes)[self._written :]:
                file.write(f"{each}\n")
        self._written = len(tally.classes)
        self._write(tally)

    def _keep(self, failing: Failing) -> None:
        """Leave a failure's recording, unless it has a place already."""
        if failing.identity in self._places:
            return
        number = self._places[failing.identity] = 1 + max(
            (*self._numbers(), *self._places.values()), default=0
        )
        place = self.folder / FINDINGS / str(number)
        make_folder(place)
        plan = failing.plan(self._plan)
        run = Execution(plan, Replay(failing.choices, marks=None), log=EventLog(keep=False))
        run.execute("bare")
        run.recording().save(place / RECORDING)

    def _numbers(self) -> list[int]:
        """Return the numbers of the findings that have a folder, whether or not they still break."""
        folder = self.folder / FINDINGS
        names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
        return sorted(int(name) for name in names if name.isdigit())

    def _write(self, tally: Tally) -> None:
        told = {
            "format": FORMAT,
            **self._what,
            "pieces": self.pieces,
            "schedules": tally.schedules,
            "steps": tally.steps,
            "verdicts": tally.verdicts,
            "reached": tally.reached,
            "classes": self._written,
            "findings": [
                {
                    "number": self._places[each.identity],
                    "first": each.first,
                    "schedule": each.schedule,
                    "seed": each.seed,
                    "times": each.times,
                    "verdict": each.verdict,
                    "reason": each.reason,
                    **({"plan": list(each.lines)} if each.lines else {}),
                    **({"settings": dict(each.settings)} if each.settings else {}),
                }
                for each in tally.failing
            ],
        }
        private_files.write(self.folder / CAMPAIGN, json.dumps(told, indent=2) + "\n")

    def _read(self) -> None:
        path = self.folder / CAMPAIGN
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            if told["format"] != FORMAT:
                raise UsageError(f"{path}: format {told['format']!r}, expected {FORMAT}")
            self._check(path, told)
            if self._is_changed(told["plan"]):
                self.changed, self._stored = True, self._numbers()
                private_files.write(self.folder / CLASSES, "")
                return
            failing = [
                Failing(
                    each["first"],
                    each["schedule"],
                    each["seed"],
                    each["verdict"],
                    each["reason"],
                    load(self.folder / FINDINGS / str(each["number"])).choices,
                    each["times"],
                    tuple(each.get("plan", ())),
                    tuple(each.get("settings", {}).items()),
                )
                for each in told["findings"]
            ]
            names = (self.folder / CLASSES).read_text(encoding="utf-8").split()[: told["classes"]]
            seen = Seen(
                told["schedules"],
                told["steps"],
                told["verdicts"],
                told["reached"],
                tuple(names),
                tuple(failing),
            )
            self._places = {
                one.identity: each["number"]
                for one, each in zip(failing, told["findings"], strict=True)
            }
            self.pieces = told["pieces"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{path}: no campaign that can go on: {error!r}") from error
        self.tally = Tally([seen])
        self._written = len(names)
        private_files.write(self.folder / CLASSES, "".join(f"{each}\n" for each in names))

    def _is_changed(self, old: dict[str, Any]) -> bool:
        """Return whether the source of the scenario or the content of its inputs is another one than it was."""
        new = self._what["plan"]
        return any(old.get(key) != new[key] for key in ("scenario", "inputs"))

    def _check(self, path: Path, told: dict[str, Any]) -> None:
        """Return whether it is the same search; the first difference is named."""
        old, new = told["plan"], self._what["plan"]
        differing = [key for key in ("strategy", "seed") if told[key] != self._what[key]]
        differing += [
            key for key in new if key != "inputs" and _named(key, old) != _named(key, new)
        ]
        if differing:
            key = differing[0]
            before = told[key] if key in told else old.get(key)
            now = self._what[key] if key in self._what else new[key]
            raise UsageError(
                f"{path}: another search: its {key} is {_short(before)}, not {_short(now)};"
                " name another folder"
            )


def _named(key: str, header: dict[str, Any]) -> Any:
    """Return a part of a header without the digest of the source."""
    found = header.get(key)
    if key == "scenario" and isinstance(found, dict):
        return {name: value for name, value in found.items() if name != "source"}
    return found


def _plain(value: dict[str, Any]) -> Any:
    """A header as JSON gives it back."""
    return json.loads(json.dumps(value))


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."
