"""A transaction is committed without asking whether its input's topic was created again."""

from fencepost.kafka.read import group_input
from fencepost.task.delivery.finish import Finish
from fencepost.transaction import TransactionalWriter
from planted import replace


def _send(self: Finish, writer: TransactionalWriter) -> None:
    known(Finish(self.closing), writer)


group_input._IDS_EVERY_S = 3600.0  # the look of every ten seconds would notice it, too
known = replace(Finish, "send", _send)
