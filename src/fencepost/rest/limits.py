"""What a caller may ask for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """`body_bytes` of a request, and its `requests_per_s`; 0: any number."""

    body_bytes: int = 16 * 1024 * 1024
    requests_per_s: int = 0


NO_LIMITS = Limits()
