"""`python -m fencepost.embedded start`: the same as `fencepost kafka start`."""

from fencepost.embedded.cli import app

app()
