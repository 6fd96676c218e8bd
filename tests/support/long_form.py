"""Whether this run is the long form of the tests: `make chaos`, which sets FENCEPOST_CHAOS=long."""

import os

IS_LONG = os.environ.get("FENCEPOST_CHAOS") == "long"
