"""Frames are byte for byte those that kafka-python makes, and answers are what it reads."""

import gc
import struct

import pytest
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.producer import EndTxnRequest, EndTxnResponse, ProduceRequest, ProduceResponse
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse

from fencepost.kafka.produce import coordinator
from fencepost.kafka.wire.frame import Frames
from fencepost.record import TopicPartition

PLACES = [
    TopicPartition("b", 3),
    TopicPartition("a", 0),
    TopicPartition("b", 0),
    TopicPartition("ü" * 80, 2),
    TopicPartition("a", 11),
]
SIZES = (1, 126, 127, 16_382, 16_383, 300_000)


def end(version: int) -> EndTxnRequest:
    return EndTxnRequest(transactional_id="some", producer_id=1 << 40, producer_epoch=7, committed=True)


def plain(protocol: KafkaProtocol, request: object, version: int) -> bytes:
    request.API_VERSION = version
    protocol.send_request(request)
    return bytes(protocol.send_bytes())


@pytest.mark.parametrize("client_id", ["", "fencepost", "ü" * 100])
@pytest.mark.parametrize("version", range(6))
def test_request_frame_equals_that_of_kafka_python(client_id: str, version: int) -> None:
    frames, protocol = Frames(client_id), KafkaProtocol(client_id=client_id)
    for _ in range(3):
        assert frames.framed(end(version), version) == [plain(protocol, end(version), version)]
        expected = plain(protocol, ApiVersionsRequest(), min(version, 4))
        assert frames.framed(ApiVersionsRequest(), min(version, 4)) == [expected]


@pytest.mark.parametrize("version", range(8, 13))
@pytest.mark.parametrize("count", range(1, len(PLACES) + 1))
def test_produce_request_equals_that_of_kafka_python(version: int, count: int) -> None:
    frames, protocol = Frames("fencepost"), KafkaProtocol(client_id="fencepost")
    places = PLACES[:count]
    for turn in range(len(SIZES)):
        batches = {
            place: bytes([at]) * SIZES[(turn + at) % len(SIZES)]
            for at, place in enumerate(places if turn % 2 else places[::-1])
        }
        form = coordinator.produce_form("some", frozenset(batches), 30_000, version)
        made = frames.framed(ProduceRequest, version, form.filled(batches))
        assert b"".join(made) == plain(protocol, coordinator.produce("some", batches, 30_000), version)


def test_large_parts_of_a_request_are_not_copied() -> None:
    sizes = (1, 200_000, 5, 7, 131_072, 300_000, 131_071, 3)
    body = [bytes([at]) * size for at, size in enumerate(sizes)]
    pieces = Frames("fencepost").framed(EndTxnRequest, 1, body)
    assert [piece for piece in pieces if any(piece is part for part in body)] == [body[1], body[4], body[5]]
    assert b"".join(pieces)[-sum(sizes) :] == b"".join(body)
    assert int.from_bytes(pieces[0][:4]) == sum(map(len, pieces)) - 4
    assert len(pieces) == 6


def framed_answer(number: int, answer: object, version: int) -> bytes:
    answer.API_VERSION = version
    answer.with_header(number)
    return answer.encode(header=True, framed=True)


def told(version: int, epoch: int) -> EndTxnResponse:
    return EndTxnResponse(version=version, throttle_time_ms=3, error_code=47, producer_id=5, producer_epoch=epoch)


def test_answer_is_read_when_two_threads_created_its_class_at_once() -> None:
    """Each makes one, and one of the two is kept: not always the one that kafka-python has registered."""
    kept = OffsetFetchResponse[8]
    del OffsetFetchResponse._VERSIONS[8]
    assert OffsetFetchResponse[8] is not kept
    OffsetFetchResponse._VERSIONS[8] = kept
    gc.collect()
    frames = Frames("fencepost")
    frames.framed(OffsetFetchRequest(groups=[], require_stable=True), 8)
    answer = OffsetFetchResponse(version=8, throttle_time_ms=7, groups=[])
    (found,) = frames.answers(framed_answer(1, answer, 8))
    assert found.throttle_time_ms == 7


