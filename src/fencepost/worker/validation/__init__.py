"""Validates the config of a connector, key by key, as `PUT /connector-plugins/.../config/validate` answers."""
