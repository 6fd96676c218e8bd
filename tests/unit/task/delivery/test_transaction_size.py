"""How large transactions may be so that they are over in their time."""

from fencepost.task.delivery.transaction_size import TransactionSize

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


def test_quick_transactions_grow_to_what_a_broker_answers_at_most() -> None:
    made, went = through(100 * MIB, poll_bytes=50 * MIB, times=5)
    assert all(went)
    assert made.limit_bytes >= 50 * MIB


def test_no_link_is_so_slow_that_transactions_fail_for_ever() -> None:
    for rate in (5_000.0, 20_000.0, 100_000.0, 500_000.0, 2e6):
        made, went = through(rate, poll_bytes=50 * MIB, times=30)
        assert all(went[6:]), rate
        assert made.limit_bytes <= rate * TIMEOUT_S


def test_small_transactions_say_nothing_of_how_fast_a_link_is() -> None:
    made = sizes()
    before = made.limit_bytes
    for _ in range(10):
        made.committed(1_000, 0.01)
    assert made.limit_bytes == before


def test_one_that_failed_early_is_no_larger_than_it_may_be() -> None:
    made = sizes()
    assert not made.failed(MIB, 1.0)
    assert not made.is_at_end


def test_what_cannot_be_smaller_is_known() -> None:
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


def test_what_is_as_small_as_it_becomes_is_not_made_smaller_for_ever() -> None:
    """A transaction is full with the batch that reaches the limit, so it is a little larger."""
    made = sizes()
    for _ in range(10):
        made.failed(made.limit_bytes + 1_000, TIMEOUT_S)
    assert made.is_at_end
