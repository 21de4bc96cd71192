"""The file that describes an operator under test, as a value.

    manifests: [deploy/crd.yaml, deploy/operator.yaml]
    processes:
      - image: example.com/widgets*          # containers with such an image run as
        command: [python, -m, widgets]       # this process
        directory: ..
        env: {LOG_LEVEL: debug}
    workload:
      - apply: widget.yaml
      - wait: widgets w where status.ready=3 at most 20
      - patch: {object: widgets w, with: {spec: {size: 1}}}
      - delete: widgets w
      - wait: no widgets w
    plans: [finding.plan]                    # tried first, as they are
    ignore: [status.conditions, "configmaps *"]
    invariants: [checks.py]                  # functions of the state that say what is wrong with it
    options: {release: "1.34"}               # of the emulated cluster, as of `controlplane serve`

Paths are relative to the file. An object is named RESOURCE NAME, with NAMESPACE/NAME in another namespace than
`default`; conditions are those of perturbation plans.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml
from attrs import field, frozen

from controlplane.api.tree import Tree
from controlplane.api.yaml_text import load as load_guarded
from controlplane.errors import UsageError, shown
from controlplane.scenarios.plans.language import Condition, condition_of

__all__ = [
    "APPLY",
    "DELETE",
    "PATCH",
    "SLEEP",
    "WAIT",
    "Operator",
    "ProcessRule",
    "Step",
    "Target",
    "operator",
    "read",
]

APPLY, PATCH, DELETE, WAIT, SLEEP = "apply", "patch", "delete", "wait", "sleep"
STEPS: Final = (APPLY, PATCH, DELETE, WAIT, SLEEP)
WAIT_S: Final = 10.0
"""The longest wait of a step, in seconds of wall time, unless `at most` says otherwise."""
_KEYS: Final = (
    "name",
    "manifests",
    "processes",
    "workload",
    "plans",
    "ignore",
    "invariants",
    "options",
    "nodes",
    "settle",
)
_PROCESS: Final = ("image", "command", "directory", "env", "isolate")


@frozen
class ProcessRule:
    """Containers whose image matches `image` run as `command`.

    `isolate`: lay files out in a mount namespace of the process, where the system allows it.
    """

    image: str
    command: tuple[str, ...]
    directory: str = "."
    env: tuple[tuple[str, str], ...] = ()
    isolate: bool = True


@frozen
class Target:
    """An object: resource, namespace and name."""

    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource} {self.namespace}/{self.name}"


@frozen
class Step:
    """A step of the workload. `files` and `trees` are what is applied; `tree` is a merge patch.

    `conditions` of a wait: without any the object has to be there, with `absent` not to be.
    """

    action: str
    target: Target | None = None
    files: tuple[str, ...] = ()
    trees: tuple[Tree, ...] = field(default=(), repr=False)
    tree: Tree = field(factory=dict, repr=False)
    conditions: tuple[Condition, ...] = ()
    absent: bool = False
    seconds: float = WAIT_S

    def __str__(self) -> str:
        if self.action == APPLY:
            return f"apply {' '.join(self.files) or f'{len(self.trees)} objects'}"
        if self.action == SLEEP:
            return f"sleep {self.seconds:g}"
        conditions = "".join(f" {each}" for each in self.conditions)
        return f"{self.action} {'no ' if self.absent else ''}{self.target}{conditions}"


@frozen
class Operator:
    """The operator, its workload and what is tried. `settle_s`: how long (wall time) nothing may happen at its end."""

    name: str
    manifests: tuple[str, ...]
    processes: tuple[ProcessRule, ...]
    workload: tuple[Step, ...]
    plans: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    nodes: int = 1
    settle_s: float = 0.0
    """0: learned from the first run without faults."""
    invariants: tuple[str, ...] = ()
    """Files in Python whose functions `check_...(objects)` say what is wrong with a state, asked at each revision."""
    options: tuple[tuple[str, Any], ...] = ()
    """Options of the cluster, as of `controlplane serve`."""


def read(path: Path | str) -> Operator:
    """Read a description. Raises UsageError: `FILE:LINE: FIELD: expected ...`."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    try:
        tree = load_guarded(text)
        root = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    return _Reader(path, root).operator(tree)


