"""ValidatingAdmissionPolicies: what they decide about a request, and what is said of it.

Upstream: apiserver pkg/admission/plugin/policy/validating/{dispatcher,validator}.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve, field, frozen

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
    Expressions,
    Result,
)
from controlplane.apiserver.requests.admission.policies.parameters import (
    ConfigurationError,
    Shelf,
    collected,
)
from controlplane.apiserver.requests.admission.policies.source import Binding, Hook, Source
from controlplane.apiserver.requests.authorization.access import Access
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.resources import ResourceInfo, ResourceTable

__all__ = ["Checks", "ValidatingPolicies", "conditions_hold", "namespace_object", "scope_of"]

_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
_LONGEST_MESSAGE: Final = 5 * 1024
_LONGEST_ANNOTATION: Final = 10 * 1024
_FAILURE_KEY: Final = "validation.policy.admission.k8s.io/validation_failure"


class Checks:
    """The compiled expressions of one policy."""

    def __init__(self, spec: Tree) -> None:
        self.expressions = made = Expressions(
            spec.get("variables") or (), params=spec.get("paramKind") is not None
        )
        validations = spec.get("validations") or ()
        self.conditions = [made.compile(c["expression"]) for c in spec.get("matchConditions") or ()]
        self.rules = [made.compile(v["expression"]) for v in validations]
        self.messages = [
            made.compile(v["messageExpression"], authorizer=False)
            if v.get("messageExpression")
            else None
            for v in validations
        ]
        self.annotations = [
            made.compile(a["valueExpression"]) for a in spec.get("auditAnnotations") or ()
        ]


@frozen
class _Denial:
    """The message and reason of a refused request."""

    message: str
    reason: str = "Invalid"
    index: int = 0


@frozen
class _Outcome:
    """The outcome of a policy with one parameter."""

    denials: tuple[_Denial, ...] = ()
    errors: tuple[str, ...] = ()
    """Of audit annotations: they deny whatever the binding's actions are."""
    annotations: Mapping[str, str] = field(factory=dict)


def _denied_by_failure(fails: bool, text: str) -> tuple[_Denial, ...]:
    return (_Denial(text),) if fails else ()


def _aggregate(errors: list[str]) -> str:
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def conditions_hold(results: list[Result | None], *, fails: bool) -> tuple[bool, str]:
    """Return whether all match conditions hold, and the error if that is undecided and the policy fails."""
    if any(result is not None and result.value is False for result in results):
        return False, ""
    errors = [result.error for result in results if result is not None and result.error]
    if not errors:
        return True, ""
    return False, _aggregate(errors) if fails else ""


def scope_of(
    given: Attributes,
    match: ResourceInfo,
    namespace: Tree | None,
    param: Tree | None,
    access: Access,
) -> dict[str, Any]:
    """The variables of expressions about a request."""
    from controlplane.apiserver.requests.admission.policies.authorizer import (
        Authorizer,
        request_resource,
    )

    return {
        "object": in_version(match, given.object),
        "oldObject": in_version(match, given.old),
        "request": _request(given, match),
        "namespaceObject": namespace,
        "params": param,
        "authorizer": Authorizer(access, given.user),
        "authorizer.requestResource": request_resource(access, given),
    }


def _request(given: Attributes, match: ResourceInfo) -> Tree:
    """The request as expressions see it: what is empty is left out."""
    info, user = given.info, given.user
    group, version, kind = given.kind
    who: Tree = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    request: Tree = {
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": match.group, "version": match.version, "resource": match.resource},
        "requestKind": {"group": group, "version": version, "kind": kind},
        "requestResource": {
            "group": info.group,
            "version": info.version,
            "resource": info.resource,
        },
        "operation": given.operation,
        "userInfo": {key: value for key, value in who.items() if value},
        "dryRun": given.dry_run,
        "options": given.options,
    }
    if match is not info and not given.subresource:
        request["kind"] = {"group": match.group, "version": match.version, "kind": match.kind}
    for key, value in (
        ("subResource", given.subresource),
        ("name", given.name),
        ("requestSubResource", given.subresource),
        ("namespace", given.namespace),
    ):
        if value:
            request[key] = value
    return request


