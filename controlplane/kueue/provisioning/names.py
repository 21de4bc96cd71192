"""Names of ProvisioningRequests and of their PodTemplates; the attempt that a name counts.

Follows `pkg/controller/admissionchecks/provisioning/provisioning.go`.
"""

from __future__ import annotations

import hashlib
from typing import Final

_LONGEST: Final = 253
_HASH: Final = 5
_PREFIX: Final = _LONGEST - 1 - _HASH


def _limited(name: str) -> str:
    """The name, or its beginning with a hash of it when it is too long."""
    if len(name) <= _PREFIX:
        return name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
    return f"{name[:_PREFIX]}-{digest[:_HASH]}"


def request_name(workload: str, check: str, attempt: int) -> str:
    """The name of an attempt's ProvisioningRequest."""
    return _limited(f"{workload}-{check}-{attempt}")


def template_name(request: str, pod_set: str) -> str:
    """The name of the PodTemplate of a pod set in a ProvisioningRequest."""
    return _limited(f"ppt-{request}-{pod_set}")


def attempt_of(request: str, workload: str, check: str) -> int | None:
    """The attempt in the name of a ProvisioningRequest, None if it is not one of this Workload and check."""
    prefix = _limited(f"{workload}-{check}-")
    number = request.removeprefix(prefix)
    if number == request or not (number.isascii() and number.isdigit()):
        return None
    return int(number)
