"""What the workers of one `group.id` agree on, and the questions that can be asked of them.

Core types: `ConnectOperations` (the port between the REST layer and a worker), with its answers (`answer.py`) and
errors (`errors.py`).
"""
