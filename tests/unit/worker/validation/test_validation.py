import re
from typing import Any

import pytest

from fencepost.api import ConfigError, ExactlyOnceSupport, Predicate, SourceConnector, Transform, at_least, setting
from fencepost.builtin.connector.file_stream.source import FileStreamSourceConnector
from fencepost.cluster.errors import BadRequestError
from fencepost.cluster.info import KeyReport, ValidationReport
from fencepost.config.worker import WorkerConfig
from fencepost.plugin import PluginKind, PluginRegistry
from fencepost.plugin.directory import public_name
from fencepost.worker.validation.chain import plugin_definitions, require_converters
from fencepost.worker.validation.validation import require_valid, validate_connector
from support.plugins import OwnPlugins
from support.settings import SETTINGS

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
GOOD = {"name": "c", "connector.class": FILE_SOURCE, "topic": "t", "file": "/f"}
# The names that Kafka's own system test (connect_rest_test.py) expects, and those of KIP-891.
FILE_SOURCE_KEYS = {
    "name",
    "connector.class",
    "connector.plugin.version",
    "tasks.max",
    "tasks.max.enforce",
    "key.converter",
    "key.converter.plugin.version",
    "value.converter",
    "value.converter.plugin.version",
    "header.converter",
    "header.converter.plugin.version",
    "transforms",
    "predicates",
    "config.action.reload",
    "errors.retry.timeout",
    "errors.retry.delay.max.ms",
    "errors.tolerance",
    "errors.log.enable",
    "errors.log.include.messages",
    "topic.creation.groups",
    "exactly.once.support",
    "transaction.boundary",
    "transaction.boundary.interval.ms",
    "offsets.storage.topic",
    "file",
    "topic",
    "batch.size",
}


class Undecided(SourceConnector):
    """Says what its config makes it say."""

    low: int = setting("low", default=1)
    high: int = setting("high", default=9, check=at_least(0))
    answer: str = setting("answer", default="none")

    def check_together(self) -> list[str]:
        return ["Invalid value for configuration low: must not be above high"] if self.low > self.high else []

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        if self.answer == "raise":
            raise RuntimeError("no idea")
        return None if self.answer == "none" else ExactlyOnceSupport[self.answer]

    def can_define_transaction_boundaries(self) -> bool:
        return self.answer == "SUPPORTED"


class WithClients(SourceConnector):
    """Has Kafka clients of its own."""

    client_prefixes = ("far.",)


class Prefixed(Transform):
    prefix: str = setting("prefix")
    times: int = setting("times", default=1, check=at_least(1))

    def apply(self, record: Any) -> Any:
        return record


class Even(Predicate):
    of: str = setting("of")

    def test(self, record: Any) -> bool:
        return True


PLUGINS = OwnPlugins(Undecided=Undecided, WithClients=WithClients, Prefixed=Prefixed, Even=Even)


