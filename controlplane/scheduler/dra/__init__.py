"""Dynamic resource allocation: the choice of devices for the claims of a pod on one node.

`pools` gathers what the drivers published, `requests` reads the claims, `allocator` searches, with `constraints`,
`counters` and `capacity` to say which devices may go together, and `results` writes down what was found. `devices` has
the names of devices and what is allocated already, `features` the switches; `claims` finds the claims of a pod and
the devices that they hold, `hints` the changes that pods wait for. Everything here is pure: it takes and
gives plain trees (JSON objects) of the API group resource.k8s.io/v1.
Upstream: staging/src/k8s.io/dynamic-resource-allocation/structured.
"""
