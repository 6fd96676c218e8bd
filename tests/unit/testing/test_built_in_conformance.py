"""Every connector that comes with Fencepost passes the conformance class of its kind, as an author's has to."""

import re
from pathlib import Path

from fencepost.plugin import PluginKind
from fencepost.plugin.kind import BUILT_IN

TESTS = Path(__file__).parents[2]
_WITHOUT = {
    "SqlStream": "Spark runs its query: tests/integration/worker/test_sql_stream.py",
    "JdbcSource": "it needs a database and Spark: tests/integration/worker/test_jdbc_source.py",
    "PostgresSource": "it needs a server: tests/integration/postgres/test_postgres_source.py",
    "PostgresSink": "the same: tests/integration/postgres/test_postgres_sink.py",
    "TopicSql": "it has no methods of its own: the runtime does the work of a DataFrameStream",
    "MirrorSourceConnector": "a mirror reads one cluster and writes another: tests/integration/mirror",
    "MirrorSinkConnector": "the same",
    "MirrorCheckpointConnector": "the same",
    "MirrorHeartbeatConnector": "the same, and it reads nothing",
}


def test_every_built_in_connector_has_a_conformance_test_or_a_reason() -> None:
    files = [*TESTS.glob("unit/testing/test_*_conformance.py"), *TESTS.glob("integration/spark/test_*_conformance.py")]
    checked = set(re.findall(r"^    connector = (\w+)$", "\n".join(file.read_text() for file in files), re.MULTILINE))
    built_in = {target.partition(":")[2] for target in BUILT_IN[PluginKind.CONNECTOR].values()}
    assert built_in - checked == _WITHOUT.keys()
