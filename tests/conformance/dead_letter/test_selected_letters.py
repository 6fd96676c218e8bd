"""Single dead letters that are sent before others, on the real broker: each once, and none of the others is lost."""

import random

import pytest

from fencepost.api import FatalError
from fencepost.config import ConfigError
from fencepost.dead_letter.page import read_page
from fencepost.dead_letter.progress import ResendProgress, progress_name
from fencepost.kafka.group.memberless import Bookmark
from fencepost.kafka.read.browse import TopicBrowser
from support.dead_letters import DeadLetters
from support.proxy import Action, ApiKey, KafkaProxy
from support.seed import new_seed


def handled_flags(letters: DeadLetters) -> list[bool]:
    """Return what a page says of each dead letter, the oldest first."""
    browser = TopicBrowser(letters.reader_conf, letters.dead)
    bookmark = Bookmark(letters.reader_conf, progress_name(letters.topic), letters.dead)
    handled = ResendProgress(letters.topic, browser, bookmark).read()
    page = read_page(browser, letters.topic, handled, limit=50)
    return [one.is_handled for one in reversed(page.letters)]


def test_selected_letters_are_sent_alone_and_a_later_resend_sends_the_others(letters: DeadLetters) -> None:
    letters.bury(*"abcd")
    chosen = [letters.place(1), letters.place(3)]
    assert letters.resend(only=chosen) == 2
    assert letters.values == ["b", "d"]
    assert handled_flags(letters) == [False, True, False, True]
    assert letters.resend(only=chosen) == 0
    assert letters.resend() == 2
    assert letters.values == ["b", "d", "a", "c"]
    assert letters.resend() == 0


def test_progress_of_selected_letters_survives_the_loss_of_group_offsets(letters: DeadLetters) -> None:
    letters.bury(*"abcd")
    assert letters.resend(only=[letters.place(2)]) == 1
    letters.forget_group()
    assert handled_flags(letters) == [False, False, True, False]
    assert letters.resend() == 3
    assert letters.values == ["c", "a", "b", "d"]


def test_unreadable_progress_is_refused_with_advice(letters: DeadLetters) -> None:
    letters.bury(*"abcd")
    assert letters.resend(only=[letters.place(2)]) == 1
    letters.commit(0, "ahead 2;")
    group = progress_name(letters.topic)
    with pytest.raises(FatalError, match="'2;' is no list of offsets") as refused:
        letters.resend()
    assert f"to group {group}, with the offset of {letters.dead}-0." in str(refused.value)
    assert str(refused.value).endswith(f"--bootstrap-server HOST:PORT --delete --group {group}")
    letters.forget_group()
    assert letters.resend() == 3
    assert letters.values == ["c", "a", "b", "d"]


def test_skipped_selected_letter_is_never_sent(letters: DeadLetters) -> None:
    letters.bury(*"abc")
    assert letters.resend(only=[letters.place(1)], skip=[letters.place(1)]) == 0
    assert letters.resend() == 2
    assert letters.values == ["a", "c"]


def test_letters_of_another_connector_cannot_be_selected(letters: DeadLetters) -> None:
    letters.bury("mine")
    letters.bury("not mine", connector="somebody-else")
    assert letters.resend(only=[letters.place(1)]) == 0
    assert letters.values == []
    for place in (f"{letters.topic}-0@1", letters.dead, f"{letters.dead}-0@x", f"{letters.dead}-x-0@1"):
        with pytest.raises(ConfigError, match="is no dead letter in"):
            letters.resend(only=[place])


def test_selected_letter_is_sent_once_when_the_answer_to_its_commit_is_lost(letters: DeadLetters) -> None:
    letters.bury(*"abc")
    with KafkaProxy(letters.bootstrap) as proxy:
        proxy.on(ApiKey.END_TXN, Action.ANSWER_LOST, 1)
        letters.resend(proxy.bootstrap_servers, only=[letters.place(2)])
    assert letters.values == ["c"]
    assert letters.resend() == 2
    assert letters.values == ["c", "a", "b"]


def test_each_letter_is_sent_once_in_any_order_of_selections(letters: DeadLetters) -> None:
    drawn, count = random.Random(new_seed()), 40
    for n in range(count):
        letters.bury(str(n), partition=n % 2)
    places = {str(n): letters.place(n // 2, n % 2) for n in range(count)}
    expected: list[str] = []
    for _ in range(6):
        chosen = drawn.sample(sorted(places), drawn.randint(1, 8))
        new = set(chosen) - set(expected)
        assert letters.resend(only=[places[one] for one in chosen]) == len(new)
        expected += new
        if drawn.random() < 0.3:
            letters.forget_group()
    assert letters.resend() == count - len(expected)
    assert sorted(letters.values, key=int) == [str(n) for n in range(count)]
