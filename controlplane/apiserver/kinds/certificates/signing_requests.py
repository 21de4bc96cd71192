"""CertificateSigningRequests: the sender is the requesting user, and decisions are kept.

Upstream: pkg/registry/certificates/certificates/strategy.go, pkg/apis/certificates.
"""

from __future__ import annotations

from typing import Any

from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.apiregistration.api_services import CONDITION_STATES
from controlplane.apiserver.kinds.cells import age_of, human_duration, name_of, part_of
from controlplane.apiserver.kinds.certificates import certificate_data
from controlplane.apiserver.kinds.checks import entries, present, problems, repeated, when, word
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Context, Strategy, with_status
from controlplane.apiserver.schema.empty_bytes import like
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

__all__ = ["KIND"]

MIN_SECONDS = 600
_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)


def validate_signing_request(tree: Tree, written: Any = None) -> list[FieldError]:
    """Return the errors of a CertificateSigningRequest; `written` is its request as it came, "" or None."""
    spec = tree.get("spec") or {}
    problem = _request_problem(spec.get("request") or "")
    errors = when(problem, invalid, "spec.request", spec.get("request") or written, problem)
    errors += present(spec, "usages", "spec")
    listed = [(usage, f"spec.usages[{i}]") for i, usage in enumerate(spec.get("usages") or ())]
    errors += [
        not_supported(place, usage, _USAGES) for usage, place in listed if usage not in _USAGES
    ]
    errors += repeated(listed)
    errors += _signer(spec.get("signerName", ""))
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < MIN_SECONDS:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(invalid("spec.expirationSeconds", seconds, text))
    return errors + _conditions(tree)


