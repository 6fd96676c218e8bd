"""The built-in connectors.

They use nothing that a connector author could not use. The sources keep one rule: what `poll` returns after a restart
depends only on the committed source offset, so that records continue without a gap.
"""
