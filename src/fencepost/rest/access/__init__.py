"""Who may do what: callers of the REST API, how they prove who they are, and their roles.

Core types: `Principal` and `Role` (`principal`), `Authenticator` (one for each scheme of the Authorization header),
`Rules` (who has which role for which connectors), `Caller` (what handlers ask), `Access` (all of it, made from the
worker's file by `access_of`), `Guard` (the layer of the application that finds the caller of each request).

Invariants: roles are decided here and nowhere else; the CLI and every page of a UI only call REST. A path that the
table in `need` does not have is refused. Whether a connector exists does not change the answer to a caller who may not
see it.
"""
