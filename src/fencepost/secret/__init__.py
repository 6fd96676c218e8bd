"""Knows what is a secret, and shows text without it (E11): `redaction` by the name of a setting or field and by the
form of a text, `known` by the values that this process has looked up or holds. `plugin.secret_keys` has a
config's.
"""