def worker(**more: str) -> WorkerConfig:
    needed = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
    return WorkerConfig(
        {
            **dict.fromkeys(needed, "x"),
            "key.converter": "JsonConverter",
            "value.converter": "JsonConverter",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
    )


def validate(config: dict[str, str | None], settings: WorkerConfig | None = None) -> ValidationReport:
    return validate_connector(config, plugins=PLUGINS, worker=settings or worker())


def by_key(report: ValidationReport) -> dict[str, KeyReport]:
    return {one.value.name: one for one in report.configs}


def errors(report: ValidationReport) -> dict[str, tuple[str, ...]]:
    return {one.value.name: tuple(one.value.errors) for one in report.configs if one.value.errors}


def test_the_file_source_has_the_keys_that_kafkas_system_test_expects():
    report = validate(GOOD)
    assert report.error_count == 0
    assert {one.value.name for one in report.configs} == FILE_SOURCE_KEYS
    assert len(report.configs) == 27
    assert report.name == FILE_SOURCE
    assert report.groups[:6] == (
        "Common",
        "Transforms",
        "Predicates",
        "Error Handling",
        "Topic Creation",
        "Exactly Once Support",
    )
    require_valid(report)


def test_definitions_equal_those_of_kafka_connect():
    definition = by_key(validate(GOOD))["tasks.max"].definition
    assert definition is not None
    assert (definition.type, definition.required, definition.default_value) == ("INT", False, "1")
    assert (definition.importance, definition.group, definition.order_in_group) == ("HIGH", "Common", 4)
    assert (definition.width, definition.display_name) == ("SHORT", "Tasks max")
    boundary = by_key(validate(GOOD))["transaction.boundary"].definition
    assert boundary is not None
    assert (boundary.group, boundary.order_in_group, boundary.default_value) == ("Exactly Once Support", 3, "poll")


def test_every_error_of_a_config_is_reported():
    report = validate({"connector.class": FILE_SOURCE, "tasks.max": "0", "errors.tolerance": "some", "file": "/f"})
    assert errors(report) == {
        "name": ('Missing required configuration "name" which has no default value.',),
        "tasks.max": ("Invalid value 0 for configuration tasks.max: Value must be at least 1",),
        "errors.tolerance": (
            "Invalid value some for configuration errors.tolerance: String must be one of: none, all",
        ),
        "topic": ('Missing required configuration "topic" which has no default value.',),
    }
    assert report.error_count == 4
    with pytest.raises(BadRequestError) as caught:
        require_valid(report)
    lines = caught.value.message.split("\n")
    assert lines[0] == "Connector configuration is invalid and contains the following 4 error(s):"
    assert len(lines) == 6
    assert lines[-1] == (
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )


def test_config_without_a_class_or_with_an_unknown_class_is_refused():
    with pytest.raises(BadRequestError, match="contains no connector type"):
        validate({"name": "c"})
    with pytest.raises(BadRequestError, match="which name matches Nonsense"):
        validate({**GOOD, "connector.class": "Nonsense"})


def test_null_values_are_errors():
    report = validate({**GOOD, "tasks.max": None, "mine": None, "topic": None})
    null = ("Null value can not be supplied as the configuration value.",)
    assert errors(report) == {"tasks.max": null, "mine": null, "topic": null}
    assert by_key(report)["mine"].definition is None


@pytest.mark.parametrize("name", ["", "a\tb", "a\x7f"])
def test_invalid_connector_name_is_refused(name):
    assert set(errors(validate({**GOOD, "name": name}))) == {"name"}


def test_report_has_the_settings_of_transforms_and_predicates():
    config = {
        **GOOD,
        "transforms": "a,b",
        "transforms.a.type": "Prefixed",
        "transforms.a.times": "0",
        "transforms.a.predicate": "even",
        "transforms.b.type": "Nonsense",
        "transforms.b.negate": "true",
        "predicates": "even,odd",
        "predicates.even.type": "Even",
        "predicates.even.of": "x",
    }
    report = validate(config)
    found = errors(report)
    assert set(found) == {
        "transforms.a.prefix",
        "transforms.a.times",
        "transforms.b.type",
        "predicates.odd.type",
    }
    assert "Class Nonsense could not be found" in found["transforms.b.type"][0]
    assert found["transforms.b.type"][1].startswith("Config 'transforms.b.negate' was provided but there is no config")
    definition = by_key(report)["transforms.a.times"].definition
    assert definition is not None
    assert (definition.group, definition.display_name) == ("Transforms: a", "times")
    assert {"Transforms: a", "Predicates: even"} <= set(report.groups)
    orders = {
        one.value.name: one.definition.order_in_group
        for one in report.configs
        if one.definition and one.definition.group == "Transforms: a"
    }
    assert sorted(orders.values()) == [0, 1, 2, 3, 4, 5]
    assert orders["transforms.a.type"] == 0
    assert orders["transforms.a.plugin.version"] == 1
    assert orders["transforms.a.prefix"] == 2


def test_a_predicate_that_is_not_declared_is_an_error():
    config = {
        **GOOD,
        "transforms": "a",
        "transforms.a.type": "Prefixed",
        "transforms.a.prefix": "x",
        "transforms.a.predicate": "p",
    }
    assert errors(validate(config)) == {
        "transforms.a.predicate": (
            "Invalid value p for configuration transforms.a.predicate: there is no such alias in 'predicates'",
        )
    }


def test_converters_that_the_config_names_are_checked_with_their_settings():
    json = {**GOOD, "value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    report = validate({**json, "value.converter.schemas.enable": "perhaps"})
    assert set(errors(report)) == {"value.converter.schemas.enable"}
    definition = by_key(report)["value.converter.schemas.enable"].definition
    assert definition is not None
    assert definition.name == "value.converter.schemas.enable"
    unknown = errors(validate({**GOOD, "key.converter": "com.example.SomeConverter"}))
    assert list(unknown) == ["key.converter"]
    assert "SomeConverter" in unknown["key.converter"][0]


def test_settings_that_contradict_each_other_are_shown_at_their_key():
    report = validate({"name": "c", "connector.class": "Undecided", "low": "10"})
    assert errors(report) == {"low": ("Invalid value for configuration low: must not be above high",)}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("none", "The connector does not implement the API required for preflight validation of exactly-once"),
        ("UNSUPPORTED", "The connector does not support exactly-once semantics with the provided configuration."),
        ("raise", "An unexpected error occurred during validation: no idea"),
    ],
)
def test_required_exactly_once_is_refused_unless_the_connector_confirms_it(answer, expected):
    config = {"name": "c", "connector.class": "Undecided", "answer": answer, "exactly.once.support": "REQUIRED"}
    [found] = errors(validate(config, worker(exactly_once_source_support="enabled"))).values()
    assert len(found) == 1
    assert found[0].startswith(expected)


