"""References of configs to values that are kept elsewhere, and how they are looked up.

`Providers` are those that a worker's file declares; `look_up` replaces the references of one config. Every process that
needs values looks them up itself, with its own files and environment. Between processes, configs keep their references.
Invariant: E11 (what was looked up is a secret, and no text shows it).
"""

from fencepost.reference.providers import LookedUp, Providers, is_of_providers, providers_of

__all__ = ["LookedUp", "Providers", "is_of_providers", "providers_of"]
