"""Admission of certificate requests. Upstream: plugin/pkg/admission/certificates."""

from __future__ import annotations

from functools import partial

from controlplane.api.request import User
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.kinds.certificates.certificate_data import organizations
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.authorization import rbac
from controlplane.apiserver.requests.authorization.access import Access
from controlplane.apiserver.schema import status

__all__ = ["approval", "restrict_subject", "signing"]

_CLIENT = "kubernetes.io/kube-apiserver-client"


def restrict_subject(ctx: Context, tree: Tree, old: Tree | None) -> None:
    """Raise ApiError 403 for a new request of a client certificate for the group system:masters."""
    if old is not None or ctx.request.subresource:
        return
    spec = tree["spec"]
    if spec.get("signerName") != _CLIENT:
        return
    if "system:masters" in organizations(spec.get("request", "")):
        text = f"use of {_CLIENT} signer with system:masters group is not allowed"
        raise status.forbidden(ctx.info, status.told_name(tree), text)


def approval(ctx: Context, _tree: Tree, old: Tree | None, *, access: Access | None) -> None:
    """Raise ApiError 403 for a decision by a user who may not approve for the signer."""
    if old is not None and ctx.request.subresource == "approval":
        _check(ctx, old, access, "approve")


def signing(ctx: Context, tree: Tree, old: Tree | None, *, access: Access | None) -> None:
    """Raise ApiError 403 for a certificate or conditions from a user who may not sign for the signer."""
    if old is None or ctx.request.subresource != "status":
        return
    new_status, old_status = tree.get("status") or {}, old.get("status") or {}
    if any(new_status.get(key) != old_status.get(key) for key in ("certificate", "conditions")):
        _check(ctx, old, access, "sign")


def _check(ctx: Context, old: Tree, access: Access | None, verb: str) -> None:
    """Raise unless the user may do this for the signer by its name, or for all signers of its domain."""
    if access is None:
        return
    signer = old["spec"].get("signerName", "")
    domain = signer.partition("/")[0]
    allows = partial(_allowed, access, ctx.request.user, verb)
    if not allows(signer) and not allows(f"{domain}/*"):
        text = f"user not permitted to {verb} requests with signerName {quote(signer)}"
        raise status.forbidden(ctx.info, old["metadata"].get("name", ""), text)


def _allowed(access: Access, user: User, verb: str, name: str) -> bool:
    asked = rbac.Attributes(verb, "certificates.k8s.io", "signers", name=name)
    return access.verdict(user, asked).allowed
