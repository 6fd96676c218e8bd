"""The pages at `/ui`, for people with a browser: rendered here, with nothing from elsewhere.

Core types: `Visit` (a request for a page: its caller, the REST requests that answer it, the page), `Watch` (the last
hour of figures, for plots), and pure functions that make of REST's answers what a page shows (`overview`, `series`,
`lineage`, `config`).

Invariants: a page knows only what REST answers to its own caller; requests within the process go through the same
routes, roles and forwarding (`inside`). No page needs JavaScript, and none has a script or style of its own: the policy
forbids both. A form without its token changes nothing.
"""
