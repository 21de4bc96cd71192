"""Priority classes."""

from __future__ import annotations

from typing import ClassVar

import attrs

from controlplane.api.view import View


@attrs.frozen(eq=False)
class PriorityClass(View):
    """A named priority."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1"
    KIND: ClassVar[str] = "PriorityClass"

    description: str = ""
    global_default: bool = False
    preemption_policy: str | None = None
    value: int = 0
