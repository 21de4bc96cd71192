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
    invariants: [every pod gets a node, scheduling queue]

A word that the API server refuses, or whose connection breaks, is shrugged off. `WORDS` lists what
users can do, `OPERATIONS` of `scenarios.faults` what may fail, `INVARIANTS` what may be asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define

from controlplane.errors import UsageError
from controlplane.scenarios.authoring import faults, worlds
from controlplane.scenarios.engine.scenario import Fault, Invariant, Scenario
from controlplane.scenarios.inputs.manifests import ManifestError, document
from controlplane.scenarios.invariants import scheduling
from controlplane.scenarios.invariants.scheduling_queue import queue_holds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from controlplane.scenarios.authoring.faults import Operation
    from controlplane.scenarios.engine.scenario import Main
    from controlplane.scenarios.engine.user import User
    from controlplane.scenarios.inputs.manifests import Manifest

    Act = Callable[[User], Awaitable[Any]]

KEYS = ("scenario", "title", "world", "defaults", "users", "faults", "invariants")
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
        tree = self.found.tree
        for key in tree:
            if key not in KEYS:
                raise self.fail(key, f"unknown; known: {', '.join(KEYS)}")
        world = tree.get("world", "whole")
        if world not in WORLDS:
            raise self.fail("world", f"{world!r}: expected {' or '.join(WORLDS)}")
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
                reads_log=True,
                **more,
            )
        except ManifestError:
            raise
        except UsageError as error:
            raise self.fail("defaults", str(error)) from error

    def users(self, tree: Any) -> dict[str, Main]:
        users = self.mapping("users", tree)
        if not users:
            raise self.fail("users", "expected at least one user, with a list of what they do")
        return {name: self.main(f"users.{name}", todo) for name, todo in users.items()}

    def main(self, at: str, todo: Any) -> Main:
        acts = self.acts(at, todo)

        async def user(user: User) -> None:
            await _do(user, acts)

        return user

    def acts(self, at: str, todo: Any) -> list[Act]:
        return [
            self.act(f"{at}[{number}]", each) for number, each in enumerate(self.items(at, todo))
        ]

    def act(self, at: str, tree: Any) -> Act:
        word, value = self.pair(at, tree)
        at = f"{at}.{word}"
        if word in FLOW:
            return FLOW[word](self, at, value)
        if word in WORDS:
            return WORDS[word](self, at, value)
        if word in faults.OPERATIONS:
            operation = self.operation(at, word, value)

            async def fail(user: User) -> None:
                operation.does(user)

            return fail
        known = sorted((*FLOW, *WORDS, *faults.OPERATIONS))
        raise self.fail(at, f"unknown word; known: {', '.join(known)}")

    def operation(self, at: str, word: str, value: Any) -> Operation:
        arguments = value if isinstance(value, list) else [value]
        try:
            return faults.OPERATIONS[word](*arguments)
        except TypeError:
            raise self.fail(at, f"{value!r}: not what {word} takes") from None

    def fault(self, at: str, tree: Any) -> Fault:
        told = self.mapping(at, tree)
        known = ("do", "then", "times", "moments", "every", "lasts")
        for key in told:
            if key not in known:
                raise self.fail(f"{at}.{key}", f"unknown; known: {', '.join(known)}")
        made: list[Operation | None] = []
        for key in ("do", "then"):
            if key not in told:
                made.append(None)
                continue
            word, value = self.pair(f"{at}.{key}", told[key])
            if word not in faults.OPERATIONS:
                shown = ", ".join(sorted(faults.OPERATIONS))
                raise self.fail(f"{at}.{key}.{word}", f"unknown operation; known: {shown}")
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
            elif name in INVARIANTS:
                made.append(INVARIANTS[name])
            else:
                known = ", ".join((QUEUE, *INVARIANTS))
                raise self.fail(f"invariants[{number}]", f"{name!r} is not known; known: {known}")
        return tuple(made)

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

    def count(self, at: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.fail(at, f"{value!r}: expected a number above 0")
        return value

    def object(self, at: str, value: Any) -> tuple[str, str, str]:
        """Kind, name and namespace of KIND/NAME or KIND/NAMESPACE/NAME."""
        parts = value.split("/") if isinstance(value, str) else []
        if len(parts) not in (2, 3) or not all(parts):
            raise self.fail(at, f"{value!r}: expected KIND/NAME or KIND/NAMESPACE/NAME")
        return parts[0], parts[-1], parts[1] if len(parts) == 3 else ""

    def tree(self, at: str, value: Any) -> dict[str, Any]:
        tree = self.mapping(at, value)
        for key in ("apiVersion", "kind"):
            self.text(f"{at}.{key}", tree.get(key))
        self.text(f"{at}.metadata.name", self.mapping(at, tree.get("metadata", {})).get("name"))
        return tree


async def _do(user: User, acts: Sequence[Act]) -> None:
    for act in acts:
        await act(user)


def _tried(call: Callable[[User], Coroutine[Any, Any, Any]]) -> Act:
    return lambda user: user.attempt(call(user))


# ---------------------------------------------------------------------- words


def _sleep(reader: _Reader, at: str, value: Any) -> Act:
    wait = reader.seconds(at, value)
    return lambda user: user.sleep(wait)


def _point(_reader: _Reader, _at: str, value: Any) -> Act:
    return lambda user: user.point(str(value or "user"))


def _create(reader: _Reader, at: str, value: Any) -> Act:
    tree = reader.tree(at, value)
    return _tried(lambda user: user.create(tree))


def _apply(reader: _Reader, at: str, value: Any) -> Act:
    tree = reader.tree(at, value)
    return _tried(lambda user: user.apply(tree))


def _delete(reader: _Reader, at: str, value: Any) -> Act:
    kind, name, namespace = reader.object(at, value)
    return _tried(lambda user: user.delete(kind, name, namespace))


def _recreate(reader: _Reader, at: str, value: Any) -> Act:
    kind, name, namespace = reader.object(at, value)
    return _tried(lambda user: user.recreate(kind, name, namespace))


def _gone(reader: _Reader, at: str, value: Any) -> Act:
    kind, name, namespace = reader.object(at, value)
    return _tried(lambda user: user.gone(kind, name, namespace))


def _patch(reader: _Reader, at: str, value: Any) -> Act:
    told = reader.mapping(at, value)
    kind, name, namespace = reader.object(f"{at}.object", told.get("object"))
    patch = reader.mapping(f"{at}.patch", told.get("patch"))
    return _tried(lambda user: user.patch(kind, name, patch, namespace))


def _resize(reader: _Reader, at: str, value: Any) -> Act:
    told = dict(reader.mapping(at, value))
    pod = reader.text(f"{at}.pod", told.pop("pod", None))
    container = reader.text(f"{at}.container", told.pop("container", None))
    requests = {key: reader.text(f"{at}.{key}", each) for key, each in told.items()}
    return _tried(lambda user: user.resize(pod, container, **requests))


def _of_node(name: str) -> Callable[[_Reader, str, Any], Act]:
    def read(reader: _Reader, at: str, value: Any) -> Act:
        node = reader.text(at, value)
        return _tried(lambda user: getattr(user, name)(node))

    return read


WORDS: dict[str, Callable[[_Reader, str, Any], Act]] = {
    "sleep": _sleep,
    "point": _point,
    "create": _create,
    "apply": _apply,
    "delete": _delete,
    "recreate": _recreate,
    "wait-gone": _gone,
    "patch": _patch,
    "resize": _resize,
    "evict": _of_node("evict"),
    "cordon": _of_node("cordon"),
    "uncordon": _of_node("uncordon"),
    "drain": _of_node("drain"),
}
"""The actions of declared users. A new action is one function and one line here."""


def _one_of(reader: _Reader, at: str, value: Any) -> Act:
    ways = [
        reader.acts(f"{at}[{number}]", each) for number, each in enumerate(reader.items(at, value))
    ]
    if not ways:
        raise reader.fail(at, "expected at least one list of what to do")
    return lambda user: _do(user, ways[user.choose(len(ways), "which way")])


def _maybe(reader: _Reader, at: str, value: Any) -> Act:
    acts = reader.acts(at, value)
    return lambda user: _do(user, acts if user.choose(2, "whether") else ())


def _repeat(reader: _Reader, at: str, value: Any) -> Act:
    told = reader.mapping(at, value)
    times = reader.count(f"{at}.times", told.get("times"))
    acts = reader.acts(f"{at}.do", told.get("do"))
    return lambda user: _do(user, acts * times)


def _at_point(reader: _Reader, at: str, value: Any) -> Act:
    told = reader.mapping(at, value)
    for key in told:
        if key not in ("actor", "point", "nth", "do"):
            raise reader.fail(f"{at}.{key}", "unknown; known: actor, point, nth, do")
    actor = reader.text(f"{at}.actor", told.get("actor"))
    point = reader.text(f"{at}.point", told.get("point"))
    nth = reader.count(f"{at}.nth", told.get("nth", 1))
    acts = reader.acts(f"{at}.do", told.get("do"))

    async def stand(user: User) -> None:
        async with user.at_point(actor, point, nth):
            await _do(user, acts)

    return stand


FLOW: dict[str, Callable[[_Reader, str, Any], Act]] = {
    "one-of": _one_of,
    "maybe": _maybe,
    "repeat": _repeat,
    "at-point": _at_point,
}
"""Words about words; which way is a choice."""


def scenario_in(text: str, name: str) -> Scenario:
    """The scenario that a YAML text describes. Raises UsageError: file, line, field and what was expected."""
    return _Reader(document(text, name)).scenario()
