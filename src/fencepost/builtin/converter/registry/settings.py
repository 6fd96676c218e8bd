"""The settings of registry converters, and of the mappings of Avro and JSON Schema, under Confluent's keys."""

from collections.abc import Callable

from fencepost.api import HIGH, LOW, RecordError, Secret, Type, at_least, non_empty, one_of, setting
from fencepost.config import Config

_JSON_NAMESPACE = "io.confluent.connect.json"
ONE_OF, ENUM = f"{_JSON_NAMESPACE}.OneOf", f"{_JSON_NAMESPACE}.Enum"
GENERAL_UNION, GENERAL_ENUM = "org.apache.kafka.connect.data.Union", "org.apache.kafka.connect.data.Enum"
GENERAL_FIELD = "connect_union_field_"
TYPE, INDEX, VERSION, PARAMETERS = "connect.type", "connect.index", "connect.version", "connect.parameters"
KEY, VALUE = "key", "value"


class JsonSchemaMapping(Config):
    """What the mapping keeps, and what it allows."""

    object_additional_properties: bool = setting(
        "object.additional.properties",
        default=True,
        doc="Whether the schema of a struct allows other properties than its fields.",
    )
    use_optional_for_nonrequired: bool = setting(
        "use.optional.for.nonrequired",
        default=False,
        doc="Read properties that are not required as optional fields, and write other fields as required.",
    )
    generalized_sum_type_support: bool = setting(
        "generalized.sum.type.support",
        default=False,
        importance=LOW,
        doc="Keep unions and enums in the form that all formats share.",
    )
    ignore_default_for_nullables: bool = setting(
        "ignore.default.for.nullables",
        default=False,
        importance=LOW,
        doc="Write a null as null where an optional field has a default, instead of as this default.",
    )
    flatten_singleton_unions: bool = setting(
        "flatten.singleton.unions", default=False, importance=LOW, doc="Read a union of one type as this type."
    )
    decimal_format: str = setting(
        "decimal.format",
        default="BASE64",
        check=one_of("BASE64", "NUMERIC"),
        importance=LOW,
        doc="How decimals are written: BASE64 of their digits as bytes, or NUMERIC. Both are read.",
    )
    fail_invalid_schema: bool = setting(
        "json.fail.invalid.schema",
        default=False,
        importance=LOW,
        doc="Check each value that is read against all rules of its JSON Schema, such as patterns and ranges.",
    )


class AvroMapping(Config):
    """What the mapping keeps, and how it names things."""

    connect_meta_data: bool = setting(
        "connect.meta.data",
        default=True,
        importance=LOW,
        doc="Keep names, versions, parameters and defaults of Connect's schemas as properties of Avro's.",
    )
    enhanced_avro_schema_support: bool = setting(
        "enhanced.avro.schema.support",
        default=False,
        doc="Keep Avro's enums, and the namespaces of the members of unions.",
    )
    generalized_sum_type_support: bool = setting(
        "generalized.sum.type.support",
        default=False,
        importance=LOW,
        doc="Keep unions and enums in the form that all formats share.",
    )
    scrub_invalid_names: bool = setting(
        "scrub.invalid.names",
        default=False,
        importance=LOW,
        doc="Replace characters in names that Avro does not allow, instead of refusing the schema.",
    )
    discard_type_doc_default: bool = setting(
        "discard.type.doc.default",
        default=False,
        importance=LOW,
        doc="Leave out the documentation and the default of a type where it is a field's.",
    )
    ignore_default_for_nullables: bool = setting(
        "ignore.default.for.nullables",
        default=False,
        importance=LOW,
        doc="Write a null as null where an optional field has a default, instead of as this default.",
    )
    allow_optional_map_keys: bool = setting(
        "allow.optional.map.keys",
        default=False,
        importance=LOW,
        doc="Write a map with optional keys of text as a map of Avro; a null as a key is refused.",
    )
    flatten_singleton_unions: bool = setting(
        "flatten.singleton.unions",
        default=False,
        importance=LOW,
        doc="Read a union of one type as this type.",
    )


_SUBJECT = "io.confluent.kafka.serializers.subject."
TOPIC_NAME_STRATEGY = f"{_SUBJECT}TopicNameStrategy"
PREFIX_ID = "io.confluent.kafka.serializers.schema.id.PrefixSchemaIdSerializer"
HEADER_ID = "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"


Strategy = Callable[[str, bool, str | None], str]
"""Returns the subject of a topic's keys (True) or values (False), for a schema with that name."""


def _by_record(topic: str, is_key: bool, record: str | None) -> str:
    if record is None:
        raise RecordError(
            f"The schema of the {'key' if is_key else 'value'} has no name, which RecordNameStrategy and "
            "TopicRecordNameStrategy use as the subject: give the schema a name, for example with SetSchemaMetadata, "
            "or use TopicNameStrategy"
        )
    return record


