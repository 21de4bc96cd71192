"""Which containers have a log, and what kubectl prints for those that have none."""

import pytest

from controlplane.apiserver.requests.pod_logs import check_has_log
from controlplane.apiserver.schema.status import ApiError

ENDED = {"terminated": {"exitCode": 1, "containerID": "containerd://1"}}
NEVER_MADE = {"terminated": {"exitCode": 137}}


def waiting(reason):
    return {"waiting": {"reason": reason}}


def pod(state, last=None, *, where="containerStatuses", initial=()):
    told = {"name": "c", "state": state, "lastState": last or {}}
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c"}], "initContainers": list(initial)},
        "status": {where: [told]} if state is not None else {},
    }


@pytest.mark.parametrize(
    ("state", "last", "previous"),
    [
        ({"running": {}}, None, False),
        ({"running": {}}, ENDED, True),
        (ENDED, None, False),
        (NEVER_MADE, ENDED, False),
        (waiting("CrashLoopBackOff"), ENDED, False),
        (waiting("CrashLoopBackOff"), ENDED, True),
    ],
)
@pytest.mark.parametrize(
    "where", ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]
)
def test_what_runs_or_ran_has_a_log(state, last, previous, where):
    check_has_log(pod(state, last, where=where), "c", previous=previous)


@pytest.mark.parametrize(
    ("state", "last", "previous", "message"),
    [
        ({"running": {}}, None, True, 'previous terminated container "c" in pod "p" not found'),
        (ENDED, None, True, 'previous terminated container "c" in pod "p" not found'),
        (NEVER_MADE, None, False, 'container "c" in pod "p" is terminated'),
        (
            waiting("CreateContainerConfigError"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: CreateContainerConfigError',
        ),
        (
            waiting("ErrImagePull"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: image can\'t be pulled',
        ),
        (
            waiting("ImagePullBackOff"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
        (None, None, False, 'container "c" in pod "p" is waiting to start: ContainerCreating'),
        ({}, None, False, 'container "c" in pod "p" is waiting to start - no logs yet'),
    ],
)
def test_what_never_ran_has_none_and_the_reason_is_told(state, last, previous, message):
    with pytest.raises(ApiError) as found:
        check_has_log(pod(state, last), "c", previous=previous)
    assert (found.value.code, found.value.message) == (400, message)


def test_a_pod_that_nobody_began_with_waits_for_its_init_containers():
    with pytest.raises(ApiError, match="waiting to start: PodInitializing"):
        check_has_log(pod(None, initial=[{"name": "i"}]), "c")
