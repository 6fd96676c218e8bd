"""The transforms and predicates that are shipped, and the chain that a config makes of them.

`Chain` is what the task layer runs. A transform that works on keys or values is one class with a `side`; its two
variants only name the side. Schemas are changed once and remembered.
"""
