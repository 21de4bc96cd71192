"""The rules of all kinds but workloads, services and pods, under one name."""

from __future__ import annotations

from controlplane.apiserver.kinds.validation.addresses import *  # noqa: F403
from controlplane.apiserver.kinds.validation.admission import *  # noqa: F403
from controlplane.apiserver.kinds.validation.claims import *  # noqa: F403
from controlplane.apiserver.kinds.validation.core import *  # noqa: F403
from controlplane.apiserver.kinds.validation.device_claim_status import *  # noqa: F403
from controlplane.apiserver.kinds.validation.device_slices import *  # noqa: F403
from controlplane.apiserver.kinds.validation.dynamic_resources import *  # noqa: F403
from controlplane.apiserver.kinds.validation.endpoints import *  # noqa: F403
from controlplane.apiserver.kinds.validation.events import *  # noqa: F403
from controlplane.apiserver.kinds.validation.flow_control import *  # noqa: F403
from controlplane.apiserver.kinds.validation.nodes import *  # noqa: F403
from controlplane.apiserver.kinds.validation.persistent_volumes import *  # noqa: F403
from controlplane.apiserver.kinds.validation.policies import *  # noqa: F403
from controlplane.apiserver.kinds.validation.quotas import *  # noqa: F403
from controlplane.apiserver.kinds.validation.registration import *  # noqa: F403
from controlplane.apiserver.kinds.validation.storage import *  # noqa: F403