def _certificate(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of the issued certificate; one that was stored with an error may stay."""
    text, was = ((tree.get("status") or {}).get("certificate") or "" for tree in (new, old))
    problem = certificate_data.certificate_problem(text)
    if not problem or certificate_data.certificate_problem(was):
        return []
    return [invalid("status.certificate", "<certificate data>", problem)]


def _request_problem(text: str) -> str:
    """Return why the bytes are not a certificate request; "" if they are one."""
    block, _ = certificate_data.first_block(certificate_data.decoded(text))
    if block is None or block.kind != "CERTIFICATE REQUEST":
        return "PEM block type must be CERTIFICATE REQUEST"
    return certificate_data.request_problem(block.content)


def _signer(name: str) -> list[FieldError]:
    path = "spec.signerName"
    if not name:
        return [required(path)]
    if name == "kubernetes.io/legacy-unknown":
        text = "the legacy signerName is not allowed via this API version"
        return [invalid(path, name, text)]
    parts = name.split("/")
    if len(parts) != 2:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(path, name, text)]
    domain, rest = parts
    errors: list[FieldError] = []
    if domain.count(".") < 1:
        text = "should be a domain with at least two segments separated by dots"
        errors.append(invalid(path, domain, text))
    for part in (domain, rest):
        for label in part.split("."):
            texts = (f"validating label {quote(label)}: {text}" for text in names.dns_label(label))
            errors += problems(path, part, texts)
    return errors


def _conditions(tree: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for condition, path in entries(tree.get("status") or {}, "conditions", "status"):
        kind, value = condition.get("type", ""), condition.get("status", "")
        errors += when(not kind, required, f"{path}.type")
        allowed = ("True",) if kind in _LASTING else CONDITION_STATES
        errors += word(value, f"{path}.status", allowed)
        other = {"Approved": "Denied", "Denied": "Approved"}.get(kind)
        if other in seen:
            text = "Approved and Denied conditions are mutually exclusive"
            errors.append(invalid("status.conditions", kind, text))
        errors += when(kind in seen, duplicate, f"{path}.type", kind)
        seen.add(kind)
    return errors


_LASTING = ("Approved", "Denied", "Failed")


def validate_signing_request_status(new: Tree, old: Tree, *, approving: bool) -> list[FieldError]:
    """Return the errors of a decision or a certificate: neither can be taken back, and each has its own endpoint."""
    errors: list[FieldError] = []
    where = "status.conditions"
    for kind in _LASTING:
        had, has = _of_type(old, kind), _of_type(new, kind)
        if len(has) < len(had):
            text = f"updates may not remove a condition of type {quote(kind)}"
            errors.append(forbidden(where, text))
    for kind in () if approving else ("Approved", "Denied"):
        had, has = _of_type(old, kind), _of_type(new, kind)
        if len(has) > len(had):
            text = f"updates may not add a condition of type {quote(kind)}"
            errors.append(forbidden(where, text))
    certificate, was = ((tree.get("status") or {}).get("certificate") for tree in (new, old))
    if certificate != was and was:
        text = "updates may not modify existing certificate content"
        errors.append(forbidden("status.certificate", text))
    return errors


def _of_type(tree: Tree, kind: str) -> list[Tree]:
    conditions: list[Tree] = (tree.get("status") or {}).get("conditions") or []
    return [each for each in conditions if each.get("type") == kind]


_ASKING = ("username", "uid", "groups", "extra")
_DECISIONS = ("Approved", "Denied")


def _any_name(_name: str) -> names.Problems:
    """Return no problem: a request's name may be anything that a path can hold."""
    return ()


class SigningRequestStrategy(Strategy):
    """The rules of CertificateSigningRequests."""

    def reset_fields(self, sub: str) -> tuple[tuple[str, ...], ...]:
        """Field paths that a write through the endpoint cannot set."""
        part = {"status": ("f:conditions",), "approval": ("f:certificate",)}.get(sub, ())
        return (("f:spec",), ("f:status", *part))

    def meta_checks(self, sub: str) -> str:
        """Every update is judged as a whole: the metadata as of a new object first, their change last."""
        return self.meta_steps

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a CertificateSigningRequest."""
        return validate_signing_request(tree, ctx.written("spec", "request"))

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update, which changes metadata alone."""
        return self.validate(ctx, new) + _certificate(new, old)

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Set the requesting user to the sender."""
        user = ctx.request.user
        spec = {key: value for key, value in tree["spec"].items() if key not in _ASKING}
        spec["username"] = user.name
        if user.uid:
            spec["uid"] = user.uid
        if user.groups:
            spec["groups"] = list(user.groups)
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra}
        return super().prepare_create(ctx, {**tree, "spec": spec})

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Nothing but the metadata can change."""
        return super().prepare_update(ctx, with_status(new, old, "spec"), old)

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """An approval changes conditions alone, a signer everything but what was decided."""
        new = super().prepare_status_update(ctx, new, old)
        before = (old.get("status") or {}).get("conditions") or []
        after = list((new.get("status") or {}).get("conditions") or [])
        approving = ctx.request.subresource == "approval"
        if not approving:
            for kind in _DECISIONS:
                _keep(after, before, kind)
        source = (old if approving else new).get("status", {})
        state = {**source, "conditions": after}
        state["conditions"] = [_timed(item, before, format_time(ctx.now)) for item in after]
        if not after:
            del state["conditions"]
        return {**new, "status": like(state, source)}

    def validate_status_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of a decision, or of a signer's status update."""
        approving = ctx.request.subresource == "approval"
        errors = self.validate_update(ctx, new, old)
        return errors + validate_signing_request_status(new, old, approving=approving)


def _keep(after: list[Tree], before: list[Tree], kind: str) -> None:
    """Put the conditions of a type back as they were, unless some came or went."""
    was = [item for item in before if item.get("type") == kind]
    places = [index for index, item in enumerate(after) if item.get("type") == kind]
    if len(was) == len(places):
        for place, item in zip(places, was, strict=True):
            after[place] = item


def _timed(item: Tree, before: list[Tree], now: str) -> Tree:
    """A condition with the times that the client did not give."""
    timed = dict(item)
    if not timed.get("lastUpdateTime"):
        timed["lastUpdateTime"] = now
    if not timed.get("lastTransitionTime"):
        same = (
            each.get("lastTransitionTime")
            for each in before
            if all(each.get(key) == item.get(key) for key in ("type", "status"))
        )
        timed["lastTransitionTime"] = next(filter(None, same), now)
    return timed


def _condition_text(tree: Tree) -> str:
    """The state of a request: decided, failed, issued."""
    denied, approved, failed = (bool(_of_type(tree, k)) for k in ("Denied", "Approved", "Failed"))
    text = "Denied" if denied else "Approved" if approved else "Pending"
    issued = bool((tree.get("status") or {}).get("certificate"))
    return text + ",Failed" * failed + ",Issued" * issued


def _row(tree: Tree, now: int) -> list[Any]:
    spec = part_of(tree, "spec")
    seconds = spec.get("expirationSeconds")
    return [
        name_of(tree),
        age_of(tree, now),
        spec.get("signerName") or "<none>",
        spec.get("username", ""),
        "<none>" if seconds is None else human_duration(seconds),
        _condition_text(tree),
    ]


KIND = Kind(
    strategy=SigningRequestStrategy(name_rule=_any_name, meta_steps="A*U"),
    row=_row,
    selectable={"metadata.name": "", "spec.signerName": ""},
)
