"""MutatingAdmissionPolicies: their changes of an object.

Policies are called one after the other, after the built-in plugins and before the webhooks; each
sees the changes of the former ones. A change of an object starts another round of the chain, in
which those policies are called again that ask for reinvocation and were called before the change.
Upstream: apiserver pkg/admission/plugin/policy/mutating/{dispatcher,compilation,reinvocationcontext}.go
and patch/{smd,json_patch}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from attrs import define, field, frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.admission.policies.attributes import (
    Attributes,
    attributes_of,
    exempt,
    in_version,
)
from controlplane.apiserver.requests.admission.policies.expressions import (
    BUDGET,
    MATCH_BUDGET,
    Budget,
    BudgetError,
    Compiled,
    Expressions,
)
from controlplane.apiserver.requests.admission.policies.parameters import (
    ConfigurationError,
    Shelf,
    collected,
)
from controlplane.apiserver.requests.admission.policies.source import Binding, Hook, Source
from controlplane.apiserver.requests.admission.policies.validating import (
    conditions_hold,
    namespace_object,
    scope_of,
)
from controlplane.apiserver.requests.authorization.access import Access
from controlplane.apiserver.requests.managed.checking import check_types
from controlplane.apiserver.requests.managed.fieldsets import granular
from controlplane.apiserver.requests.managed.merging import merged
from controlplane.apiserver.requests.patching.json_patch import (
    JsonPatchError,
    JsonPatchTestError,
    json_patch,
)
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.codec import strict_issues
from controlplane.apiserver.schema.resources import ResourceInfo, ResourceTable
from controlplane.apiserver.schema.types import Field, Kind, StructType

__all__ = ["MutatingPolicies", "Mutations", "Reinvocation"]

_GIVES: Final = {"ApplyConfiguration": "Object", "JSONPatch": "list(JSONPatch)"}
_EXPRESSIONS: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
_UNREADABLE: Final = " cannot be handled as a "
Key = tuple[str, str, str, str]
"""Policy, binding, and the parameter's namespace and name."""


class _MutationError(Exception):
    """A policy could not change an object: what becomes of the request is said by its failure policy."""


@frozen
class _Denial:
    """The message and reason of a refused request."""

    message: str
    reason: str


class Mutations:
    """The compiled expressions of one policy."""

    def __init__(self, spec: Tree) -> None:
        params = spec.get("paramKind") is not None
        self.expressions = made = Expressions(spec.get("variables") or (), params=params)
        self.conditions = [made.compile(c["expression"]) for c in spec.get("matchConditions") or ()]
        self.patches = [_compiled(made, mutation) for mutation in spec.get("mutations") or ()]


def _compiled(made: Expressions, mutation: Tree) -> tuple[str, Compiled]:
    kind = mutation["patchType"]
    one = made.compile(mutation[_EXPRESSIONS[kind]]["expression"], patches=True)
    if one.program is not None and str(one.program.gives) != _GIVES[kind]:
        from controlplane.apiserver.kinds.custom.expressions import wrong_type

        return kind, Compiled(one.source, None, wrong_type(one.program.gives, (_GIVES[kind],)))
    return kind, one


@define(eq=False)
class Reinvocation:
    """The state that one request's first round leaves for its second."""

    asked: dict[Key, None] = field(factory=dict)
    """Policies that were asked, nothing has changed since, and they want to be asked again if something does."""
    again: dict[Key, None] = field(factory=dict)
    output: Tree | None = None
    wanted: bool = False
    second: bool = False
    dirty: bool = False
    """True if a mutation of this round gave an object, changed or not."""

    def changed(self) -> None:
        """Note that the object was changed."""
        self.again.update(self.asked)
        self.asked.clear()


@frozen(eq=False)
class _Invocation:
    hook: Hook[Mutations]
    binding: Binding
    info: ResourceInfo
    param: Tree | None

    @property
    def key(self) -> Key:
        meta = (self.param or {}).get("metadata") or {}
        return self.hook.name, self.binding.name, meta.get("namespace", ""), meta.get("name", "")


