"""`fencepost mirror migrate`: positions are copied from one type of connector to the other, and back."""

from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from fencepost.builtin.mirror.formats import Checkpoint, OffsetSync
from fencepost.cli.main import app
from fencepost.config import ConfigError
from fencepost.kafka.errors import retry
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.log_writer import LogWriter
from support.mirror.mirror_maker import MirrorMaker
from support.mirror.mirror_process import DedicatedModeStage, MirrorProcess

pytestmark = pytest.mark.timeout(900)  # processes come up one after the other

# Other tests may have left heartbeats at the source, which are mirrored, too.
_NO_HEARTBEATS = {"heartbeats.replication.enabled": "false"}


class MigrationStage(DedicatedModeStage):
    """A flow that is mirrored as one type after the other."""

    def __init__(self, directory: Path, source: LogWriter, target: LogWriter, prefix: str) -> None:
        super().__init__(directory, source, target, prefix)
        self.written: list[bytes] = []

    def write_file(self, kind: str) -> None:
        settings = {
            ">connector.type": kind,
            ">transaction.producer": "true",
            f"{self.b}.exactly.once.source.support": "enabled",
            "groups": f"{self.prefix}-.*",
            "emit.checkpoints.interval.seconds": "1",
            **_NO_HEARTBEATS,
        }
        self.write(settings)

    def send(self, *texts: str) -> None:
        self.source.send(self.prefix, texts)
        self.written += [text.encode() for text in texts]

    def mirrored(self) -> list[bytes | None]:
        return self.values(self.prefix)

    def await_mirrored(self) -> None:
        self.await_values(self.prefix, self.written)

    def commit(self, group: str, offset: int) -> None:
        """Commit a position of a group at the source."""
        offsets = GroupOffsets({"bootstrap.servers": self.source.bootstrap}, group)
        retry(lambda: offsets.commit([GroupOffset(self.prefix, 0, offset)]), 60.0, 0.1)

    def sync(self, *syncs: tuple[int, int]) -> None:
        """Write offset syncs where MirrorMaker has them: at the source, without headers."""
        topic = f"mm2-offset-syncs.{self.b}.internal"
        self.source.admin.topics.ensure(topic, partitions=1, replication=1, configs={"cleanup.policy": "compact"})
        for sync in (OffsetSync(TopicPartition(self.prefix, 0), *pair) for pair in syncs):
            self.source.send(topic, [sync.value()], key=sync.key())

    def checkpoints(self) -> dict[str, int]:
        """Return where groups go on at the target, by the newest checkpoint of each."""
        found = CommittedReader(self.target.bootstrap, [f"{self.a}.checkpoints.internal"]).read_all()
        newest = [Checkpoint.decode(record.key, record.value) for record in found]
        return {each.group: each.downstream_offset for each in newest}

    def stored(self) -> list[bytes | None]:
        """Return the positions that a source type has ever written."""
        topic = f"mm2-offsets.{self.a}.internal"
        return [record.value for record in CommittedReader(self.target.bootstrap, [topic]).read_all()]

    def run(self, kind: str) -> MirrorProcess:
        self.write_file(kind)
        return self.process()

    def positions(self) -> dict[tuple[str, int], int]:
        """Return what the sink type's group has."""
        group = f"connect-MirrorSinkConnector-{self.flow}"
        found = read_stable({"bootstrap.servers": self.target.bootstrap}, group, 30.0)
        return {tuple(place): committed.offset for place, committed in found.items()}

    def migrate(self, *options: str) -> str:
        done = CliRunner().invoke(app, ["mirror", "migrate", str(self.path), *options])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.output


@pytest.fixture
def scene(tmp_path: Path, source_writer: LogWriter, target_writer: LogWriter, topic_name: str) -> MigrationStage:
    source_writer.topic(topic_name)
    return MigrationStage(tmp_path, source_writer, target_writer, topic_name)


