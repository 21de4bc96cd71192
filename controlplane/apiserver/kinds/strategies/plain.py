"""Strategies of kinds with few rules of their own."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from attrs import frozen

from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.defaulting import others
from controlplane.apiserver.kinds.defaulting.pods import each, inside
from controlplane.apiserver.kinds.disabled_fields import without_disabled_in_template
from controlplane.apiserver.kinds.strategy import (
    Context,
    Strategy,
    same,
    with_status,
    without,
    without_labels,
)
from controlplane.apiserver.kinds.validation import common as rules
from controlplane.apiserver.kinds.warnings import claim_warnings
from controlplane.apiserver.schema.field_errors import FieldError, invalid

if TYPE_CHECKING:
    from controlplane.apiserver.kinds.deletion import DeleteOptions


class SecretStrategy(Strategy):
    """Secrets; a certificate that cannot be one is remarked on."""

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        if tree.get("type") != "kubernetes.io/tls":
            return []
        data = tree.get("data") or {}
        for key, what in (("tls.crt", "certificate"), ("tls.key", "key")):
            if b"-----BEGIN " not in base64.b64decode(data.get(key) or ""):
                return [f"tls: failed to find any PEM data in {what} input"]
        return []


class CSIDriverStrategy(Strategy):
    """CSI drivers: what alpha gates bring is dropped, changes are counted, new ones are not."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return _without_scheduling(super().prepare_create(ctx, tree))

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        new = _without_scheduling(super().prepare_update(ctx, new, old))
        if same(new, old, "spec"):
            return new
        generation = old["metadata"].get("generation", 0) + 1
        return {**new, "metadata": {**new["metadata"], "generation": generation}}

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        spec = tree.get("spec") or {}
        if old is not None and same(spec, old.get("spec") or {}, "tokenRequests"):
            return []
        if not spec.get("tokenRequests") or "serviceAccountTokenInSecrets" in spec:
            return []
        return [
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true "
            "to prevent possible logging of tokens in volume attributes"
        ]


def _without_scheduling(tree: Tree) -> Tree:
    spec = tree.get("spec") or {}
    if "preventPodSchedulingIfMissing" not in spec:
        return tree
    return {**tree, "spec": without(spec, "preventPodSchedulingIfMissing")}


def local_available(at: str) -> Tree:
    """The condition of an APIService that this server itself answers for."""
    return {
        "type": "Available", "status": "True", "lastTransitionTime": at, "reason": "Local",
        "message": "Local APIServices are always available",
    }  # fmt: skip


