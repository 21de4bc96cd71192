"""The objects of a Kueue installation: its namespace, its kinds, its webhooks. Follows `config/default`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.client.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from controlplane.kueue.api.definitions import definitions
from controlplane.kueue.api.webhook_configurations import NAMESPACE, webhook_configurations

if TYPE_CHECKING:
    from controlplane.api.tree import Tree
    from controlplane.kueue.process.settings import Settings

REGISTRATION: Final = "admissionregistration.k8s.io"


def installation(settings: Settings, *, webhooks: bool = True) -> list[tuple[Resource[Any], Tree]]:
    """The objects with their resources, in the order of their creation.

    Args:
        settings: Kueue's configuration.
        webhooks: the world has Kueue's webhook server; without it no webhook is called, and versions that it would have
            to convert are not served.
    """
    namespace: Tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    hooks = [
        (Resource(REGISTRATION, "v1", f"{each['kind'].lower()}s"), each)
        for each in webhook_configurations(settings.frameworks, settings.custom)
    ]
    return [
        (NAMESPACES, namespace),
        *((CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions(converted=webhooks)),
        *(hooks if webhooks else ()),
    ]
