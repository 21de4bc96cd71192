"""Parts of kubernetes-sigs/scheduler-plugins beside the scheduler: its custom kinds, its controllers, node reports.

The plugins themselves are in `controlplane.scheduler.community`.
"""