@pytest.mark.parametrize("part_bytes", [1_000, 70_000, 1_000_000])
def test_only_a_large_answer_is_received_into_its_own_buffer(part_bytes: int) -> None:
    frames, data, filled = Frames("fencepost"), b"", 0
    for number, size in enumerate((1, 300_000, 2, 131_072, 3), 1):
        frames.framed(SaslAuthenticateRequest(auth_bytes=b""), 1)
        answer = SaslAuthenticateResponse(
            version=1, error_code=0, error_message=None, auth_bytes=bytes([number]) * size, session_lifetime_ms=number
        )
        data += framed_answer(number, answer, 1)
    found, at = [], 0
    while at < len(data):
        room = frames.room()
        part = data[at : at + (part_bytes if room is None else min(part_bytes, len(room)))]
        at += len(part)
        if room is None:
            found += frames.answers(part)
        else:
            room[: len(part)] = part
            filled += len(part)
            found += frames.filled(len(part))
    assert [(each.session_lifetime_ms, len(each.auth_bytes)) for each in found] == [
        (1, 1), (2, 300_000), (3, 2), (4, 131_072), (5, 3)
    ]  # fmt: skip
    assert all(set(bytes(each.auth_bytes)) == {each.session_lifetime_ms} for each in found)
    assert (filled > 0) == (part_bytes < len(data))


@pytest.mark.parametrize("part_bytes", [1, 3, 7, 1000])
def test_answers_are_read_for_any_division_of_their_bytes(part_bytes: int) -> None:
    frames = Frames("fencepost")
    data = b""
    for number, version in enumerate((1, 5, 5, 2, 3), 1):
        frames.framed(end(version), version)
        data += framed_answer(number, told(version, number), version)
    found = [each for at in range(0, len(data), part_bytes) for each in frames.answers(data[at : at + part_bytes])]
    assert [(each.throttle_time_ms, each.error_code) for each in found] == [(3, 47)] * 5
    assert [each.producer_epoch for each in found[1:3]] == [2, 3]


def test_unknown_tagged_field_in_an_answer_header_is_ignored() -> None:
    frames = Frames("fencepost")
    frames.framed(end(5), 5)
    data = framed_answer(1, told(5, 9), 5)
    tagged = data[4:8] + bytes((1, 77, 3)) + b"xyz" + data[9:]
    [answer] = frames.answers(struct.pack(">i", len(tagged)) + tagged)
    assert answer.producer_epoch == 9


def test_api_versions_answer_of_version_0_is_read() -> None:
    frames = Frames("fencepost")
    frames.framed(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    data = framed_answer(1, ApiVersionsResponse(version=0, error_code=35, api_keys=[]), 0)
    assert frames.answers(data)[0].error_code == 35


def test_answer_to_another_request_is_refused() -> None:
    frames = Frames("fencepost")
    frames.framed(end(5), 5)
    with pytest.raises(ValueError, match="answer 2 where 1 is expected"):
        frames.answers(framed_answer(2, told(5, 1), 5))


def test_answer_without_a_request_is_refused() -> None:
    with pytest.raises(ValueError, match="an answer without a request"):
        Frames("fencepost").answers(framed_answer(1, ProduceResponse(version=12, responses=[]), 12))


@pytest.mark.parametrize("size", [-1, 3, 0x48545450])
def test_first_answer_with_an_implausible_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"claims to have {size} bytes"):
        Frames("fencepost").answers(struct.pack(">i", size))


def test_answer_of_any_size_is_accepted_after_a_valid_first_answer() -> None:
    """A batch that is larger than what was asked for comes all the same, and would be asked for again for ever."""
    frames = Frames("fencepost")
    for _ in range(2):
        frames.framed(end(5), 5)
    frames.answers(framed_answer(1, told(5, 1), 5))
    frames.answers(struct.pack(">i", 250_000_000))
    room = frames.room()
    assert room is not None
    assert len(room) == 250_000_000
