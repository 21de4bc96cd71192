"""Webhook configurations. Upstream: pkg/registry/admissionregistration, pkg/apis/admissionregistration."""

from __future__ import annotations

from typing import Any

from controlplane.api.equality import Seen
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.admissionregistration.matching import (
    FAILURE,
    MATCH,
    REINVOCATION,
    default_rule,
    validate_match_conditions,
    validate_rule,
)
from controlplane.apiserver.kinds.admissionregistration.rows import counted_row
from controlplane.apiserver.kinds.admissionregistration.webhook_clients import validate_client
from controlplane.apiserver.kinds.checks import choice, entries, problems, when
from controlplane.apiserver.kinds.counted import CountedAsWritten
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import validate_label_selector
from controlplane.apiserver.kinds.trees import each, filled, inside
from controlplane.apiserver.schema.field_errors import FieldError, duplicate, invalid, required

__all__ = ["MUTATING", "VALIDATING"]


def _default_webhook(mutating: bool) -> Any:
    defaults: Tree = {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
    }
    if mutating:
        defaults["reinvocationPolicy"] = "Never"

    def change(hook: Tree) -> Tree:
        hook = each(filled(hook, defaults), "rules", default_rule)
        return inside(
            hook,
            "clientConfig",
            lambda config: inside(
                config, "service", lambda service: filled(service, {"port": 443})
            ),
        )

    return change


def default_mutating_webhooks(tree: Tree) -> Tree:
    """Defaults of every webhook."""
    return each(tree, "webhooks", _default_webhook(mutating=True))


def default_validating_webhooks(tree: Tree) -> Tree:
    """Defaults of every webhook."""
    return each(tree, "webhooks", _default_webhook(mutating=False))


_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_VERSIONS = ("v1", "v1beta1")


def validate_webhooks(tree: Tree) -> list[FieldError]:
    """Return the errors of a mutating or validating webhook configuration."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    mutating = tree.get("kind") == "MutatingWebhookConfiguration"
    for hook, path in entries(tree, "webhooks", ""):
        errors += _webhook(hook, path, mutating)
        errors += _review_versions(hook.get("admissionReviewVersions") or [], path)
        name = hook.get("name", "")
        errors += when(name and name in seen, duplicate, f"{path}.name", name)
        seen.add(name)
    return errors


def _webhook(hook: Tree, path: str, mutating: bool) -> list[FieldError]:
    errors = _fully_qualified(hook.get("name", ""), f"{path}.name")
    for rule, place in entries(hook, "rules", path):
        errors += validate_rule(rule, place)
    errors += choice(hook, "failurePolicy", path, FAILURE, needed=False)
    errors += choice(hook, "matchPolicy", path, MATCH, needed=False)
    if hook.get("sideEffects") is None:
        text = f"must specify one of {', '.join(_SIDE_EFFECTS)}"
        errors.append(required(f"{path}.sideEffects", text))
    else:
        errors += choice(hook, "sideEffects", path, _SIDE_EFFECTS, needed=False)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", seconds, text))
    for key in ("namespaceSelector", "objectSelector"):
        errors += validate_label_selector(hook.get(key), f"{path}.{key}")
    if mutating:
        errors += choice(hook, "reinvocationPolicy", path, REINVOCATION, needed=False)
    errors += validate_client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    return errors + validate_match_conditions(hook, path)


def _fully_qualified(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    found = names.dns_subdomain(name)
    if found:
        return problems(path, name, found)
    if name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        return [invalid(path, name, text)]
    return []


def _review_versions(versions: list[str], path: str) -> list[FieldError]:
    place, known = f"{path}.admissionReviewVersions", ", ".join(_VERSIONS)
    if not versions:
        return [required(place, f"must specify one of {known}")]
    errors: list[FieldError] = []
    seen = Seen()
    for index, version in enumerate(versions):
        if seen.again(version):
            errors.append(invalid(f"{place}[{index}]", version, "duplicate version"))
        else:
            errors += problems(f"{place}[{index}]", version, names.dns_1035_label(version))
    text = f"must include at least one of {known}"
    errors += when(not set(versions) & set(_VERSIONS), invalid, place, versions, text)
    return errors


MUTATING = Kind(
    strategy=CountedAsWritten(
        default=default_mutating_webhooks,
        rule=validate_webhooks,
        has_status=False,
        counted="webhooks",
        unconditional_update=False,
        generation=True,
        meta_steps="A",
        standard_finalizers=False,
    ),
    row=counted_row("webhooks"),
)

VALIDATING = Kind(
    strategy=CountedAsWritten(
        default=default_validating_webhooks,
        rule=validate_webhooks,
        has_status=False,
        counted="webhooks",
        unconditional_update=False,
        generation=True,
        meta_steps="A",
        standard_finalizers=False,
    ),
    row=counted_row("webhooks"),
)