class MutatingPolicies:
    """The policies of one server. `read` makes of an object in the version of the request one as it is stored."""

    def __init__(
        self,
        source: Source[Mutations],
        shelf: Shelf,
        table: ResourceTable,
        access: Access,
        read: Callable[[Context, Tree], Tree],
    ) -> None:
        self.source = source
        self._shelf = shelf
        self._table = table
        self._access = access
        self._read = read

    def mutate(self, ctx: Context, tree: Tree, old: Tree | None, state: Reinvocation) -> Tree:
        """The tree after one round of all policies. ApiError."""
        if not self.source.hooks or exempt(ctx.info):
            return tree
        if state.second and tree != state.output:
            state.changed()
        state.dirty = False
        given = attributes_of(ctx, tree, old)
        denied: list[_Denial] = []

        def namespace(name: str) -> Tree | None:
            found = ctx.find("", "namespaces", "", name)
            return None if found is None else found.tree

        for each in [*self._invocations(given, namespace, denied)]:
            tree = self._invoked(ctx, each, tree, old, namespace, denied, state)
        if state.dirty:  # as upstream, also where the mutations changed nothing
            state.wanted = True
            state.changed()
        state.output = tree
        if denied:
            raise _refusal(ctx, given, denied)
        return tree

    def _invocations(
        self, given: Attributes, namespace: Callable[[str], Tree | None], denied: list[_Denial]
    ) -> Iterator[_Invocation]:
        """Yield the invocations for a request: a policy, one of its bindings, one parameter."""
        for hook in self.source.hooks:
            try:
                match = hook.match.match(given, self._table, namespace)
            except LookupError as error:
                _misconfigured(hook, "", error, denied)
                continue
            if match is None:
                continue
            if hook.problem:
                _misconfigured(hook, "", hook.problem, denied)
                continue
            for binding in hook.bindings:
                try:
                    if binding.match.match(given, self._table, namespace) is None:
                        continue
                    reference = binding.spec.get("paramRef")
                    params = collected(self._shelf, hook.params, reference, given.namespace)
                except (LookupError, ConfigurationError) as error:
                    _misconfigured(hook, binding.name, error, denied)
                    continue
                yield from (_Invocation(hook, binding, match.info, param) for param in params)

    def _invoked(
        self,
        ctx: Context,
        asked: _Invocation,
        tree: Tree,
        old: Tree | None,
        namespace: Callable[[str], Tree | None],
        denied: list[_Denial],
        state: Reinvocation,
    ) -> Tree:
        """The tree after the mutations of one policy."""
        hook, key = asked.hook, asked.key
        given = attributes_of(ctx, tree, old)
        home = None
        if given.namespace and given.kind != ("", "v1", "Namespace"):
            home = namespace_object(namespace(given.namespace))
        scope = scope_of(given, asked.info, home, asked.param, self._access)
        try:
            if not _matches(hook, scope):
                return tree
        except _MutationError as error:
            _deny(hook, asked.binding.name, str(error), denied)
            return tree
        if state.second and key not in state.again:
            return tree
        before = tree
        for kind, one in hook.compiled.patches:
            try:
                tree = self._patched(ctx, asked, kind, one, scope, tree, state)
            except _MutationError as error:
                _deny(hook, asked.binding.name, str(error), denied)
                continue
            scope = {**scope, "object": in_version(asked.info, tree)}
        if tree != before:
            state.wanted = True
            state.changed()
        if hook.spec.get("reinvocationPolicy") == "IfNeeded":
            state.asked[key] = None
        return tree

    def _patched(
        self,
        ctx: Context,
        asked: _Invocation,
        kind: str,
        one: Compiled,
        scope: dict[str, Any],
        tree: Tree,
        state: Reinvocation,
    ) -> Tree:
        """The tree after one mutation. ApiError, _MutationError."""
        if one.program is None:
            raise _MutationError(one.error.removeprefix("compilation error: "))
        try:
            (result,) = asked.hook.compiled.expressions.compute([one], scope, Budget(BUDGET))
        except BudgetError as error:
            raise _MutationError(str(error)) from None
        assert result is not None
        if result.error:
            raise _MutationError(result.error)
        shown = in_version(asked.info, tree)
        assert shown is not None
        make = _applied if kind == "ApplyConfiguration" else _json_patched
        changed = make(asked.info, shown, result.value)
        state.dirty = True
        if changed == shown:
            return tree
        if kind == "ApplyConfiguration":
            return self._read(ctx, changed)
        try:
            return self._read(ctx, changed)
        except status.ApiError as error:
            if error.code != 400:
                problem = error.message.removeprefix("Internal error occurred: ")
                raise status.internal_error(f"failed to convert object: {problem}") from None
            problem = error.message.partition(_UNREADABLE)[2].partition(": ")[2]
            if problem.endswith("unknown conversion"):  # the decoded object is of another kind
                problem = f"failed to convert object: {problem}"
            raise status.internal_error(problem or error.message) from None


def _matches(hook: Hook[Mutations], scope: dict[str, Any]) -> bool:
    """Return whether the match conditions of a policy hold. _MutationError if they cannot be evaluated."""
    mutations = hook.compiled
    if not mutations.conditions:
        return True
    fails = hook.spec.get("failurePolicy", "Fail") == "Fail"
    without = {**scope, "namespaceObject": None}
    try:
        results = mutations.expressions.compute(mutations.conditions, without, Budget(MATCH_BUDGET))
    except BudgetError as error:
        raise _MutationError(str(error)) from None
    holds, problem = conditions_hold(results, fails=fails)
    if problem:
        raise _MutationError(problem)
    return holds


def _misconfigured(
    hook: Hook[Mutations], binding: str, error: object, denied: list[_Denial]
) -> None:
    what = "binding" if binding else "policy"
    _deny(hook, binding, f"failed to configure {what}: {error}", denied, "Forbidden")


