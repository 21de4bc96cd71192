"""What `logs why violation` tells of every race: the facts of the upstream issue, from the log alone, in fifteen lines.

A fact is found by what an event says and by who it is of, never by its step or version: schedules may change.
"""

from __future__ import annotations

import re

import pytest

from controlplane.logs import open_run
from controlplane.logs.violation import LINES
from controlplane.races import catalogue
from tests.races.findings import EACH_RACE, finding

CONTENT = r"VolumeSnapshotContent/snapcontent-\S+"
GROUP = "VolumeGroupSnapshot/default/daily"
FACTS: dict[str, tuple[str, ...]] = {
    "249": (
        r"deleted VolumeSnapshot/default/daily by user",
        r"updated VolumeSnapshot/default/daily by snapshot-controller.*it is gone",
        rf"deleted {CONTENT} by user",
    ),
    "261": (
        r"deleted VolumeSnapshot/default/daily by user",
        rf"deleted {CONTENT} by snapshot-controller",
        rf"{CONTENT} by csi-snapshotter.*it is gone",
    ),
    "283": (
        r"deleted PersistentVolumeClaim/default/data by user",
        r"DeleteVolume was answered OK",
        r"CreateSnapshot was answered NotFound",
    ),
    "360": (
        r"PersistentVolumeClaim/default/pvc-0 by snapshot-controller.*\+\S*pvc-as-source-protection",
        r"fault: crash snapshot-controller",
        r"deleted PersistentVolumeClaim/default/pvc-0 by user",
        r"cannot add finalizer",
    ),
    "581": (
        r"deleted VolumeSnapshot/default/first by user",
        r"created VolumeSnapshot/default/second by user",
    ),
    "651": (r"CreateSnapshot was answered Internal.*again, \d+ times",),
    "1216": (
        rf"deleted {GROUP} by user",
        r"found no volumegroupsnapshots default/daily .*again",
    ),
    "1224": (
        rf"deleted {GROUP} by user",
        r"deleted VolumeGroupSnapshotContent/groupsnapcontent-\S+ by user",
    ),
    "1231": (rf"deleted {GROUP} by user", r"DeleteSnapshot was answered OK"),
    "1302": (
        r"deleted VolumeSnapshot/default/daily by user",
        r"CreateSnapshot was answered OK",
        rf"deleted {CONTENT} by snapshot-controller",
    ),
    "1303": (
        r"deleted VolumeSnapshot/default/daily by user",
        r"DeleteSnapshot was answered OK",
        r"fault: lose csi-snapshotter and apiserver",
    ),
    "1339": (
        r"PersistentVolumeClaim/default/pvc-0 by snapshot-controller refused: 409 Conflict",
        r"deleted PersistentVolumeClaim/default/pvc-0 by user",
    ),
    "1354": (
        r"fault: crash snapshot-controller",
        r"refused: 409 AlreadyExists",
        r"resource name may not be empty",
    ),
    "1392": (
        r"CreateSnapshot was answered DeadlineExceeded",
        r"deleted VolumeSnapshot/default/daily by user",
        r"CreateSnapshot was answered OK",
    ),
    "1394": (
        r"csi-provisioner.*\+provisioner\S*as-source-protection",
        r"deleted VolumeSnapshot/default/daily by user",
        r"csi-provisioner.*-provisioner\S*as-source-protection",
    ),
    "1446": (
        rf"deleted {CONTENT} by user",
        r"csi-snapshotter: read \S+, version \d+.* - STALE",
    ),
    "1460": (
        rf"{CONTENT} by user.*it is gone",
        r"by snapshot-controller refused: 404 NotFound",
    ),
    "1461": (
        r"created VolumeGroupSnapshot/default/copy by user",
        r"GetVolumeGroupSnapshot was answered OK",
    ),
    "19858": (
        r"fault: crash controller-manager",
        r"heard of add of (ReplicaSet|Pod)/default/web.* - LATE",
        r"was asked by controller-manager: create pods",
    ),
    "26120": (
        r"deleted Secret/default/owner by user",
        r"Secret/default/owner by controller-manager.*it is gone",
        r"was asked by controller-manager: delete configmaps",
    ),
    "28886": (
        r"attempt \d+ for Pod/default/web-\d failed \(SchedulerError\)",
        r"skips Pod/default/web-\d: .*is assumed already",
    ),
    "29522": (
        r"created ConfigMap/default/db by user",
        r"fault: crash operator",
        r"operator: (read|heard of) .*(another incarnation|LATE)",
        r"was asked by operator: delete configmaps",
    ),
    "37725": (r"connects to apiserver-2", r"at version 0 by node was answered 404"),
    "49992": (
        r"fault: crash apiserver",
        r"created ConfigMap/default/[a-c] by user",
        r"watch configmaps at version \d+ by follower was answered 200",
    ),
    "59848": (
        r"deleted Pod/default/web-0 by statefulset",
        r"fault: restart node-1",
        r"node-1: heard of add of Pod/default/web-0.* - LATE",
        r"node-1: admits Pod/default/web-0",
    ),
    "67062": (
        r"controller-manager: found no persistentvolumeclaims default/data-\d",
        r"PersistentVolume/pv-\d by controller-manager.*status.phase",
        r"csi-provisioner: csi.DeleteVolume",
    ),
    "72259": (
        r"preempts default/low on node-1 for Pod/default/high",
        r"chose node-1 for Pod/default/thief",
    ),
    "79148": (
        r"deleted Pod/default/agent-node-1 by user",
        r"deleted Pod/default/agent-node-1 by node-1.*it is gone",
        r"created Pod/default/agent-node-1 by node-1",
    ),
    "81344": (
        r"node-1: gives CPUs \S+ to main of Pod/default/pin-\d",
        r"fault: restart node-1",
        r"node-1: takes CPUs \S+ back from main",
    ),
    "83911": (
        r"follower: heard of add of ConfigMap/default/[ab]",
        r"follower: heard of delete of ConfigMap/default/[ab]",
        r"follower: listed \d+ configmaps",
    ),
    "84578": (
        r"chose node-1 for Pod/default/web-\d",
        r"deleted Pod/default/web-\d by user.*it is gone",
        r"heard of delete of Pod/default/web-\d",
    ),
    "86015": (r"reflector.error", r"follower: listed \d+ configmaps"),
    "86320": (
        r"deleted Pod/default/web by user",
        r"created Pod/default/web by user",
        r"node-1: read Pod/default/web.*another incarnation, and it was used: patch pods/status: 200",
    ),
    "90377": (
        r"gives CPUs \S+ to main of Pod/default/pin-\d",
        r"takes CPUs \S+ back from main of Pod/default/pin-\d",
    ),
    "91073": (r"list configmaps at version \d+ by user was answered 504",),
    "92743": (
        r"get secrets owner by controller-manager was answered 404",
        r"deleted ConfigMap/default/one by controller-manager.*it is gone",
    ),
    "93044": (
        r"popped Pod/default/big-\d",
        r"found no Pod/default/big-\d; what had been popped.* - STALE",
        r"attempt 1 for Pod/default/big-\d failed",
    ),
    "96071": (
        r"popped Pod/default/web-\d",
        r"heard of update of Pod/default/web-\d",
    ),
    "96582": (
        r"fault: break scheduler and apiserver",
        r"bound Pod/default/web-\d to node-1",
        r"failed \(SchedulerError\)",
    ),
    "98829": (
        r"attempt 1 for Pod/default/big failed",
        r"patched Pod/default/big by user",
    ),
    "102498": (
        r"preempts default/low on node-1 for Pod/default/high",
        r"deleted Pod/default/high by user.*it is gone",
        r"attempt 1 for Pod/default/high failed",
    ),
    "103979": (
        r"gives CPUs \S+ to main of Pod/default/pod-\d",
        r"gives CPUs \S+ to other of Pod/default/pod-\d",
    ),
    "104577": (
        r"worker of Pod/default/batch-\d: terminating",
        r"chose node-1 for Pod/default/batch-\d",
        r"refuses Pod/default/batch-\d: .*enough resource: cpu",
    ),
    "104824": (
        r"deleted Pod/default/pin-\d by user.*it is gone",
        r"takes CPUs \S+ back from main of Pod/default/pin-\d",
    ),
    "104847": (
        r"worker of Pod/default/agent-node-1: terminating",
        r"admits Pod/default/agent-node-1",
    ),
    "105114": (
        r"gives CPUs \S+ to init of Pod/default/pin-\d",
        r"takes CPUs \S+ back from init",
        r"kubelet.fatal: .*overlaps with default cpuset",
    ),
    "105200": (
        r"metadata.finalizers\[-batch.kubernetes.io/job-tracking\]",
        r"was asked by controller-manager: update jobs/status",
    ),
    "105211": (
        r"PersistentVolumeClaim/default/data-\d by controller-manager.*it is gone",
        r"created PersistentVolumeClaim/default/data-\d by user",
        r"csi-provisioner: csi.DeleteVolume",
    ),
    "105527": (
        r"fault: restart node-1",
        r"worker of Pod/default/batch-\d: terminating",
        r"refuses Pod/default/batch-\d",
    ),
    "106102": (
        r"fault: cut apiserver and scheduler",
        r"deleted Pod/default/web by user.*it is gone",
        r"heard of delete of Pod/default/web.* - LATE",
    ),
    "106412": (
        r"fault: cut apiserver and scheduler",
        r"no longer assumes Pod/default/\S+ on node-1",
        r"bound Pod/default/\S+ to node-1 by scheduler",
    ),
    "106816": (
        r"preempts default/low on node-1 for Pod/default/high",
        r"deleted Node/node-1 by user",
        r"attempt 2 for Pod/default/high failed",
    ),
    "108366": (
        r"worker of Pod/default/batch-\d: terminating",
        r"refuses Pod/default/batch-\d",
    ),
    "109245": (
        r"bound Pod/default/high to node-2 by user",
        r"preempts default/low on node-1 for Pod/default/high.* - STALE",
    ),
    "109429": (
        r"deleted Pod/default/work-\S+ by user",
        r"deleted Job/default/work by user",
    ),
    "111773": (r"preempts default/low on node-2 for Pod/default/middle",),
    "115620": (
        r"fault: break follower and server",
        r"follower: listed \d+ configmaps",
        r"follower: heard of add of ConfigMap/default/[ab]",
    ),
    "122292": (
        r"created Node/node-2 by user",
        r"patched Node/node-2 by user.*changed spec.taints",
        r"attempt 1 for Pod/default/web failed",
    ),
    "123443": (r"fault: restart node-1", r"kubelet.fatal: \[memorymanager\]"),
    "123971": (
        r"fault: restart node-1",
        r"refuses Pod/default/mem-\d: Allocate failed",
    ),
    "125578": (r"popped Pod/default/big.* - STALE", r"patched Pod/default/big by user"),
    "126033": (
        r"patched \(resize\) Pod/default/\w+ by user.*resources.requests.cpu",
        r"main of Pod/default/\w+ has started",
    ),
    "126587": (
        r"deleted Namespace/shop by user",
        r"deletecollection networkpolicies",
    ),
    "126962": (
        r"deleted Pod/default/big by user",
        r"skips Pod/default/big: skip schedule deleting pod",
    ),
    "127016": (
        r"patched Pod/default/web by user",
        r"chose node-1 for Pod/default/web|popped Pod/default/web",
    ),
    "127074": (
        r"gives memory \d+ of memory from 0,1",
        r"kubelet.fatal: \[memorymanager\]",
    ),
    "128748": (
        r"failed \(SchedulerError\)",
        r"attempt \d for Pod/default/web-\d failed \(Unschedulable\)",
    ),
    "129334": (r"apiserver.oom", r"fault: crash apiserver"),
    "129532": (
        r"patched \(resize\) Pod/default/a by user",
        r"scheduler: heard of update of Pod/default/a",
    ),
    "130103": (
        r"Job/default/work by controller-manager",
        r"metadata.finalizers\[-batch.kubernetes.io/job-tracking\]",
        r"was asked by controller-manager: create pods",
    ),
    "131157": (
        r"patched \(resize\) Pod/default/a by user",
        r"status.conditions\[PodResizeInProgress\]",
    ),
    "132851": (
        r"patched \(resize\) Pod/default/web by user",
        r"status.conditions\[PodResizeInProgress\]",
    ),
    "134157": (
        r"chose node-1 for Pod/default/web-\d",
        r"deleted Pod/default/web-\d by user.*it is gone",
    ),
    "134730": (
        r"preempts default/low on node-1 for Pod/default/high",
        r"deleted Pod/default/low by scheduler",
    ),
    "135107": (
        r"patched \(resize\) Pod/default/[ab] by user",
        r"attempt \d for Pod/default/new-\d failed",
    ),
    "136508": (
        r"read Pod/default/misfit-\d.* - STALE|Pod/default/misfit-\d",
        r"refuses Pod/default/web-\d",
    ),
    "136605": (
        r"takes CPUs \S+ back",
        r"fault: crash node-1",
        r"kubelet.fatal: current set of available CPUs",
    ),
    "138036": (
        r"patched Deployment/default/web by user, .*changed spec.replicas",
        r"controller-manager refused: 409 Conflict",
    ),
    "138324": (
        r"deleted Pod/default/web-\d by user.*it is gone",
        r"created Pod/default/web-\d by user",
        r"read Pod/default/web-\d, .*; what had been popped has uid",
    ),
    "139162": (
        r"preempts default/web on node-1 for Pod/default/high",
        r"waiting on permit for pod: preempted",
        r"attempt 1 for Pod/default/high failed",
    ),
    "139450": (
        r"popped Pod/default/web",
        r"rejected due to timeout",
    ),
    "139884": (
        r"attempt 1 for Pod/default/big failed",
        r"patched Node/node-1 by user",
        r"popped Pod/default/big",
    ),
    "140000": (
        r"patched \(resize\) Pod/default/web-\d by user",
        r"attempt \d for Pod/default/web-\d failed",
    ),
    "140177": (
        r"attempt 1 for Pod/default/web failed",
        r"bound Pod/default/web to node-1",
        r"patched \(status\) Pod/default/web by scheduler.*conditions\[PodScheduled\]",
    ),
    "77952": (
        r"created ConfigMap/default/settings by user",
        r"deleted ConfigMap/default/settings by user",
        r"patched ConfigMap/default/settings by user.*it is gone",
    ),
    "141041": (
        r"gives CPUs \S+ to Pod/default/pod-\d",
        r"fault: restart node-1",
        r"refuses Pod/default/pod-\d: Allocate failed",
    ),
    "141255": (
        r"deleted Pod/default/web by user.*it is gone",
        r"heard of update of Pod/default/web, .*which had uid",
        r"fault: crash scheduler",
    ),
    "141645": (
        r"patched Pod/default/big by user",
        r"read Pod/default/big.* - STALE",
        r"attempt \d for Pod/default/big failed",
    ),
    "here1": (
        r"created ConfigMap/default/\w+ by user",
        r"patched ConfigMap/default/\w+ by user.*changed metadata.labels.age",
    ),
    "here2": (
        r"deleted Pod/default/a-\d by user.*it is gone",
        r"found no Pod/default/a-\d; what had been popped",
        r"created Pod/default/a-\d by user",
    ),
    "72155": (
        r"read DaemonSet/default/agent.* - STALE",
        r"deleted DaemonSet/default/agent by user",
        r"created Pod/default/agent-\w+ by controller-manager",
    ),
    "141568": (
        r"deleted Pod/default/web by user.*it is gone",
        r"created Pod/default/web by user",
        r"patched \(status\) Pod/default/web by controller-manager",
    ),
    "142294": (
        r"preempts default/low-\d",
        r"deleted Pod/default/low-\d by scheduler.*it is gone",
        r"delete pods Pod/default/low-\d by scheduler refused: 404 NotFound",
    ),
    "ep311": (
        r"deleted PersistentVolumeClaim/default/data by user",
        r"CreateVolume was answered OK",
    ),
    "ep679": (
        r"deleted PersistentVolume/pvc-\S+ by user",
        r"deleted PersistentVolumeClaim/default/data by user",
        r"PersistentVolume/pvc-\S+ by controller-manager.*it is gone",
    ),
    "ep1448": (
        r"deleted PersistentVolumeClaim/default/restored by user",
        r"CreateVolume was answered DeadlineExceeded",
    ),
    "here3": (
        r"fault: crash scheduler",
        r"bound Pod/default/more to node-\d by scheduler",
    ),
    "ca5235": (
        r"created Pod/default/late by user",
        r"Node/pool-2: nodes removed by cluster autoscaler",
        r"bound Pod/default/late to pool-2 by scheduler",
    ),
    "sp930": (
        r"deleted PodGroup/default/a by user",
        r"created Pod/default/a-0 by user",
    ),
    "ep1519": (
        r"csi-provisioner.*\+provisioner\S*as-source-protection",
        r"CreateVolume was answered Internal",
        r"deleted VolumeSnapshot/default/daily by user",
    ),
    "kq3612": (
        r"Workload/default/first by kueue\S*: evicted \(ClusterQueueStopped\)",
        r"fault: crash kueue",
    ),
    "kq10518": (
        r"Workload/default/first by kueue\S*: admitted in team",
        r"deleted Workload/default/first by user",
    ),
    "here12": (
        r"Workload/default/first by kueue\S*: evicted \(ClusterQueueStopped\)",
        r"crash kueue",
        r"Workload/default/first by kueue\S*: admitted in team",
    ),
    "kq11195": (
        r"patched Job/default/grows by user.*changed spec.parallelism",
        r"created Workload/default/job-grows-\w+ by kueue",
        r"crash kueue",
    ),
    "here13": (
        r"created Workload/default/grown by user",
        r"Workload/default/(grown|other) by kueue: admitted in (elastic|other)",
    ),
    "kq427": (
        r"created Workload/default/all by user",
        r"Workload/default/all by kueue: pending \(WaitingForQuota\)",
    ),
    "kq2362": (
        r"Workload/default/one by kueue: evicted \(ClusterQueueStopped\)",
        r"patched ClusterQueue/team by user",
        r"Workload/default/one by kueue: admitted in team",
    ),
    "kq7665": (
        r"created Workload/default/high by user",
        r"fault: crash apiserver",
        r"Workload/default/high by kueue: pending \(WaitingForPreemptedWorkloads\)",
    ),
    "kq7845": (
        r"patched Workload/default/big by user.*changed metadata.labels",
        r"patch workloads/status Workload/default/big by kueue refused: 409 Conflict",
    ),
    "kq9437": (
        r"created Workload/default/low by user",
        r"created Workload/default/high by user",
    ),
    "kq9598": (
        r"created Workload/default/big by user",
        r"heard of update of Workload/default/big",
    ),
    "kq9661": (
        r"patched Workload/default/late by user.*changed spec.priority",
        r"Workload/default/late by kueue: pending \(WaitingForQuota\)",
    ),
    "kq11014": (
        r"Workload/default/big by user: finished",
        r"heard of update of Workload/default/big",
    ),
    "kq11502": (
        r"created Workload/default/low by user",
        r"Workload/default/high by kueue: pending \(WaitingForPreemptedWorkloads\)",
    ),
    "here4": (
        r"Workload/default/[ab] by kueue: pending .*no longer fits after processing another workload",
        r"Workload/default/[ab] by kueue: admitted in (one|other): 1 pods of main use nothing",
    ),
    "here5": (
        r"created Workload/default/second by user",
        r"fault: crash apiserver",
    ),
    "here6": (
        r"Workload/default/one by user: admitted in team",
        r"Workload/default/one by user: evicted \(Deactivated\)",
    ),
    "here7": (
        r"patched Workload/default/late by user.*changed spec.priority",
        r"Workload/default/late by kueue: pending \(WaitingForQuota\)",
    ),
    "here9": (
        r"created Workload/default/orphan by user",
        r"Workload/default/orphan by kueue: finished \(OwnerNotFound\)",
        r"Workload/default/orphan by kueue: admitted in team",
    ),
    "here10": (
        r"created VolumeSnapshot/default/daily by user",
        r"deleted VolumeSnapshot/default/daily by user",
        rf"deleted {CONTENT} by snapshot-controller.*it is gone",
    ),
    "here11": (
        r"created Pod/default/keeper by user",
        r"deleted Pod/default/guest by user",
        r"worker of Pod/default/guest: terminating",
    ),
    "140527": (
        r"deleted Pod/default/first by user",
        r"created Pod/default/second by user",
        r"kubelet.claims Pod/default/second",
    ),
    "here14": (
        r"patched \(status\) Pod/default/old by user: Failed",
        r"node-1: admits Pod/default/new",
    ),
    "here8": (
        r"patched Workload/default/first by user.*changed spec.queueName",
        r"Workload/default/first by kueue: admitted in here",
        r"Workload/default/first by kueue: admitted in there",
    ),
}


def test_every_race_has_its_facts() -> None:
    assert FACTS.keys() == set(catalogue.numbers())


@pytest.mark.parametrize("number", EACH_RACE)
def test_the_violation_tells_the_story_of_the_race(number, tmp_path) -> None:
    campaign, found = finding(number)
    campaign.under(found.seed).save(tmp_path)
    told = open_run(tmp_path).why("violation")
    lines = [f"{each['actor']}: {each['what']}" for each in told["events"]]
    assert len(lines) <= LINES
    missing = [fact for fact in FACTS[number] if not any(re.search(fact, line) for line in lines)]
    assert not missing, "\n".join([told["ending"], *lines])
