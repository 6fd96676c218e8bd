"""The settings of slots, and of the connections to the executors that run them."""

from fencepost.config.check import at_least, between, non_empty, one_of
from fencepost.config.setting import LOW, Config, Type, setting
from fencepost.guide import guide

_ACCEPTED = "accepted"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class SlotConfig(Config):
    """Where task loops run on Spark; the settings of Spark itself begin with `spark.`."""

    slots_max: int = setting(
        "slots.max",
        type=Type.INT,
        default=0,
        check=between(0, 10_000),
        doc="How many slots this worker may ask Spark for; 0: as many as this machine has cores, at least 2.",
    )
    slot_lease_ms: int = setting(
        "slot.lease.ms",
        type=Type.INT,
        default=10_000,
        check=at_least(1_000),
        doc="A slot that cannot reach its worker for so long stops its tasks.",
    )
    channel_host: str = setting(
        "channel.host",
        default="127.0.0.1",
        check=non_empty(),
        doc="The address at which executors reach this worker. Anything but loopback needs channel.ssl.* as well.",
    )
    channel_certificate: str | None = setting(
        "channel.ssl.certificate.location",
        default=None,
        doc="PEM file with the certificate that the worker shows its executors.",
    )
    channel_key: str | None = setting(
        "channel.ssl.key.location", default=None, doc="PEM file with the key of that certificate."
    )
    channel_authority: str | None = setting(
        "channel.ssl.ca.location",
        default=None,
        doc="PEM file with the authority that signed it, which executors trust; unset: their system's.",
    )

    channel_unprotected: str = setting(
        "channel.unprotected",
        default="refused",
        check=one_of("refused", _ACCEPTED),
        doc="What becomes of a `spark.master` on a cluster without `spark.authenticate` and encryption. refused: the "
        "worker does not start. accepted: a firewall protects the connections between the driver and its executors.",
    )
    java_host_options: str = setting(
        "java.host.options",
        default="",
        importance=LOW,
        doc="Options of the JVMs that run Java plug-ins, such as `-Xmx512m`, separated by spaces. Each slot with Java "
        "tasks has such a JVM; by default, its heap takes what it needs, up to a quarter of the machine's or the "
        "container's memory.",
    )

    @property
    def java_options(self) -> tuple[str, ...]:
        """Return the options of hosts, one by one."""
        return tuple(self.java_host_options.split())

    def spark_fault(self) -> str | None:
        """Return why executors on other machines would make this worker open to whoever reaches it; None if not."""
        master = str(self.originals.get("spark.master", "local"))
        if master.startswith("local") or self.channel_unprotected.lower() == _ACCEPTED:
            return None
        is_on = {key for key, value in self.with_prefix("spark.").items() if str(value).strip().lower() == "true"}
        if "authenticate" not in is_on:
            missing = "spark.authenticate=true, with the secret of the cluster,"
        elif is_on.isdisjoint({"network.crypto.enabled", "ssl.rpc.enabled"}):
            missing = "spark.network.crypto.enabled=true"
        else:
            return None
        return (
            f"Invalid value {master} for configuration spark.master: Spark's driver listens for executors on other "
            f"machines, and whoever reaches it can run code in this worker. Either set {missing} (see "
            f"{guide('how-to/run-on-a-spark-cluster')}); or, if a firewall protects these connections, set "
            f"{SlotConfig.key_of('channel_unprotected')}={_ACCEPTED}"
        )

    def channel_fault(self) -> str | None:
        """Return why this combination of settings is wrong; None if it is right."""
        has_tls = self.channel_certificate is not None and self.channel_key is not None
        if (self.channel_certificate is None) != (self.channel_key is None):
            return "channel.ssl.certificate.location and channel.ssl.key.location go together; set both or neither"
        if not has_tls and self.channel_host not in _LOOPBACK:
            return (
                f"Invalid value {self.channel_host} for configuration channel.host: the channel to executors carries "
                "client settings, so it is loopback or TLS; set channel.ssl.certificate.location and "
                "channel.ssl.key.location"
            )
        return None
