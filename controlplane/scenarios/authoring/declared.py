"""Scenarios in YAML: what users do, what may fail and what must hold, in a list of words.

    scenario: recreated pod
    title: a pod is recreated while the scheduler restarts
    world: scheduler-alone                # or whole (the default), lagging-servers
    defaults: {nodes: 1, node-cpu: "2"}   # of common options
    users:
      user:
        - sleep: 1
        - create: {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {...}}
        - one-of: [[{delete: Pod/web}], [{recreate: Pod/web}], []]
    faults:
      - {do: {crash: scheduler}, then: {restart: scheduler}, times: 2}
    invariants:
      - every pod gets a node
      - {name: at most two pods, rule: pods.size() <= 2}

A request that the API server refuses, or whose connection breaks, does not stop a user. `WORDS` and `FLOW` of
`authoring.words` list what users can do, `OPERATIONS` of `authoring.faults` what may fail, `INVARIANTS` what may be
asked for by name; invariants of one's own are rules in CEL (`authoring.expressions`). The reference page is made from
these tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define

from controlplane.errors import UsageError, unknown_name
from controlplane.scenarios.authoring import faults, worlds
from controlplane.scenarios.authoring.words import FLOW, WORDS, do
from controlplane.scenarios.engine.scenario import Fault, Invariant, Scenario
from controlplane.scenarios.inputs.manifests import ManifestError, document
from controlplane.scenarios.invariants import scheduling
from controlplane.scenarios.invariants.scheduling_queue import queue_holds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.scenarios.authoring.faults import Operation
    from controlplane.scenarios.authoring.words import Act
    from controlplane.scenarios.engine.scenario import Main
    from controlplane.scenarios.engine.user import User
    from controlplane.scenarios.inputs.manifests import Manifest

KEYS = {
    "scenario": "The name, in a few words. Required.",
    "title": "What it is about, in one line.",
    "world": "The parts of the cluster: `whole` (the default), `scheduler-alone` or `lagging-servers`.",
    "controllers": "Controllers besides the standard ones: a list of names, as of `--controllers`.",
    "defaults": "Defaults of common options where they differ, as `nodes: 1`.",
    "users": "A list of words for each user, by name; users act at the same time. Required.",
    "faults": "What may fail, and when: a list.",
    "invariants": "What must hold: names of the table below, or rules in CEL. Required.",
}
"""The keys of a document, and what they hold."""
FAULT_KEYS = {
    "do": "The operation. Required.",
    "then": "The operation that ends it.",
    "times": "The number of times (1).",
    "moments": "The number of moments of which one is chosen each time (8).",
    "every": "The virtual seconds between two moments (1).",
    "lasts": "The virtual seconds of which one is chosen until `then` ([0, 1]).",
}
"""The keys of a fault."""
RULE_KEYS = {
    "name": "The name of the invariant. Required.",
    "rule": "A CEL expression that gives a bool. Required.",
    "for": "A kind: the rule is asked for each of its objects, which is `self`.",
    "at": "`revision` (the default) asks at each revision of the store, `rest` when the run has settled.",
}
"""The keys of an invariant in CEL."""
WORLDS: dict[str, Any] = {
    "whole": None,
    "scheduler-alone": worlds.scheduler_alone(),
    "lagging-servers": worlds.lagging_servers(),
}
QUEUE = "scheduling queue"
INVARIANTS = {each.name: each for each in vars(scheduling).values() if isinstance(each, Invariant)}
"""By name; "scheduling queue" stands for all of the queue's."""


