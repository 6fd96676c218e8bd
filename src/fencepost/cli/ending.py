"""The end of the command's process."""

import logging
import os
import sys
from typing import NoReturn


def end_process(code: int) -> NoReturn:
    """Flush all output and end this process, without shutting the interpreter down.

    Threads of Kafka's client that still run log through Python, and crash if parts of the interpreter are gone.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
