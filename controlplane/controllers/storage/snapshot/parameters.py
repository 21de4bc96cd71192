"""Class parameters: secret references with their templates, and those that are passed to the driver.

Upstream: external-snapshotter pkg/utils/util.go (GetSecretReference, GetGroupSnapshotSecretReference,
RemovePrefixedParameters); templates are those of Go's os.Expand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from controlplane.api.validation import dns_label_errors, dns_subdomain_errors, quote

RESERVED: Final = "csi.storage.k8s.io/"
_SPECIAL: Final = frozenset("*#$@!?-0123456789")
_NAME: Final = frozenset("_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class ParameterError(Exception):
    """The parameters of a class cannot be used."""


class Secret(NamedTuple):
    """The secret that a class names for one purpose; `title` is its name in messages."""

    title: str
    key: str


SNAPSHOTTER: Final = Secret("Snapshotter", "snapshotter-secret")
SNAPSHOTTER_LIST: Final = Secret("SnapshotterList", "snapshotter-list-secret")
GROUP_SNAPSHOTTER: Final = Secret("GroupSnapshotter", "group-snapshotter-secret")
GROUP_SNAPSHOTTER_GET: Final = Secret("GroupSnapshotterGet", "group-snapshotter-get-secret")
SECRETS: Final = (SNAPSHOTTER, SNAPSHOTTER_LIST, GROUP_SNAPSHOTTER, GROUP_SNAPSHOTTER_GET)
_KNOWN: Final = frozenset(
    f"{RESERVED}{each.key}-{part}" for each in SECRETS for part in ("name", "namespace")
)


class SecretReference(NamedTuple):
    """A resolved secret."""

    name: str
    namespace: str


def driver_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters without the reserved ones; ParameterError for an unknown reserved one."""
    for key in parameters:
        if key.startswith(RESERVED) and key not in _KNOWN:
            raise ParameterError(
                f"found unknown parameter key {quote(key)} with reserved namespace {RESERVED}"
            )
    return {key: value for key, value in parameters.items() if not key.startswith(RESERVED)}


def secret_reference(
    secret: Secret,
    parameters: Mapping[str, str],
    content_name: str,
    snapshot: tuple[str, str] | None,
) -> SecretReference | None:
    """The secret that a class names, if it does, for a content and its snapshot (namespace, name).

    Of a group, both are the group's; for a group's member the snapshot is None. ParameterError says
    what is wrong.
    """
    what = "volumegroupsnapshot" if secret.key.startswith("group-") else "volumesnapshot"
    for_namespace = {f"{what}content.name": content_name}
    if snapshot is not None:
        for_namespace[f"{what}.namespace"] = snapshot[0]
    for_name = dict(for_namespace)
    if snapshot is not None:
        for_name[f"{what}.name"] = snapshot[1]
    return resolved_reference(secret, parameters, for_namespace, for_name)


def resolved_reference(
    secret: Secret,
    parameters: Mapping[str, str],
    for_namespace: Mapping[str, str],
    for_name: Mapping[str, str],
) -> SecretReference | None:
    """The secret that a class names, if it does, with what tokens stand for in its templates. ParameterError."""
    name, namespace = _templates(secret, parameters)
    if not name and not namespace:
        return None
    found = _resolve(namespace, for_namespace, "namespace", dns_label_errors)
    return SecretReference(_resolve(name, for_name, "secret", dns_subdomain_errors), found)


def _templates(secret: Secret, parameters: Mapping[str, str]) -> tuple[str, str]:
    name = parameters.get(f"{RESERVED}{secret.key}-name")
    namespace = parameters.get(f"{RESERVED}{secret.key}-namespace")
    if name is None and namespace is None:
        return "", ""
    prefix = "failed to get name and namespace template from params: "
    if name is None or namespace is None:
        raise ParameterError(
            f"{prefix}either name and namespace for {secret.title} secrets specified, "
            "Both must be specified"
        )
    if not name or not namespace:
        raise ParameterError(
            f"{prefix}{secret.title} secrets specified in parameters but value of "
            "either namespace or name is empty"
        )
    return name, namespace


def _resolve(
    template: str,
    tokens: Mapping[str, str],
    what: str,
    errors: Callable[[str], tuple[str, ...]],
) -> str:
    missing: dict[str, None] = {}

    def value(token: str) -> str:
        if token not in tokens:
            missing[token] = None
        return tokens.get(token, "")

    resolved = expand(template, value)
    if missing:
        listed = " ".join(quote(token) for token in sorted(missing))
        raise ParameterError(f"error resolving value {quote(template)}: invalid tokens: [{listed}]")
    if errors(resolved):
        if resolved != template:
            text = f"{quote(template)} resolved to {quote(resolved)} which is not a valid"
        else:
            text = f"{quote(resolved)} is not a valid"
        raise ParameterError(f"{text} {what} name")
    return resolved


def expand(text: str, value: Callable[[str], str]) -> str:
    """Replace $name and ${name}, with Go's rules for what is neither (os.Expand)."""
    out: list[str] = []
    start = at = 0
    while at < len(text):
        if text[at] == "$" and at + 1 < len(text):
            out.append(text[start:at])
            name, width = _shell_name(text[at + 1 :])
            if name:
                out.append(value(name))
            elif not width:
                out.append("$")
            at += width
            start = at + 1
        at += 1
    return "".join(out) + text[start:]


def _shell_name(text: str) -> tuple[str, int]:
    """The name that a text begins with, and how much of the text it takes; a bad name is eaten."""
    if text[0] == "{":
        if len(text) > 2 and text[1] in _SPECIAL and text[2] == "}":
            return text[1], 3
        end = text.find("}", 1)
        if end == 1:
            return "", 2
        return ("", 1) if end < 0 else (text[1:end], end + 1)
    if text[0] in _SPECIAL:
        return text[0], 1
    width = 0
    while width < len(text) and text[width] in _NAME:
        width += 1
    return text[:width], width
