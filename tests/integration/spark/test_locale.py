"""Names that are not ASCII, where the locale says that there are no others."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.quick import spark_properties

PROGRAM = Path(__file__).with_name("locale_program.py")
UNSET = ("LC_ALL", "LC_CTYPE", "LANG", "PYTHONUTF8", "PYTHONIOENCODING")


@pytest.mark.usefixtures("no_shared_runtime")
def test_file_names_are_utf8_in_every_locale(tmp_path: Path) -> None:
    inbox = tmp_path / "entrée"
    inbox.mkdir()
    for name, value in (("café.csv", "é"), ("日本.csv", "日")):
        (inbox / name).write_text(f"name,n\n{value},1\n", encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if k not in UNSET} | {"LC_ALL": "C"}
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), json.dumps(spark_properties())],
        env=environment, capture_output=True, check=False, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr.decode()[-2000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        "names": ["café.csv", "日本.csv"], "rows": ["é", "日"], "python": [True], "jnu": "UTF-8",
    }  # fmt: skip
    files = {path.parent.name: path.read_text(encoding="utf-8") for path in (tmp_path / "出力").glob("*/t+0+*")}
    assert files == {"place=Zürich": "ü\n", "place=Łódź": "ö\n"}
