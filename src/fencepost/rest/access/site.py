"""Pages of other sites: what a browser sends for them, with the user's password, certificate or place in the network.

Programs other than browsers send none of the headers that are compared here.
"""

from starlette.datastructures import Headers

_OWN = ("same-origin", "none")


def is_of_own_site(headers: Headers) -> bool:
    """Return whether a request comes from a page of this worker, from its user directly, or from no browser.

    A browser says which site a page is of, except to plain http on other machines. It then still names the page's
    origin, at least for what is no GET. A proxy that gives the worker another `Host` passes on the one that it was
    called by; a page cannot add that header to a request to another site without asking first (CORS).
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in _OWN
    called = (headers.get("host", ""), *headers.get("x-forwarded-host", "").split(","))
    return origin is None or origin.partition("://")[2].lower() in {each.strip().lower() for each in called if each}
