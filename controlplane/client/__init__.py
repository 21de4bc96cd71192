"""The components' view of the API server: clientset, reflector, informer, work queue.

The tasks are in `loops`: `clientset` (requests), `reflector` and `informer`; the other modules decide
without a runtime.
"""
