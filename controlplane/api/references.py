"""References from one object to another."""

from __future__ import annotations

import attrs


@attrs.frozen
class LocalObjectReference:
    """A name in the namespace of the referring object."""

    name: str = ""


@attrs.frozen
class ObjectReference:
    """A full reference; events use it for the object they are about."""

    api_version: str = ""
    field_path: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    uid: str = ""


@attrs.frozen
class SecretReference:
    """A secret by name and namespace."""

    name: str = ""
    namespace: str = ""


@attrs.frozen
class TypedLocalObjectReference:
    """A kind and name in the namespace of the referring object."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


@attrs.frozen
class TypedObjectReference:
    """A kind and name, possibly in another namespace."""

    api_group: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
