"""Heartbeats of a flow, on a running worker."""

import httpx
from flow import Flow

from fencepost.builtin.mirror.formats import Heartbeat
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.worker import free_port


def beats(reader: CommittedReader, flow: Flow) -> list[Heartbeat]:
    """Return the flow's among what a reader has seen."""
    found = [(o, Heartbeat.decode(o.key, o.value)) for o in reader.seen()]
    assert all(o.partition == 0 for o, _ in found)
    return [beat for _, beat in found if beat.source_cluster_alias == flow.source_alias]


def test_a_flow_writes_a_heartbeat_every_interval(flow: Flow) -> None:
    name = flow.start("Heartbeat", tasks=1, tasks__max="4")
    with flow.at_target("heartbeats") as reader:
        found = eventually(lambda: len(beats(reader, flow)) >= 3 and beats(reader, flow), within_s=60)
    assert found
    assert {beat.target_cluster_alias for beat in found} == {flow.target_alias}
    partition = {"sourceClusterAlias": flow.source_alias, "targetClusterAlias": flow.target_alias}
    eventually(lambda: flow.offsets(name) == [{"partition": partition, "offset": {"offset": 0}}])


def test_heartbeat_topic_is_compacted_and_has_one_partition(flow: Flow) -> None:
    flow.start("Heartbeat")
    assert flow.target.admin.topics.partitions("heartbeats") == 1
    assert flow.target.admin.configs.get("heartbeats")["cleanup.policy"] == "compact"


def test_a_disabled_flow_has_no_task(flow: Flow) -> None:
    for more in ({"enabled": "false"}, {"emit__heartbeats__enabled": "false"}):
        name = flow.create("Heartbeat", **more, target__cluster__bootstrap__servers=f"127.0.0.1:{free_port()}")
        eventually(lambda name=name: flow.worker.status(name).get("connector", {}).get("state") == "RUNNING")
        assert flow.worker.task_states(name) == []


def test_task_waits_for_an_unreachable_target(flow: Flow) -> None:
    away = f"127.0.0.1:{free_port()}"
    name = flow.create("Heartbeat", target__cluster__bootstrap__servers=away, admin__timeout__ms="300")
    eventually(lambda: f"sending the task configs of {name} will be retried" in flow.worker.log_text())
    assert flow.worker.status(name)["connector"]["state"] == "RUNNING"
    config = flow.config("Heartbeat")
    assert flow.worker.rest.put(f"/connectors/{name}/config", json=config).status_code == 200
    flow.worker.wait_for_tasks(name, "RUNNING")


def test_malformed_offsets_are_refused(flow: Flow) -> None:
    name = flow.start("Heartbeat")
    assert flow.worker.rest.put(f"/connectors/{name}/stop").status_code == 204
    partition = {"sourceClusterAlias": flow.source_alias, "targetClusterAlias": flow.target_alias}

    def patch(partition: dict[str, str], offset: int) -> httpx.Response:
        body = {"offsets": [{"partition": partition, "offset": {"offset": offset}}]}
        return flow.worker.rest.patch(f"/connectors/{name}/offsets", json=body)

    eventually(lambda: patch(partition, 0).status_code == 200)
    assert "needs 0, because it is not read, as 'offset'" in patch(partition, 5).text
    assert "needs a text as 'sourceClusterAlias'" in patch({"cluster": "a"}, 0).text
