from fencepost.rest.access.guard import Attempts


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_address_may_guess_a_few_times_and_then_once_per_refill_interval() -> None:
    clock = Clock()
    attempts = Attempts(most=3, refill_s=2.0, now_s=clock)
    for _ in range(3):
        assert attempts.wait_s("a") == 0
        attempts.count("a")
    assert attempts.wait_s("a") == 2
    assert attempts.wait_s("b") == 0
    clock.now_s += 2.0
    assert attempts.wait_s("a") == 0
    attempts.count("a")
    assert attempts.wait_s("a") == 2
    clock.now_s += 100.0
    for _ in range(3):
        assert attempts.wait_s("a") == 0
        attempts.count("a")


def test_many_addresses_do_not_use_memory_without_bound() -> None:
    attempts = Attempts()
    for number in range(11_000):
        attempts.count(str(number))
    assert len(attempts._free_at) == 10_000
