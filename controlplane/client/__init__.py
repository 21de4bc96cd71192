"""The components' view of the API server: clientset, reflector, informer, work queue.

Loops stand in `clientset` (calls) and `informer` (reflector, processor, listeners); the rest
decides without a runtime.
"""
