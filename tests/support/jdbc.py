"""The JDBC drivers that JdbcSource is tested with, from Maven."""

from support.maven_plugin import fetched

_DRIVERS = (
    ("org.postgresql", "postgresql", "42.7.14"),
    ("org.mariadb.jdbc", "mariadb-java-client", "3.5.6"),
    ("org.xerial", "sqlite-jdbc", "3.51.0.0"),
)


def spark_jars() -> str:
    """Return the value of `spark.jars` that has all of them."""
    directories = [fetched(organisation, [module], revision) for organisation, module, revision in _DRIVERS]
    return ",".join(str(jar) for directory in directories for jar in sorted(directory.glob("*.jar")))
