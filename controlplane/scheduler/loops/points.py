"""Points of the scheduler at which another task may run first, each before what it names.

`TOUCHES` says what each point's region touches of what the tasks share, for searches over partial
orders (`Context.reads`): the queue ("queue"; "pops" is its count of cycles), the cache, what plugins
keep ("plugins"), what one scheduling cycle works on ("cycle": snapshot, columns), pods that wait in
Permit or PreBind ("bindings"), calls that wait ("calls"), reports that wait ("events"), and of each
informer "RESOURCE deltas", "RESOURCE store" and "RESOURCE told". What is read through a lister is noted
where it is read.

What upstream does under one lock, or without any, is one step; what it does under two is two. A
task that only goes on to its next lock region stays ahead in the default run (`Context.region`); where
upstream waits, it waits (`Context.point`, conditions, sleeps, requests).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

POINTS: Final[Mapping[str, str]] = {
    # the scheduling task
    "scheduler.queue.pop": "Pop (activeQ.lock): the next pod, or a wait for one",
    "scheduler.queue.wait": "Pop found nothing and is about to wait (gate 139884)",
    "scheduler.cycle.start": "skipPodSchedule reads the cache (cache.mu)",
    "scheduler.cycle.snapshot": "UpdateSnapshot (cache.mu)",
    "scheduler.cycle.pre-filter": "PreFilter plugins; again before each one that reads listers, but the first",
    "scheduler.cycle.filter": "Filter on all nodes; listers, and nominations under the queue's lock",
    "scheduler.cycle.post-filter": "PostFilter; listers, and nominations under the queue's lock",
    "scheduler.cycle.score": "PreScore and Score",
    "scheduler.cycle.assume": "AssumePod (cache.mu)",
    "scheduler.cycle.unnominate": "the assumed pod's nomination goes (nominator.nLock)",
    "scheduler.cycle.reserve": "Reserve plugins",
    "scheduler.cycle.permit": "Permit plugins",
    "scheduler.cycle.forget": "ForgetPod (cache.mu), after Unreserve",
    "scheduler.plugin.resync": "a plugin brings its cache up to date; again after each of its requests",
    "scheduler.plugin.nominations": "a PreFilter that has copied its quotas reads nominations, under the queue's lock",
    # a pod group's cycle, within the scheduling task
    "scheduler.group.collect": "the group's live state is read (cache.mu)",
    "scheduler.group.member": "PopSpecificPod (PriorityQueue.lock): the next sibling, wherever it waits",
    "scheduler.group.take": "within it: the sibling leaves the active queue (activeQ.lock)",
    "scheduler.group.try": "a member's own cycle begins, on the one snapshot",
    "scheduler.group.reserve": "Reserve plugins, for a member that is only tried",
    "scheduler.group.revert": "a member that was tried is taken back: Unreserve, nomination",
    "scheduler.group.rest": "a cycle came to nothing and no pod is active: the next one takes a moment (not upstream)",
    "scheduler.group.condition": "the PodGroup is read from the informer, then its status is patched",
    # the failure handler, in the scheduling task or in a binding task
    "scheduler.failure.read": "the pod is read from the informer by its name",
    "scheduler.failure.requeue": "AddUnschedulableIfNotPresent (PriorityQueue.lock)",
    "scheduler.queue.done": "within it: the pod can be popped, its flight ends next (activeQ.lock)",
    "scheduler.failure.nominate": "the nomination is recorded (nominator.nLock, reads the informer)",
    # a binding task
    "scheduler.bind.start": "the binding cycle begins",
    "scheduler.permit.wait": "WaitOnPermit",
    "scheduler.bind.done": "Done (activeQ.lock), before PreBind",
    "scheduler.prebind.wait": "are the volumes bound? once a second",
    "scheduler.prebind.claims": "the claims of a pod are written, one after the other",
    "scheduler.prebind.retry": "a write of a claim that conflicted is tried again in 10 ms",
    "scheduler.prebind.patch": "a patch of the pod's status that failed is tried again",
    "scheduler.prebind.appears": "is the new claim in the assume cache? once a second",
    "scheduler.prebind.conditions": "binding conditions of the devices are looked at",
    "scheduler.prebind.poll": "they do not hold yet: another look in five seconds",
    # what the plugins for devices share: each of these has a lock of its own
    "scheduler.claims.gather": "a part of the devices in use is read (allocatedDevices.mutex, inFlightMutex)",
    "scheduler.claims.assume": "the answer of a write is assumed (assume cache's lock)",
    "scheduler.claims.landed": "an allocation is no longer in flight (inFlightMutex)",
    "scheduler.claims.restore": "the assume cache goes back to the informer's object",
    "scheduler.claims.event": "a handler is told of a change of the assume cache, outside of its lock",
    "scheduler.claims.emit": "another task tells the handlers: wait for it",
    "scheduler.slices.read": "a slice and the rules of its devices' taints are read from their informers",
    "scheduler.slices.store": "the patched slice is stored (its store's lock)",
    "scheduler.bind.again": "a bind call whose answer was lost is made again (form asked-again of 96582)",
    "scheduler.bind.undo": "Unreserve after a failure",
    "scheduler.bind.freed": "MoveAll (PriorityQueue.lock): others hear of the freed room",
    # operations that hold the queue's lock
    "scheduler.queue.lock": "PriorityQueue.lock is held by another task: wait for it",
    "scheduler.queue.moved": "a pod was moved and can be popped; the rest of the operation follows",
    "scheduler.queue.activate": "Activate (PriorityQueue.lock)",
    # informers; one listener per resource, each at its own pace
    "informer.notify": "a listener takes the next notification and makes its handler's first call",
    "scheduler.informer.cache": "a handler's further call on the cache (cache.mu)",
    "scheduler.informer.queue": "a handler's further call on the queue (PriorityQueue.lock)",
    "scheduler.informer.reject": "a handler rejects a pod that waits in Permit (waitingPodsMap.mu)",
    # the API dispatcher (feature gate SchedulerAsyncAPICalls)
    "scheduler.api.queue": "wait for a call (callQueue.lock)",
    "scheduler.api.execute": "a call's own task begins to make it",
    "scheduler.api.wait": "a binding waits until its call is over",
    "scheduler.panic": "a plugin panicked: the process ends here",
    # timers
    "scheduler.flush.backoff": "flushBackoffQCompleted (PriorityQueue.lock)",
    "scheduler.flush.unschedulable": "flushUnschedulablePodsLeftover (PriorityQueue.lock)",
    "scheduler.cache.expire": "assumed pods whose time is up (cache.mu); only without fix 106412",
    # evictions
    "scheduler.preemption.start": "nominations of less important pods are cleared, then victims evicted",
    "scheduler.preemption.evict": "the last victim is about to be evicted (gate 134730)",
    "scheduler.preemption.finish": "the preemptor is held back no longer",
}

_QUEUE = (("plugins", "pops"), ("queue",))
_CACHE = ((), ("cache",))
TOUCHES: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "scheduler.cycle.snapshot": (("cache",), ("cycle",)),
    "scheduler.cycle.pre-filter": (("plugins",), ("cycle",)),
    "scheduler.plugin.resync": ((), ("plugins",)),
    "scheduler.plugin.nominations": (("plugins", "queue"), ("cycle",)),
    "scheduler.cycle.filter": (("plugins", "queue"), ("cycle",)),
    "scheduler.cycle.post-filter": (("queue",), ("cycle", "plugins")),
    "scheduler.cycle.score": (("plugins", "queue"), ("cycle",)),
    "scheduler.cycle.assume": _CACHE,
    "scheduler.cycle.unnominate": ((), ("queue",)),
    "scheduler.cycle.reserve": ((), ("cycle", "plugins")),
    "scheduler.cycle.permit": ((), ("cycle", "plugins", "bindings")),
    "scheduler.cycle.forget": _CACHE,
    "scheduler.group.collect": (("cache",), ("queue",)),
    "scheduler.group.member": _QUEUE,
    "scheduler.group.take": ((), ("queue", "pops")),
    "scheduler.group.try": (("plugins", "queue", "pops"), ("cycle",)),
    "scheduler.group.reserve": ((), ("cycle", "plugins")),
    "scheduler.group.revert": ((), ("cycle", "plugins", "queue")),
    "scheduler.failure.requeue": _QUEUE,
    "scheduler.queue.done": _QUEUE,
    "scheduler.bind.undo": ((), ("cycle", "plugins")),
    "scheduler.prebind.claims": ((), ("plugins",)),
    "scheduler.prebind.appears": ((), ("plugins",)),
    "scheduler.prebind.conditions": (("plugins",), ()),
    "scheduler.claims.gather": (("plugins",), ("cycle",)),
    "scheduler.claims.assume": ((), ("plugins",)),
    "scheduler.claims.landed": ((), ("plugins",)),
    "scheduler.claims.restore": ((), ("plugins",)),
    "scheduler.claims.event": (("pops",), ("plugins", "queue")),
    "scheduler.claims.emit": ((), ("plugins",)),
    "scheduler.slices.read": (("plugins",), ()),
    "scheduler.slices.store": ((), ("plugins",)),
    "scheduler.bind.freed": _QUEUE,
    "scheduler.queue.lock": _QUEUE,
    "scheduler.queue.moved": _QUEUE,
    "scheduler.queue.activate": _QUEUE,
    "scheduler.informer.cache": (("cache",), ()),
    "scheduler.informer.queue": _QUEUE,
    "scheduler.informer.reject": ((), ("bindings",)),
    "scheduler.flush.backoff": _QUEUE,
    "scheduler.flush.unschedulable": _QUEUE,
    "scheduler.cache.expire": _CACHE,
}
"""By point: what its region reads and what it writes, besides what the code around it says."""
