"""Supervises connectors, slots and tasks on this worker, and answers its REST requests.

`process.py` connects the parts of a worker, `start_up.py` has their order of starting, and `config_changes.py` what
follows a change of the config topic. Each subpackage has an object of the same name that connects its parts:

- `membership`: this worker's place in the group (`Membership`);
- `supervision`: what should run against what runs, fencing and admission (`Supervision`);
- `host`: the two hosts that run tasks, and the keeper of Spark (`Hosts`);
- `validation`, `operation`: the work of REST requests (`worker_operations`).
"""
