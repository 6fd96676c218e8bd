"""How long the producers of old tasks take to be fenced."""

import time

from bench.scene import Samples, Scene
from fencepost.cluster.fencing import task_transactional_ids
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.transaction import TransactionalWriter, fence

OLD_TASKS = 100


def fencing_round(scene: Scene) -> Samples:
    """The round alone, as the leader runs it; the old tasks' producers are ours and live."""
    taken: list[float] = []
    conf = dict(transactional_conf({"bootstrap.servers": scene.kafka.bootstrap_servers}, "").conf)
    del conf["transactional.id"]
    scene.topics("fenced")
    for turn in range(scene.count):
        ids = [task_transactional_ids(f"round{turn}", "old", task) for task in range(OLD_TASKS)]
        writers = [TransactionalWriter(conf, first) for first, *_ in ids]
        try:
            for place, writer in enumerate(writers):
                writer.open()
                if place % 3 == 0:
                    writer.send("fenced", b"open")
                    writer.flush()
            began = time.monotonic()
            fence([each for both in ids for each in both], lambda _id: conf, 60)
            taken.append(time.monotonic() - began)
        finally:
            for writer in writers:
                writer.close()
        scene.tell("round", taken)
    return {"round": taken}
