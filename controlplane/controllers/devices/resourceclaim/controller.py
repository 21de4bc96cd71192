"""Claims are made from templates, reserved for pods that were bound without them, and released.

The scheduler allocates; a pod with a node of its own is reserved what is allocated already. Upstream:
pkg/controller/resourceclaim/controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api import resource_claims as rules
from controlplane.api.resource_claims import ClaimNotCreated, ClaimRuleError
from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.calls import Call
from controlplane.client.resources import (
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)
from controlplane.controllers.common.controller import WARNING, Controller, Handlers, Work, ignore
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.devices.resourceclaim.created import CreatedClaims
from controlplane.controllers.devices.resourceclaim.indexes import (
    claims_of_groups,
    claims_of_pods,
    group_claims,
    group_templates,
    members,
    pod_claims,
    pod_templates,
)
from controlplane.controllers.devices.resourceclaim.metrics import (
    FAILURE,
    SUCCESS,
    ClaimMetrics,
)
from controlplane.controllers.devices.resourceclaim.releasing import Users, release, with_status
from controlplane.controllers.devices.resourceclaim.templates import (
    ADMIN_ACCESS,
    PRIORITIZED_LIST,
    Features,
    claim_of,
    groups_have_claims,
    refusal,
)
from controlplane.controllers.devices.uid_cache import UidCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controlplane.api.object import Object
    from controlplane.client.indexer import Indexer
    from controlplane.controllers.common.controller import Caches, Host
    from controlplane.metrics.family import Family

__all__ = ["ResourceClaimController"]

APPLY: Final = "application/apply-patch+yaml"
MANAGER: Final = "ResourceClaimController"
QUEUE: Final = "resource_claim"
POD, GROUP, CLAIM = "pod", "podgroup", "claim"


class ResourceClaimController(Controller):
    """One queue for pods, pod groups and claims; keys are `pod:NAMESPACE/NAME` and so on."""

    name = "resourceclaim-controller"
    component = QUEUE

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        gates = host.features
        self.features = Features(
            gates.get(ADMIN_ACCESS, True),
            gates.get(PRIORITIZED_LIST, True),
            groups_have_claims(gates),
        )
        self.queue = host.queue(QUEUE)
        self._gone = UidCache()
        self.metrics = ClaimMetrics()
        self._templates = caches.of(RESOURCE_CLAIM_TEMPLATES)
        self._groups: Indexer[Any] | None = None
        if self.features.workload_claims:
            self._groups = caches.of(
                POD_GROUPS, resource_claim=group_claims, resource_claim_template=group_templates
            )
            self._pods = caches.of(
                PODS,
                resource_claim=pod_claims,
                resource_claim_template=pod_templates,
                pod_group=members,
            )
            self._claims = caches.of(
                RESOURCE_CLAIMS, pod_owner=claims_of_pods, group_owner=claims_of_groups
            )
        else:
            self._pods = caches.of(
                PODS, resource_claim=pod_claims, resource_claim_template=pod_templates
            )
            self._claims = caches.of(RESOURCE_CLAIMS, pod_owner=claims_of_pods)
        self._created = CreatedClaims(self._claims, lambda: self.host.now)
        self._users = Users(self._pods, self._groups, self._gone)

    def work(self) -> tuple[Work, ...]:
        """One queue; a key that fails is tried again without end."""
        return (Work(QUEUE, self.sync),)

    def families(self) -> Iterable[Family]:
        """Return a snapshot of its metrics."""
        return self.metrics.families(claim.tree for claim in self._claims)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Pods, claims and templates, and pod groups where they may have claims."""
        found = {
            PODS: Handlers(
                self._pod_changed,
                lambda _old, new: self._pod_changed(new),
                lambda obj, _: self._pod_changed(obj, deleted=True),
            ),
            RESOURCE_CLAIMS: Handlers(
                self._claim_changed,
                lambda _old, new: self._claim_changed(new),
                lambda obj, _: self._claim_changed(obj, deleted=True),
            ),
            RESOURCE_CLAIM_TEMPLATES: Handlers(
                self._template_changed, lambda _old, new: self._template_changed(new), ignore
            ),
        }
        if self._groups is not None:
            found[POD_GROUPS] = Handlers(
                self._group_changed,
                lambda _old, new: self._group_changed(new),
                lambda obj, _: self._group_changed(obj, deleted=True),
            )
        return found

    # ------------------------------------------------------------------ handlers

    def _pod_changed(self, pod: Object[Any], *, deleted: bool = False) -> None:
        """A pod: its claims if it needs them no more, and itself if something is missing."""
        entries, extended = rules.claim_entries(pod.tree), rules.extended_claim_name(pod.tree)
        if not entries and extended is None:
            return
        if deleted:
            self._gone.add(pod.uid)
        if deleted or rules.is_pod_done(pod.tree):
            self._queue_claims(pod, entries, rules.name_of)
            if extended is not None:
                self._queue(CLAIM, f"{pod.namespace}/{extended}")
        if self._pod_needs_work(pod):
            self._queue(POD, pod.key)

    def _claim_changed(self, claim: Object[Any], *, deleted: bool = False) -> None:
        """A claim: itself unless it is gone, and the pods and groups that name it."""
        if not deleted:
            self._queue(CLAIM, claim.key)
        for pod in self._pods.by_index("resource_claim", claim.key):
            self._pod_changed(pod)
        if self._groups is not None:
            for group in self._groups.by_index("resource_claim", claim.key):
                self._group_changed(group)

    def _template_changed(self, template: Object[Any]) -> None:
        """A template: what waits for it."""
        for pod in self._pods.by_index("resource_claim_template", template.key):
            self._pod_changed(pod)
        if self._groups is not None:
            for group in self._groups.by_index("resource_claim_template", template.key):
                self._group_changed(group)

    def _group_changed(self, group: Object[Any], *, deleted: bool = False) -> None:
        """A pod group: its claims once it is gone, itself if something is missing, and its members."""
        entries = rules.claim_entries(group.tree)
        if not entries:
            return
        if deleted:
            self._gone.add(group.uid)
            self._queue_claims(group, entries, rules.name_of_group_claim)
        if self._group_needs_work(group):
            self._queue(GROUP, group.key)
        for pod in self._pods.by_index("pod_group", group.key):
            self._pod_changed(pod)

    def _queue(self, kind: str, key: str) -> None:
        self.queue.add(f"{kind}:{key}")

    def _queue_claims(
        self,
        user: Object[Any],
        entries: Iterable[Tree],
        name_of: Callable[[Tree, Tree], rules.NamedClaim],
    ) -> None:
        for entry in entries:
            try:
                name = name_of(user.tree, entry).name
            except ClaimRuleError:
                continue
            if name is not None:
                self._queue(CLAIM, f"{user.namespace}/{name}")

    def _pod_needs_work(self, pod: Object[Any]) -> bool:
        """Return whether a claim of a pod has to be made or reserved; judged by the cache."""
        if pod.metadata.get("deletionTimestamp") is not None:
            return False
        bound = bool((pod.tree.get("spec") or {}).get("nodeName"))
        for entry in rules.claim_entries(pod.tree):
            try:
                name, check = rules.name_of(pod.tree, entry)
            except ClaimRuleError:
                return True
            if name is None:
                continue
            claim = self._claims.get(f"{pod.namespace}/{name}")
            if claim is None:
                if self._pod_has_to_make(pod, entry):
                    return True
                continue
            if check and not self._is_for(pod, claim):
                continue
            if bound and self._reservable(pod, claim):
                return True
        return False

    def _pod_has_to_make(self, pod: Object[Any], entry: Tree) -> bool:
        if entry.get("resourceClaimTemplateName") is None:
            return False
        try:
            group = self._group_of(pod)
        except Retry:
            return True
        try:
            user = rules.bind_to(pod.tree, group, entry)
        except ClaimRuleError:
            return False
        return bool(user["resource"] == "pods")

    def _group_needs_work(self, group: Object[Any]) -> bool:
        """Return whether a claim of a pod group has to be made; judged by the cache."""
        if group.metadata.get("deletionTimestamp") is not None:
            return False
        for entry in rules.claim_entries(group.tree):
            try:
                name, _ = rules.name_of_group_claim(group.tree, entry)
            except ClaimRuleError:
                return True
            missing = name is not None and f"{group.namespace}/{name}" not in self._claims
            if missing and entry.get("resourceClaimTemplateName") is not None:
                return True
        return False

    # ------------------------------------------------------------------ what both sides ask

    def _group_of(self, pod: Object[Any]) -> Tree | None:
        """Return the pod group of a pod, where groups may have claims. Raises Retry when it is missing."""
        name = rules.group_name_of(pod.tree)
        if self._groups is None or name is None:
            return None
        group = self._groups.get(f"{pod.namespace}/{name}")
        if group is None:
            raise Retry(f'podgroup.scheduling.k8s.io "{name}" not found')
        return group.tree

    def _is_for(self, pod: Object[Any], claim: Object[Any]) -> bool:
        try:
            rules.check_owner(pod.tree, claim.tree, groups=self.features.workload_claims)
        except ClaimRuleError:
            return False
        return True

    def _reservable(self, pod: Object[Any], claim: Object[Any]) -> bool:
        allocated = (claim.tree.get("status") or {}).get("allocation") is not None
        groups = self.features.workload_claims
        return allocated and not rules.is_reserved_for(pod.tree, claim.tree, groups=groups)

    # ------------------------------------------------------------------ syncs

    def sync(self, key: str) -> Reconcile[None]:
        """Bring a pod, a pod group or a claim to what it wants. Raises Retry, ApiError or ConnectionLost."""
        kind, colon, place = key.partition(":")
        if not colon:
            raise Retry(f"unexpected key: {key}")
        parts = place.split("/")
        if len(parts) > 2:
            raise Retry(f'unexpected key format: "{place}"')
        syncs = {POD: self._sync_pod, GROUP: self._sync_group, CLAIM: self._sync_claim}
        if kind not in syncs:
            raise Retry(f"unexpected key prefix: {kind}:")
        yield from syncs[kind](place)

    def _sync_claim(self, key: str) -> Reconcile[None]:
        claim = self._claims.get(key)
        if claim is not None:
            yield from release(claim, self._users)

    def _sync_pod(self, key: str) -> Reconcile[None]:
        pod = self._pods.get(key)
        if pod is None or pod.metadata.get("deletionTimestamp") is not None:
            return
        try:
            group = self._group_of(pod)
        except Retry as error:
            raise Retry(f"get PodGroup for Pod {pod.key}: {error}") from None
        made: dict[str, str] = {}
        for entry in rules.claim_entries(pod.tree):
            yield from self._make(pod, group, entry, made, "PodResourceClaim", "pod")
        if made:
            try:
                yield from _apply_names(PODS, "Pod", pod, made)
            except RequestFailed as error:
                text = f"update pod {pod.key} ResourceClaimStatuses: {error}"
                raise Retry(text) from error
        if (pod.tree.get("spec") or {}).get("nodeName"):
            yield from self._reserve_all(pod, group)

    def _sync_group(self, key: str) -> Reconcile[None]:
        group = None if self._groups is None else self._groups.get(key)
        if group is None or group.metadata.get("deletionTimestamp") is not None:
            return
        made: dict[str, str] = {}
        for entry in rules.claim_entries(group.tree):
            yield from self._make(
                group, group.tree, entry, made, "PodGroupResourceClaim", "PodGroup"
            )
        if made:
            try:
                yield from _apply_names(POD_GROUPS, "PodGroup", group, made)
            except RequestFailed as error:
                text = f"update PodGroup {group.key} ResourceClaimStatuses: {error}"
                raise Retry(text) from error

    def _make(
        self,
        user: Object[Any],
        group: Tree | None,
        entry: Tree,
        made: dict[str, str],
        what: str,
        who: str,
    ) -> Reconcile[None]:
        """Find or make the claim of an entry; `made` gets its name. A failure is an event of the user."""
        name = entry.get("name", "")
        try:
            claim = yield from self._claim_for(user, group, entry, of_group=who == "PodGroup")
        except (ClaimRuleError, *RequestFailed, Retry) as error:
            self.host.event(
                user.view, WARNING, "FailedResourceClaimCreation", f"{what} {name}: {error}"
            )
            raise Retry(f"{who} {user.key}, {what} {name}: {error}") from error
        if claim:
            made[name] = claim

    def _claim_for(
        self, user: Object[Any], group: Tree | None, entry: Tree, *, of_group: bool
    ) -> Reconcile[str]:
        """Return the name of an entry's claim where the user's status does not name it rightly, else ""."""
        try:
            name, check = (rules.name_of_group_claim if of_group else rules.name_of)(
                user.tree, entry
            )
        except ClaimNotCreated:
            pass
        except ClaimRuleError as error:
            raise Retry(f"checking for claim before creating it: {error}") from None
        else:
            if name is None:
                return ""
            known = self._claims.get(f"{user.namespace}/{name}") if name else None
            if known is not None and not (check and self._is_foreign(user, known, of_group)):
                return ""
        template = entry.get("resourceClaimTemplateName")
        if template is None:
            return ""
        label = entry.get("name", "")
        if of_group:
            found = self._of_group(user.tree, label)
        elif rules.bind_to(user.tree, group, entry)["resource"] == "podgroups":
            assert group is not None
            # The group's own sync makes it; until then the pod has no name for it.
            return self._of_group(group, label) or ""
        else:
            found = self._find("pod_owner", user.uid, label, claims_of_pods)
        return found or (yield from self._create(user, label, template, of_group=of_group))

    def _is_foreign(self, user: Object[Any], claim: Object[Any], of_group: bool) -> bool:
        if not of_group:
            return not self._is_for(user, claim)
        try:
            rules.check_owning_group(user.tree, claim.tree)
        except ClaimRuleError:
            return True
        return False

    def _of_group(self, group: Tree, label: str) -> str | None:
        meta = group.get("metadata") or {}
        value = f"{meta.get('namespace', '')}/{meta.get('uid', '')}"
        return self._find("group_owner", value, label, claims_of_groups)

    def _find(
        self,
        index: str,
        value: str,
        label: str,
        values: Callable[[Object[Any]], tuple[str, ...]],
    ) -> str | None:
        """Return the name of the claim that was made for an entry of this owner."""
        for claim in self._created.by_index(index, value, values):
            notes = claim.metadata.get("annotations") or {}
            if notes.get(rules.CLAIM_ANNOTATION) == label:
                return claim.name
        return None

    def _create(
        self, user: Object[Any], label: str, template_name: str, *, of_group: bool
    ) -> Reconcile[str]:
        template = self._templates.get(f"{user.namespace}/{template_name}")
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            raise Retry(f'resource claim template "{template_name}": {missing}')
        refused = refusal(template.tree, self.features)
        if refused:
            raise Retry(refused)
        body = claim_of(user.tree, label, template.tree, group=of_group)
        try:
            claim = yield from calls.create(RESOURCE_CLAIMS, user.namespace, body)
        except RequestFailed as error:
            self.metrics.created(body, FAILURE)
            raise Retry(f"create ResourceClaim : {error}") from error
        self.metrics.created(body, SUCCESS)
        self._created.add(claim)
        return claim.name

    def _reserve_all(self, pod: Object[Any], group: Tree | None) -> Reconcile[None]:
        """Reserve allocated claims for a pod that was bound without them; names that were just applied come later."""
        for entry in rules.claim_entries(pod.tree):
            try:
                name, check = rules.name_of(pod.tree, entry)
                if name is None:
                    continue
                claim = self._claims.get(f"{pod.namespace}/{name}")
                if claim is None:
                    return
                if check:
                    groups = self.features.workload_claims
                    rules.check_owner(pod.tree, claim.tree, groups=groups)
                if not self._reservable(pod, claim):
                    continue
                user = rules.bind_to(pod.tree, group, entry)
            except ClaimRuleError as error:
                raise Retry(str(error)) from None
            users = [*rules.reserved_for(claim.tree), user]
            try:
                body = with_status(claim.tree, reservedFor=users)
                yield from calls.update(RESOURCE_CLAIMS, body, "status")
            except RequestFailed as error:
                raise Retry(f"reserve claim {claim.key}: {error}") from error


def _apply_names(
    resource: Resource[Any], kind: str, user: Object[Any], names: dict[str, str]
) -> Reconcile[None]:
    """Write the names of claims into the user's status; of earlier entries those not named here are given up."""
    statuses = [{"name": label, "resourceClaimName": name} for label, name in names.items()]
    body = {
        "apiVersion": resource.api_version,
        "kind": kind,
        "metadata": {"name": user.name, "namespace": user.namespace},
        "status": {"resourceClaimStatuses": statuses},
    }
    query = {"fieldManager": MANAGER, "force": "true"}
    yield Call(
        "patch", resource, user.namespace, user.name, "status",
        query=query, body=body, content_type=APPLY,
    )  # fmt: skip
