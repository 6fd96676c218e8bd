"""Java's MirrorMaker 2 in its dedicated mode, fetched by coordinates and run as a child process."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from bench import peer

from fencepost.embedded.process import GuardedProcess

_STOP_S = 60.0
_QUICK = {
    "replication.factor": "1",
    **{f"{name}.topic.replication.factor": "1" for name in ("heartbeats", "checkpoints", "offset-syncs")},
    **{f"{name}.storage.replication.factor": "1" for name in ("offset", "status", "config")},
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "sync.topic.acls.enabled": "false",
}
_EXACTLY_ONCE = {
    "exactly.once.source.support": "enabled",
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
}


class MirrorMaker:
    """One node that mirrors from `source` to `target` (aliases), on single brokers; a context manager.

    It looks for topics and groups every second. `settings` go over that, as they would stand in its file.
    """

    def __init__(
        self,
        directory: Path,
        clusters: Mapping[str, str],
        flow: tuple[str, str] = ("source", "target"),
        settings: Mapping[str, str] | None = None,
        *,
        is_exactly_once: bool = True,
    ) -> None:
        """`clusters` has the address of each alias."""
        source, target = flow
        self.file = directory / "mm2.properties"
        self.log = directory / "mirror-maker.log"
        self.properties = {
            "clusters": ", ".join(clusters),
            **{f"{alias}.bootstrap.servers": servers for alias, servers in clusters.items()},
            f"{source}->{target}.enabled": "true",
            f"{target}->{source}.enabled": "false",
            **_QUICK,
            **({**_EXACTLY_ONCE, f"{source}.consumer.isolation.level": "read_committed"} if is_exactly_once else {}),
            **(settings or {}),
        }
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and return at once."""
        self.file.write_text("".join(f"{key} = {value}\n" for key, value in self.properties.items()))
        command = peer.command(peer.MIRROR_MAKER, self.file, self.log, peer.SMALL_JVM)
        self._process = GuardedProcess(command, self.log.with_suffix(".out"))

    def stop(self) -> None:
        """Stop it in good order; does nothing where it does not run."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate(_STOP_S)

    def kill(self) -> None:
        """SIGKILL."""
        process, self._process = self._process, None
        assert process is not None
        process.kill()

    def last_lines(self, count: int = 30) -> str:
        """Return the end of what it logged."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])