_STRATEGIES: dict[str, Strategy] = {
    "TopicNameStrategy": lambda topic, is_key, record: f"{topic}-{'key' if is_key else 'value'}",
    "RecordNameStrategy": _by_record,
    "TopicRecordNameStrategy": lambda topic, is_key, record: f"{topic}-{_by_record(topic, is_key, record)}",
}


def strategy(name: str) -> Strategy:
    """Return the strategy of a class name, with or without its package. Raises ValueError."""
    found = _STRATEGIES.get(name.removeprefix(_SUBJECT))
    if found is None:
        known = ", ".join(_SUBJECT + each for each in _STRATEGIES)
        raise ValueError(f"Class {name} could not be found. Known: {known}")
    return found


class RegistryConnection(Config):
    """How the registry is reached."""

    schema_registry_url: list[str] = setting(
        "schema.registry.url",
        check=non_empty(),
        importance=HIGH,
        doc="URLs of the schema registry, separated by commas; the next one is asked if one does not answer.",
    )
    http_connect_timeout_ms: int = setting(
        "http.connect.timeout.ms",
        type=Type.INT,
        default=60_000,
        check=at_least(1),
        importance=LOW,
        doc="How long a connection to the registry may take.",
    )
    http_read_timeout_ms: int = setting(
        "http.read.timeout.ms",
        type=Type.INT,
        default=60_000,
        check=at_least(1),
        importance=LOW,
        doc="How long the answer of the registry is waited for.",
    )
    proxy_host: str | None = setting("proxy.host", default=None, importance=LOW, doc="The host of an HTTP proxy.")
    proxy_port: int | None = setting(
        "proxy.port", type=Type.INT, default=None, importance=LOW, doc="The port of an HTTP proxy."
    )

    def check_together(self) -> list[str]:
        bad = [url for url in self.schema_registry_url if not url.startswith(("http://", "https://"))]
        faults = [
            f"Invalid value {url} for configuration schema.registry.url: not an http:// or https:// URL"
            for url in (each.rpartition("@")[2] for each in bad)
        ]
        return [*super().check_together(), *faults]


class RegistryCredentials(Config):
    """How the registry knows us."""

    basic_auth_credentials_source: str = setting(
        "basic.auth.credentials.source",
        default="URL",
        check=one_of("URL", "USER_INFO", ignore_case=False),
        doc="Where user and password are: in schema.registry.url, or in basic.auth.user.info.",
    )
    basic_auth_user_info: Secret | None = setting(
        "basic.auth.user.info", default=None, doc="`user:password`, for the source USER_INFO."
    )
    schema_registry_basic_auth_user_info: Secret | None = setting(
        "schema.registry.basic.auth.user.info", default=None, doc="The older name of basic.auth.user.info."
    )

    @property
    def user_info(self) -> Secret | None:
        """Return `user:password`, if the settings say that these are used."""
        if self.basic_auth_credentials_source != "USER_INFO":
            return None
        return self.basic_auth_user_info or self.schema_registry_basic_auth_user_info

    def check_together(self) -> list[str]:
        faults = super().check_together()
        info = self.user_info
        if self.basic_auth_credentials_source == "USER_INFO" and (info is None or ":" not in info.reveal()):
            faults.append(
                "basic.auth.user.info: basic.auth.credentials.source is USER_INFO, so it must be user:password"
            )
        return faults


class RegistryToken(Config):
    """A token, or the client that fetches one."""

    bearer_auth_credentials_source: str | None = setting(
        "bearer.auth.credentials.source",
        default=None,
        check=one_of("STATIC_TOKEN", "OAUTHBEARER", ignore_case=False),
        doc="Sends bearer.auth.token (STATIC_TOKEN), or tokens of an OAuth server (OAUTHBEARER).",
    )
    bearer_auth_token: Secret | None = setting("bearer.auth.token", default=None, doc="The token, for STATIC_TOKEN.")
    bearer_auth_issuer_endpoint_url: str | None = setting(
        "bearer.auth.issuer.endpoint.url", default=None, doc="Where tokens are fetched, for OAUTHBEARER."
    )
    bearer_auth_client_id: str | None = setting(
        "bearer.auth.client.id", default=None, doc="The id of the client that fetches tokens."
    )
    bearer_auth_client_secret: Secret | None = setting(
        "bearer.auth.client.secret", default=None, doc="The secret of the client that fetches tokens."
    )
    bearer_auth_scope: str = setting("bearer.auth.scope", default="", importance=LOW, doc="The scope of the tokens.")
    bearer_auth_logical_cluster: str = setting(
        "bearer.auth.logical.cluster", default="", importance=LOW, doc="The registry's cluster, in Confluent Cloud."
    )
    bearer_auth_identity_pool_id: str | None = setting(
        "bearer.auth.identity.pool.id", default=None, importance=LOW, doc="The identity pool, in Confluent Cloud."
    )

    def check_together(self) -> list[str]:
        needed = {
            "STATIC_TOKEN": ("bearer_auth_token",),
            "OAUTHBEARER": ("bearer_auth_issuer_endpoint_url", "bearer_auth_client_id", "bearer_auth_client_secret"),
        }.get(self.bearer_auth_credentials_source or "", ())
        faults = [
            f"{type(self).key_of(name)}: bearer.auth.credentials.source={self.bearer_auth_credentials_source} needs it"
            for name in needed
            if not getattr(self, name)
        ]
        return [*super().check_together(), *faults]


