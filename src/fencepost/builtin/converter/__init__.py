"""The converters that are shipped: JSON, text, bytes, numbers, and the simple header converter.

Bytes and errors are those of Kafka's converters of the same names; whole columns are converted at once where nothing
has to be looked at record by record. A value that does not fit raises RecordError.
"""