@define
class _Reader:
    """Reads one document; every complaint names file, line and field."""

    found: Manifest

    def fail(self, at: str, message: str) -> ManifestError:
        found = self.found
        return ManifestError(message, file=found.file, line=found.line_of(at), field=at)

    def scenario(self) -> Scenario:
        tree = self.keys("", self.found.tree, KEYS)
        world = tree.get("world", "whole")
        if not isinstance(world, str) or world not in WORLDS:
            raise self.fail("world", unknown_name("world", world, WORLDS))
        more: dict[str, Any] = {} if WORLDS[world] is None else {"build": WORLDS[world]}
        try:
            return Scenario(
                self.text("scenario", tree.get("scenario")),
                title=self.text("title", tree.get("title", "a scenario in YAML")),
                workload=self.users(tree.get("users")),
                faults=tuple(
                    self.fault(f"faults[{number}]", each)
                    for number, each in enumerate(self.items("faults", tree.get("faults", [])))
                ),
                invariants=self.invariants(tree.get("invariants")),
                defaults={
                    key.replace("-", "_"): value
                    for key, value in self.mapping("defaults", tree.get("defaults", {})).items()
                },
                controllers=self.controllers(tree.get("controllers", [])),
                reads_log=True,
                **more,
            )
        except ManifestError:
            raise
        except UsageError as error:
            raise self.fail("defaults", str(error)) from error

    def controllers(self, tree: Any) -> tuple[str, ...]:
        from controlplane.controllers.loops import manager

        names = tuple(
            self.text(f"controllers[{number}]", each)
            for number, each in enumerate(self.items("controllers", tree))
        )
        try:
            manager.check_names(names, "controllers")
        except UsageError as error:
            raise self.fail("controllers", str(error).removeprefix("controllers: ")) from error
        return names

    def users(self, tree: Any) -> dict[str, Main]:
        users = self.mapping("users", tree)
        if not users:
            raise self.fail("users", "expected at least one user, with a list of what they do")
        return {name: self.main(f"users.{name}", todo) for name, todo in users.items()}

    def main(self, at: str, todo: Any) -> Main:
        acts = self.acts(at, todo)

        async def user(user: User) -> None:
            await do(user, acts)

        return user

    def acts(self, at: str, todo: Any) -> list[Act]:
        return [
            self.act(f"{at}[{number}]", each) for number, each in enumerate(self.items(at, todo))
        ]

    def act(self, at: str, tree: Any) -> Act:
        word, value = self.pair(at, tree)
        at = f"{at}.{word}"
        if word in FLOW:
            return FLOW[word].read(self, at, value)
        if word in WORDS:
            return WORDS[word].read(self, at, value)
        if word in faults.OPERATIONS:
            operation = self.operation(at, word, value)

            async def fail(user: User) -> None:
                operation.does(user)

            return fail
        known = sorted((*FLOW, *WORDS, *faults.OPERATIONS))
        raise self.fail(at, unknown_name("word", word, known))

    def operation(self, at: str, word: str, value: Any) -> Operation:
        arguments = value if isinstance(value, list) else [value]
        try:
            return faults.OPERATIONS[word](*arguments)
        except TypeError:
            raise self.fail(at, f"{value!r}: not what {word} takes") from None

    def fault(self, at: str, tree: Any) -> Fault:
        told = self.keys(at, tree, FAULT_KEYS)
        made: list[Operation | None] = []
        for key in ("do", "then"):
            if key not in told:
                made.append(None)
                continue
            word, value = self.pair(f"{at}.{key}", told[key])
            if word not in faults.OPERATIONS:
                message = unknown_name("operation", word, sorted(faults.OPERATIONS))
                raise self.fail(f"{at}.{key}.{word}", message)
            made.append(self.operation(f"{at}.{key}.{word}", word, value))
        if made[0] is None:
            raise self.fail(at, "expected `do`, with an operation")
        return faults.sometimes(
            made[0],
            made[1],
            times=self.count(f"{at}.times", told.get("times", 1)),
            moments=self.count(f"{at}.moments", told.get("moments", 8)),
            every_s=self.seconds(f"{at}.every", told.get("every", 1)),
            lasts_s=tuple(
                self.seconds(f"{at}.lasts", each)
                for each in self.items(f"{at}.lasts", told.get("lasts", [0, 1]))
            ),
        )

    def invariants(self, tree: Any) -> tuple[Invariant, ...]:
        names = self.items("invariants", tree)
        if not names:
            raise self.fail(
                "invariants", "expected at least one: a search needs something to break"
            )
        made: list[Invariant] = []
        for number, name in enumerate(names):
            if name == QUEUE:
                made += queue_holds()
            elif isinstance(name, dict):
                made.append(self.rule(f"invariants[{number}]", name))
            elif isinstance(name, str) and name in INVARIANTS:
                made.append(INVARIANTS[name])
            else:
                message = unknown_name("invariant", name, (QUEUE, *INVARIANTS))
                raise self.fail(f"invariants[{number}]", message)
        return tuple(made)

    def rule(self, at: str, tree: Any) -> Invariant:
        from controlplane.apiserver.kinds.custom.cel import CelError
        from controlplane.scenarios.authoring import expressions

        told = self.keys(at, tree, RULE_KEYS)
        name = self.text(f"{at}.name", told.get("name"))
        rule = self.text(f"{at}.rule", told.get("rule"))
        kind = self.kind(f"{at}.for", told["for"]) if "for" in told else ""
        when = told.get("at", "revision")
        if when not in ("revision", "rest"):
            raise self.fail(f"{at}.at", f"{when!r}: expected revision or rest")
        try:
            return expressions.invariant(name, rule, kind, at_rest=when == "rest")
        except CelError as error:
            raise self.fail(f"{at}.rule", str(error)) from None

    # ------------------------------------------------------------------ values

    def pair(self, at: str, tree: Any) -> tuple[str, Any]:
        told = {tree: None} if isinstance(tree, str) else self.mapping(at, tree)
        if len(told) != 1:
            raise self.fail(at, "expected one word and what it is about")
        [(word, value)] = told.items()
        return word, value

    def mapping(self, at: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(at, f"{value!r}: expected a mapping")
        return value

    def keys(self, at: str, value: Any, known: Iterable[str]) -> dict[str, Any]:
        """A mapping whose keys are all known."""
        told = self.mapping(at, value)
        for key in told:
            if key not in known:
                where = f"{at}.{key}" if at else str(key)
                raise self.fail(where, unknown_name("key", key, known))
        return told

    def items(self, at: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self.fail(at, f"{value!r}: expected a list")
        return value

    def text(self, at: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise self.fail(at, f"{value!r}: expected text")
        return value

    def seconds(self, at: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise self.fail(at, f"{value!r}: expected seconds")
        return float(value)

    def count(self, at: str, value: Any, least: int = 1) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.fail(at, f"{value!r}: expected a whole number of {least} or more")
        return value

    def kind(self, at: str, value: Any) -> str:
        """A built-in kind."""
        from controlplane.scenarios.authoring.expressions import kinds

        kind = self.text(at, value)
        if kind not in kinds():
            raise self.fail(at, unknown_name("built-in kind", kind, kinds()))
        return kind

    def object(self, at: str, value: Any) -> tuple[str, str, str]:
        """Kind, name and namespace of KIND/NAME or KIND/NAMESPACE/NAME."""
        parts = value.split("/") if isinstance(value, str) else []
        if len(parts) not in (2, 3) or not all(parts):
            raise self.fail(at, f"{value!r}: expected KIND/NAME or KIND/NAMESPACE/NAME")
        self.kind(at, parts[0])
        return parts[0], parts[-1], parts[1] if len(parts) == 3 else ""

    def tree(self, at: str, value: Any) -> dict[str, Any]:
        tree = self.mapping(at, value)
        for key in ("apiVersion", "kind"):
            self.text(f"{at}.{key}", tree.get(key))
        self.text(f"{at}.metadata.name", self.mapping(at, tree.get("metadata", {})).get("name"))
        return tree


def scenario_in(text: str, name: str) -> Scenario:
    """The scenario that a YAML text describes. Raises UsageError: file, line, field and what was expected."""
    return _Reader(document(text, name)).scenario()
