"""CustomResourceDefinitions: defaults and validation.

Upstream: apiextensions-apiserver pkg/apis/apiextensions/{v1/defaults,validation/validation}.go and
pkg/apiserver/schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from controlplane.api.equality import first_by_value
from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import immutable
from controlplane.apiserver.kinds.custom.columns import reading_cost
from controlplane.apiserver.kinds.custom.conversion_rules import conversion_errors
from controlplane.apiserver.kinds.custom.formats import is_recognized
from controlplane.apiserver.kinds.custom.internal_versions import internal_part
from controlplane.apiserver.kinds.custom.schema_rules import schema_errors
from controlplane.apiserver.kinds.custom.version_parts import deprecation_errors, selectable_errors
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Context, Strategy, same
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    Raw,
    invalid,
    not_supported,
    required,
)
from controlplane.apiserver.schema.json_values import json_text
from controlplane.apiserver.schema.work import spend

__all__ = ["FINALIZER", "KIND", "DefinitionStrategy", "condition", "with_condition"]

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_APPROVAL = "api-approved.kubernetes.io"
_SEE = "https://github.com/kubernetes/enhancements/pull/1111"
_DUMPED = (
    "Name",
    "Served",
    "Storage",
    "Deprecated",
    "DeprecationWarning",
    "Schema",
    "Subresources",
    "AdditionalPrinterColumns",
    "SelectableFields",
)
_PART_NAMES = {
    "schema": "Schema",
    "subresources": "Subresources",
    "additionalPrinterColumns": "AdditionalPrinterColumns",
    "selectableFields": "SelectableFields",
}


def condition(kind: str, value: str, reason: str, message: str, now: int) -> Tree:
    """A condition of a definition."""
    return {
        "type": kind,
        "status": value,
        "lastTransitionTime": format_time(now),
        "reason": reason,
        "message": message,
    }


def with_condition(state: Tree, new: Tree) -> Tree:
    """The status with one condition set."""
    kept = [item for item in state.get("conditions") or () if item["type"] != new["type"]]
    return {**state, "conditions": [*kept, new]}


class DefinitionStrategy(Strategy):
    """The rules of CustomResourceDefinitions."""

    def defaults(self, tree: Tree, old: Tree | None) -> Tree:
        """Names derived from the kind, and no conversion."""
        spec = tree.get("spec") or {}
        given = spec.get("names") or {}
        kind = given.get("kind", "")
        filled = dict(given)
        if not filled.get("singular"):
            filled["singular"] = kind.lower()
        if not filled.get("listKind") and kind:
            filled["listKind"] = f"{kind}List"
        if not filled["singular"]:
            del filled["singular"]
        conversion = _with_port(spec.get("conversion") or {"strategy": "None"})
        if filled == given and conversion is spec.get("conversion"):
            return tree
        return {**tree, "spec": {**spec, "names": filled, "conversion": conversion}}

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """A new definition serves nothing yet."""
        storage = [v["name"] for v in tree["spec"].get("versions") or () if v.get("storage")][:1]
        state = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": storage or None,
        }
        meta = {**tree["metadata"], "generation": 1}
        return {**tree, "metadata": meta, "status": state}

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """The version that objects are stored in is remembered."""
        new = super().prepare_update(ctx, new, old)
        if same(new, old, "spec"):
            return new
        state = new.get("status") or {}
        stored = list(state.get("storedVersions") or ())
        storage = [v["name"] for v in new["spec"].get("versions") or () if v.get("storage")][:1]
        if not storage or storage[0] in stored:
            return new
        return {**new, "status": {**state, "storedVersions": [*stored, *storage]}}

    def begin_delete(self, ctx: Context, tree: Tree) -> Tree | None:
        """The first deletion only marks: instances go first."""
        meta = tree["metadata"]
        if "deletionTimestamp" in meta:
            return None
        finalizers = meta.get("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers = [*finalizers, FINALIZER]
        marked = {**meta, "deletionTimestamp": format_time(ctx.now), "finalizers": finalizers}
        text = (
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        )
        new = condition("Terminating", "True", "InstanceDeletionPending", text, ctx.now)
        state = with_condition(tree.get("status") or {}, new)
        return {**tree, "metadata": marked, "status": state}

    def name_rule_of(self, tree: Tree) -> Callable[[str], names.Problems]:
        """Return the rule that a definition is named by its plural and its group."""
        spec = tree["spec"]
        wanted = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"
        text = 'must be spec.names.plural+"."+spec.group'
        return lambda name: (*names.dns_subdomain(name), *(() if name == wanted else (text,)))

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Everything that can be wrong with a definition."""
        spec = tree["spec"]
        errors = _spec_errors(_as_written(ctx, spec))
        return errors + _state_errors(tree) + _approval_errors(tree) + _unknown_fields(spec)

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """Formats that nothing validates are named."""
        known: set[str] = set()
        for version in (old or {}).get("spec", {}).get("versions") or ():
            known.update(_formats((version.get("schema") or {}).get("openAPIV3Schema")))
        found: list[str] = []
        for version in tree["spec"].get("versions") or ():
            found += _formats((version.get("schema") or {}).get("openAPIV3Schema"))
        return [
            f'unrecognized format "{form}"' for form in dict.fromkeys(found) if form not in known
        ]

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """The same but for the name, and what must not change once resources are served."""
        spec, was = new["spec"], old["spec"]
        given, before = spec.get("names") or {}, was.get("names") or {}
        conditions = (old.get("status") or {}).get("conditions") or ()
        served = any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
        errors = _spec_errors(_as_written(ctx, spec), was, served=served)
        if served:
            errors += immutable(spec.get("scope", ""), was.get("scope", ""), "spec.scope")
            errors += immutable(given.get("kind", ""), before.get("kind", ""), "spec.names.kind")
        errors += immutable(spec.get("group", ""), was.get("group", ""), "spec.group")
        errors += immutable(given.get("plural", ""), before.get("plural", ""), "spec.names.plural")
        errors += _state_errors(new)
        if _approval(new)[0] != _approval(old)[0]:
            errors += _approval_errors(new)
        return errors if was.get("preserveUnknownFields") else errors + _unknown_fields(spec)

    def validate_status_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of a status update of this kind."""
        return _accepted_errors(new)


def _with_port(conversion: Tree) -> Tree:
    """Return a conversion whose webhook's service has a port, 443 unless given."""
    webhook = conversion.get("webhook") or {}
    client = webhook.get("clientConfig") or {}
    service = client.get("service")
    if service is None or service.get("port") is not None:
        return conversion
    client = {**client, "service": {**service, "port": 443}}
    return {**conversion, "webhook": {**webhook, "clientConfig": client}}


