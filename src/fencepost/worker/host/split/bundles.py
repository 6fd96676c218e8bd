"""Which splits share a Spark job and a transaction: small ones that wait together (docs/decisions/0017)."""

from collections.abc import Callable, Iterable, Iterator

from fencepost.api import Split

# The size of an ordinary file, so that a bundle takes no longer than one, and its plan takes Spark about a second.
_MOST_BYTES = 64 << 20
_MOST_SPLITS = 64


def bundles(splits: Iterable[Split], may_share: Callable[[Split], bool]) -> Iterator[tuple[Split, ...]]:
    """Yield the splits in their order, combining neighbours of known size that may share.

    A split that is empty, or larger than a bundle may be, is yielded alone.
    """
    bundle: list[Split] = []
    size = 0
    for split in splits:
        own = split.size_bytes or 0
        is_small = 0 < own < _MOST_BYTES and may_share(split)
        if bundle and (not is_small or size + own > _MOST_BYTES or len(bundle) == _MOST_SPLITS):
            yield tuple(bundle)
            bundle, size = [], 0
        if is_small:
            bundle.append(split)
            size += own
        else:
            yield (split,)
    if bundle:
        yield tuple(bundle)
