"""The classes of the pages pass `mypy --strict`, as an author's would."""

import subprocess
import sys
from pathlib import Path

from page import ROOT, blocks

from support.new_project import EVERY_KIND, written


def test_the_classes_of_the_pages_pass_a_strict_check_of_types(tmp_path: Path) -> None:
    found = [block.text for block in blocks("python") if "\nclass " in block.text]
    assert len(found) > 10
    names = []
    for number, text in enumerate(found):
        name = tmp_path / ("shop_orders.py" if "class ShopOrdersTask" in text else f"example_{number}.py")
        name.write_text(text)
        names.append(str(name))
    packages = [(kind, f"of_{kind.replace('-', '_')}") for kind in EVERY_KIND]
    names += [str(written(tmp_path, kind, f"of-{kind}") / "src" / package) for kind, package in packages]
    options = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={ROOT / '.mypy_cache' / 'docs'}"]
    # In a process of its own: mypy has Python collect garbage so rarely that the clients of later tests would pile up,
    # and the C library has room for about a thousand of them.
    run = subprocess.run([sys.executable, "-m", "mypy", *options, *names], capture_output=True, text=True, check=False)
    assert run.stdout.startswith("Success"), run.stdout + run.stderr
