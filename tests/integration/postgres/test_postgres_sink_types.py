"""Values of each schema on real servers: the table that is created has the type, and the row has the value."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.api import Schema, SinkRecord
from support.postgres import VERSIONS, Postgres, running_postgres
from support.postgres_sink import KEY, SinkScene, sql
from support.postgres_sink_values import VALUES


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        running_postgres(Path(directory), request.param) as found,
    ):
        yield found


def test_value_of_each_schema_has_its_type_and_text_in_the_table(server: Postgres) -> None:
    scene = SinkScene(server, "kinds", config={"auto.create": "true", "db.timezone": "Europe/Berlin"})
    schema = Schema.struct({f"c{at}": each[0].optional() for at, each in enumerate(VALUES)})
    place = scene.places[0]
    for offset, value in enumerate([{f"c{at}": each[1] for at, each in enumerate(VALUES)}, {}]):
        scene.log[place].append(SinkRecord(*place, offset, value, schema, {"id": 1}, KEY, at=place))
    run = scene.run()
    run.deliver(scene.log)
    run.stop()
    sql(server, "ALTER DATABASE postgres SET TimeZone = 'UTC'")  # by which the texts below are printed
    types = (
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'kinds'::regclass AND attnum > 0"
    )
    assert [found for (found,) in sql(server, f"{types} ORDER BY attnum")] == [each[2] for each in VALUES]
    texts = ", ".join(f"c{at}::text" for at in range(len(VALUES)))
    [row] = sql(server, f"SELECT {texts} FROM kinds WHERE c0 IS NOT NULL")
    assert list(row) == [each[3] for each in VALUES]
    [missing] = sql(server, f"SELECT {texts} FROM kinds WHERE c0 IS NULL")
    assert set(missing) == {None}
