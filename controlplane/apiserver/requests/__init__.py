"""Handling of requests, from the parsed request to the answer as an object.

    server      one API server: dispatch; `handle` at once, `steps` in parts
    routing     from an HTTP request to a request: paths, verbs, bodies
    reading, listing, watching (bookmarks too), writing, subresources: the verbs
    registry    create, update and delete over the store: read, admit, write if unchanged, again
    bodies      conversion between bodies and stored objects
    admission, authorization, patching, managed: the stages of a write
    definitions custom resources that begin and cease to be served
    lookup      a server's view of other objects

Handling is a generator of operations on the store (`storage.transactions`), and keeps nothing between them.
"""