def test_required_exactly_once_is_refused_when_the_worker_has_it_disabled():
    config = {**GOOD, "exactly.once.support": "required"}
    text = "This worker does not have exactly-once source support enabled."
    assert errors(validate(config, worker(exactly_once_source_support="preparing"))) == {
        "exactly.once.support": (text,)
    }
    assert errors(validate(config, worker(exactly_once_source_enabled="true"))) == {}


def test_connector_boundaries_are_refused_when_the_connector_cannot_define_them():
    config = {"name": "c", "connector.class": "Undecided", "transaction.boundary": "connector"}
    [found] = errors(validate(config)).values()
    assert found[0].startswith("The connector does not support connector-defined transaction boundaries")
    assert errors(validate({**config, "answer": "SUPPORTED"})) == {}


EXACTLY_ONCE = {"exactly_once_source_enabled": "true"}


class Whole(FileStreamSourceConnector):
    defines_transactions = True


@pytest.mark.parametrize(("value", "is_right"), [("poll", False), ("INTERVAL", False), ("connector", True)])
def test_another_boundary_is_refused_when_the_class_defines_transactions(value: str, is_right: bool) -> None:
    found = validate_connector(
        {"name": "c", "connector.class": public_name(Whole), "topic": "t", "file": "f", "transaction.boundary": value},
        plugins=PluginRegistry(connectors=[Whole]),
        worker=WorkerConfig(SETTINGS),
    )
    faults = errors(found).get("transaction.boundary", ())
    assert list(faults) == [] if is_right else faults[0].endswith("or set it to connector.")


INTERVAL_KEY, TIMEOUT_KEY = "transaction.boundary.interval.ms", "producer.override.transaction.timeout.ms"


@pytest.mark.parametrize(
    ("more", "shared", "refused"),
    [
        ({}, {}, False),  # both have their defaults, which are equal
        ({}, {"offset_flush_interval_ms": "600000"}, False),
        ({INTERVAL_KEY: "59999"}, {}, False),
        ({INTERVAL_KEY: "60000"}, {}, True),
        ({INTERVAL_KEY: "60000", TIMEOUT_KEY: "120000"}, {}, False),
        ({INTERVAL_KEY: "30000", TIMEOUT_KEY: "20000"}, {}, True),
        ({INTERVAL_KEY: "30000"}, {"producer_transaction_timeout_ms": "20000"}, True),
        ({INTERVAL_KEY: "60000", "transaction.boundary": "poll"}, {}, False),
    ],
)
def test_an_interval_that_reaches_the_time_out_of_a_transaction_is_refused(more, shared, refused):
    config = {**GOOD, "transaction.boundary": "interval", **more}
    found = errors(validate(config, worker(**EXACTLY_ONCE, **shared)))
    assert list(found) == ([INTERVAL_KEY] if refused else [])
    if refused:
        assert TIMEOUT_KEY in found[INTERVAL_KEY][0]


