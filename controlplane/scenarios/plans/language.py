r"""The language of perturbation plans: one perturbation a line.

    hold  request|answer|event PASSING until KIND PASSING [at most SECONDS]
    hold  step ACTOR POINT [#N] until KIND PASSING [at most SECONDS]
    delay request|answer|event PASSING for SECONDS
    fail  request|answer PASSING with CODE
    lose  request|answer|event PASSING
    kill  ACTOR before|after request|answer|event PASSING [for SECONDS]
    freeze SERVER|CLIENT RESOURCE from KIND PASSING [as of [before] KIND PASSING] until KIND PASSING [at most SECONDS]
    freeze SERVER|CLIENT RESOURCE from KIND PASSING [as of [before] KIND PASSING] for SECONDS
    swallow event PASSING until event PASSING [at most SECONDS]

Each may end with `once KIND PASSING`: it is looked for only after that.

A PASSING is `ACTOR VERB RESOURCE [NAME] [#N] [where FIELD=VALUE]... [was FIELD=VALUE]...`. ACTOR is the client: it
sends the request, gets the answer, receives the event. VERB is an API verb, for events ADDED, MODIFIED or DELETED;
for calls to a CSI driver it is the method and RESOURCE is `csi`. RESOURCE may have a subresource, as `pods/status`.
NAME is `namespace/name`, `name`, or `@N` for the N-th object of the resource that was created in the run. `*` stands
for anything in each of these. `#N` picks the N-th that matches; without it the first one. FIELD is a path in the
object, `spec.nodeName`; `where FIELD` asks that it is there, `where !FIELD` that it is not, `!=` that it differs;
`was` asks the same of the object before. A dot inside a key is written `\.`.

CLIENT is a process outside, by its service account. A frozen resource shows it an old state, as a cache that lags may:
that of when the freeze began, or of an earlier message (`as of`), as after a restart against a server that lags;
swallowed states are dropped from its watch, as when it lists anew after a break.

Lines are words as a shell splits them; `#` followed by a space begins a comment.
"""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from attrs import evolve, frozen

from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    class Passing(Protocol):
        """A message as a pattern sees it."""

        @property
        def kind(self) -> str:
            """Request, answer or event."""

        @property
        def actor(self) -> str:
            """The client."""

        @property
        def verb(self) -> str:
            """The verb of a request, or the type of an event."""

        @property
        def resource(self) -> str:
            """The resource, with its subresource."""

        @property
        def name(self) -> str:
            """The object's namespace and name."""

        @property
        def tree(self) -> Any:
            """The object, as far as the message tells it."""

        @property
        def before(self) -> Any:
            """The object before, where that is known."""


