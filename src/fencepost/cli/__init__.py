"""The command line. A command with its options is in the `command.py` of its room; `main.py` collects them."""
