"""Labels, annotations, finalizers and field managers of Kueue.

Follows `pkg/constants`, `pkg/controller/constants` and `pkg/controller/jobs/pod/constants`.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "kueue.x-k8s.io"
VERSION: Final = "v1beta2"
API_VERSION: Final = f"{GROUP}/{VERSION}"

# -- labels ----------------------------------------------------------------------------------------
QUEUE: Final = "kueue.x-k8s.io/queue-name"
PREBUILT_WORKLOAD: Final = "kueue.x-k8s.io/prebuilt-workload-name"
"""Label, and annotation of the same name, that names a Workload made by the user."""
JOB_UID: Final = "kueue.x-k8s.io/job-uid"
PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
MAX_EXECUTION_TIME: Final = "kueue.x-k8s.io/max-exec-time-seconds"
MANAGED: Final = "kueue.x-k8s.io/managed"
"""Label of managed pods, and their finalizer."""
POD_SET: Final = "kueue.x-k8s.io/podset"
CLUSTER_QUEUE: Final = "kueue.x-k8s.io/cluster-queue-name"
LOCAL_QUEUE: Final = "kueue.x-k8s.io/local-queue-name"
TAS: Final = "kueue.x-k8s.io/tas"

# -- annotations -----------------------------------------------------------------------------------
ADMISSION_GATED_BY: Final = "kueue.x-k8s.io/admission-gated-by"
ELASTIC_JOB: Final = "kueue.x-k8s.io/elastic-job"
PRIORITY_BOOST: Final = "kueue.x-k8s.io/priority-boost"
ALLOWED_FLAVORS: Final = "kueue.x-k8s.io/workload-allowed-resource-flavors"
PROVISIONING_REQUEST_PREFIX: Final = "provreq.kueue.x-k8s.io/"
"""Prefix of annotations that become parameters of ProvisioningRequests."""
JOB_OWNER_GVK: Final = "kueue.x-k8s.io/job-owner-gvk"
JOB_OWNER_NAME: Final = "kueue.x-k8s.io/job-owner-name"
WORKLOAD: Final = "kueue.x-k8s.io/workload"
IS_GROUP_WORKLOAD: Final = "kueue.x-k8s.io/is-group-workload"
GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"
"""Label, and annotation of the same name, of a pod in a group."""
GROUP_TOTAL_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
GROUP_FAST_ADMISSION: Final = "kueue.x-k8s.io/pod-group-fast-admission"
GROUP_SERVING: Final = "kueue.x-k8s.io/pod-group-serving"
ROLE_HASH: Final = "kueue.x-k8s.io/role-hash"
RETRIABLE_IN_GROUP: Final = "kueue.x-k8s.io/retriable-in-group"
SUSPENDED_BY_PARENT: Final = "kueue.x-k8s.io/pod-suspending-parent"

# -- scheduling gates, finalizers, managers --------------------------------------------------------
ADMISSION_GATE: Final = "kueue.x-k8s.io/admission"
TOPOLOGY_GATE: Final = "kueue.x-k8s.io/topology"
IN_USE: Final = "kueue.x-k8s.io/resource-in-use"
"""Finalizer of cluster queues, flavors, admission checks and workloads."""
ADMISSION_MANAGER: Final = "kueue-admission"
RECLAIMABLE_PODS_MANAGER: Final = "kueue-reclaimable-pods"
PROVISIONING_CONTROLLER: Final = "kueue.x-k8s.io/provisioning-request"
"""Controller of admission checks, and the field manager of their states."""
JOB_CONTROLLER: Final = "kueue-job-controller"
DEFAULT_LOCAL_QUEUE: Final = "default"
DEFAULT_PRIORITY_CLASS: Final = "default"
