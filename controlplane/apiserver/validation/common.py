"""The rules of all kinds but workloads, services and pods, under one name."""

from __future__ import annotations

from controlplane.apiserver.validation.core import *  # noqa: F403
from controlplane.apiserver.validation.policies import *  # noqa: F403
from controlplane.apiserver.validation.storage import *  # noqa: F403