def namespace_object(tree: Tree | None) -> Tree | None:
    """A namespace as expressions see it."""
    if tree is None:
        return None
    meta = {
        key: value
        for key, value in tree["metadata"].items()
        if key not in ("managedFields", "ownerReferences", "selfLink")
    }
    return {"metadata": meta, "spec": tree.get("spec") or {}, "status": tree.get("status") or {}}


class ValidatingPolicies:
    """The policies of one server, asked about every write."""

    def __init__(
        self, source: Source[Checks], shelf: Shelf, table: ResourceTable, access: Access
    ) -> None:
        self.source = source
        self._shelf = shelf
        self._table = table
        self._access = access

    def check(self, ctx: Context, tree: Tree | None, old: Tree | None) -> None:
        """Raise if a policy refuses a write; `tree` is None for a deletion."""
        if self.source.hooks and not exempt(ctx.info):
            self.check_operation(ctx, attributes_of(ctx, tree, old))

    def check_endpoint(self, ctx: Context, operation: str) -> None:
        """Raise if a policy refuses a request whose body is all that it is about."""
        if self.source.hooks and not exempt(ctx.info):
            given = attributes_of(ctx, ctx.request.body, None)
            self.check_operation(ctx, evolve(given, operation=operation))

    def check_operation(self, ctx: Context, given: Attributes) -> None:
        """The same for any operation."""
        denied: list[tuple[str, str, _Denial]] = []
        for hook in self.source.hooks:
            self._ask(ctx, given, hook, denied)
        if denied:
            raise _refusal(given, *denied[0])

    def _ask(
        self,
        ctx: Context,
        given: Attributes,
        hook: Hook[Checks],
        denied: list[tuple[str, str, _Denial]],
    ) -> None:
        fails = hook.spec.get("failurePolicy", "Fail") == "Fail"

        def misconfigured(binding: str, error: object) -> None:
            if fails:
                what = "binding" if binding else "policy"
                text = f"failed to configure {what}: {error}"
                denied.append((hook.name, binding, _Denial(text)))

        def namespace(name: str) -> Tree | None:
            found = ctx.find("", "namespaces", "", name)
            return None if found is None else found.tree

        try:
            match = hook.match.match(given, self._table, namespace)
        except LookupError as error:
            misconfigured("", error)
            return
        if match is None:
            return
        if hook.problem:
            misconfigured("", hook.problem)
            return
        annotations: dict[str, list[str]] = {}
        for binding in hook.bindings:
            try:
                if binding.match.match(given, self._table, namespace) is None:
                    continue
                params = collected(
                    self._shelf, hook.params, binding.spec.get("paramRef"), given.namespace
                )
            except (LookupError, ConfigurationError) as error:
                misconfigured(binding.name, error)
                continue
            home = None
            if given.namespace and given.kind != ("", "v1", "Namespace"):
                home = namespace_object(namespace(given.namespace))
            for param in params:
                scope = scope_of(given, match.info, home, param, self._access)
                outcome = _evaluated(hook, scope, fails=fails)
                self._act(ctx, hook, binding, outcome, denied)
                for key, value in outcome.annotations.items():
                    annotations.setdefault(key, []).append(value)
        for key, values in annotations.items():
            ctx.annotate(f"{hook.name}/{key}", ", ".join(dict.fromkeys(values)))

    def _act(
        self,
        ctx: Context,
        hook: Hook[Checks],
        binding: Binding,
        outcome: _Outcome,
        denied: list[tuple[str, str, _Denial]],
    ) -> None:
        actions = binding.spec.get("validationActions") or ()
        for denial in outcome.denials:
            for action in actions:
                if action == "Deny":
                    denied.append((hook.name, binding.name, denial))
                elif action == "Warn":
                    ctx.warn(
                        f"Validation failed for ValidatingAdmissionPolicy '{hook.name}' with "
                        f"binding '{binding.name}': {denial.message}"
                    )
                else:
                    failure = {
                        "message": denial.message,
                        "policy": binding.spec.get("policyName", ""),
                        "binding": binding.name,
                        "expressionIndex": denial.index,
                        "validationActions": list(actions),
                    }
                    ctx.annotate(_FAILURE_KEY, json.dumps([failure], separators=(",", ":")))
        for error in outcome.errors:
            denied.append((hook.name, binding.name, _Denial(error)))


