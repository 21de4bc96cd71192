"""What a request does, from the parsed request to the answer as an object.

    server      one API server: dispatch; `handle` at once, `steps` in parts
    routing     from an HTTP request to a request: paths, verbs, bodies
    reading, listing, watching (bookmarks too), writing, subresources: the verbs
    registry    create, update and delete over the store: read, admit, write if unchanged, again
    bodies      what clients send, as it is stored; what is stored, as clients ask for it
    admission, authorization, patching, managed: what a write passes through
    definitions custom resources come and go
    lookup      what a server knows of other objects

Handling is a generator of operations on the store (`storage.transactions`), and keeps nothing between them.
"""
