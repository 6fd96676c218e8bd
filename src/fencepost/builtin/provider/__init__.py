"""The built-in config providers: files, directories and the environment, as in Kafka, and the stores of clouds.

Each module of a store imports its client library when it is first used: they are extras of the package.
"""
