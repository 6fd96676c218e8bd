"""Faults by the dozen against a worker under load: what moves, what goes wrong, and what came of it.

Core types: `Load` (a connector, its generator and the generator's own list), `Fault` and `plan` (what is done, drawn
from a seed), `Campaign` (carries faults out and waits for the recovery of every load).

What holds:

- a load knows what it gave to the last record, and every payload names its source, number, topic and key;
- a fault is over when each load has committed a record that was made after it;
- the same seed plans the same faults; when exactly they hit is the machine's business.
"""
