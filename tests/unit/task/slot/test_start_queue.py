"""How many tasks of a slot begin at the same moment."""

from fencepost.task.slot.slot import StartQueue


def test_start_queue_admits_a_few_and_one_more_per_started_task() -> None:
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


def test_slow_start_does_not_block_the_start_queue_for_ever() -> None:
    queue = StartQueue(most=1, reserved_s=5.0)
    queue.put("slow")
    assert queue.take(0.0) == ["slow"]
    queue.put("next")
    assert queue.take(4.9) == []
    assert queue.take(5.0) == ["next"]
    queue.done("slow")
    assert queue.take(5.1) == []
