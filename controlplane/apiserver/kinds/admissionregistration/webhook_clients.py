"""Validation of the addresses of webhooks. Upstream: apiserver pkg/util/webhook/validation.go."""

from __future__ import annotations

from urllib.parse import urlsplit

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import when
from controlplane.apiserver.schema.field_errors import FieldError, invalid, required

__all__ = ["validate_client"]


def validate_client(config: Tree, path: str) -> list[FieldError]:
    """Return the errors of a webhook's address: a URL or a service of the cluster."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if url is not None:
        return _url(url, f"{path}.url")
    return _service(service or {}, f"{path}.service")


def _url(url: str, path: str) -> list[FieldError]:
    """Upstream: apiserver pkg/util/webhook/validation.go."""
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{form}")]
    errors = []
    if parts.scheme != "https":
        text = f"'https' is the only allowed URL scheme{form}"
        errors.append(invalid(path, parts.scheme, text))
    errors += when(not parts.netloc, invalid, path, parts.netloc, f"host must be specified{form}")
    problem = "user information is not permitted in the URL"
    errors += when(parts.username is not None, invalid, path, "User", problem)
    errors += when(
        parts.fragment, invalid, path, parts.fragment, "fragments are not permitted in the URL"
    )
    errors += when(
        parts.query, invalid, path, parts.query, "query parameters are not permitted in the URL"
    )
    return errors


def _service(service: Tree, path: str) -> list[FieldError]:
    """Upstream's callers hand over name and namespace the wrong way round: each is missed as the other."""
    errors = when(not service.get("namespace"), required, f"{path}.name")
    errors += when(not service.get("name"), required, f"{path}.namespace")
    port = service.get("port", 443)
    text = ", ".join(names.port_number(port))
    errors += when(text, invalid, f"{path}.port", port, f"port is not valid: {text}")
    route = service.get("path")
    if not route or route == "/":
        return errors
    place = f"{path}.path"
    if route == "//":
        return [*errors, invalid(place, route, "segment[0] may not be empty")]
    errors += when(not route.startswith("/"), invalid, place, route, "must start with a '/'")
    for index, step in enumerate(route[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(place, route, f"segment[{index}] may not be empty"))
            continue
        errors += [
            invalid(place, route, f"segment[{index}]: {text}") for text in names.dns_subdomain(step)
        ]
    return errors
