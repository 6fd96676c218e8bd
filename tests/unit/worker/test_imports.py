"""What a worker imports before Spark is there: each process that starts pays for it."""

import subprocess
import sys


def test_worker_starts_without_importing_pyspark():
    code = "import sys, fencepost.cli.cluster.serve, fencepost.worker.host.driver; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_untraced_tasks_do_not_import_opentelemetry():
    code = (
        "import sys\n"
        "import fencepost.task.slot.slot\n"
        "from fencepost.task.channel.task_spec import TaskSpec\n"
        "from fencepost.task.tracing.exports import close_tracing, spans_dropped, tracing_of\n"
        "spec = TaskSpec('c', 0, 1, 'i', {}, {})\n"
        "assert type(tracing_of(spec)).__name__ == 'Tracing' and spans_dropped(spec) == {}\n"
        "close_tracing(1.0)\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_worker_imports_no_exporter_of_opentelemetry():
    """FastAPI imports its API, which does nothing by itself."""
    code = "import sys, fencepost.cli.cluster.serve; sys.exit('opentelemetry.sdk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_jvm_start_does_not_wait_for_imports_of_the_worker() -> None:
    code = "import sys, fencepost.cli.main, fencepost.cli.cluster.worker; print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    late = {"fastapi", "kafka", "pyarrow", "pydantic", "pyspark", "rich", "structlog", "uvicorn"}
    assert not late & set(printed.split())
