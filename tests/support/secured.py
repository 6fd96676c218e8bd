"""A broker that lets nobody in without a password and TLS, and nobody do what no ACL grants."""

import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from fencepost.embedded.java import find_java
from fencepost.testing import eventually
from support.quick import quick_kafka
from support.tokens import LOGIN_MODULE

_STORE_PASSWORD = "of-the-store-only"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"

_ANYTHING = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


class Grant(NamedTuple):
    """An ACL that allows `principal` an operation; names are those of `kafka-acls`."""

    principal: str
    resource: str
    name: str
    operation: str
    is_prefix: bool = False

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource} {self.name} for {self.principal}"


_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}


def parsed(commands: str) -> list[Grant]:
    """Read the `kafka-acls` commands in a text, one a line, as a shell and the tool would."""
    found = []
    for line in commands.splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "kafka-acls.sh", line
        arguments = iter(words[1:])
        options: dict[str, str] = {}
        operations = []
        for option in arguments:
            if option == "--operation":
                operations.append(next(arguments))
            else:
                options[option] = "kafka-cluster" if option in ("--add", "--cluster") else next(arguments)
        assert "--add" in options, line
        [resource] = [kind for kind in _RESOURCES if f"--{kind}" in options]
        is_prefix = options.get("--resource-pattern-type") == "prefixed"
        found += [
            Grant(options["--allow-principal"], resource, options[f"--{resource}"], operation, is_prefix)
            for operation in operations
        ]
    return found


class SecuredKafka:
    """An embedded broker whose clients come in by SASL_SSL, and the right to say what they may do.

    `users` are of SCRAM-SHA-512, `plain_users` of PLAIN; both map names to passwords. Whoever brings a token of
    OAUTHBEARER is who it says: nobody looks for a signature. Administration goes by the node's own listener, which a
    client of the tests must not use for anything else.
    """

    def __init__(
        self, directory: Path, users: Mapping[str, str], plain_users: Mapping[str, str], session_ms: int = 0
    ) -> None:
        """`session_ms`: after which a client has to get in again; 0: never."""
        directory.mkdir(parents=True, exist_ok=True)
        self._users = dict(users)
        self._plain_users = dict(plain_users)
        self.authority = directory / "ca.pem"
        store = key_store(directory, self.authority)
        known = " ".join(f'user_{name}="{password}"' for name, password in self._plain_users.items())
        self.kafka = quick_kafka(
            dir=directory / "kafka",
            start_timeout_s=200,
            properties={
                "listener.security.protocol.map": "CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "listener.name.client.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
                "listener.name.client.oauthbearer.sasl.jaas.config": f"{LOGIN_MODULE} required;",
                "listener.name.client.plain.sasl.jaas.config": f"{_PLAIN} required {known};",
                "listener.name.client.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
                "listener.name.client.ssl.keystore.location": str(store),
                "listener.name.client.ssl.keystore.type": "PKCS12",
                "listener.name.client.ssl.keystore.password": _STORE_PASSWORD,
                "connections.max.reauth.ms": str(session_ms),
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                # The node itself, and whoever administers it by its plain listener.
                "super.users": "User:ANONYMOUS",
                # Kafka's own: requests to the controller have no longer than this, and nothing here is killed.
                "broker.heartbeat.interval.ms": "2000",
                "broker.session.timeout.ms": "9000",
            },
        )

    def __enter__(self) -> Self:
        self.kafka.start()
        self.admin = AdminClient({"bootstrap.servers": self.kafka.internal_servers, "log_level": 0})
        altered = self.admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion(
                    name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
                )
                for name, password in self._users.items()
            ]
        )
        for future in altered.values():
            future.result(30)
        return self

    def __exit__(self, *_: object) -> None:
        self.kafka.kill()

    def client(self, user: str) -> dict[str, str]:
        """Return the settings, by their Java names, of a client that is `user`."""
        is_plain = user in self._plain_users
        password = self._plain_users[user] if is_plain else self._users[user]
        module = _PLAIN if is_plain else _SCRAM
        return {
            **self.channel,
            "sasl.mechanism": "PLAIN" if is_plain else "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
        }

    @property
    def channel(self) -> dict[str, str]:
        """Return the settings that all clients share, whatever their principal."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }

    def grant(self, grants: Iterable[Grant]) -> None:
        """Add ACLs; the broker goes by them when this returns."""
        wanted = [_binding(grant) for grant in grants]
        if wanted:
            for future in self.admin.create_acls(wanted).values():
                future.result(30)
            eventually(lambda: set(map(str, wanted)) <= self._known(), within_s=60)

    def revoke(self, grant: Grant) -> None:
        """Remove one ACL; the broker goes by the rest when this returns."""
        binding = _binding(grant)
        [future] = self.admin.delete_acls([_filter(binding)]).values()
        assert len(future.result(30)) == 1, grant
        eventually(lambda: str(binding) not in self._known(), within_s=60)

    def clear(self) -> None:
        """Remove all ACLs and topics, for other tests: only groups and transactional ids are left."""
        for future in self.admin.delete_acls([_ANYTHING]).values():
            future.result(30)
        left = [name for name in self.admin.list_topics(timeout=30).topics if not name.startswith("__")]
        for future in self.admin.delete_topics(left).values() if left else ():
            future.result(30)
        eventually(
            lambda: not self._known() and not set(left) & set(self.admin.list_topics(timeout=30).topics), within_s=60
        )

    def _known(self) -> set[str]:
        return {str(found) for found in self.admin.describe_acls(_ANYTHING).result(30)}


def _binding(grant: Grant) -> AclBinding:
    return AclBinding(
        _RESOURCES[grant.resource],
        grant.name,
        ResourcePatternType.PREFIXED if grant.is_prefix else ResourcePatternType.LITERAL,
        grant.principal,
        "*",
        AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", grant.operation).upper()],
        AclPermissionType.ALLOW,
    )


def _filter(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )


def key_store(directory: Path, authority: Path) -> Path:
    """Make a certificate for the loopback address that signs itself; clients trust it as their only authority."""
    store = directory / "broker.p12"
    keytool = find_java().path.with_name("keytool")
    common = ["-keystore", str(store), "-storepass", _STORE_PASSWORD, "-alias", "broker", "-noprompt"]
    make = ["-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-storetype", "PKCS12", "-validity", "30"]
    names = ["-dname", "CN=broker", "-ext", "SAN=IP:127.0.0.1,DNS:localhost", "-ext", "BC:c"]
    for arguments in ([*make, *names, *common], ["-exportcert", "-rfc", "-file", str(authority), *common]):
        subprocess.run([str(keytool), *arguments], check=True, capture_output=True, timeout=60)
    return store