def _refusal(given: Attributes, policy: str, binding: str, denial: _Denial) -> status.ApiError:
    by = f" with binding '{binding}'" if binding else ""
    text = f"ValidatingAdmissionPolicy '{policy}'{by} denied request: {denial.message}"
    refused = status.forbidden(given.info, given.told_name, text, [{"message": text}])
    refused.reason = denial.reason
    refused.code = _CODES.get(denial.reason, 422)
    return refused


def _evaluated(hook: Hook[Checks], scope: dict[str, Any], *, fails: bool) -> _Outcome:
    """Return the outcome of a policy for a request with one parameter."""
    checks = hook.compiled
    if checks.conditions:
        without = {**scope, "namespaceObject": None}
        try:
            results = checks.expressions.compute(checks.conditions, without, Budget(MATCH_BUDGET))
        except BudgetError as error:
            return _Outcome(_denied_by_failure(fails, str(error)))
        holds, problem = conditions_hold(results, fails=fails)
        if not holds:
            return _Outcome((_Denial(problem),) if problem else ())
    budget = Budget(BUDGET)
    try:
        results = checks.expressions.compute(checks.rules, scope, budget)
    except BudgetError as error:
        return _Outcome(_denied_by_failure(fails, str(error)))
    messages: list[Result | None] = []
    trouble = ""
    try:
        messages = checks.expressions.compute(checks.messages, scope, budget)
    except BudgetError as error:
        trouble = f"failed messageExpression: {error}"
    denials: list[_Denial] = []
    for index, result in enumerate(results):
        assert result is not None
        validation = hook.spec["validations"][index]
        if result.error or trouble:
            if fails:
                denials.append(_Denial(result.error or trouble, index=index))
        elif result.value is not True:
            text = _message(validation, messages[index])
            denials.append(_Denial(text, validation.get("reason") or "Invalid", index))
    return _annotated(hook, scope, tuple(denials), fails=fails)


def _annotated(
    hook: Hook[Checks], scope: dict[str, Any], denials: tuple[_Denial, ...], *, fails: bool
) -> _Outcome:
    checks = hook.compiled
    try:
        values = checks.expressions.compute(checks.annotations, scope, Budget(BUDGET))
    except BudgetError as error:
        return _Outcome(_denied_by_failure(fails, str(error)))
    errors: list[str] = []
    published: dict[str, str] = {}
    for annotation, result in zip(hook.spec.get("auditAnnotations") or (), values, strict=True):
        assert result is not None
        value = result.value
        if result.error:
            if fails:
                errors.append(result.error)
        elif isinstance(value, str):
            if value.strip():
                published[annotation["key"]] = value.strip()[:_LONGEST_ANNOTATION]
        elif value is not None:
            from controlplane.apiserver.kinds.custom.cel.library import FUNCTIONS

            errors.append(
                f"valueExpression '{annotation['valueExpression']}' resulted in unsupported "
                f"return type: {FUNCTIONS['type'](value)}. Return type must be either string or "
                "null."
            )
    return _Outcome(denials, tuple(errors), published)


def _message(validation: Tree, derived: Result | None) -> str:
    """The message of a rule that is not met: computed, given, or made from the rule."""
    if derived is not None and isinstance(derived.value, str):
        text = derived.value.strip()
        if text and len(text.encode()) <= _LONGEST_MESSAGE and "\n" not in text:
            return text
    given: str = (validation.get("message") or "").strip()
    return given or f"failed expression: {validation['expression'].strip()}"
