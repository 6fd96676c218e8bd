"""Commands that ask no worker: `plugin`, `new`, `docs` and `hash-password`."""
