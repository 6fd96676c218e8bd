"""The command line: a room for each kind of command, whose options are in its `command.py`; `main.py` collects them."""