class RegistryTls(Config):
    """Certificates, for URLs with https. Files are PEM."""

    truststore_location: str | None = setting(
        "schema.registry.ssl.truststore.location",
        default=None,
        doc="PEM file with the trusted certificates; without it, those of public authorities.",
    )
    truststore_type: str = setting(
        "schema.registry.ssl.truststore.type",
        default="PEM",
        check=one_of("PEM"),
        doc="PEM. Convert a JKS file with `keytool -exportcert -rfc -keystore FILE -alias ALIAS > ca.pem`.",
    )
    keystore_location: str | None = setting(
        "schema.registry.ssl.keystore.location", default=None, doc="PEM file with our certificate and its key."
    )
    keystore_type: str = setting(
        "schema.registry.ssl.keystore.type",
        default="PEM",
        check=one_of("PEM"),
        doc="PEM. Convert a PKCS12 file with `openssl pkcs12 -in FILE -out keystore.pem`.",
    )
    key_password: Secret | None = setting(
        "schema.registry.ssl.key.password", default=None, doc="Opens the key in the keystore."
    )


class SchemaUse(Config):
    """Which schema values are written with, and under which subject."""

    auto_register_schemas: bool = setting(
        "auto.register.schemas",
        default=True,
        doc="Register schemas that the registry does not know. If false, records with such schemas are refused.",
    )
    use_latest_version: bool = setting(
        "use.latest.version",
        default=False,
        doc="Write with the newest schema of the subject, if auto.register.schemas is false.",
    )
    latest_compatibility_strict: bool = setting(
        "latest.compatibility.strict",
        default=True,
        doc="With use.latest.version: refuse a field that the newest schema lacks, instead of omitting it.",
    )
    normalize_schemas: bool = setting(
        "normalize.schemas",
        default=False,
        importance=LOW,
        doc="Let the registry normalize schemas, so that an other order of attributes is no new version.",
    )
    key_subject_name_strategy: str = setting(
        "key.subject.name.strategy",
        default=TOPIC_NAME_STRATEGY,
        doc="How the subject of a key's schema is named.",
    )
    value_subject_name_strategy: str = setting(
        "value.subject.name.strategy",
        default=TOPIC_NAME_STRATEGY,
        doc="How the subject of a value's schema is named.",
    )

    def check_together(self) -> list[str]:
        faults = super().check_together()
        for attribute in ("key_subject_name_strategy", "value_subject_name_strategy"):
            name = getattr(self, attribute)
            try:
                strategy(name)
            except ValueError as error:
                faults.append(f"Invalid value {name} for configuration {self.key_of(attribute)}: {error}")
        return faults


class IdPlace(Config):
    """Where the id of the schema is written, and how much is remembered."""

    key_schema_id_serializer: str = setting(
        "key.schema.id.serializer",
        default=PREFIX_ID,
        check=one_of(PREFIX_ID, HEADER_ID, ignore_case=False),
        importance=LOW,
        doc="Whether a key begins with the id of its schema, or the id is in a header. Both are read.",
    )
    value_schema_id_serializer: str = setting(
        "value.schema.id.serializer",
        default=PREFIX_ID,
        check=one_of(PREFIX_ID, HEADER_ID, ignore_case=False),
        importance=LOW,
        doc="Whether a value begins with the id of its schema, or the id is in a header. Both are read.",
    )
    schemas_cache_size: int = setting(
        "schemas.cache.config",
        type=Type.INT,
        default=1000,
        check=at_least(1),
        importance=LOW,
        doc="How many schemas are remembered.",
    )
    latest_cache_ttl_sec: int = setting(
        "latest.cache.ttl.sec",
        default=-1,
        type=Type.LONG,
        check=at_least(-1),
        importance=LOW,
        doc="After how many seconds the newest version of a subject is looked up again; -1: never.",
    )


class RegistrySettings(RegistryConnection, RegistryCredentials, RegistryToken, RegistryTls):
    """All that a client of the registry needs."""
