"""A cache that forgets: what was not used for long, and what is old."""

from fencepost.builtin.converter.registry.client import Cache


def test_registry_cache_evicts_the_least_recently_used_entry() -> None:
    cache: Cache[int] = Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)


def test_registry_cache_recomputes_an_expired_value() -> None:
    now = [0.0]
    cache: Cache[float] = Cache(9, ttl_s=10, clock=lambda: now[0])
    assert cache.get_or("a", lambda: now[0]) == 0
    now[0] = 9.9
    assert cache.get_or("a", lambda: now[0]) == 0
    now[0] = 10.0
    assert cache.get_or("a", lambda: now[0]) == 10
