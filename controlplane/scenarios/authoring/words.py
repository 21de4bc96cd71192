"""The actions of users in YAML scenarios: how each word is read, and its entry in the reference.

A new word is one function and one entry of `WORDS`; the reference page and its test follow from these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

from controlplane.client.errors import ApiError, is_not_found

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from controlplane.errors import UsageError
    from controlplane.scenarios.engine.user import User

    Act = Callable[[User], Awaitable[Any]]
    Read = Callable[["Reader", str, Any], Act]

TIMEOUT_S = 300.0
"""The virtual seconds after which `wait-for` gives up, unless it says otherwise."""


class Reader(Protocol):
    """Reads values of a document; `at` is the field, which errors name together with file and line."""

    def fail(self, at: str, message: str) -> UsageError:
        """Return the error about a field."""
        ...

    def acts(self, at: str, todo: Any) -> list[Act]:
        """Return the acts of a list of words. Raises UsageError."""
        ...

    def keys(self, at: str, value: Any, known: Sequence[str]) -> dict[str, Any]:
        """Return a mapping of known keys. Raises UsageError."""
        ...

    def mapping(self, at: str, value: Any) -> dict[str, Any]:
        """Return a mapping. Raises UsageError."""
        ...

    def items(self, at: str, value: Any) -> list[Any]:
        """Return a list. Raises UsageError."""
        ...

    def text(self, at: str, value: Any) -> str:
        """Return a text that is not empty. Raises UsageError."""
        ...

    def seconds(self, at: str, value: Any) -> float:
        """Return a number of seconds. Raises UsageError."""
        ...

    def count(self, at: str, value: Any, least: int = 1) -> int:
        """Return a whole number. Raises UsageError."""
        ...

    def object(self, at: str, value: Any) -> tuple[str, str, str]:
        """Return kind, name and namespace. Raises UsageError."""
        ...

    def kind(self, at: str, value: Any) -> str:
        """Return a built-in kind. Raises UsageError."""
        ...

    def tree(self, at: str, value: Any) -> dict[str, Any]:
        """Return the tree of an object. Raises UsageError."""
        ...


@frozen
class Word:
    """One word: how its value is read, an example in YAML, and what it does."""

    read: Read
    example: str
    says: str


class NotReached(Exception):
    """The condition of a `wait-for` was not met within its time."""


async def do(user: User, acts: Sequence[Act]) -> None:
    """Do one act after the other."""
    for act in acts:
        await act(user)


def _tried(call: Callable[[User], Coroutine[Any, Any, Any]]) -> Act:
    return lambda user: user.attempt(call(user))


def _sleep(reader: Reader, at: str, value: Any) -> Act:
    wait = reader.seconds(at, value)
    return lambda user: user.sleep(wait)


def _point(_reader: Reader, _at: str, value: Any) -> Act:
    return lambda user: user.point(str(value or "user"))


def _create(reader: Reader, at: str, value: Any) -> Act:
    tree = reader.tree(at, value)
    return _tried(lambda user: user.create(tree))


def _apply(reader: Reader, at: str, value: Any) -> Act:
    tree = reader.tree(at, value)
    return _tried(lambda user: user.apply(tree))


def _delete(reader: Reader, at: str, value: Any) -> Act:
    kind, name, namespace = reader.object(at, value)
    return _tried(lambda user: user.delete(kind, name, namespace))


def _recreate(reader: Reader, at: str, value: Any) -> Act:
    kind, name, namespace = reader.object(at, value)
    return _tried(lambda user: user.recreate(kind, name, namespace))


def _gone(reader: Reader, at: str, value: Any) -> Act:
    kind, name, namespace = reader.object(at, value)
    return _tried(lambda user: user.gone(kind, name, namespace))


def _patch(reader: Reader, at: str, value: Any) -> Act:
    told = reader.keys(at, value, ("object", "patch", "subresource"))
    kind, name, namespace = reader.object(f"{at}.object", told.get("object"))
    patch = reader.mapping(f"{at}.patch", told.get("patch"))
    part = reader.text(f"{at}.subresource", told["subresource"]) if "subresource" in told else ""
    return _tried(lambda user: user.patch(kind, name, patch, namespace, subresource=part))


def _scale(reader: Reader, at: str, value: Any) -> Act:
    told = reader.keys(at, value, ("object", "replicas"))
    kind, name, namespace = reader.object(f"{at}.object", told.get("object"))
    replicas = reader.count(f"{at}.replicas", told.get("replicas"), 0)
    return _tried(lambda user: user.scale(kind, name, replicas, namespace))


def _metadata(field: str) -> Read:
    def read(reader: Reader, at: str, value: Any) -> Act:
        told = reader.keys(at, value, ("object", field))
        kind, name, namespace = reader.object(f"{at}.object", told.get("object"))
        values = reader.mapping(f"{at}.{field}", told.get(field))
        for key, each in values.items():
            if each is not None and not isinstance(each, str):
                raise reader.fail(
                    f"{at}.{field}.{key}", f"{each!r}: expected text, or null to remove it"
                )
        patch = {"metadata": {field: values}}
        return _tried(lambda user: user.patch(kind, name, patch, namespace))

    return read


def _resize(reader: Reader, at: str, value: Any) -> Act:
    told = dict(reader.mapping(at, value))
    pod = reader.text(f"{at}.pod", told.pop("pod", None))
    container = reader.text(f"{at}.container", told.pop("container", None))
    requests = {key: reader.text(f"{at}.{key}", each) for key, each in told.items()}
    return _tried(lambda user: user.resize(pod, container, **requests))


def _of_node(name: str) -> Read:
    def read(reader: Reader, at: str, value: Any) -> Act:
        node = reader.text(at, value)
        return _tried(lambda user: getattr(user, name)(node))

    return read


# ---------------------------------------------------------------------- waiting


_WAIT_KEYS = (
    "object",
    "kind",
    "namespace",
    "labels",
    "condition",
    "field",
    "is",
    "count",
    "deleted",
    "timeout",
)
_ASKS = ("condition", "field", "deleted", "count")


def _wait_for(reader: Reader, at: str, value: Any) -> Act:
    told = reader.keys(at, value, _WAIT_KEYS)
    asked = [key for key in _ASKS if key in told]
    if len(asked) != 1:
        raise reader.fail(at, f"expected one of {', '.join(_ASKS)}")
    timeout = reader.seconds(f"{at}.timeout", told.get("timeout", TIMEOUT_S))
    reads = _wait_for_count if asked == ["count"] else _wait_for_object
    what, holds = reads(reader, at, told)

    async def wait(user: User) -> None:
        end = user.ctx.now + round(timeout * 1_000_000_000)
        while not await holds(user):
            if user.ctx.now >= end:
                raise NotReached(f"wait-for {what}: not within {timeout:g} s")
            await user.sleep(1)

    return wait


def _wait_for_count(
    reader: Reader, at: str, told: Mapping[str, Any]
) -> tuple[str, Callable[[User], Awaitable[bool]]]:
    for key in ("object", "is"):
        if key in told:
            raise reader.fail(f"{at}.{key}", "not with count, which is about all objects of a kind")
    kind = reader.kind(f"{at}.kind", told.get("kind"))
    count = reader.count(f"{at}.count", told["count"], 0)
    namespace = reader.text(f"{at}.namespace", told["namespace"]) if "namespace" in told else ""
    labels = reader.mapping(f"{at}.labels", told.get("labels", {}))
    selector = ",".join(
        f"{key}={reader.text(f'{at}.labels.{key}', each)}" for key, each in labels.items()
    )
    query = {"labelSelector": selector} if selector else {}

    async def holds(user: User) -> bool:
        found: list[Any] = []

        async def look() -> None:
            found.extend(await user.list(kind, namespace, **query))

        return await user.attempt(look()) and len(found) == count

    return f"{count} of {kind} {selector}".rstrip(), holds


def _wait_for_object(
    reader: Reader, at: str, told: Mapping[str, Any]
) -> tuple[str, Callable[[User], Awaitable[bool]]]:
    for key in ("kind", "namespace", "labels"):
        if key in told:
            raise reader.fail(f"{at}.{key}", "only with count")
    kind, name, namespace = reader.object(f"{at}.object", told.get("object"))
    what, true_of = _asked_of_object(reader, at, told)

    async def holds(user: User) -> bool:
        found: list[dict[str, Any] | None] = []

        async def look() -> None:
            try:
                found.append((await user.get(kind, name, namespace)).tree)
            except ApiError as error:
                if not is_not_found(error):
                    raise
                found.append(None)

        return await user.attempt(look()) and true_of(found[0])

    return f"{told['object']} {what}", holds


def _asked_of_object(
    reader: Reader, at: str, told: Mapping[str, Any]
) -> tuple[str, Callable[[dict[str, Any] | None], bool]]:
    if "is" in told and "field" not in told:
        raise reader.fail(f"{at}.is", "only with field")
    if "deleted" in told:
        if told["deleted"] is not True:
            raise reader.fail(f"{at}.deleted", f"{told['deleted']!r}: expected true")
        return "deleted", lambda tree: tree is None
    if "condition" in told:
        name, _, status = reader.text(f"{at}.condition", told["condition"]).partition("=")
        wanted = status or "True"

        def has(tree: dict[str, Any] | None) -> bool:
            conditions = ((tree or {}).get("status") or {}).get("conditions") or ()
            return any(
                each.get("type") == name and each.get("status") == wanted for each in conditions
            )

        return f"condition {name}={wanted}", has
    path = reader.text(f"{at}.field", told["field"]).split(".")
    if not all(path):
        raise reader.fail(f"{at}.field", f"{told['field']!r}: expected a path such as status.phase")
    if "is" not in told:
        return f"field {told['field']}", lambda tree: _at(tree, path) is not None
    return f"field {told['field']} is {told['is']!r}", lambda tree: _at(tree, path) == told["is"]


def _at(tree: Any, path: Sequence[str]) -> Any:
    """Return the value of a field; None where there is none."""
    for step in path:
        if isinstance(tree, dict):
            tree = tree.get(step)
        elif isinstance(tree, list | tuple) and step.isdecimal() and int(step) < len(tree):
            tree = tree[int(step)]
        else:
            return None
    return tree


_POD = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: app}]}}"

WORDS: dict[str, Word] = {
    "sleep": Word(_sleep, "sleep: 1.5", "Wait this number of virtual seconds."),
    "point": Word(_point, "point", "Let other tasks go first, if the schedule wants it."),
    "create": Word(_create, f"create: {_POD}", "Create an object."),
    "apply": Word(
        _apply, f"apply: {_POD}", "Create an object, or merge the tree into it if it exists."
    ),
    "delete": Word(
        _delete, "delete: Pod/web", "Delete an object: KIND/NAME or KIND/NAMESPACE/NAME."
    ),
    "recreate": Word(
        _recreate,
        "recreate: Pod/web",
        "Delete an object, wait until it is gone, and create it again with a new uid.",
    ),
    "patch": Word(
        _patch,
        "patch: {object: Deployment/web, patch: {spec: {paused: true}}}",
        "Change an object by a strategic merge patch; with `subresource`, that part of it.",
    ),
    "scale": Word(
        _scale,
        "scale: {object: Deployment/web, replicas: 3}",
        "Set the number of replicas, by the subresource `scale`.",
    ),
    "label": Word(
        _metadata("labels"),
        "label: {object: Node/node-1, labels: {zone: a, old: null}}",
        "Set labels of an object; null removes one.",
    ),
    "annotate": Word(
        _metadata("annotations"),
        "annotate: {object: Pod/web, annotations: {note: seen}}",
        "Set annotations of an object; null removes one.",
    ),
    "resize": Word(
        _resize,
        'resize: {pod: web, container: main, cpu: "2"}',
        "Ask for other resources of a running container.",
    ),
    "wait-for": Word(
        _wait_for,
        "wait-for: {object: Pod/web, condition: Ready, timeout: 60}",
        "Look once a virtual second until something holds: `condition: TYPE` or `TYPE=STATUS` of an object;"
        " `field: PATH`, with `is: VALUE` if the value matters; `deleted: true`; or `kind: KIND` with `count: N`, and"
        " `namespace` and `labels` if they matter. After `timeout` virtual seconds (300) the run ends as failed.",
    ),
    "wait-gone": Word(
        _gone, "wait-gone: Pod/web", "Wait until an object is gone, however long that takes."
    ),
    "evict": Word(_of_node("evict"), "evict: web", "Ask for a pod to be evicted."),
    "cordon": Word(_of_node("cordon"), "cordon: node-1", "Let no further pods come to a node."),
    "uncordon": Word(_of_node("uncordon"), "uncordon: node-1", "End a cordon."),
    "drain": Word(
        _of_node("drain"),
        "drain: node-1",
        "Cordon a node, and evict its pods while disruption budgets allow.",
    ),
}
"""The actions of users. A refusal by the API server, or a broken connection, does not stop a user."""


def _one_of(reader: Reader, at: str, value: Any) -> Act:
    ways = [
        reader.acts(f"{at}[{number}]", each) for number, each in enumerate(reader.items(at, value))
    ]
    if not ways:
        raise reader.fail(at, "expected at least one list of what to do")
    return lambda user: do(user, ways[user.choose(len(ways), "which way")])


def _maybe(reader: Reader, at: str, value: Any) -> Act:
    acts = reader.acts(at, value)
    return lambda user: do(user, acts if user.choose(2, "whether") else ())


def _repeat(reader: Reader, at: str, value: Any) -> Act:
    told = reader.keys(at, value, ("times", "do"))
    times = reader.count(f"{at}.times", told.get("times"))
    acts = reader.acts(f"{at}.do", told.get("do"))
    return lambda user: do(user, acts * times)


def _at_point(reader: Reader, at: str, value: Any) -> Act:
    told = reader.keys(at, value, ("actor", "point", "nth", "do"))
    actor = reader.text(f"{at}.actor", told.get("actor"))
    point = reader.text(f"{at}.point", told.get("point"))
    nth = reader.count(f"{at}.nth", told.get("nth", 1))
    acts = reader.acts(f"{at}.do", told.get("do"))

    async def stand(user: User) -> None:
        async with user.at_point(actor, point, nth):
            await do(user, acts)

    return stand


FLOW: dict[str, Word] = {
    "one-of": Word(
        _one_of,
        "one-of: [[{delete: Pod/web}], [{recreate: Pod/web}], []]",
        "Do one of several lists; which is a choice.",
    ),
    "maybe": Word(_maybe, "maybe: [{sleep: 2}]", "Do a list, or not: a choice."),
    "repeat": Word(_repeat, "repeat: {times: 3, do: [{sleep: 1}]}", "Do a list several times."),
    "at-point": Word(
        _at_point,
        "at-point: {actor: scheduler, point: scheduler.failure.read, do: [{delete: Pod/web}]}",
        "Hold a process at a point (the `nth` time it comes there), and do a list meanwhile.",
    ),
}
"""Words about words; which way is a choice."""
