"""What the workers of one `group.id` agree on, and the questions that can be asked of them.

Core types: `ConnectOperations` (the port between the REST layer and a worker), with the values that it takes
and gives (`info.py`) and errors (`errors.py`).
"""