def test_interval_is_not_compared_with_the_timeout_without_transactions():
    assert errors(validate({**GOOD, "transaction.boundary": "interval", INTERVAL_KEY: "600000"})) == {}


@pytest.mark.parametrize(
    ("policy", "key", "refused"),
    [
        ("All", "linger.ms", False),
        ("None", "linger.ms", True),
        ("Principal", "linger.ms", True),
        ("Principal", "security.protocol", False),
        ("Allowlist", "linger.ms", True),
        ("Allowlist", "batch.size", False),
        ("org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy", "linger.ms", True),
    ],
)
def test_overrides_are_subject_to_the_policy(policy, key, refused):
    settings = WorkerConfig(
        {
            **worker().originals,
            "connector.client.config.override.policy": policy,
            "connector.client.config.override.allowlist": "batch.size",
        }
    )
    values = {"linger.ms": "5", "security.protocol": "SSL", "batch.size": "1"}
    found = errors(validate({**GOOD, f"producer.override.{key}": values[key]}, settings))
    short = policy.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
    text = f"The '{short}' policy does not allow '{key}' to be overridden in the connector configuration."
    assert found == ({f"producer.override.{key}": (text,)} if refused else {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("plugin.library.paths", "/tmp/x.so"),
        ("ssl.engine.location", "/tmp/x.so"),
        ("ssl.engine.factory.class", "x"),
        ("ssl.providers", "x"),
        ("sasl.kerberos.kinit.cmd", "rm"),
        ("sasl.kerberos.keytab", "/etc/k"),
        ("ssl.truststore.location", "/etc/passwd"),
        ("ssl.crl.location", "/etc/passwd"),
        ("sasl.oauthbearer.assertion.file", "/etc/passwd"),
        ("sasl.oauthbearer.token.endpoint.url", "http://169.254.169.254/"),
        ("sasl.oauthbearer.metadata.authentication.type", "azure_imds"),
        ("sasl.login.callback.handler.class", "x"),
        ("enable.ssl.certificate.verification", "false"),
        ("ssl.endpoint.identification.algorithm", ""),
        ("debug", "all"),
        ("sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule required user.provider.url='ldap://x';"),
    ],
)
def test_dangerous_overrides_are_refused_and_hidden_under_every_policy(key, value):
    report = validate({**GOOD, f"consumer.override.{key}": value})
    assert set(errors(report)) == {f"consumer.override.{key}"}
    assert by_key(report)[f"consumer.override.{key}"].value.value == "[hidden]"


def test_tls_files_of_overrides_are_refused_outside_the_allowed_directories(tmp_path):
    settings = WorkerConfig(
        {**worker().originals, "connector.client.config.override.allowed.paths": str(tmp_path / "tls")}
    )
    config = {**GOOD, "producer.override.ssl.truststore.type": "PEM"}
    key = "producer.override.ssl.truststore.location"
    assert errors(validate({**config, key: str(tmp_path / "tls" / "ca.pem")}, settings)) == {}
    assert set(errors(validate({**config, key: str(tmp_path / "tls" / ".." / "ca.pem")}, settings))) == {key}


def test_override_rules_apply_to_a_connectors_own_clients_under_every_policy(tmp_path):
    settings = worker(connector_client_config_override_policy="None")
    settings = WorkerConfig({**settings.originals, "connector.client.config.override.allowed.paths": str(tmp_path)})
    own = {"far.ssl.truststore.location": str(tmp_path / "ca.pem"), "far.linger.ms": "1", "near.ssl.ca.location": "/x"}
    given = {"name": "c", "connector.class": "WithClients", **own}
    assert errors(validate(given, settings)) == {}
    key = "far.ssl.truststore.location"
    [text] = errors(validate({**given, key: "/etc/passwd"}, settings))[key]
    assert text.startswith(f"{key}: 'ssl.truststore.location' can not be overridden")
    assert "passwd" not in text


def test_untranslatable_overrides_are_errors_and_guarded_ones_are_not():
    found = errors(validate({**GOOD, "producer.override.linger.ms": "soon", "producer.override.acks": "1"}))
    assert found == {
        "producer.override.linger.ms": (
            "Invalid value for configuration producer.override.linger.ms: it must be a number of milliseconds",
        )
    }