def operator(folder: Path | str = ".", **fields: Any) -> Operator:
    """Return a description of the fields that its file has: `operator(manifests=[...], processes=[...], ...)`.

    Paths are relative to `folder`. Raises UsageError as `read` does.
    """
    return _Reader(Path(folder) / "operator", None).operator(fields)


class _Reader:
    """Reads one file; its methods raise UsageError with the line of the field."""

    def __init__(self, path: Path, root: yaml.Node | None) -> None:
        self._path = path
        self._root = root
        self._folder = path.parent

    def operator(self, tree: Any) -> Operator:
        self._keys(tree, _KEYS, ())
        processes = tuple(
            self._process(each, ("processes", at))
            for at, each in enumerate(self._list(tree, "processes", required=True))
        )
        steps = tuple(
            self._step(each, ("workload", at))
            for at, each in enumerate(self._list(tree, "workload", required=True))
        )
        manifests = self._files(tree, "manifests", required=True)
        nodes, settle = tree.get("nodes", 1), tree.get("settle", 0)
        if not isinstance(nodes, int) or isinstance(nodes, bool) or not 0 < nodes <= 1000:
            self._fail(("nodes",), nodes, "a number from 1 to 1000")
        if not isinstance(settle, int | float) or isinstance(settle, bool) or settle < 0:
            self._fail(("settle",), settle, "a number of seconds")
        return Operator(
            str(tree.get("name") or self._path.stem),
            manifests,
            processes,
            steps,
            self._files(tree, "plans"),
            self._texts(tree, "ignore"),
            nodes,
            float(settle),
            self._files(tree, "invariants"),
            self._options(tree),
        )

    def _options(self, tree: Any) -> tuple[tuple[str, Any], ...]:
        found = tree.get("options") or {}
        if not isinstance(found, dict):
            self._fail(("options",), found, "a map of options of controlplane serve to values")
        values = ((str(key).replace("-", "_"), value) for key, value in found.items())
        return tuple(
            (key, tuple(value) if isinstance(value, list) else value) for key, value in values
        )

    def _process(self, tree: Any, at: tuple[str | int, ...]) -> ProcessRule:
        self._keys(tree, _PROCESS, at)
        image = tree.get("image")
        if not isinstance(image, str) or not image:
            self._fail((*at, "image"), image, "an image, such as example.com/operator:*")
        command = tree.get("command")
        if isinstance(command, str):
            command = shlex.split(command)
        if not isinstance(command, list) or not command:
            self._fail((*at, "command"), command, "a command line or a list of words")
        env = tree.get("env") or {}
        if not isinstance(env, dict):
            self._fail((*at, "env"), env, "a map of names to values")
        directory = self._folder / str(tree.get("directory") or ".")
        if not directory.is_dir():
            self._fail((*at, "directory"), tree.get("directory"), "a folder")
        return ProcessRule(
            image,
            tuple(str(each) for each in command),
            str(directory.resolve()),
            tuple((str(key), str(value)) for key, value in env.items()),
            tree.get("isolate", True) is not False,
        )

    def _step(self, tree: Any, at: tuple[str | int, ...]) -> Step:
        if not isinstance(tree, dict) or len(tree) != 1 or next(iter(tree)) not in STEPS:
            self._fail(at, tree, f"one of {', '.join(STEPS)} with its value")
        action, value = next(iter(tree.items()))
        place = (*at, action)
        if action == APPLY:
            return self._apply(value, place)
        if action == SLEEP:
            if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
                self._fail(place, value, "a number of virtual seconds")
            return Step(SLEEP, seconds=float(value))
        if action == PATCH:
            self._keys(value, ("object", "with"), place)
            if not isinstance(value.get("with"), dict):
                self._fail((*place, "with"), value.get("with"), "a merge patch")
            words = self._words(value.get("object"), (*place, "object"))
            return Step(PATCH, self._target(words, place), tree=value["with"])
        words = self._words(value, place)
        if action == DELETE:
            return Step(DELETE, self._target(words, place))
        return self._wait(words, place)

    def _apply(self, value: Any, place: tuple[str | int, ...]) -> Step:
        if isinstance(value, dict):
            return Step(APPLY, trees=(value,))
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            self._fail(place, value, "a file, a list of files, or an object")
        paths = tuple(str(self._folder / name) for name in names)
        from controlplane.scenarios.inputs import manifests

        trees = tuple(each.tree for each in manifests.load(paths))
        return Step(APPLY, files=tuple(names), trees=trees)

    def _wait(self, words: list[str], place: tuple[str | int, ...]) -> Step:
        absent = words[0] == "no"
        words = words[absent:]
        seconds = WAIT_S
        if words[-3:-1] == ["at", "most"]:
            try:
                seconds = float(words[-1])
            except ValueError:
                self._fail(place, words[-1], "a number of seconds")
            words = words[:-3]
        head = next((n for n, word in enumerate(words) if word == "where"), len(words))
        target = self._target(words[:head], place)
        rest = words[head:]
        if len(rest) % 2 or any(word != "where" for word in rest[::2]):
            self._fail(place, " ".join(rest), "where FIELD=VALUE [where ...]")
        conditions = tuple(condition_of(word) for word in rest[1::2])
        return Step(WAIT, target, conditions=conditions, absent=absent, seconds=seconds)

    def _target(self, words: list[str], place: tuple[str | int, ...]) -> Target:
        if len(words) != 2:
            self._fail(place, " ".join(words), "RESOURCE NAME, such as: deployments web")
        namespace, _, name = words[1].rpartition("/")
        return Target(words[0], namespace or "default", name)

    def _words(self, value: Any, place: tuple[str | int, ...]) -> list[str]:
        if not isinstance(value, str) or not value.strip():
            self._fail(place, value, "RESOURCE NAME, such as: deployments web")
        try:
            return shlex.split(value)
        except ValueError as error:
            raise self._failure(place, value, f"words ({error})") from None

    def _files(self, tree: Any, key: str, *, required: bool = False) -> tuple[str, ...]:
        found = []
        for at, name in enumerate(self._list(tree, key, required=required)):
            if not isinstance(name, str) or not (self._folder / name).exists():
                self._fail((key, at), name, "a file or folder that exists")
            found.append(str(self._folder / name))
        return tuple(found)

    def _texts(self, tree: Any, key: str) -> tuple[str, ...]:
        for at, each in enumerate(self._list(tree, key)):
            if not isinstance(each, str):
                self._fail((key, at), each, "a text")
        return tuple(self._list(tree, key))

    def _list(self, tree: Any, key: str, *, required: bool = False) -> list[Any]:
        found = tree.get(key)
        if found is None and not required:
            return []
        if not isinstance(found, list) or (required and not found):
            self._fail((key,), found, "a list" if found is not None else "to be there, a list")
        return list(found)

    def _keys(self, tree: Any, known: tuple[str, ...], at: tuple[str | int, ...]) -> None:
        if not isinstance(tree, dict):
            self._fail(at, tree, f"a map with {', '.join(known)}")
        for key in tree:
            if key not in known:
                self._fail((*at, key), key, f"one of {', '.join(known)}")

    def _fail(self, place: tuple[Any, ...], found: Any, expected: str) -> NoReturn:
        raise self._failure(place, found, expected)

    def _failure(self, place: tuple[Any, ...], found: Any, expected: str) -> UsageError:
        line = _line_of(self._root, place)
        text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in place)
        named = f"{text[1:]}: " if text else ""
        told = "nothing" if found is None else shown(str(found))
        return UsageError(f"{self._path}:{line}: {named}{told}: expected {expected}")


def _line_of(node: yaml.Node | None, place: tuple[Any, ...]) -> int:
    """Return the line of a field, or of the innermost node around it that there is."""
    line = 1 if node is None else node.start_mark.line + 1
    for part in place:
        found: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(part):
                    line, found = key.start_mark.line + 1, value
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            if part < len(node.value):
                found = node.value[part]
                line = found.start_mark.line + 1
        if found is None:
            return line
        node = found
    return line
