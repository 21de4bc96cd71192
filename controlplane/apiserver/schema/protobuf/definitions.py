"""Definitions of custom resources in protobuf: their messages by number, and schemas, which are special.

In a schema JSON stands as text inside messages, and some fields are a schema or something else. Upstream:
apiextensions-apiserver pkg/apis/apiextensions/v1/{generated.proto,types_jsonschema.go,marshal.go}.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LISTED", "PACKAGE", "RULE", "SCHEMA"]

PACKAGE: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_LISTED: Final = {
    "CustomResourceColumnDefinition":
        "~name=1 ~type=2 ~format=3 ~description=4 ~priority=5 ~jsonPath=6",
    "CustomResourceConversion": "~strategy=1 webhook=2",
    "CustomResourceDefinition": "~metadata=1 ~spec=2 ~status=3",
    "CustomResourceDefinitionCondition":
        "~type=1 ~status=2 ~lastTransitionTime=3 ~reason=4 ~message=5 ~observedGeneration=6",
    "CustomResourceDefinitionList": "~metadata=1 items=2",
    "CustomResourceDefinitionNames":
        "~plural=1 ~singular=2 shortNames=3 ~kind=4 ~listKind=5 categories=6",
    "CustomResourceDefinitionSpec":
        "~group=1 ~names=3 ~scope=4 versions=7 conversion=9 ~preserveUnknownFields=10",
    "CustomResourceDefinitionStatus":
        "conditions=1 ~acceptedNames=2 storedVersions=3 ~observedGeneration=4",
    "CustomResourceDefinitionVersion":
        "~name=1 served=2 storage=3 schema=4 subresources=5 additionalPrinterColumns=6 ~deprecated=7 "
        "deprecationWarning=8 selectableFields=9",
    "CustomResourceSubresourceScale":
        "~specReplicasPath=1 ~statusReplicasPath=2 labelSelectorPath=3",
    "CustomResourceSubresources": "status=1 scale=2",
    "CustomResourceValidation": "openAPIV3Schema=1",
    "SelectableField": "~jsonPath=1",
    "ServiceReference": "~namespace=1 ~name=2 path=3 port=4",
    "WebhookClientConfig": "service=1 caBundle=2 url=3",
    "WebhookConversion": "clientConfig=2 conversionReviewVersions=3",
}  # fmt: skip
LISTED: Final = {PACKAGE.removeprefix("io.k8s.") + name: fields for name, fields in _LISTED.items()}
"""Fields by number, in the form of the table of the other types."""

_FORMS: Final = {
    "text": "id=1 $schema=2 $ref=3 description=4 type=5 format=6 title=7 pattern=15 "
            "x-kubernetes-list-type=42 x-kubernetes-map-type=43",
    "json": "default=8 example=36",
    "real": "maximum=9 minimum=11 multipleOf=19",
    "flag": "exclusiveMaximum=10 exclusiveMinimum=12 uniqueItems=18 nullable=37 "
            "x-kubernetes-embedded-resource=39 x-kubernetes-int-or-string=40",
    "told": "x-kubernetes-preserve-unknown-fields=38",
    "whole": "maxLength=13 minLength=14 maxItems=16 minItems=17 maxProperties=21 minProperties=22",
    "jsons": "enum=20",
    "texts": "required=23 x-kubernetes-list-map-keys=41",
    "schema": "not=28",
    "schemas": "allOf=25 oneOf=26 anyOf=27",
    "named": "properties=29 patternProperties=31 definitions=34",
    "array": "items=24",
    "bool": "additionalProperties=30 additionalItems=33",
    "strings": "dependencies=32",
    "docs": "externalDocs=35",
    "rules": "x-kubernetes-validations=44",
}  # fmt: skip
SCHEMA: Final[dict[int, tuple[str, str]]] = {
    int(entry.rpartition("=")[2]): (form, entry.rpartition("=")[0])
    for form, entries in _FORMS.items()
    for entry in entries.split()
}
"""Of the fields of a schema by number: their form, and their name in JSON."""
RULE: Final = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
"""The fields of a rule of a schema, by number from 1."""
