"""The authorizer that expressions of policies ask. Upstream: apiserver pkg/cel/library/authz.go.

Names of methods are those of the expression language.
"""

from __future__ import annotations

from attrs import evolve, frozen

from controlplane.api.request import User
from controlplane.apiserver.requests.admission.policies.attributes import Attributes
from controlplane.apiserver.requests.authorization import rbac
from controlplane.apiserver.requests.authorization.access import Access

__all__ = ["Authorizer", "request_resource"]


@frozen
class Decision:
    """The authorizer's decision."""

    verdict: rbac.Verdict

    def allowed(self) -> bool:
        """Return whether the request is allowed."""
        return self.verdict.allowed

    def reason(self) -> str:
        """Why."""
        return self.verdict.reason

    def errored(self) -> bool:
        """Return whether the authorizer failed: ours never does."""
        return False

    def error(self) -> str:
        """Return the authorizer's error."""
        return ""


@frozen
class Check:
    """An authorization check without its verb."""

    access: Access
    user: User
    asked: rbac.Attributes

    def resource(self, name: str) -> Check:
        """Of a group: one of its resources."""
        return evolve(self, asked=evolve(self.asked, resource=name))

    def subresource(self, name: str) -> Check:
        """Its subresource."""
        return evolve(self, asked=evolve(self.asked, subresource=name))

    def namespace(self, name: str) -> Check:
        """In a namespace."""
        return evolve(self, asked=evolve(self.asked, namespace=name))

    def name(self, name: str) -> Check:
        """Of one object."""
        return evolve(self, asked=evolve(self.asked, name=name))

    def fieldSelector(self, _text: str) -> Check:  # noqa: N802 - the language's name
        """Restricted by fields: roles do not know of them."""
        return self

    def labelSelector(self, _text: str) -> Check:  # noqa: N802 - the language's name
        """Restricted by labels: roles do not know of them."""
        return self

    def check(self, verb: str) -> Decision:
        """Ask."""
        return Decision(self.access.verdict(self.user, evolve(self.asked, verb=verb)))


@frozen
class Authorizer:
    """Makes authorization checks for the user of the request."""

    access: Access
    user: User

    def path(self, path: str) -> Check:
        """About a path that is no resource."""
        return Check(self.access, self.user, rbac.Attributes("", path=path))

    def group(self, name: str) -> Check:
        """About resources of a group."""
        return Check(self.access, self.user, rbac.Attributes("", group=name))

    def serviceAccount(self, namespace: str, name: str) -> Authorizer:  # noqa: N802 - as above
        """The same for a service account."""
        groups = (
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        )
        return Authorizer(
            self.access, User(f"{rbac.SERVICE_ACCOUNT}{namespace}:{name}", groups=groups)
        )


def request_resource(access: Access, given: Attributes) -> Check:
    """Return the check of the request's own resource."""
    asked = rbac.Attributes(
        "", given.info.group, given.info.resource, given.subresource, given.namespace, given.name
    )
    return Check(access, given.user, asked)
