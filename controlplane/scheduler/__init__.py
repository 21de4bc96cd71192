"""The scheduler: where pods wait, how a node is found for one, and what happens to both afterwards.

Rooms, from the lowest to the highest; each imports only those before it:

    state       the picture of the cluster: cache, snapshot, node and pod infos, listers
    columns     the same picture as one array per quantity, for answers about all nodes at once
    framework   what a plugin is: extension points, statuses, events, and running a profile's plugins
    queue       where pods wait, and what moves them
    plugins     the in-tree plugins, one module each, and the registry that names them
    cycle       one attempt: searching, scoring, assuming, binding, failing, explaining
    config      KubeSchedulerConfiguration, feature gates, plugins of users
    loops       what runs: informers, the scheduling loop, binding cycles, evictions, timers

`scheduler` holds the memory all that works on, `eventhandlers` what changes of the cluster do to it.
"""