def _as_written(ctx: Context, spec: Tree) -> Tree:
    """The spec with a list of versions where one was written without items."""
    return {**spec, "versions": []} if ctx.written("spec", "versions") == [] else spec


def _state_errors(tree: Tree) -> list[FieldError]:
    versions = (tree.get("spec") or {}).get("versions") or []
    return _accepted_errors(tree) + _stored_errors(tree.get("status") or {}, versions)


def _accepted_errors(tree: Tree) -> list[FieldError]:
    names_of = (tree.get("status") or {}).get("acceptedNames") or {}
    return _name_forms(names_of, "status.acceptedNames")


def _unknown_fields(spec: Tree) -> list[FieldError]:
    if not spec.get("preserveUnknownFields"):
        return []
    text = (
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        "spec.versions[*].schema instead"
    )
    return [invalid("spec.preserveUnknownFields", True, text)]


def _formats(schema: Any) -> list[str]:
    """Return the formats in a schema that validation does not know, in order."""
    if not isinstance(schema, dict):
        return []
    found = [] if is_recognized(schema) else [schema["format"]]
    for _, inner in sorted((schema.get("properties") or {}).items()):
        found += _formats(inner)
    for key in ("items", "additionalProperties"):
        found += _formats(schema.get(key))
    return found


def _labels(text: str, path: str) -> list[FieldError]:
    found = names.dns_1035_label(text)
    return [invalid(path, text, ",".join(found))] if found else []


def _hoisted(versions: list[Tree], key: str) -> bool:
    """Return whether upstream's internal form keeps a part once for all versions."""
    first = versions[0].get(key) if versions else None
    return all(version.get(key) == first for version in versions)


def _dumped(given: list[Tree] | None) -> Raw:
    versions = given or []
    out = []
    hoisted = {key: _hoisted(versions, key) for key in _PART_NAMES}
    for version in versions:
        shown: Tree = dict.fromkeys(_DUMPED)
        shown.update(
            Name=version.get("name", ""),
            Served=version.get("served", False),
            Storage=version.get("storage", False),
            Deprecated=version.get("deprecated", False),
            DeprecationWarning=version.get("deprecationWarning"),
        )
        for key, name in _PART_NAMES.items():
            if not hoisted[key]:
                shown[name] = internal_part(key, version.get(key))
        out.append(shown)
    return Raw(json_text(out if given is not None else None))