@pytest.mark.parametrize(
    ("config", "shared", "named"),
    [
        ({"producer.client": "batch"}, {}, ()),
        ({"producer.client": "batch", "producer.override.linger.ms": "5"}, {}, ()),
        ({"producer.client": "batch", "producer.override.compression.type": "zstd"}, {}, ()),
        ({"producer.client": "batch", "producer.override.compression.type": "lzma"}, {}, ("compression.type",)),
        ({"producer.client": "batch"}, {"producer_ssl_crl_location": "/x"}, ("ssl.crl.location",)),
        ({"producer.override.sasl.mechanism": "GSSAPI"}, {"producer_client": "batch"}, ("sasl.mechanism",)),
        ({"producer.override.sasl.mechanism": "GSSAPI"}, {}, ()),
        ({"producer.override.compression.type": "zstd", "producer.client": "auto"}, {"producer_client": "batch"}, ()),
        ({"producer.client": "other"}, {}, ("other", "AUTO, BATCH, LIBRDKAFKA")),
    ],
)
def test_settings_that_the_chosen_client_lacks_are_named(config, shared, named):
    found = errors(validate({**GOOD, **config}, worker(**shared)))
    assert list(found) == (["producer.client"] if named else [])
    for part in named:
        assert part in found["producer.client"][0]


def test_overrides_are_combined_with_the_workers_client_settings():
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required username=a password=b;"
    config = {**GOOD, "producer.override.sasl.jaas.config": scram}
    assert errors(validate(config, worker(sasl_mechanism="SCRAM-SHA-512"))) == {}
    assert errors(validate(config, worker(producer_sasl_mechanism="SCRAM-SHA-256"))) == {}


def test_errors_that_an_author_raises_are_shown_at_their_key():
    class Strict(Undecided):
        @classmethod
        def validate(cls, properties):
            raise ConfigError(["Invalid value for configuration high: no", "nothing is right"])

    PLUGINS.own["Strict"] = Strict
    assert errors(validate({"name": "c", "connector.class": "Strict"})) == {
        "high": ("Invalid value for configuration high: no",),
        "connector.class": ("nothing is right",),
    }


def test_invalid_topic_creation_groups_are_refused():
    config = {**GOOD, "topic.creation.groups": "logs", "topic.creation.logs.include": "(", "topic.creation.x": "1"}
    found = errors(validate(config))
    assert set(found) == {
        "topic.creation.default.replication.factor",
        "topic.creation.default.partitions",
        "topic.creation.logs.include",
    }
    config |= {
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": "0",
        "topic.creation.logs.include": "logs.*",
    }
    assert set(errors(validate(config))) == {"topic.creation.default.partitions"}


def test_source_can_have_dead_letters_and_only_wrong_keys_of_them_are_reported():
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    assert errors(validate({**GOOD, **letters})) == {}
    wrong = validate({**GOOD, **letters, "errors.deadletterqueue.topic.replication.factor": "many"})
    assert set(errors(wrong)) == {"errors.deadletterqueue.topic.replication.factor"}


def test_offsets_topic_is_refused_as_dead_letter_topic():
    key = "errors.deadletterqueue.topic.name"
    assert errors(validate({**GOOD, key: "mine", "offsets.storage.topic": "mine"})).keys() == {key}


def test_dead_letters_of_a_dataframe_connector_are_refused_with_the_reason():
    spool = {"name": "c", "connector.class": "SpoolDirectorySource", "input.path": "/in", "topic": "t"}
    key = "errors.deadletterqueue.topic.name"
    [text] = errors(validate({**spool, key: "dead", "input.format": "csv"}))[key]
    assert f"Remove {key}" in text


@pytest.mark.parametrize(
    ("changes", "is_right"),
    [
        ({}, True),
        ({"errors.deadletterqueue.context.headers.enable": "false"}, False),
        ({"errors.deadletterqueue.topic.name": ""}, False),
        ({"errors.deadletterqueue.topic.name": "again"}, False),
        ({"topics": "t,again"}, False),
        ({"topics": "", "topics.regex": "a.*"}, False),
        ({"topics": "", "topics.regex": "b.*"}, True),
        ({"errors.deadletterqueue.resend.topic.name": "no topic"}, False),
    ],
)
def test_resend_topic_needs_context_headers_and_a_topic_without_another_use(changes, is_right):
    key = "errors.deadletterqueue.resend.topic.name"
    config = {
        "name": "c",
        "connector.class": "FileStreamSink",
        "topics": "t",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.context.headers.enable": "true",
        key: "again",
        **changes,
    }
    assert (key not in errors(validate(config))) is is_right


