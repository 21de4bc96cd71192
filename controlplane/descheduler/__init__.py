"""The descheduler: finds pods that would better run elsewhere and asks the API server to evict them.

Follows sigs.k8s.io/descheduler of release 0.36. All modules here decide; none of them awaits anything.
"""
