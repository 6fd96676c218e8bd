"""Commands about connectors as files describe them: `apply`, `validate`, `edit`, `export` and `plan`."""
