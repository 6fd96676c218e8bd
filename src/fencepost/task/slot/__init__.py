"""The process of a slot: it takes directives from its worker, and starts, watches and ends task threads."""
