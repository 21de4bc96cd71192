"""Kueue as a process of a world: caches, handlers of events, work queues, and the scheduler's task."""