def test_a_connector_cannot_declare_config_providers():
    config = {**GOOD, "config.providers": "file", "config.providers.file.class": "x"}
    assert set(errors(validate(config))) == {"config.providers", "config.providers.file.class"}


def test_definitions_of_a_plugin_begin_with_its_own_keys():
    names = [one.name for one in plugin_definitions(PluginKind.CONNECTOR, FileStreamSourceConnector, PLUGINS)]
    assert names[:3] == ["file", "topic", "batch.size"]
    assert set(names) == FILE_SOURCE_KEYS
    assert [one.name for one in plugin_definitions(PluginKind.TRANSFORM, Prefixed, PLUGINS)] == ["prefix", "times"]


def test_plugin_finder_of_these_tests_raises_as_the_real_one():
    with pytest.raises(ConfigError):
        PLUGINS.find(PluginKind.CONVERTER, "nothing")


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("enabled", "perhaps", "either true or false"),
        ("attempts", "-2", "at least -1"),
        ("backoff.initial.ms", "0", "at least 1"),
        ("window.ms", "-1", "at least 0"),
        ("backoff.max.ms", "999", "at least that of errors.restart.backoff.initial.ms, 1000"),
    ],
)
def test_invalid_settings_of_automatic_restarts_are_refused_with_the_key(key: str, value: str, text: str):
    found = errors(validate({**GOOD, f"errors.restart.{key}": value}))
    assert list(found) == [f"errors.restart.{key}"]
    assert text in found[f"errors.restart.{key}"][0]


@pytest.mark.parametrize("kind", ["FileStreamSink", "FilesSink"])
@pytest.mark.parametrize(("protocol", "is_right"), [("consumer", False), ("CONSUMER ", False), ("classic", True)])
def test_consumer_group_protocol_is_refused_for_a_sink(kind: str, protocol: str, is_right: bool) -> None:
    key = "consumer.override.group.protocol"
    plain = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
    config = {"name": "c", "connector.class": kind, "topics": "t", "path": "/p", **plain, key: protocol}
    found = validate_connector(config, plugins=PluginRegistry(), worker=worker())
    assert found.error_count == (0 if is_right else 1)
    for text in errors(found).get(key, ()):
        assert "KIP-848" in text
        assert text.endswith(f"Remove {key}.")


def with_providers(**more: str) -> WorkerConfig:
    declared = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    return WorkerConfig({**worker(**more).originals, **declared})


def test_looked_up_values_are_validated_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TOPIC": "canary-topic", "COUNT": "canary-count", "CASE": "canary-case"}.items():
        monkeypatch.setenv(f"FENCEPOST_{name}", value)
    config = {
        **GOOD,
        "topic": "${env:FENCEPOST_TOPIC}",
        "tasks.max": "${env:FENCEPOST_COUNT}",
        "errors.tolerance": "${env:FENCEPOST_CASE}",
        "transforms": "t",
        "transforms.t.type": "HoistField$Value",
        "transforms.t.field": "${env:FENCEPOST_TOPIC}",
        "producer.override.linger.ms": "${env:FENCEPOST_COUNT}",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "${env:FENCEPOST_COUNT}",
    }
    report = validate_connector(config, plugins=PLUGINS, worker=with_providers())
    found = errors(report)
    assert found.keys() == {
        "tasks.max", "errors.tolerance", "producer.override.linger.ms", "value.converter.schemas.enable"
    }  # fmt: skip
    assert found["tasks.max"] == ("Invalid value [hidden] for configuration tasks.max: Not a number of type INT",)
    shown = {one.value.name: one.value.value for one in report.configs}
    assert shown["topic"] == shown["transforms.t.field"] == "${env:FENCEPOST_TOPIC}"
    assert shown["tasks.max"] == "${env:FENCEPOST_COUNT}"
    assert "canary" not in repr(report)
    with pytest.raises(BadRequestError) as refused:
        require_valid(report)
    assert "canary" not in str(refused.value)


