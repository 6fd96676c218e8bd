"""How many tasks of a slot begin at the same moment."""

from fencepost.task.slot.start_queue import StartQueue


def test_a_few_begin_at_once_and_each_that_speaks_lets_another_in() -> None:
    queue = StartQueue(most=2)
    for name in "abcd":
        queue.put(name)
    assert queue.take(0.0) == ["a", "b"]
    assert queue.take(0.1) == []
    queue.done("b")
    assert queue.take(0.2) == ["c"]
    queue.done("a")
    queue.done("c")
    queue.done("c")
    assert queue.take(0.3) == ["d"]
    assert queue.take(0.4) == []


def test_one_that_takes_long_keeps_nobody_waiting_for_ever() -> None:
    queue = StartQueue(most=1, reserved_s=5.0)
    queue.put("slow")
    assert queue.take(0.0) == ["slow"]
    queue.put("next")
    assert queue.take(4.9) == []
    assert queue.take(5.0) == ["next"]
    queue.done("slow")
    assert queue.take(5.1) == []
