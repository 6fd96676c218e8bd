"""Supervises connectors, slots and tasks on this worker, and answers its REST requests.

`process.py` says what a worker is made of, `start_up.py` in which order it comes up, `config_changes.py` what follows
from a change of the config topic. The rooms, each with an object of the same name that puts its parts together:

- `membership`: this worker's place in the group (`Membership`);
- `supervision`: what should run against what runs, fencing and admission (`Supervision`);
- `host`: the two hosts that run tasks, and the keeper of Spark (`Hosts`);
- `validation`, `operation`: what REST asks (`WorkerOperations`).
"""
