"""POST, PUT, PATCH and DELETE of objects and of their subresources."""

from __future__ import annotations

from functools import partial

from controlplane.api.object import Object
from controlplane.api.request import Response
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.deletion import DeleteOptions
from controlplane.apiserver.kinds.names import path_segment
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.admission.chain import Admission
from controlplane.apiserver.requests.bodies import Bodies, admitted_owners, identified
from controlplane.apiserver.requests.managed.applying import Apply
from controlplane.apiserver.requests.managed.ordinary import track
from controlplane.apiserver.requests.options import check_write_options, delete_options
from controlplane.apiserver.requests.patching.apply_patch import check_media_type, patched
from controlplane.apiserver.requests.registries import Registries
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.empty_bytes import forgotten
from controlplane.apiserver.schema.raw_extension import compact
from controlplane.apiserver.storage.transactions import Live, Steps

__all__ = ["Writer"]

APPLY = "application/apply-patch"


class Writer:
    """Writes objects, over the registries of one server."""

    def __init__(self, registries: Registries, bodies: Bodies, admission: Admission) -> None:
        self.registries = registries
        self.bodies = bodies
        self._admission = admission
        self._apply = Apply(registries, bodies, admission)

    def create(self, ctx: Context) -> Steps[Response]:
        """POST."""
        ctx.dry_run = check_write_options(ctx.request)
        wanted = self.bodies.missing(ctx)
        if wanted is not None:
            yield from self.bodies.fetch(ctx, wanted)
        tree = self.bodies.new_object(ctx, ctx.request.body)
        made = yield from self.registries.of(ctx.info).create(ctx, tree)
        obj = self.bodies.external(ctx.info, made)
        return Response(201, obj.tree, obj, warnings=ctx.warnings or [])

    def update(self, ctx: Context) -> Steps[Response]:
        """PUT."""
        ctx.dry_run = check_write_options(ctx.request)
        obj, created = yield from self.update_object(ctx)
        return Response(201 if created else 200, obj.tree, obj, warnings=ctx.warnings or [])

    def update_object(self, ctx: Context, sub: str = "") -> Steps[tuple[Object, bool]]:
        """A PUT of an object or of its status; answers the object and whether it is new."""
        request, info = ctx.request, ctx.info
        registry = self.registries.of(info)
        found: Live | None = None
        if not path_segment(request.name):  # others are refused where the key is made
            found = yield registry.reading(request.namespace, request.name)
        old = found.object.tree if found is not None else None
        body = self.bodies.read(ctx, request.body, old)
        body = self.bodies.check_identity(ctx, body)
        uid = body["metadata"].get("uid", "")

        def transform(current: Tree) -> Tree:
            return self._admission.mutate(ctx, track(ctx, body, current, sub), current)

        create = None
        if registry.strategy.create_on_update and registry.strategy.creates_on_update(sub):
            create = partial(self._new_object, ctx)
        obj, created = yield from registry.update(
            ctx,
            request.namespace,
            request.name,
            transform,
            sub=sub,
            create=create,
            uid=uid,
            found=found,
        )
        return self.bodies.external(info, obj), created

    def _new_object(self, ctx: Context) -> Steps[Tree]:
        wanted = self.bodies.missing(ctx)
        if wanted is not None:
            yield from self.bodies.fetch(ctx, wanted)
        return self.bodies.new_object(ctx, ctx.request.body)

    def patch(self, ctx: Context) -> Steps[Response]:
        """PATCH, and server-side apply."""
        apply = ctx.request.content_type.startswith(APPLY)
        ctx.dry_run = check_write_options(ctx.request, apply=apply)
        obj, created = yield from self.patch_object(ctx)
        return Response(201 if created else 200, obj.tree, obj, warnings=ctx.warnings or [])

    def patch_object(self, ctx: Context, sub: str = "") -> Steps[tuple[Object, bool]]:
        """A PATCH of an object or of its status; answers the object and whether it is new."""
        request, info = ctx.request, ctx.info
        registry = self.registries.of(info)
        if request.content_type.startswith(APPLY):
            return (yield from self._apply.apply(ctx, sub))
        check_media_type(ctx)
        found: Live | None = yield registry.reading(request.namespace, request.name)
        if found is None:
            raise status.not_found(info, request.name)

        def transform(current: Tree) -> Tree:
            shown = compact(info.kind, self.bodies.external(info, Object(current)).tree)
            shown = forgotten(info.kind, shown)
            tree = patched(self.bodies, ctx, shown, current)
            tree = identified(ctx, tree)
            tree = self._admission.mutate(ctx, track(ctx, tree, current, sub), current)
            return admitted_owners(ctx, tree)

        obj, created = yield from registry.update(
            ctx, request.namespace, request.name, transform, sub=sub, found=found
        )
        return self.bodies.external(info, obj), created

    def delete(self, ctx: Context) -> Steps[Response]:
        """DELETE of one object; answers as the kind does."""
        options = delete_options(ctx.request)
        ctx.dry_run = options.dry_run
        return self.delete_object(ctx, options)

    def delete_object(self, ctx: Context, options: DeleteOptions) -> Steps[Response]:
        """Delete one object with these options."""
        request, info = ctx.request, ctx.info
        registry = self.registries.of(info)
        registry.strategy.warn_delete(ctx, options)
        obj, gone = yield from registry.delete(ctx, request.namespace, request.name, options)
        if gone and not registry.strategy.returns_deleted:
            details: Tree = {"name": obj.name, "kind": info.resource, "uid": obj.uid}
            if info.group:
                details["group"] = info.group
            return Response(200, status.success(details), warnings=ctx.warnings or [])
        obj = self.bodies.external(info, obj)
        code = 202 if not gone and options.orphan is False else 200
        return Response(code, obj.tree, obj, warnings=ctx.warnings or [])