def test_failed_look_up_is_the_only_error_of_its_key() -> None:
    config = {**GOOD, "tasks.max": "${env:FENCEPOST_NOT_SET}", "topic": "${env:FENCEPOST_NOT_SET}"}
    found = errors(validate_connector(config, plugins=PLUGINS, worker=with_providers()))
    assert found.keys() == {"tasks.max", "topic"}
    (text,) = found["tasks.max"]
    assert text.startswith("tasks.max: ${env:FENCEPOST_NOT_SET} cannot be looked up: there is no FENCEPOST_NOT_SET")


@pytest.mark.parametrize("key", ["offsets.storage.topic", "producer.override.bootstrap.servers", "slot.dedicated"])
def test_keys_that_the_worker_reads_itself_cannot_be_references(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_VALUE", "elsewhere")
    config = {**GOOD, key: "${env:FENCEPOST_VALUE}"}
    found = errors(validate_connector(config, plugins=PLUGINS, worker=with_providers()))
    assert list(found) == [key]
    assert "write the value itself" in found[key][0]


def test_the_class_of_a_connector_cannot_be_a_reference() -> None:
    with pytest.raises(BadRequestError, match="every worker must know the class"):
        validate_connector({"connector.class": "${env:CLASS}"}, plugins=PLUGINS, worker=with_providers())


def test_reference_to_an_undeclared_provider_is_refused_with_the_key() -> None:
    config = {
        **GOOD,
        "topic": "${file:/x:topic}",
        "transforms.a.b": "${env:X}",
        "producer.override.ssl.key.password": "${v:p:k}",
    }
    report = validate(config)
    assert set(errors(report)) == {"topic", "transforms.a.b", "producer.override.ssl.key.password"}
    (text,) = errors(report)["topic"]
    assert text.startswith("topic: ${file:/x:topic} refers to file, which config.providers does not name")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, []),
        ({"value.converter.schemas.enable": "false"}, []),
        (
            {"key.converter": "com.example.Nothing", "header.converter": "JavaHeaders"},
            [
                "Invalid value JavaHeaders for configuration header.converter: Class JavaHeaders could not",
                "Invalid value com.example.Nothing for configuration key.converter: Class com.example",
            ],
        ),
        (
            {"value.converter": "io.apicurio.registry.utils.converter.AvroConverter"},
            ["value.converter: .*a Java plug-in: install it in .*, or use AvroConverter, with a"],
        ),
        (
            {"value.converter": "JsonConverter", "value.converter.schemas.enable": "perhaps"},
            ["value.converter: Invalid value perhaps for configuration schemas.enable"],
        ),
    ],
)
def test_all_unusable_converters_of_a_workers_file_are_refused_at_once(given: dict[str, str], said: list[str]) -> None:
    worker = WorkerConfig({**SETTINGS, **given})
    if not said:
        require_converters(worker, PluginRegistry())
        return
    with pytest.raises(ConfigError) as caught:
        require_converters(worker, PluginRegistry())
    assert len(caught.value.messages) == len(said)
    for message, pattern in zip(caught.value.messages, said, strict=True):
        assert re.search(pattern, message), message


@pytest.mark.parametrize(
    ("config", "worker_settings", "named"),
    [
        ({}, {}, ()),
        ({"producer.client": "batch"}, {}, ()),
        ({"producer.client": "librdkafka"}, {}, ("producer.client",)),
        ({"producer.override.sasl.mechanism": "GSSAPI"}, {}, ("sasl.mechanism",)),
        ({}, {"exactly_once_source_support": "disabled"}, ("exactly.once.source.support",)),
        ({"ledger.topic": "offsets"}, {"offset_storage_topic": "offsets"}, ("offsets",)),
    ],
)
def test_a_ledger_that_cannot_be_written_is_refused(config, worker_settings, named):
    settings = {"exactly_once_source_support": "enabled", **worker_settings}
    found = errors(validate({**GOOD, "ledger.topic": "ledger", **config}, worker(**settings)))
    assert list(found) == (["ledger.topic"] if named else [])
    for part in named:
        assert part in found["ledger.topic"][0]
