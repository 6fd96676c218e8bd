"""How a writer opens, aborts and closes; and which calls its state forbids."""

import gc
import threading
import time
from pathlib import Path

import pytest

from fencepost.kafka.setting.table import BATCH
from fencepost.testing import eventually
from fencepost.transaction import CommitUnknownError, WriterTimeouts
from fencepost.transaction.writer import IllegalMoveError, WriterState
from support.clients import column, only_librdkafka
from support.proxy import Action, ApiKey
from support.timing import fastest_s


def test_an_abort_right_after_the_first_produce_never_fails(make_writer, after_abort, topic, committed):
    """librdkafka's issue 4849: the abort may overtake the first produce, which the broker then refuses."""
    writer = make_writer()
    writer.open()
    replaced = 0
    for n in range(200):
        before = writer
        writer.send(topic, b"%d" % n)
        writer.abort()
        writer = after_abort(writer)
        replaced += writer is not before
    writer.send(topic, b"last")
    writer.commit()
    assert committed(topic) == [b"last"]
    assert replaced < 100


def _close_took_s(writer, proxy, topic, is_reachable, count):
    writer.open()
    for _ in range(2):  # where a new topic's leader says at first that it is none, the topic is asked for again
        writer.send(topic, b"0")
        writer.flush()
    if not is_reachable:
        proxy.pause()
    writer.send_columns(*column(topic, [b"x" * 100] * count))
    started = time.monotonic()
    writer.close()
    took_s = time.monotonic() - started
    proxy.resume()
    assert writer.state is WriterState.CLOSED
    return took_s


@pytest.mark.parametrize("is_reachable", [True, False], ids=["broker there", "broker gone"])
def test_close_returns_at_once_with_records_queued(make_writer, client, proxy, topic, committed, is_reachable):
    count = 1_000 if client == BATCH and not is_reachable else 100_000  # its batches are sent by whoever fills them
    transactional_id = f"closed-{topic}"

    def close_s() -> float:
        writer = make_writer(transactional_id, bootstrap=proxy.bootstrap_servers)
        return _close_took_s(writer, proxy, topic, is_reachable, count)

    below_s = 0.1 if is_reachable else 1.0  # sending takes longer, or waiting for what is gone
    assert fastest_s(close_s, below_s=below_s, tries=10) < below_s
    make_writer(transactional_id).open()
    assert committed(topic) == []


def _client_threads() -> set[str]:
    """Return the ids of the threads of all clients."""
    names = {task.name: Path(f"/proc/self/task/{task.name}/comm") for task in Path("/proc/self/task").iterdir()}
    return {id_ for id_, name in names.items() if name.exists() and name.read_text().startswith("rdk:")}


@only_librdkafka
def test_close_ends_the_client_while_its_error_is_still_being_handled(make_writer, proxy, topic):
    """The error's traceback must not keep the client alive: it would go on sending its EndTxn (E6)."""
    gc.collect()
    before = eventually(lambda: [_client_threads()])[0]  # a thread may end while its name is read
    writer = make_writer(bootstrap=proxy.bootstrap_servers, timeouts=WriterTimeouts(commit_s=0.5))
    writer.open()
    proxy.on(ApiKey.END_TXN, Action.DROP, count=100)
    writer.send(topic, b"record")
    try:
        writer.commit()
    except CommitUnknownError:
        own = eventually(lambda: _client_threads() - before)
        writer.close()
        eventually(lambda: not own & _client_threads(), within_s=60)
    else:
        pytest.fail("the commit succeeded without an answer")


def test_second_close_and_close_of_a_new_writer_do_nothing(make_writer):
    writer = make_writer()
    writer.close()
    writer.close()
    assert writer.state is WriterState.CLOSED


def _calls(writer, topic):
    return {
        "open": writer.open,
        "send": lambda: writer.send(topic, b"x"),
        "send_columns": lambda: writer.send_columns(*column(topic, [b"x"])),
        "flush": writer.flush,
        "commit": writer.commit,
    }


@pytest.mark.parametrize("name", ["send", "send_columns", "flush", "commit"])
def test_a_new_writer_refuses_everything_but_open(make_writer, topic, name):
    with pytest.raises(IllegalMoveError):
        _calls(make_writer(), topic)[name]()


@pytest.mark.parametrize("name", ["open", "send", "send_columns", "flush", "commit"])
def test_a_closed_writer_refuses_everything(make_writer, topic, name):
    writer = make_writer()
    writer.open()
    writer.close()
    with pytest.raises(IllegalMoveError):
        _calls(writer, topic)[name]()


def test_an_open_writer_is_not_opened_again(make_writer, topic, committed):
    writer = make_writer()
    writer.open()
    with pytest.raises(IllegalMoveError):
        writer.open()
    writer.send(topic, b"x")
    with pytest.raises(IllegalMoveError):
        writer.open()
    writer.commit()
    assert committed(topic) == [b"x"]


def test_an_abort_without_a_transaction_does_nothing(make_writer):
    writer = make_writer()
    writer.abort()
    writer.open()
    writer.abort()
    assert writer.state is WriterState.OPEN


def test_only_one_of_the_writers_that_open_the_same_id_at_once_keeps_the_id(make_writer, topic, committed):
    writers = [make_writer(f"contested-{topic}") for _ in range(4)]
    done: list[bytes] = []

    def contend(writer, name):
        try:
            writer.open()
            writer.send(topic, name)
            writer.commit()
            done.append(name)
        except Exception:
            pass

    threads = [threading.Thread(target=contend, args=(w, b"%d" % n)) for n, w in enumerate(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert done
    assert set(done) <= set(committed(topic))


@only_librdkafka
def test_open_with_a_known_topic_does_not_wait_for_a_second_metadata_refresh(make_writer, proxy, topic):
    """The first look comes before the connection is there, and the second one half a second later."""
    proxy.slow_down(20_000)

    def open_s() -> float:
        started = time.monotonic()
        make_writer(bootstrap=proxy.bootstrap_servers).open(topic=topic)
        return time.monotonic() - started

    assert fastest_s(open_s, below_s=0.45, tries=10) < 0.45
