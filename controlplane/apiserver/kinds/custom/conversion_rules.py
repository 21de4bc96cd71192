"""Rules of how a definition's objects become those of another version.

Upstream: validateCustomResourceConversion in apiextensions-apiserver. Places are those of its internal form,
which has the webhook's parts beside the strategy.
"""

from __future__ import annotations

import base64

from controlplane.api.equality import Seen
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.admissionregistration.webhook_clients import validate_client
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)

__all__ = ["conversion_errors"]

_STRATEGIES = ("None", "Webhook")
_VERSIONS = ("v1", "v1beta1")
_PATH = "spec.conversion"
_BEGIN = b"-----BEGIN CERTIFICATE-----"


def conversion_errors(conversion: Tree, was: Tree | None, *, served: bool) -> list[FieldError]:
    """Return the errors of a conversion; `was` is the one before an update.

    Before anything is served, and where that was so before, a bundle may hold no certificates.
    """
    before = (was or {}).get("webhook") or {}
    strategy = conversion.get("strategy", "")
    errors: list[FieldError] = []
    if strategy not in _STRATEGIES:
        path = f"{_PATH}.strategy"
        errors = [not_supported(path, strategy, _STRATEGIES) if strategy else required(path)]
    webhook = conversion.get("webhook") or {}
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    client, reviews = f"{_PATH}.webhookClientConfig", f"{_PATH}.conversionReviewVersions"
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        given = ((client, config is not None), (reviews, bool(versions)))
        return errors + [forbidden(path, text) for path, there in given if there]
    if config is None:
        errors.append(required(client, "required when strategy is set to Webhook"))
    else:
        errors += validate_client(config, client)
        bundle = config.get("caBundle") or ""
        kept = (before.get("clientConfig") or {}).get("caBundle") or ""
        if served and _no_certificates(bundle) and not _no_certificates(kept):
            text = "unable to load root certificates: unable to parse bytes as PEM block"
            errors.append(invalid(f"{client}.caBundle", bundle, text))
    known = before.get("conversionReviewVersions") or _VERSIONS
    return errors + _review_versions(
        versions, reviews, one_known=not set(known).isdisjoint(_VERSIONS)
    )


def _review_versions(versions: list[str], path: str, *, one_known: bool) -> list[FieldError]:
    if not versions:
        return [required(path)]
    errors: list[FieldError] = []
    seen = Seen()
    for index, version in enumerate(versions):
        if seen.again(version):
            errors.append(invalid(f"{path}[{index}]", version, "duplicate version"))
            continue
        texts = names.dns_1035_label(version)
        errors += [invalid(f"{path}[{index}]", version, text) for text in texts]
    if one_known and set(versions).isdisjoint(_VERSIONS):
        text = f"must include at least one of {', '.join(_VERSIONS)}"
        errors.append(invalid(path, versions, text))
    return errors


def _no_certificates(bundle: str) -> bool:
    """Return whether there is a bundle without certificates. The content of a block is not read."""
    return bool(bundle) and _BEGIN not in base64.b64decode(bundle)
