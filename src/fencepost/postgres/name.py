"""Names and texts within statements that take no parameters."""


def quoted(name: str) -> str:
    """Return a name as SQL has it: `"Orders"`."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL has it: `'it''s'`."""
    return "'" + text.replace("'", "''") + "'"
