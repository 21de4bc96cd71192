"""The API server: everything between a request and what is stored.

    storage    the multi-version store, values that ask it, what a server has heard of it, watch caches
    schema     what an object may look like: types, resources, reading, printing, field errors
    kinds      what is special to a kind: strategies, defaults, validation, tables, custom resources
    requests   what a request does: registry, admission, authorization, patching, apply, listing, watching
    front      between HTTP and a request: negotiation, rendering, discovery, OpenAPI
    http       the rim: who asks, bodies as bytes, what enters the world
    loops      how it lives: the actors and tasks of servers and store, connections
    options    what may be set

Arrows point downwards: loops and http ask front, front asks requests, requests ask kinds, kinds ask schema.
"""
