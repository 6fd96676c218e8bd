"""A transform that counts in each JSON value how often it has seen it."""

import json

from fencepost.api import Record, Transform


class Stamped(Transform):
    """Adds the field `stamps`, or 1 to it."""

    def apply(self, record: Record) -> Record | None:
        value = json.loads(record.value)
        return record.replace(value=json.dumps(value | {"stamps": value.get("stamps", 0) + 1}))
