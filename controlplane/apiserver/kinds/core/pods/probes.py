"""Rules of probes and of the handlers of a lifecycle."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import non_negative, one_of, present, problems, when
from controlplane.apiserver.kinds.core.pods.environment import PodScope
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    required,
)

__all__ = ["port_or_name", "validate_handler", "validate_probe"]

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def validate_handler(handler: Tree, scope: PodScope, path: str) -> list[FieldError]:
    """Return the errors of a probe's or a hook's action: exactly one is given."""
    errors: list[FieldError] = []
    found = 0
    for key in _HANDLERS:
        action = handler.get(key)
        if action is None:
            continue
        place = f"{path}.{key}"
        if found:
            errors.append(forbidden(place, "may not specify more than 1 handler type"))
            continue
        found += 1
        if key == "exec":
            errors += present(action, "command", place)
        elif key == "httpGet":
            errors += _http_get(action, place)
        elif key == "tcpSocket":
            errors += port_or_name(action.get("port", 0), f"{place}.port")
        elif key == "grpc":
            port = action.get("port", 0)
            errors += problems(f"{place}.port", port, names.port_number(port))
        else:
            errors += _sleep(action.get("seconds", 0), scope, place)
    return errors + when(not found, required, path, "must specify a handler type")


def _sleep(seconds: int, scope: PodScope, path: str) -> list[FieldError]:
    if scope.grace is None:
        return []
    if 0 <= seconds <= scope.grace:
        return []
    text = f"must be non-negative and less than terminationGracePeriodSeconds ({scope.grace})"
    return [invalid(path, seconds, text)]


def port_or_name(port: int | str | None, path: str) -> list[FieldError]:
    """A port by number or by name."""
    port = 0 if port is None else port
    texts = names.port_name(port) if isinstance(port, str) else names.port_number(port)
    return problems(path, port, texts)


def _http_get(action: Tree, path: str) -> list[FieldError]:
    errors = present(action, "path", path)
    errors += port_or_name(action.get("port", 0), f"{path}.port")
    scheme = action.get("scheme", "")
    errors += one_of(scheme, f"{path}.scheme", ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders") or ():
        name = header.get("name", "")
        errors += problems(f"{path}.httpHeaders", name, names.http_header(name))
    return errors


_COUNTS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def validate_probe(probe: Tree, scope: PodScope, path: str, key: str) -> list[FieldError]:
    """Return the errors of a probe."""
    errors = validate_handler({k: v for k, v in probe.items() if k in _HANDLERS}, scope, path)
    for name in _COUNTS:
        value = probe.get(name, 0)
        errors += non_negative(value, f"{path}.{name}")
    grace = probe.get("terminationGracePeriodSeconds")
    errors += when(
        grace is not None and grace <= 0,
        invalid,
        f"{path}.terminationGracePeriodSeconds",
        grace,
        "must be greater than 0",
    )
    if key == "readinessProbe":
        text = "must not be set for readinessProbes"
        errors += when(
            grace is not None, invalid, f"{path}.terminationGracePeriodSeconds", grace, text
        )
    elif probe.get("successThreshold", 0) != 1:
        text = "must be 1"
        errors.append(invalid(f"{path}.successThreshold", probe.get("successThreshold", 0), text))
    return errors
