"""Faults by the dozen against a worker under load: what moves, what goes wrong, and what came of it.

Core types: `Load` (a connector, its generator and the generator's own list), `Campaign` (keeps loads moving, and proves
in the end that the delivery was exact), `Kills` (faults at moments of chance) and `Matrix` (faults at chosen points of
a transaction: a `Hold` stops a task there), `plan` and `matrix` (what is done, drawn from a seed), `Evidence`.

What holds:

- a load knows what it gave to the last record, and every payload names its source, number, topic and key;
- a fault is over when each load has committed a record that was made after it;
- a fault at a point comes only when the broker describes the transaction as the point implies;
- the same seed plans the same faults; when exactly those at moments of chance hit is the machine's business.
"""
