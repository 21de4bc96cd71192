"""The API server: everything between a request and the stored object.

    storage    the multi-version store, its encoded values, each server's view of it, watch caches
    schema     the shape of objects: types, resources, reading, printing, field errors
    kinds      rules of single kinds: strategies, defaults, validation, tables, custom resources
    requests   handling of requests: registry, admission, authorization, patching, apply, listing, watching
    front      between HTTP and a request: negotiation, rendering, discovery, OpenAPI
    http       the HTTP boundary: authentication, bodies as bytes, recorded input of the world
    loops      the running parts: actors and tasks of servers and store, connections
    options    settings of an API server

Dependencies point downwards: loops and http use front, front uses requests, requests use kinds, kinds use schema.
"""