class APIServiceStrategy(Strategy):
    """APIServices; those without a service are available at once."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        if (tree.get("spec") or {}).get("service") is not None:
            return {**tree, "status": {}}
        return {**tree, "status": {"conditions": [local_available(format_time(ctx.now))]}}


class ServiceCIDRStrategy(Strategy):
    """Ranges of services; their status may be written everywhere: upstream prepares nothing.

    The fields that upstream resets stand under a group's name that is not theirs, so every writer
    manages what it wrote. Upstream: pkg/registry/networking/servicecidr/strategy.go.
    """

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return tree

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        return new

    def reset_fields(self, sub: str) -> tuple[tuple[str, ...], ...]:
        """Field paths that a write through the endpoint cannot set."""
        return ()


_INGRESS_CLASS = "kubernetes.io/ingress.class"


class IngressStrategy(Strategy):
    """Ingresses; messages about invalid rules show them as they were written."""

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        errors = self._spec_errors(ctx, tree)
        said = _ingress_class(tree)
        named = (tree.get("spec") or {}).get("ingressClassName")
        if said is not None and named is not None and said != named:
            text = "must match `ingressClassName` when both are specified"
            errors.append(invalid(f"annotations.{_INGRESS_CLASS}", said, text))
        return errors

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind; annotation and field may come to differ."""
        return self._spec_errors(ctx, new)

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind: a new one should name its class in the spec."""
        named = (tree.get("spec") or {}).get("ingressClassName")
        if old is not None or named is not None or _ingress_class(tree) is None:
            return []
        return [f'annotation "{_INGRESS_CLASS}" is deprecated, '
                "please use 'spec.ingressClassName' instead"]  # fmt: skip

    def _spec_errors(self, ctx: Context, tree: Tree) -> list[FieldError]:
        given = ctx.written("spec", "rules")
        return rules.validate_ingress(tree, given if given == [] else None)


def _ingress_class(tree: Tree) -> str | None:
    """The class that the annotation names, which came before the field."""
    return (tree["metadata"].get("annotations") or {}).get(_INGRESS_CLASS)


@frozen(kw_only=True, eq=False)
class CountedAsWritten(Strategy):
    """Kinds whose generation counts each write of a list without items, which is not the same as none.

    What is stored never has such lists, so a write that has one is a change each time. `counted` is
    the part that counts. Upstream compares by reflect.DeepEqual where other kinds call both equal:
    pkg/registry/networking/networkpolicy and pkg/registry/admissionregistration/*webhookconfiguration.
    """

    counted: str = "spec"

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        before = old["metadata"].get("generation", 0)
        new = super().prepare_update(ctx, new, old)
        meta = new["metadata"]
        written, read = ctx.written(self.counted), new.get(self.counted)
        if meta.get("generation", 0) == before and _without_items(written, read):
            return {**new, "metadata": {**meta, "generation": before + 1}}
        return new

    def spec_changed(self, new: Tree, old: Tree) -> bool:
        """Return whether an update increments the generation."""
        return not same(new, old, self.counted)


def _without_items(written: Any, read: Any) -> bool:
    """Return whether a list or a map of labels was written without items and no default replaces it."""
    if isinstance(written, list):
        if not written:
            return not read
        return any(_without_items(*pair) for pair in zip(written, read or (), strict=False))
    if isinstance(written, dict):
        read = read if isinstance(read, dict) else {}
        return written.get("matchLabels") == {} or any(
            _without_items(part, read.get(key)) for key, part in written.items()
        )
    return False


class QuotaStrategy(Strategy):
    """Quotas; a refusal shows scopes that were written without items as such."""

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        if ctx.written("spec", "scopes") == []:
            new = {**new, "spec": {**new["spec"], "scopes": []}}
        return super().validate_update(ctx, new, old)


class PodTemplateStrategy(Strategy):
    """Pod templates count the changes of the template: they have no spec."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return super().prepare_create(ctx, _template_without_disabled(tree, None))

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        return super().prepare_update(ctx, _template_without_disabled(new, old), old)

    def finish(self, tree: Tree) -> Tree:
        """Return the stored form: without empty labels."""
        return inside(tree, "template", lambda spec: inside(spec, "metadata", without_labels))

    def spec_changed(self, new: Tree, old: Tree) -> bool:
        """Return whether an update increments the generation."""
        return not same(new, old, "template")


def _template_without_disabled(tree: Tree, old: Tree | None) -> Tree:
    return inside(tree, "template", lambda template: without_disabled_in_template(
        template, (old or {}).get("template")))  # fmt: skip


class AccountStrategy(Strategy):
    """Service accounts: of their secrets only the names are kept."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return super().prepare_create(ctx, _secrets_named(tree))

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        return super().prepare_update(ctx, _secrets_named(new), old)


def _secrets_named(tree: Tree) -> Tree:
    secrets = tree.get("secrets")
    if not secrets or all(list(secret) == ["name"] for secret in secrets):
        return tree
    named = [{"name": secret["name"]} if secret.get("name") else {} for secret in secrets]
    return {**tree, "secrets": named}


class EndpointsStrategy(Strategy):
    """Endpoints, which their slices have replaced."""

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        return self.read_warnings()

    def read_warnings(self) -> list[str]:
        """Warnings for a read of this kind."""
        return ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"]

    def warn_delete(self, ctx: Context, options: DeleteOptions) -> None:
        """Warnings for a deletion of this kind."""
        for text in self.read_warnings():
            ctx.warn(text)


class NamespaceStrategy(Strategy):
    """Namespaces: finalizers in the spec, a phase, and a label with the name."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        spec = tree.get("spec") or {}
        finalizers = spec.get("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers = [*finalizers, "kubernetes"]
        tree = {**tree, "spec": {**spec, "finalizers": finalizers}, "status": {"phase": "Active"}}
        return others.default_namespace(tree)

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        new = with_status(new, old)
        spec = with_status(new.get("spec") or {}, old.get("spec") or {}, "finalizers")
        return {**new, "spec": spec}

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return a status update of this kind with the fields that it cannot change."""
        return with_status(new, old, "spec")


class NodeStrategy(Strategy):
    """Nodes keep the status they are created with."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        if "configSource" in (tree.get("spec") or {}):
            tree = {**tree, "spec": without(tree["spec"], "configSource")}
        return tree

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        if "configSource" not in (old.get("spec") or {}):
            new = inside(new, "spec", lambda spec: without(spec, "configSource"))
        return super().prepare_update(ctx, new, old)


class ClaimStrategy(Strategy):
    """Persistent volume claims."""

    def settles_on_update(self, sub: str, old: Tree) -> bool:
        """Return whether the first update is a write though it changes nothing."""
        return sub in ("", "status")

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        tree = {**tree, "status": {"phase": "Pending"}}
        return self._source(tree)

    def _source(self, tree: Tree) -> Tree:
        """Copy dataSource and dataSourceRef to each other; drop sources of unsupported kinds."""
        spec = tree["spec"]
        source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
        if source is not None and not _known_source(source):
            spec = without(spec, "dataSource")
        if ref is not None and ref.get("namespace") is not None:
            spec = without(spec, "dataSourceRef")
        tree = tree if spec is tree["spec"] else {**tree, "spec": spec}
        source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
        if source is not None and ref is None:
            copied = {key: source[key] for key in ("apiGroup", "kind", "name") if key in source}
            return {**tree, "spec": {**spec, "dataSourceRef": copied}}
        if ref is not None and source is None and "namespace" not in ref:
            copied = {key: ref[key] for key in ("apiGroup", "kind", "name") if key in ref}
            return {**tree, "spec": {**spec, "dataSource": copied}}
        return tree

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        new = with_status(new, old)
        was = old.get("spec") or {}
        return new if "dataSource" in was or "dataSourceRef" in was else self._source(new)

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        return claim_warnings(tree.get("spec") or {}, "spec")

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return rules.validate_claim_update(new, old, ctx.written("spec"))


def _known_source(source: Tree) -> bool:
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    return (group, kind) in (
        ("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"),
    )  # fmt: skip


class VolumeStrategy(Strategy):
    """Persistent volumes note when their phase changed."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        status = {"phase": "Pending", "lastPhaseTransitionTime": format_time(ctx.now)}
        return {**tree, "status": status}

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        return rules.validate_volume(tree, ctx.written("spec", "capacity"))

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return rules.validate_volume_update(new, old, ctx.written("spec"))

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return a status update of this kind with the fields that it cannot change."""
        new = with_status(new, old, "spec")
        status, was = new.get("status") or {}, old.get("status") or {}
        time, before = status.get("lastPhaseTransitionTime"), was.get("lastPhaseTransitionTime")
        if time is not None and time != before:
            return new
        time = before if status.get("phase") == was.get("phase") else format_time(ctx.now)
        if time is None:
            return new
        return {**new, "status": {**status, "lastPhaseTransitionTime": time}}


class EventStrategy(Strategy):
    """Events are kept for an hour and belong to no owner."""

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        return rules.validate_event(tree, ctx)

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return rules.validate_event_update(new, old, ctx)


class EndpointSliceStrategy(Strategy):
    """Endpoint slices count every change outside metadata, and label changes."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        tree = each(tree, "endpoints", lambda endpoint: without(endpoint, "deprecatedTopology"))
        return {**tree, "metadata": {**tree["metadata"], "generation": 1}}

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        if old is None and tree.get("addressType") == "FQDN":
            return ["spec.addressType: FQDN endpoints are deprecated"]
        return []

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        meta, was = new["metadata"], old["metadata"]
        changed = any(
            new.get(key) != old.get(key)
            for key in ("endpoints", "ports", "addressType")
        ) or meta.get("labels") != was.get("labels")  # fmt: skip
        # Counted before it is dropped, as upstream does.
        if not any("deprecatedTopology" in endpoint for endpoint in old.get("endpoints") or ()):
            new = each(new, "endpoints", lambda endpoint: without(endpoint, "deprecatedTopology"))
        if not changed:
            return new
        return {**new, "metadata": {**meta, "generation": was.get("generation", 0) + 1}}


class AttachmentStrategy(Strategy):
    """Volume attachments; a status update leaves the metadata alone."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return {**tree, "status": {"attached": False}}

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return a status update of this kind with the fields that it cannot change."""
        new = with_status(new, old, "spec")
        meta = {**old["metadata"]}
        if "managedFields" in new["metadata"]:
            meta["managedFields"] = new["metadata"]["managedFields"]
        meta["resourceVersion"] = new["metadata"].get("resourceVersion", "")
        return {**new, "metadata": meta}

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return rules.validate_attachment_update(new, old, ctx.written("spec"))
