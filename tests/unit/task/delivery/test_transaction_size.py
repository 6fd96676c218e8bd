"""How large transactions may be so that they are over in their time."""

from fencepost.task.delivery.lanes import TransactionSize

MIB = 1 << 20
TIMEOUT_S = 60.0


def sizes() -> TransactionSize:
    return TransactionSize(TIMEOUT_S)


def through(rate: float, *, poll_bytes: int, times: int) -> tuple[TransactionSize, list[bool]]:
    """Send transactions over a link of `rate` bytes a second; each as large as allowed, or as what is polled is."""
    made, went = sizes(), []
    for _ in range(times):
        size = min(made.limit_bytes, poll_bytes)
        took_s = size / rate
        if took_s >= TIMEOUT_S:
            made.failed(size, TIMEOUT_S)
        else:
            made.committed(size, took_s)
        went.append(took_s < TIMEOUT_S)
    return made, went


def test_quick_transactions_grow_to_the_largest_poll() -> None:
    made, went = through(100 * MIB, poll_bytes=50 * MIB, times=5)
    assert all(went)
    assert made.limit_bytes >= 50 * MIB


def test_transactions_shrink_until_they_succeed_on_a_slow_link() -> None:
    for rate in (5_000.0, 20_000.0, 100_000.0, 500_000.0, 2e6):
        made, went = through(rate, poll_bytes=50 * MIB, times=30)
        assert all(went[6:]), rate
        assert made.limit_bytes <= rate * TIMEOUT_S


def test_small_transactions_do_not_change_the_size_limit() -> None:
    made = sizes()
    before = made.limit_bytes
    for _ in range(10):
        made.committed(1_000, 0.01)
    assert made.limit_bytes == before


def test_early_failure_of_a_transaction_is_not_blamed_on_its_size() -> None:
    made = sizes()
    assert not made.failed(MIB, 1.0)
    assert not made.is_at_end


def test_transaction_that_cannot_shrink_further_is_recognised() -> None:
    made = sizes()
    assert made.failed(4 * made.limit_bytes, TIMEOUT_S)  # nobody has heeded the limit: one record, or one poll
    assert made.is_at_end
    made = sizes()
    made.failed(1_000, TIMEOUT_S)  # so little takes no such time
    assert made.is_at_end
    made = sizes()
    made.failed(made.limit_bytes, TIMEOUT_S)
    assert not made.is_at_end
    made.committed(MIB, 1.0)
    assert not made.is_at_end


def test_transaction_at_its_smallest_size_is_not_shrunk_for_ever() -> None:
    """A transaction is full with the batch that reaches the limit, so it is a little larger."""
    made = sizes()
    for _ in range(10):
        made.failed(made.limit_bytes + 1_000, TIMEOUT_S)
    assert made.is_at_end
