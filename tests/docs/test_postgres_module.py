"""The program of `reference/postgres-module.md`, on a real Postgres."""

import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from page import blocks

from fencepost.postgres import ConnectionSettings, SlotState, connect, slot_state
from fencepost.testing import eventually
from support.postgres import running_postgres

WITHIN_S = 240


def test_program_prints_inserted_rows_and_confirms_them(capsys: pytest.CaptureFixture[str]) -> None:
    [text] = [block.text for block in blocks("python") if "def print_inserts" in block.text]
    names: dict[str, Any] = {}
    exec(compile(text, "postgres-module.md", "exec"), names)  # the page's own code
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        running_postgres(Path(directory)) as server,
    ):
        server.sql("CREATE TABLE orders (id int PRIMARY KEY, item text)")
        server.sql("CREATE PUBLICATION shop FOR TABLE orders")
        settings = ConnectionSettings(host="127.0.0.1", port=server.port, database="postgres", user="postgres")
        program = threading.Thread(target=names["print_inserts"], args=(settings, 1), daemon=True)
        program.start()
        connection = connect(settings)
        eventually(lambda: _is_complete(slot_state(connection, "printer")), within_s=WITHIN_S)
        connection.execute("INSERT INTO orders VALUES (1, 'tea'), (2, NULL)")
        program.join(WITHIN_S)
        eventually(lambda: slot_state(connection, "printer") is None, within_s=WITHIN_S)
        connection.close()

    first, second, end = capsys.readouterr().out.splitlines()
    assert (first, second) == ("orders {'id': '1', 'item': 'tea'}", "orders {'id': '2', 'item': None}")
    assert end.startswith("up to 0/")


def _is_complete(slot: SlotState | None) -> bool:
    """Whether the slot sends what is committed from now on: it is listed while it still looks for its beginning."""
    return slot is not None and slot.confirmed_flush_lsn is not None