def _spec_errors(spec: Tree, was: Tree | None = None, *, served: bool = False) -> list[FieldError]:
    """Return the errors of a spec; `was` is the one before an update."""
    errors: list[FieldError] = []
    group = spec.get("group", "")
    if not group:
        errors.append(required("spec.group"))
    else:
        found = names.dns_subdomain(group)
        if found:
            errors.append(invalid("spec.group", group, ",".join(found)))
        elif "." not in group:
            errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    scope = spec.get("scope", "")
    if scope not in ("Cluster", "Namespaced"):
        errors.append(
            required("spec.scope")
            if not scope
            else not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
        )
    loose = bool(spec.get("preserveUnknownFields"))
    errors += _version_errors(spec.get("versions"), loose=loose)
    errors += _name_errors(spec.get("names") or {})
    errors += _common_errors(spec.get("versions") or [])
    conversion = spec.get("conversion") or {}
    if loose and conversion.get("strategy") != "None":
        text = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid("spec.conversion.strategy", conversion.get("strategy", ""), text))
    return errors + conversion_errors(conversion, (was or {}).get("conversion"), served=served)


def _version_errors(given: list[Tree] | None, *, loose: bool) -> list[FieldError]:
    """Return the errors of versions; with `loose` schemas, fields that these do not know are kept."""
    errors: list[FieldError] = []
    versions = given or []
    for index, version in enumerate(versions):
        if version.get("schema", {}).get("openAPIV3Schema") is None:
            errors.append(required(f"spec.versions[{index}].schema.openAPIV3Schema"))
    if loose and any(_has_default(version.get("schema")) for version in versions):
        text = "must be false in order to use defaults in the schema"
        errors.append(invalid("spec.preserveUnknownFields", True, text))
    hoisted = {key: _hoisted(versions, key) for key in ("schema", *(key for key, _ in _CHECKS))}
    for index, version in enumerate(versions):
        errors += _labels(version.get("name", ""), f"spec.versions[{index}].name")
        errors += deprecation_errors(version, f"spec.versions[{index}].deprecationWarning")
        for key, check in _CHECKS:
            if hoisted[key]:
                continue
            where = f"spec.versions[{index}].{key}"
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            if key == "selectableFields" and (hoisted["schema"] or schema is None):
                # A schema that all versions share stands elsewhere in the internal form.
                if version.get(key):
                    text = "may only be set when `version.schema.openAPIV3Schema` is not included"
                    errors.append(invalid(where, "", text))
                continue
            errors += check(version, where)
    if len({version.get("name") for version in versions}) != len(versions):
        errors.append(invalid("spec.versions", _dumped(given), "must contain unique version names"))
    if sum(1 for version in versions if version.get("storage")) != 1:
        text = "must have exactly one version marked as storage version"
        errors.append(invalid("spec.versions", _dumped(given), text))
    if versions:
        errors += _labels(versions[0].get("name", ""), "spec.version")
    return errors


_NAMED = ("properties", "patternProperties", "definitions", "dependencies")


def _has_default(schema: Any) -> bool:
    """Return whether a schema, or one within it, has a default."""
    if isinstance(schema, list):
        return any(map(_has_default, schema))
    if not isinstance(schema, dict):
        return False
    named = [inner for key in _NAMED for inner in (schema.get(key) or {}).values()]
    others = [inner for key, inner in schema.items() if key not in _NAMED]
    return schema.get("default") is not None or any(map(_has_default, [*named, *others]))


def _common_errors(versions: list[Tree]) -> list[FieldError]:
    """Return the errors of parts that all versions share: upstream keeps them once, and checks them last."""
    errors: list[FieldError] = []
    for key, check in _CHECKS if versions else ():
        if not _hoisted(versions, key):
            continue
        if key == "schema":
            # What one version's status allows, the schema that all share may hold.
            states = [
                v for v in versions if (v.get("subresources") or {}).get("status") is not None
            ]
            shown = {**(states or versions)[0], "schema": versions[0].get("schema") or {}}
            errors += check(shown, "spec.validation")
        else:
            errors += check(versions[0], f"spec.{key}")
    return errors