def _deny(
    hook: Hook[Mutations],
    binding: str,
    problem: str,
    denied: list[_Denial],
    reason: str = "Invalid",
) -> None:
    """Deny a request because of a policy's error, unless the policy ignores errors."""
    if hook.spec.get("failurePolicy", "Fail") != "Fail":
        return
    by = f"'{hook.name}' with binding '{binding}'" if binding else f'"{hook.name}"'
    denied.append(_Denial(f"policy {by} denied request: {problem}", reason))


def _refusal(ctx: Context, given: Attributes, denied: list[_Denial]) -> status.ApiError:
    """Upstream: policy/generic/policy_dispatcher.go, which leaves the code as it is for all reasons."""
    first = denied[0]
    causes = [{"message": each.message} for each in denied]
    refused = status.forbidden(ctx.info, given.told_name, first.message, causes)
    refused.message, refused.reason = first.message, first.reason
    return refused


# -- patches -------------------------------------------------------------------------------------


def _struct(info: ResourceInfo) -> StructType:
    if info.custom is not None:
        custom: StructType = info.custom.struct
        return custom
    return info.type


def _applied(info: ResourceInfo, shown: Tree, value: Any) -> Tree:
    """The object with a configuration merged in, as server-side apply does it. _MutationError."""
    from controlplane.apiserver.kinds.custom.cel import CelError
    from controlplane.apiserver.kinds.custom.cel.structs import check_names, json_of

    try:
        check_names(value, "Object")
        config: Tree = json_of(value)
    except CelError as error:
        raise _MutationError(f"type mismatch: {error}") from None
    config |= {"apiVersion": shown["apiVersion"], "kind": shown["kind"]}
    struct = _struct(info)
    problems = check_types(config, struct)
    if problems:
        text = (
            problems[0]
            if len(problems) == 1
            else "errors:\n" + "\n".join(f"  {problem}" for problem in problems)
        )
        raise _MutationError(
            f"error applying patch: failed to convert patch object to typed object: {text}"
        )
    atomic = [*_atomics(config, struct, "")]
    if atomic:
        raise _MutationError(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or"
            f" structs: {', '.join(atomic)}"
        )
    return merged(shown, config, struct)


def _atomics(config: Tree, struct: StructType, path: str) -> Iterator[str]:
    """The places of a configuration at which it would replace all that is there."""
    for key, value in config.items():
        known = struct.fields.get(key)
        if known is not None:
            yield from _atomics_at(value, known, f"{path}.{key}")


def _atomics_at(value: Any, known: Field, path: str) -> Iterator[str]:
    if isinstance(value, dict) and known.kind in (Kind.STRUCT, Kind.MAP):
        opaque = known.kind == Kind.STRUCT and not known.struct.fields
        if not granular(known) and not opaque:
            yield path
        if known.kind == Kind.STRUCT:
            yield from _atomics(value, known.struct, path)
    elif isinstance(value, list) and known.kind == Kind.LIST:
        if not granular(known):
            yield path
        if known.element is not None:
            for index, item in enumerate(value):
                yield from _atomics_at(item, known.element, f"{path}[{index}]")


_MISSING: Final = {
    "add": 'doc is missing path: "{}"',
    "remove": 'doc is missing path: "{}"',
    "replace": "doc is missing path: {}",
    "test": "is missing path: {}",
}


def _patch_problem(operation: Tree, problem: str) -> str:
    """The library's error for a path that leads nowhere; any other problem as it is."""
    if not problem.startswith("no path "):
        return problem
    action, path = operation["op"], problem.removeprefix("no path ")
    which = "from" if operation.get("from") == path else "destination"
    text = _MISSING.get(action, f"doc is missing {which} path: {{}}").format(path)
    return f"{action} operation does not apply: {text}: missing value"


def _json_patched(info: ResourceInfo, shown: Tree, value: list[Any]) -> Tree:
    """The object after a JSON patch; as it was if a test in it fails. ApiError, _MutationError."""
    from controlplane.apiserver.kinds.custom.cel import CelError
    from controlplane.apiserver.kinds.custom.cel.structs import check_names, json_of

    operations = []
    for each in value:
        operation = {key: each[key] for key in ("op", "path") if key in each}
        if each.get("from"):
            operation["from"] = each["from"]
        if "value" in each:
            try:
                check_names(each["value"], getattr(each["value"], "type_name", ""))
            except CelError as error:
                raise _MutationError(f"type mismatch: {error}") from None
            try:
                operation["value"] = json_of(each["value"])
            except CelError as error:
                raise _MutationError(
                    "JSONPath valueExpression evaluated to a type that could not marshal to JSON:"
                    f" {error}"
                ) from None
        operations.append({"op": "", "path": "", **operation})
    patched = shown
    for operation in operations:
        try:
            patched = json_patch(patched, [operation])
        except JsonPatchTestError:
            return shown
        except JsonPatchError as error:
            raise _MutationError(f"JSON Patch: {_patch_problem(operation, str(error))}") from None
    issues = [] if info.custom is not None else strict_issues(info.type_name, patched)
    if issues:
        raise status.internal_error(f"strict decoding error: {', '.join(issues)}")
    return patched
