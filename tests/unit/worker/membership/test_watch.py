"""Which looks at a worker's address show that its process is gone."""

import socket
import threading

import pytest

from fencepost.kafka.group.group_admin import Group, GroupMember
from fencepost.worker.membership.peers import ConnectOutcome, PeerWatch, Refusals, ask_again_s, look_at, pause_s
from support.worker import reserved_port

A, R, U = ConnectOutcome.ANSWERED, ConnectOutcome.REFUSED, ConnectOutcome.UNKNOWN
ME, LEADER, OTHER = "http://me:1/", "http://leader:1/", "http://other:1/"


@pytest.mark.parametrize(
    ("looks", "is_gone"),
    [
        ([A, R, R, R], True),
        ([A, U, A, R, R, R], True),
        ([A, R, R], False),
        ([A, R, R, A, R, R], False),
        ([A, R, R, U, R, R], False),
        ([R, R, R, R, R, R], False),  # the address never led to it from here
        ([A, U, U, U, U, U], False),  # cut off, or standing still
    ],
)
def test_worker_is_gone_when_its_address_refuses_three_times_after_an_answer(
    looks: list[ConnectOutcome], is_gone: bool
) -> None:
    refusals = Refusals()
    assert [refusals.judge("i", look) for look in looks][-1] is is_gone


def test_evicted_process_that_came_back_is_not_evicted_for_refusals_again() -> None:
    refusals = Refusals()
    assert [refusals.judge("i", look) for look in (A, R, R, R)][-1]
    refusals.evicted("i")
    refusals.keep_only([])
    assert not any(refusals.judge("i", look) for look in (A, R, R, R, R, R))
    assert [refusals.judge("j", look) for look in (A, R, R, R)][-1], "its successor's is"


class Cluster:
    """Peers, and what their addresses answer."""

    url = ME

    def __init__(self) -> None:
        self.looks = {LEADER: A, OTHER: A}
        self.looked_at: list[str] = []
        self.evicted: list[str] = []
        self.fails = 0
        self.life = ""
        self.is_leading = False
        self.stopping = threading.Event()
        self.watch = PeerWatch(self, lambda: self.is_leading, self._evict, self.stopping, self._look)

    def group(self) -> Group:
        owned = frozenset({("configs", 0)})
        leads = ME if self.is_leading else LEADER
        names = [url for url in (ME, LEADER, OTHER) if url not in self.evicted]
        members = (
            GroupMember(f"m-{url}{self.life}", url, "h", owned if url == leads else frozenset()) for url in names
        )
        return Group("g", "Stable", tuple(members))

    def incarnation(self, url: str) -> str | None:
        return f"i-{url}{self.life}"

    def _look(self, url: str) -> ConnectOutcome:
        self.looked_at.append(url)
        return self.looks[url]

    def _evict(self, member: GroupMember) -> None:
        if self.fails:
            self.fails -= 1
            raise OSError("no coordinator")
        assert member.member_id == f"m-{member.client_id}{self.life}"
        self.evicted.append(member.client_id)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_leader_watches_all_workers_and_they_watch_the_leader(cluster: Cluster) -> None:
    cluster.watch.look()
    assert cluster.looked_at == [LEADER]
    leading = Cluster()
    leading.is_leading = True
    leading.watch.look()
    assert sorted(leading.looked_at) == [LEADER, OTHER]


def test_only_the_gone_worker_is_evicted_and_only_once(cluster: Cluster) -> None:
    cluster.is_leading = True
    assert not cluster.watch.look()
    cluster.looks[OTHER] = R
    assert all(cluster.watch.look() for _ in range(3))
    assert cluster.evicted == [OTHER]
    assert not cluster.watch.look(), "the group has it no more"
    assert cluster.evicted == [OTHER]


def test_failed_eviction_is_retried_and_delays_no_other(cluster: Cluster) -> None:
    cluster.is_leading = True
    cluster.watch.look()
    cluster.looks[LEADER] = cluster.looks[OTHER] = R
    cluster.fails = 1
    cluster.watch.look()
    cluster.watch.look()
    with pytest.raises(OSError, match="no coordinator"):
        cluster.watch.look()
    assert cluster.evicted == [OTHER]
    cluster.watch.look()
    assert cluster.evicted == [OTHER, LEADER]


def test_restarted_worker_is_evicted_when_its_address_refuses(cluster: Cluster) -> None:
    cluster.watch.look()
    cluster.life = "-later"
    cluster.watch.look()
    cluster.looks[LEADER] = R
    for _ in range(3):
        cluster.watch.look()
    assert cluster.evicted == [LEADER]


def test_stopping_worker_evicts_no_worker(cluster: Cluster) -> None:
    cluster.watch.look()
    cluster.looks[LEADER] = R
    cluster.stopping.set()
    assert all(cluster.watch.look() for _ in range(5))
    assert cluster.evicted == []


def test_look_distinguishes_listening_refusing_and_unreachable_workers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert look_at(f"http://127.0.0.1:{listener.getsockname()[1]}/") is A
    with reserved_port() as silent:
        assert look_at(f"http://127.0.0.1:{silent.getsockname()[1]}/") is R
    assert look_at("http://no-such-host.invalid:1/") is U


def test_workers_are_checked_more_often_when_they_are_few() -> None:
    assert [pause_s(looked_at) for looked_at in (0, 2, 20, 500)] == [0.2, 0.2, 0.4, 0.5]


def test_total_rate_of_requests_does_not_grow_with_the_number_of_workers() -> None:
    assert ask_again_s(3) == 1
    for members in (10, 100, 500, 2000):
        assert members / ask_again_s(members) == 10, "each answer names all of them"