def test_positions_migrate_to_the_other_type_and_back_without_loss_or_doubles(scene: MigrationStage) -> None:
    scene.send("a", "b")
    with scene.run("source") as process:
        scene.await_mirrored()
        with pytest.raises(ConfigError, match=r"MirrorSourceConnector may be running: group .*-mm2 of .* has workers"):
            scene.migrate("--yes")
        assert process.end() == 0
    scene.send("c")
    plan = scene.migrate("--dry-run")
    assert [line.split() for line in plan.splitlines() if line.startswith(scene.prefix)] == [
        [f"{scene.prefix}-0", "2", "3", f"{scene.a}.{scene.prefix}-0", plan.split()[-1]]
    ]
    assert f"group connect-MirrorSinkConnector-{scene.flow} of {scene.b}" in plan
    assert scene.positions() == {}  # a plan changes nothing
    scene.write_file("sink")
    assert "1 positions are in group" in scene.migrate("--yes")
    with scene.run("sink") as process:
        scene.await_mirrored()
        assert process.end() == 0
    assert scene.positions() == {(f"{scene.a}.{scene.prefix}", 0): 3}
    scene.send("d")
    assert "1 positions are in topic" in scene.migrate("--to", "source", "--yes")
    with scene.run("source") as process:
        scene.await_mirrored()
        assert process.end() == 0
    scene.send("e")
    assert "1 positions are in group" in scene.migrate("--yes")
    with scene.run("sink") as process:
        scene.await_mirrored()


def test_offsets_written_by_mirror_maker_are_migrated(scene: MigrationStage) -> None:
    """Its keys spell the partition in another order, and its offsets name no topic's id.

    So are its offset syncs: groups that stand before the end of the first transaction get on from its last checkpoint.
    """
    scene.send("a", "b", "c", "d")
    scene.target.topic(f"{scene.a}.{scene.prefix}")
    scene.sync((0, 0), (1, 1))
    before, inside, behind = (f"{scene.prefix}-{name}" for name in ("before", "inside", "behind"))
    for group, offset in ((before, 1), (inside, 3), (behind, 4)):
        scene.commit(group, offset)
    checkpoints = scene.target.topic(f"{scene.a}.checkpoints.internal", cleanup_policy="compact")
    for group in (before, inside, behind):
        last = Checkpoint(group, TopicPartition(f"{scene.a}.{scene.prefix}", 0), 0, 0)
        scene.target.send(checkpoints, [last.value()], key=last.key())
    scene.target.send(f"{scene.a}.{scene.prefix}", ["a", "b"])
    offsets = scene.target.topic(f"mm2-offsets.{scene.a}.internal", cleanup_policy="compact")
    for topic, offset in ((scene.prefix, 1), (f"{scene.prefix}-gone", 7)):
        key = orjson.dumps(["MirrorSourceConnector", {"cluster": scene.a, "topic": topic, "partition": 0}])
        scene.target.send(offsets, [f'{{"offset":{offset}}}'], key=key)
    scene.write_file("sink")
    retry(scene.positions, 60.0, 0.5)  # a broker that has only just started knows no coordinator yet
    told = scene.migrate("--yes", "--flow", scene.flow)
    assert f"skipped: {scene.prefix}-gone-0" in told
    with MirrorProcess(scene.path, scene.flow):
        scene.await_mirrored()

        def have_got_on() -> bool:
            found = scene.checkpoints()
            assert (found[before], found[inside] >= 2, found[behind] >= 4) == (1, True, True), found
            return True

        eventually(have_got_on, within_s=120, every_s=0.5)


def test_offsets_of_a_stopped_mirror_maker_are_migrated_exactly(scene: MigrationStage, tmp_path: Path) -> None:
    scene.send("a", "b")
    clusters = {scene.a: scene.source.bootstrap, scene.b: scene.target.bootstrap}
    # It commits all the time, as a task that takes long to end commits no more.
    often = {f"{scene.b}.offset.flush.interval.ms": "500"}
    settings = {"topics": f"{scene.prefix}.*", "emit.heartbeats.enabled": "false", **often, **_NO_HEARTBEATS}
    scene.write_file("source")
    (directory := tmp_path / "java").mkdir()
    with MirrorMaker(directory, clusters, (scene.a, scene.b), settings, is_exactly_once=False):
        scene.await_mirrored()
        eventually(lambda: b'{"offset":1}' in scene.stored(), within_s=120, every_s=0.5)
        with pytest.raises(ConfigError, match="MirrorSourceConnector may be running"):
            scene.migrate("--yes")
    scene.send("c")
    assert "1 positions are in group" in scene.migrate("--yes")
    with scene.run("sink"):
        scene.await_mirrored()


def test_a_flow_that_has_mirrored_nothing_has_nothing_to_migrate(scene: MigrationStage) -> None:
    scene.write_file("source")
    with pytest.raises(ConfigError, match=rf"mm2-offsets\.{scene.a}\.internal.*offset\.storage\.topic"):
        scene.migrate("--yes")
    scene.target.topic(f"mm2-offsets.{scene.a}.internal", cleanup_policy="compact")
    assert "MirrorSourceConnector has no positions" in scene.migrate("--yes")
    with pytest.raises(ConfigError, match="--to elsewhere"):
        scene.migrate("--to", "elsewhere")