def _name_errors(given: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    errors += [
        required(f"spec.names.{key}")
        for key in ("plural", "singular", "kind", "listKind")
        if not given.get(key)
    ]
    return errors + _name_forms(given, "spec.names")


def _name_forms(given: Tree, path: str) -> list[FieldError]:
    """The names that are there, each by itself."""
    errors: list[FieldError] = []
    mixed = "may have mixed case, but should otherwise match: "
    for key in ("plural", "singular"):
        if given.get(key):
            errors += _labels(given[key], f"{path}.{key}")
    for key in ("kind", "listKind"):
        if given.get(key):
            problems = names.dns_1035_label(given[key].lower())
            if problems:
                errors.append(invalid(f"{path}.{key}", given[key], mixed + ",".join(problems)))
    for index, short in enumerate(given.get("shortNames") or ()):
        errors += _labels(short, f"{path}.shortNames[{index}]")
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        text = "kind and listKind may not be the same"
        errors.append(invalid(f"{path}.listKind", given["listKind"], text))
    for index, category in enumerate(given.get("categories") or ()):
        errors += _labels(category, f"{path}.categories[{index}]")
    return errors


def _stored_errors(state: Tree, versions: list[Tree]) -> list[FieldError]:
    stored = state.get("storedVersions")
    path = "status.storedVersions"
    if not stored:
        return [invalid(path, None, "must have at least one stored version")]
    errors = []
    left = list(stored)
    spend(len(left) * len(versions) >> 6)
    for version in versions:
        name = version.get("name", "")
        if version.get("storage") and name not in left:
            errors.append(invalid(path, stored, f"must have the storage version {name}"))
        if name in left:
            left.remove(name)
    places = first_by_value(stored)
    errors += [
        invalid(f"{path}[{places[name]}]", name, "must appear in spec.versions") for name in left
    ]
    return errors


def _approval(tree: Tree) -> tuple[str, str]:
    """Return the state of the approval of a community-owned name, and the annotation's value."""
    value: str = (tree["metadata"].get("annotations") or {}).get(_APPROVAL, "")
    if not value:
        return "missing", value
    if value.startswith("unapproved"):
        return "bypassed", value
    try:
        url = urlsplit(value)
    except ValueError:
        return "invalid", value
    return "approved" if url.scheme and url.netloc else "invalid", value


def _approval_errors(tree: Tree) -> list[FieldError]:
    group = tree["spec"].get("group", "")
    protected = group.endswith((".k8s.io", ".kubernetes.io")) or group in (
        "k8s.io",
        "kubernetes.io",
    )
    if not protected:
        return []
    state, value = _approval(tree)
    path = f"metadata.annotations[{_APPROVAL}]"
    if state == "missing":
        text = f'protected groups must have approval annotation "{_APPROVAL}", see {_SEE}'
        return [required(path, text)]
    if state != "invalid":
        return []
    text = (
        f'protected groups must have approval annotation "{_APPROVAL}" with either a URL or a '
        f'reason starting with "unapproved", see {_SEE}'
    )
    return [invalid(path, value, text)]


# -- parts of a version --------------------------------------------------------------------------


def _subresource_errors(version: Tree, path: str) -> list[FieldError]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return []
    errors = []
    for key, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = scale.get(key, "")
        if not value:
            errors.append(required(f"{path}.scale.{key}"))
        elif not value.startswith(root):
            text = f"should be a json path under {root[:-1]}" if value[0] == "." else _SIMPLE_PATH
            errors.append(invalid(f"{path}.scale.{key}", value, text))
    selector = scale.get("labelSelectorPath", "")
    if selector and not selector.startswith((".spec.", ".status.")):
        text = "should be a json path under either .spec or .status"
        if selector[0] != ".":
            text = _SIMPLE_PATH
        errors.append(invalid(f"{path}.scale.labelSelectorPath", selector, text))
    return errors


_SIMPLE_PATH = "must be a simple json path starting with ."
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def _column_errors(version: Tree, path: str) -> list[FieldError]:
    errors = []
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        here = f"{path}[{index}]"
        if not column.get("name"):
            errors.append(required(f"{here}.name"))
        kind = column.get("type", "")
        if not kind:
            errors.append(required(f"{here}.type", f"must be one of {','.join(_COLUMN_TYPES)}"))
        elif kind not in _COLUMN_TYPES:
            text = f"must be one of {','.join(_COLUMN_TYPES)}"
            errors.append(invalid(f"{here}.type", kind, text))
        form = column.get("format", "")
        if form and form not in _COLUMN_FORMATS:
            text = f"must be one of {','.join(_COLUMN_FORMATS)}"
            errors.append(invalid(f"{here}.format", form, text))
        target = column.get("jsonPath", "")
        spend(reading_cost(target))
        if not target:
            errors.append(required(f"{here}.JSONPath"))
        elif not target.startswith("."):
            errors.append(invalid(f"{here}.JSONPath", target, _SIMPLE_PATH))
    return errors


def _schema_errors(version: Tree, path: str) -> list[FieldError]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        return []
    status = (version.get("subresources") or {}).get("status") is not None
    return schema_errors(schema, f"{path}.openAPIV3Schema", status=status)


_CHECKS = (
    ("schema", _schema_errors),
    ("subresources", _subresource_errors),
    ("additionalPrinterColumns", _column_errors),
    ("selectableFields", selectable_errors),
)


KIND = Kind(
    strategy=DefinitionStrategy(
        generation=True, standard_finalizers=False, unconditional_update=False
    )
)
