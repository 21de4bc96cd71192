"""The debugging handlers of KWOK's server: what logs, exec, attach and ports of pods on fake nodes lead to.

Logs and Attach name files, Exec says how a command runs on the machine, PortForward names addresses and programs; each
for one pod, the kinds that begin with Cluster for all that they select. Nothing is opened here.
Upstream: pkg/kwok/server/debugging*.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from attrs import field, frozen

from controlplane.api.host_access import (
    Address,
    LogFile,
    LogOptions,
    Ports,
    Program,
    Reached,
    Refusal,
)
from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.errors import UsageError
from controlplane.kwok import selection
from controlplane.kwok.fields import GROUP, VERSION, Fields
from controlplane.kwok.selection import CLUSTER, Entry, Rule, choose

__all__ = ["KINDS", "Debugging", "Log", "read", "topic_of"]

LOGS: Final = "Logs"
EXEC: Final = "Exec"
ATTACH: Final = "Attach"
PORT_FORWARD: Final = "PortForward"
TOPICS: Final = (LOGS, EXEC, ATTACH, PORT_FORWARD)
KINDS: Final = tuple(f"{prefix}{topic}" for topic in TOPICS for prefix in ("", CLUSTER))
_WORDS: Final = {
    LOGS: ("log target not", "no logs"),
    EXEC: ("exec target not", "no exec"),
    ATTACH: ("attaches target not", "no attaches"),
    PORT_FORWARD: ("forward not", "no forward"),
}
"""The beginnings of the errors: of a pod with an object of its own, and of another."""
_LARGEST_ID: Final = (1 << 32) - 1


@frozen
class Log:
    """The files of a container: of its current and of its previous run."""

    file: str
    previous: str = ""


def topic_of(kind: str) -> str:
    """Return the topic of a kind: Logs for ClusterLogs."""
    return kind.removeprefix(CLUSTER)


# -- reading ---------------------------------------------------------------------------------------


def read(tree: Tree, place: str = "") -> Rule[Any]:
    """Return the rule of an object of one of `KINDS`. Raises UsageError with the field."""
    listed, entry = _READERS[topic_of(str(tree.get("kind")))]
    return selection.read(tree, place, listed, entry)


def _log(fields: Fields, value: Any, at: str) -> Entry[Log]:
    tree = fields.map(value, at)
    fields.known(tree, ("containers", "logsFile", "previousLogsFile", "follow"), at)
    if not isinstance(tree.get("follow", False), bool | None):
        fields.fail(f"{at}.follow", tree["follow"], "true or false")
    return Entry(
        fields.texts(tree.get("containers"), f"{at}.containers"),
        Log(*(_file(fields, tree, name, at) for name in ("logsFile", "previousLogsFile"))),
    )


def _attach(fields: Fields, value: Any, at: str) -> Entry[Log]:
    tree = fields.map(value, at)
    fields.known(tree, ("containers", "logsFile"), at)
    names = fields.texts(tree.get("containers"), f"{at}.containers")
    return Entry(names, Log(_file(fields, tree, "logsFile", at)))


def _file(fields: Fields, tree: Mapping[str, Any], name: str, at: str) -> str:
    given = tree.get(name)
    return "" if given in (None, "") else _no_nul(fields, given, f"{at}.{name}")


def _no_nul(fields: Fields, value: Any, at: str) -> str:
    """Return a text that may be a path, a word or a variable of a program: one without NUL."""
    text = fields.text(value, at)
    if "\0" in text:
        fields.fail(at, value, "a text without NUL")
    return text


def _exec(fields: Fields, value: Any, at: str) -> Entry[Program | Refusal]:
    tree = fields.map(value, at)
    fields.known(tree, ("containers", "local"), at)
    names = fields.texts(tree.get("containers"), f"{at}.containers")
    if tree.get("local") is None:
        return Entry(names, Refusal("not set local exec"))
    local, at = fields.map(tree["local"], f"{at}.local"), f"{at}.local"
    fields.known(local, ("workDir", "envs", "securityContext"), at)
    variables = fields.list(local.get("envs"), f"{at}.envs")
    context = fields.map(local.get("securityContext"), f"{at}.securityContext")
    fields.known(context, ("runAsUser", "runAsGroup"), f"{at}.securityContext")
    user, group = (
        None
        if context.get(name) is None
        else fields.within(context[name], f"{at}.securityContext.{name}", 0, _LARGEST_ID)
        for name in ("runAsUser", "runAsGroup")
    )
    return Entry(
        names,
        Program(
            directory=_file(fields, local, "workDir", at),
            env=tuple(
                _variable(fields, each, f"{at}.envs[{n}]") for n, each in enumerate(variables)
            ),
            user=user,
            group=group,
        ),
    )


def _variable(fields: Fields, value: Any, at: str) -> tuple[str, str]:
    tree = fields.map(value, at)
    fields.known(tree, ("name", "value"), at)
    name = _no_nul(fields, tree.get("name"), f"{at}.name")
    if "=" in name:
        fields.fail(f"{at}.name", name, "a name without =")
    return name, _file(fields, tree, "value", at)


def _forward(fields: Fields, value: Any, at: str) -> Entry[Program | Address | Refusal]:
    tree = fields.map(value, at)
    fields.known(tree, ("ports", "target", "command"), at)
    ports = tuple(
        fields.within(each, f"{at}.ports[{n}]", 0, 65_535)
        for n, each in enumerate(fields.list(tree.get("ports"), f"{at}.ports"))
    )
    words = fields.list(tree.get("command"), f"{at}.command")
    command = tuple(_no_nul(fields, each, f"{at}.command[{n}]") for n, each in enumerate(words))
    if command:
        return Entry(ports, Program(command))
    if tree.get("target") is None:
        return Entry(ports, Refusal("no target or command"))
    target = fields.map(tree["target"], f"{at}.target")
    fields.known(target, ("port", "address"), f"{at}.target")
    address = Address(
        fields.text(target.get("address"), f"{at}.target.address"),
        fields.within(target.get("port"), f"{at}.target.port", 0, 65_535),
    )
    return Entry(ports, address)


_READERS: Final[Mapping[str, Any]] = {
    LOGS: ("logs", _log),
    EXEC: ("execs", _exec),
    ATTACH: ("attaches", _attach),
    PORT_FORWARD: ("forwards", _forward),
}


# -- answers ---------------------------------------------------------------------------------------


@frozen
class Debugging:
    """Debugging rules for pods on fake nodes, from files, and from the API for the kinds in `stored`."""

    rules: Mapping[str, Sequence[Rule[Any]]] = field(factory=dict)
    """By topic, in the order of the files; a topic may have none."""
    stored: Mapping[str, str] = field(factory=dict)
    """The resource of each kind whose objects are those of the API."""

    def at(self, objects: Callable[[str, str, str], Iterable[Object[Any]]]) -> Debugging:
        """Return the same with the objects of the API as they are now; one that is malformed is left out."""
        if not self.stored:
            return self
        found = {topic: list(rules) for topic, rules in self.rules.items()}
        for kind, resource in self.stored.items():
            rules = found.setdefault(topic_of(kind), [])
            for each in objects(GROUP, VERSION, resource):
                with suppress(UsageError):
                    rules.append(read(each.tree))
        return Debugging(found)

    def log(
        self, namespace: str, pod: str, container: str, options: LogOptions, *, previous: bool
    ) -> Reached | None:
        """Return the file of a container's log; None where no object tells of logs at all."""
        found = self._found(LOGS, namespace, pod, container)
        if not isinstance(found, Log):
            assert found is None or isinstance(found, Refusal)
            return found
        return LogFile(found.previous if previous else found.file, options)

    def exec(self, namespace: str, pod: str, container: str) -> Reached | None:
        """Return how a command in a container is run, without the command; None where no object tells of any."""
        found = self._found(EXEC, namespace, pod, container)
        assert not isinstance(found, Log | Address)
        return found

    def attach(self, namespace: str, pod: str, container: str) -> Reached | None:
        """Return the file whose new lines are a container's output; None where no object tells of any."""
        found = self._found(ATTACH, namespace, pod, container)
        if not isinstance(found, Log):
            assert found is None or isinstance(found, Refusal)
            return found
        return LogFile(found.file, LogOptions(tail=0, follow=True))

    def ports(self, namespace: str, pod: str) -> Reached | None:
        """Return what the ports of a pod lead to; None where no object tells of any."""
        if PORT_FORWARD not in self.rules:
            return None

        def at(port: int) -> Program | Address | Refusal:
            found = self._found(PORT_FORWARD, namespace, pod, port)
            assert isinstance(found, Program | Address | Refusal)
            return found

        return Ports(f"{pod}/{namespace}", at)

    def topics(self) -> Mapping[str, int]:
        """Return the number of objects of each topic, such as Logs."""
        return {topic: len(rules) for topic, rules in self.rules.items()}

    def _found(
        self, topic: str, namespace: str, pod: str, name: str | int
    ) -> Log | Program | Address | Refusal | None:
        """Return what is told of a container or port, or a refusal; None where no object has the topic."""
        rules = self.rules.get(topic)
        if rules is None:
            return None
        choice = choose(rules, namespace, pod, name)
        if choice.value is not None:
            told: Log | Program | Address | Refusal = choice.value
            return told
        own, other = _WORDS[topic]
        about = f"port {name}" if isinstance(name, int) else f'container "{name}"'
        return Refusal(
            f'{own if choice.own else other} found for {about} in pod "{namespace}/{pod}"'
        )
