"""Offsets in request and answer bodies (KIP-875, KIP-995)."""

from collections.abc import Sequence

from starlette.requests import Request

from fencepost.cluster.errors import NothingToAlterError
from fencepost.cluster.info import ConnectorOffset
from fencepost.rest.body import json_object, offsets_of, parse_json, read_body, refuse_unknown


def offsets_body(offsets: Sequence[ConnectorOffset]) -> dict[str, object]:
    return {"offsets": [{"partition": one.partition, "offset": one.offset} for one in offsets]}


async def read_offsets(request: Request) -> list[ConnectorOffset]:
    """Return the offsets to be altered. NothingToAlterError if there are none."""
    value = parse_json(await read_body(request), numbers_as_text=False)
    if value is None:
        raise NothingToAlterError
    fields = json_object(value, "ConnectorOffsets")
    refuse_unknown(fields, "ConnectorOffsets", ("offsets",))
    offsets = offsets_of(fields.get("offsets"))
    if not offsets:
        raise NothingToAlterError
    return offsets