REQUEST, ANSWER, EVENT, STEP = "request", "answer", "event", "step"
KINDS: Final = (REQUEST, ANSWER, EVENT, STEP)
HOLD, DELAY, FAIL, LOSE, KILL, FREEZE = "hold", "delay", "fail", "lose", "kill", "freeze"
SWALLOW = "swallow"
ACTIONS: Final = (HOLD, DELAY, FAIL, LOSE, KILL, FREEZE, SWALLOW)
BEFORE, AFTER = "before", "after"
AT_MOST_S: Final = 60.0
"""The virtual seconds after which something held goes on by itself, unless `at most` says otherwise."""
REASONS: Final = {
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""The HTTP codes that a request or an answer can be failed with, and the reasons that go with them."""


@frozen
class Condition:
    """A condition on a field of an object: equal to a value, different from it, present (None) or absent."""

    path: str
    value: str | None = None
    negated: bool = False
    before: bool = False
    """It concerns the object before."""

    def holds(self, passing: Passing) -> bool:
        """Return whether a message's object meets it."""
        return self.met_by(passing.before if self.before else passing.tree)

    def met_by(self, tree: object) -> bool:
        """Return whether an object meets it."""
        found = _field(tree, self.path)
        met = bool(found) if self.value is None else _text(found) == self.value
        return met != self.negated

    def __str__(self) -> str:
        if self.value is None:
            word = f"{'!' if self.negated else ''}{self.path}"
        else:
            word = f"{self.path}{'!=' if self.negated else '='}{self.value}"
        return f"{WAS if self.before else WHERE} {_quoted(word)}"


WHERE, WAS = "where", "was"


def condition_of(word: str) -> Condition:
    """Read a condition: FIELD=VALUE, FIELD!=VALUE, FIELD or !FIELD."""
    for sign, negated in (("!=", True), ("=", False)):
        path, found, value = word.partition(sign)
        if found and path:
            return Condition(path, value, negated)
    negated = word.startswith("!")
    return Condition(word[negated:], None, negated)


_DOTS: Final = re.compile(r"(?<!\\)\.")


def path_of(keys: Iterable[str]) -> str:
    """Return the path of a field, given the keys that lead to it."""
    return ".".join(key.replace(".", r"\.") for key in keys)


def _field(tree: object, path: str) -> object:
    for escaped in _DOTS.split(path):
        part = escaped.replace(r"\.", ".")
        if isinstance(tree, dict):
            tree = tree.get(part)
        elif isinstance(tree, list | tuple) and part.isdigit() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return None
    return tree


def _text(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


@frozen
class Pattern:
    """A description of messages: kind, client, verb, object, and the number of the one that is meant."""

    kind: str
    actor: str
    verb: str = "*"
    resource: str = "*"
    name: str = ""
    nth: int = 1
    conditions: tuple[Condition, ...] = ()

    def matches(self, passing: Passing, names: tuple[str, ...] = ()) -> bool:
        """Return whether something that passes is meant; `names` are those of the objects created so far."""
        return (
            self.kind == passing.kind
            and fnmatchcase(passing.actor, self.actor)
            and fnmatchcase(passing.verb, self.verb)
            and fnmatchcase(passing.resource, self.resource)
            and self._names(passing.name, names)
            and all(each.holds(passing) for each in self.conditions)
        )

    def _names(self, name: str, names: tuple[str, ...]) -> bool:
        wanted = self.name
        if not wanted:
            return True
        if wanted[0] == "@":
            at = int(wanted[1:])
            return at <= len(names) and names[at - 1] == name
        return fnmatchcase(name, wanted) or fnmatchcase(name.rpartition("/")[2], wanted)

    def __str__(self) -> str:
        words = [self.kind, _quoted(self.actor)]
        if self.kind == STEP:
            words.append(_quoted(self.verb))
        else:
            words += [_quoted(self.verb), _quoted(self.resource)]
            if self.name:
                words.append(_quoted(self.name))
        if self.nth > 1:
            words.append(f"#{self.nth}")
        words += [str(each) for each in self.conditions]
        return " ".join(words)


@frozen
class Perturbation:
    """One line of a plan.

    `what` is what it concerns, `until` what ends a hold or a freeze. `seconds` is the longest hold, the length of a
    delay, or how long a killed process is down. `actor` is the process that a kill ends, or the server whose cache
    is frozen, and `resource` what is frozen; `when` a kill comes before or after what passes; `code` is the HTTP
    code of a failure.
    """

    action: str
    what: Pattern
    until: Pattern | None = None
    seconds: float = 0.0
    actor: str = ""
    resource: str = ""
    when: str = ""
    code: int = 0
    as_of: Pattern | None = None
    """The message whose state a frozen resource shows; it is looked for only after that."""
    as_of_before: bool = False
    """The state before that message."""
    once: Pattern | None = None
    """The message after which it is looked for."""

    def __str__(self) -> str:
        return self._said() if self.once is None else f"{self._said()} once {self.once}"

    def _said(self) -> str:
        if self.action == KILL:
            down = f" for {_number(self.seconds)}" if self.seconds else ""
            return f"kill {_quoted(self.actor)} {self.when} {self.what}{down}"
        if self.action == FREEZE:
            head = f"freeze {_quoted(self.actor)} {self.resource} from {self.what}"
            if self.as_of is not None:
                head += f" as of {'before ' * self.as_of_before}{self.as_of}"
            if self.until is None:
                return f"{head} for {_number(self.seconds)}"
        else:
            head = f"{self.action} {self.what}"
        if self.action == DELAY:
            return f"{head} for {_number(self.seconds)}"
        if self.action == FAIL:
            return f"{head} with {self.code}"
        if self.until is None:
            return head
        limit = "" if self.seconds == AT_MOST_S else f" at most {_number(self.seconds)}"
        return f"{head} until {self.until}{limit}"


@frozen
class PerturbationPlan:
    """The perturbations of a run, in the order of their lines."""

    lines: tuple[Perturbation, ...]

    def __str__(self) -> str:
        return "\n".join(str(each) for each in self.lines)

    def without(self, number: int) -> PerturbationPlan:
        """The plan without one line."""
        return evolve(self, lines=self.lines[:number] + self.lines[number + 1 :])


def _number(value: float) -> str:
    return f"{value:g}"


def _quoted(word: str) -> str:
    return shlex.quote(word) if not word or any(char in _SPECIAL for char in word) else word


_SPECIAL: Final = frozenset(" \t\n\"'\\")
"""Characters for which a shell needs quotes."""


def parse(text: str | Iterable[str], source: str = "plan") -> PerturbationPlan:
    """Read a plan. Raises UsageError that names the line and what was expected."""
    lines = (
        text.splitlines()
        if isinstance(text, str)
        else [line for each in text for line in each.splitlines()]
    )
    found = []
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        if bare == "#" or bare.startswith("# "):
            continue
        try:
            words = shlex.split(bare.partition(" # ")[0])
        except ValueError as error:
            raise UsageError(f"{source}, line {number}: {error}") from None
        if words:
            try:
                found.append(_Words(words).perturbation())
            except ValueError as error:
                raise UsageError(f"{source}, line {number}: {error}") from None
    return PerturbationPlan(tuple(found))


def read(name: str) -> str:
    """Return the plan in a file, in its plainest form. Raises UsageError."""
    path = Path(name)
    try:
        if not path.is_file():
            raise UsageError(f"{name}: expected a file with a plan")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name}: cannot be read: {error}") from None
    return str(parse(text, name))


class _Words:
    """The words of one line, taken from the left. Its methods raise ValueError with what was expected."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._at = 0

    def perturbation(self) -> Perturbation:
        """The whole line."""
        action = self._one_of(ACTIONS)
        found = getattr(self, f"_{action}")()
        if self._is("once"):
            found = evolve(found, once=self._pattern((REQUEST, ANSWER, EVENT)))
        if self._at < len(self._words):
            raise ValueError(f"{self._words[self._at]!r}: expected the end of the line")
        made: Perturbation = found
        return made

    def _hold(self) -> Perturbation:
        what = self._pattern(KINDS)
        self._expect("until")
        return Perturbation(HOLD, what, self._pattern((REQUEST, ANSWER, EVENT)), self._at_most())

    def _swallow(self) -> Perturbation:
        what = self._pattern((EVENT,))
        self._expect("until")
        return Perturbation(SWALLOW, what, self._pattern((EVENT,)), self._at_most())

    def _delay(self) -> Perturbation:
        what = self._pattern((REQUEST, ANSWER, EVENT))
        self._expect("for")
        return Perturbation(DELAY, what, seconds=self._seconds())

    def _fail(self) -> Perturbation:
        what = self._pattern((REQUEST, ANSWER))
        self._expect("with")
        word = self._next("an HTTP code")
        if not word.isdigit() or int(word) not in REASONS:
            raise ValueError(f"{word!r}: expected one of {', '.join(map(str, REASONS))}")
        return Perturbation(FAIL, what, code=int(word))

    def _lose(self) -> Perturbation:
        return Perturbation(LOSE, self._pattern((REQUEST, ANSWER, EVENT)))

    def _kill(self) -> Perturbation:
        actor = self._next("a process")
        when = self._one_of((BEFORE, AFTER))
        what = self._pattern((REQUEST, ANSWER, EVENT))
        seconds = 0.0
        if self._is("for"):
            seconds = self._seconds()
        return Perturbation(KILL, what, seconds=seconds, actor=actor, when=when)

    def _freeze(self) -> Perturbation:
        actor = self._next("an API server or a client outside")
        resource = self._next("a resource")
        self._expect("from")
        what, as_of, before = self._pattern((REQUEST, ANSWER, EVENT)), None, False
        if self._is("as"):
            self._expect("of")
            before = self._is(BEFORE)
            as_of = self._pattern((REQUEST, ANSWER, EVENT))
        until = None
        if self._is("for"):
            seconds = self._seconds()
        else:
            self._expect("until")
            until = self._pattern((REQUEST, ANSWER, EVENT))
            seconds = self._at_most()
        return Perturbation(
            FREEZE,
            what,
            until,
            seconds,
            actor=actor,
            resource=resource,
            as_of=as_of,
            as_of_before=before,
        )

    def _at_most(self) -> float:
        if not self._is("at"):
            return AT_MOST_S
        self._expect("most")
        return self._seconds()

    def _seconds(self) -> float:
        word = self._next("a number of seconds")
        try:
            found = float(word)
        except ValueError:
            found = -1
        if not 0 < found < 1e9:
            raise ValueError(f"{word!r}: expected a number of seconds above 0")
        return found

    def _pattern(self, kinds: tuple[str, ...]) -> Pattern:
        kind = self._one_of(kinds)
        actor = self._next("the name of a process")
        if kind == STEP:
            return Pattern(STEP, actor, self._next("the name of a point"), nth=self._nth())
        verb, resource = self._next("a verb"), self._next("a resource")
        name = ""
        if self._more() and self._words[self._at] not in _AFTER_A_NAME and self._peek()[0] != "#":
            name = self._next("a name")
            if name[0] == "@" and not (name[1:].isdigit() and int(name[1:])):
                raise ValueError(f"{name!r}: expected @ and the number of an object, from 1")
        nth = self._nth()
        conditions = []
        while (before := self._is(WAS)) or self._is(WHERE):
            conditions.append(evolve(self._condition(), before=before))
        return Pattern(kind, actor, verb, resource, name, nth, tuple(conditions))

    def _nth(self) -> int:
        if not self._more() or self._peek()[0] != "#":
            return 1
        word = self._next("#N")
        if not word[1:].isdigit() or not int(word[1:]):
            raise ValueError(f"{word!r}: expected # and a number from 1")
        return int(word[1:])

    def _condition(self) -> Condition:
        return condition_of(self._next("a condition, FIELD=VALUE"))

    def _more(self) -> bool:
        return self._at < len(self._words) and bool(self._words[self._at])

    def _peek(self) -> str:
        return self._words[self._at]

    def _is(self, word: str) -> bool:
        if self._more() and self._peek() == word:
            self._at += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._is(word):
            found = repr(self._peek()) if self._more() else "the end of the line"
            raise ValueError(f"{found}: expected {word!r}")

    def _next(self, expected: str) -> str:
        if not self._more():
            raise ValueError(f"the line ends: expected {expected}")
        self._at += 1
        return self._words[self._at - 1]

    def _one_of(self, words: tuple[str, ...]) -> str:
        word = self._next(" or ".join(words))
        if word not in words:
            raise ValueError(f"{word!r}: expected {' or '.join(words)}")
        return word


_AFTER_A_NAME: Final = ("until", "for", "with", WHERE, WAS, "at", "as", "once")
