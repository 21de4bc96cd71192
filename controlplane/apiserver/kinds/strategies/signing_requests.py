"""CertificateSigningRequests: the sender is the requesting user, and decisions are kept.

Upstream: pkg/registry/certificates/certificates/strategy.go.
"""

from __future__ import annotations

from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Context, Strategy, with_status
from controlplane.apiserver.kinds.validation.registration import validate_signing_request_status
from controlplane.apiserver.schema.field_errors import FieldError

__all__ = ["SigningRequestStrategy"]

_ASKING = ("username", "uid", "groups", "extra")
_DECISIONS = ("Approved", "Denied")


class SigningRequestStrategy(Strategy):
    """The rules of CertificateSigningRequests."""

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
        state = {**((old if approving else new).get("status") or {}), "conditions": after}
        state["conditions"] = [_timed(item, before, format_time(ctx.now)) for item in after]
        if not after:
            del state["conditions"]
        return {**new, "status": state}

    def validate_status_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of a decision, or of a signer's status update."""
        approving = ctx.request.subresource == "approval"
        errors = self.validate(ctx, new)
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
        same = (each.get("lastTransitionTime") for each in before
                if all(each.get(key) == item.get(key) for key in ("type", "status")))  # fmt: skip
        timed["lastTransitionTime"] = next(filter(None, same), now)
    return timed
