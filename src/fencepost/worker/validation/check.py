"""The checks of a connector's config, in the order in which their errors are shown. A row is all there is to add
one.

Each check is a function of an examination. It yields faults, a key with the text of an error, and sees those of the
checks before it. Among them is whether a connector can keep what its config promises about transactions (KIP-618's
preflight checks).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import UnionType

from fencepost.api import (
    Connector,
    DataFrameConnector,
    DataFrameStream,
    EpochConnector,
    ExactlyOnceSupport,
    SinkConnector,
    SourceConnector,
    StreamConnector,
)
from fencepost.builtin.connector.sql_stream import SqlStream
from fencepost.config import Config, ConfigError
from fencepost.config.connector import (
    DeadLetterConfig,
    ExactlyOnceDemand,
    RuntimeChoice,
    SinkChoice,
    SourceConnectorConfig,
    TransactionBoundary,
)
from fencepost.config.reference import given_values, names_in
from fencepost.config.topic_creation import DEFAULT_GROUP, topic_creation_faults
from fencepost.hook.hosted_task import KnowsSettings
from fencepost.kafka.setting.client_settings import transaction_timeout_ms
from fencepost.kafka.setting.table import ClientKind
from fencepost.kafka.setting.translation import SettingsError, translate
from fencepost.plugin import PluginKind
from fencepost.reference import is_of_providers
from fencepost.worker.closed_topics import closed_by_name
from fencepost.worker.plan import PRODUCER, AnyStream, fixed_reference_faults
from fencepost.worker.validation import client_settings, reader
from fencepost.worker.validation.chain import CLASS, Examination, Faults, converter_faults, invalid
from fencepost.worker.validation.typo import renamed_keys

_SUPPORT, _BOUNDARY, _INTERVAL = (
    SourceConnectorConfig.key_of(name)
    for name in ("exactly_once_support", "transaction_boundary", "transaction_boundary_interval_ms")
)


def exactly_once_faults(case: Examination) -> Faults:
    source, is_enabled = case.instance, case.worker.is_exactly_once
    assert isinstance(source, SourceConnector)
    demanding = source.demands_exactly_once()
    if demanding is not None and not is_enabled:
        yield (
            demanding,
            f"{demanding} needs exactly-once source support, which this worker does not have enabled: set "
            "exactly.once.source.support=enabled in the workers' files, or remove this setting.",
        )
    if case.chosen(_SUPPORT) != ExactlyOnceDemand.REQUIRED.value:
        return
    if not is_enabled:
        yield _SUPPORT, "This worker does not have exactly-once source support enabled."
    try:
        support = source.exactly_once_support()
    except BaseException as error:
        yield _SUPPORT, _unexpected(error)
        return
    if support is None:
        yield (
            _SUPPORT,
            "The connector does not implement the API required for preflight validation of exactly-once source "
            "support. Please consult the documentation for the connector to determine whether it supports "
            "exactly-once semantics, and then consider reconfiguring the connector to use the value "
            f'"{ExactlyOnceDemand.REQUESTED.value}" for this property (which will disable this preflight check and '
            "allow the connector to be created).",
        )
    elif support is not ExactlyOnceSupport.SUPPORTED:
        yield _SUPPORT, "The connector does not support exactly-once semantics with the provided configuration."


def boundary_faults(case: Examination) -> Faults:
    assert isinstance(case.instance, SourceConnector)
    if case.instance.defines_transactions:
        if case.text(_BOUNDARY) and case.chosen(_BOUNDARY) not in ("", TransactionBoundary.CONNECTOR.value):
            yield (
                _BOUNDARY,
                f"Invalid value {case.text(_BOUNDARY)} for configuration {_BOUNDARY}: this connector defines its "
                f"transactions itself; remove the setting, or set it to {TransactionBoundary.CONNECTOR.value}.",
            )
        return
    if case.chosen(_BOUNDARY) != TransactionBoundary.CONNECTOR.value:
        return
    try:
        can_define = case.instance.can_define_transaction_boundaries()
    except BaseException as error:
        yield _BOUNDARY, _unexpected(error)
        return
    if not can_define:
        yield (
            _BOUNDARY,
            "The connector does not support connector-defined transaction boundaries with the given configuration. "
            "Please reconfigure it to use a different transaction boundary definition.",
        )


def interval_faults(case: Examination) -> Faults:
    """Refuse an interval that is longer than a transaction of the connector's producers may take."""
    clients = case.plan.clients
    try:
        conf = translate(ClientKind.PRODUCER, {**clients.shared(PRODUCER), **clients.own(PRODUCER)}).conf
    except SettingsError:
        return
    timeout_ms = transaction_timeout_ms(conf)
    if not case.findings.is_valid(_INTERVAL) or case.chosen(_BOUNDARY) != TransactionBoundary.INTERVAL.value:
        return
    given = case.findings.by_key[_INTERVAL].value
    if given is not None and int(given) >= timeout_ms:
        yield (
            _INTERVAL,
            f"Invalid value {given} for configuration {_INTERVAL}: a transaction may take transaction.timeout.ms="
            f"{timeout_ms}, so the broker would end it before the interval is over. Set a shorter interval, or a "
            "longer producer.override.transaction.timeout.ms (the broker's transaction.max.timeout.ms bounds it).",
        )


def _unexpected(error: BaseException) -> str:
    reason = str(error).strip() if isinstance(error, Exception) else repr(error)
    tail = f": {reason}" if reason else "; please see the worker logs for more details."
    return f"An unexpected error occurred during validation{tail}"


_DEAD_LETTERS = DeadLetterConfig.key_of("dead_letters_topic")


@dataclass(frozen=True)
class Check:
    """A check: its name, the faults that it finds, and what it needs.

    Attributes:
        of: The classes of connectors that it is about.
        but_not: Those of them that it is not about.
        needs_instance: It asks an instance, which exists if the connector's own settings are valid.
    """

    name: str
    find: Callable[[Examination], Faults]
    of: type[Connector] | UnionType = Connector
    but_not: type[Connector] | tuple[()] = ()
    needs_instance: bool = False

    def applies(self, case: Examination) -> bool:
        """Say whether it is about such a connector, and has what it needs."""
        is_meant = issubclass(case.connector, self.of) and not issubclass(case.connector, self.but_not)
        return is_meant and (case.instance is not None or not self.needs_instance)


def _renamed(case: Examination) -> Faults:
    """Name the old key of the config where the new one is missing."""
    name = case.plugins.name_of(PluginKind.CONNECTOR, case.connector)
    for old, new in renamed_keys(name, case.given, case.findings.by_key.keys()):
        if new not in case.given and not case.findings.is_valid(new):
            yield new, f"It was {old} before Debezium 2, which this config has: rename that"


def _converters(case: Examination) -> Faults:
    return converter_faults(case.findings, case.given, case.plugins, case.plan.effective)


def _topic_creation(case: Examination) -> Faults:
    names = names_in(case.given.get(SourceConnectorConfig.key_of("topic_creation_group_names")))
    return topic_creation_faults(case.given, [name for name in names if name != DEFAULT_GROUP]).items()


def _dead_letters_topic(case: Examination) -> Faults:
    """Refuse dead letter topics that contain the connector's offsets."""
    own = case.given.get(SourceConnectorConfig.key_of("offsets_storage_topic"))
    for key in (_DEAD_LETTERS, SinkChoice.key_of("resend_topic")):
        name = case.text(key)
        if name and name == own:
            yield key, invalid(key, name, "this topic holds the connector's offsets; choose another one")


def _closed_topics(case: Examination) -> Faults:
    return closed_by_name(case.plan).faults(case.connector, case.given).items()


def _nulls(case: Examination) -> Faults:
    case.findings.refuse_nulls(case.plan.config)
    return ()


def reference_faults(case: Examination) -> Mapping[str, str]:
    """Return why references could not be looked up, or are not possible, by key.

    A connector may not declare config providers: one could read any file for it (CVE-2024-31141).
    """
    providers = {
        key: f"'{key}' can not be set by a connector: config providers belong in the worker's file."
        for key in case.given
        if is_of_providers(key)
    }
    known = {} if case.plan.answers is None else case.plan.answers.faults
    return {**known, **fixed_reference_faults(case.plan.config), **providers}


def _unlisted(config: type[Config]) -> Callable[[Examination], Faults]:
    """Return a check of keys that only Fencepost has; an answer shows them only if they are wrong."""

    def find(case: Examination) -> Faults:
        return [(one.setting.key, text) for one in config.validate_values(case.given) for text in one.errors]

    return find


def _restarts(case: Examination) -> Faults:
    if any(one.errors for one in RuntimeChoice.validate_values(case.given)):
        return
    choice, longest = RuntimeChoice(case.given), RuntimeChoice.key_of("restart_backoff_max_ms")
    if choice.restart_backoff_max_ms < choice.restart_backoff_initial_ms:
        first = RuntimeChoice.key_of("restart_backoff_initial_ms")
        text = f"Value must be at least that of {first}, {choice.restart_backoff_initial_ms}"
        yield longest, invalid(longest, choice.restart_backoff_max_ms, text)


def _construction(case: Examination) -> Faults:
    """Make the instance that the checks after this one ask, if the connector's own settings are valid."""
    if isinstance(case.connector, KnowsSettings) and not (case.asks_systems and case.findings.is_valid(CLASS)):
        return  # a Java class that is not, or cannot be, asked for its settings
    if not all(case.findings.is_valid(key) for key in case.connector.settings()):
        return
    try:
        case.instance = case.connector(case.given)
    except ConfigError as error:
        for text in error.messages:
            yield key_in(text, case.connector.settings()), text


def _epochs(case: Examination) -> Faults:
    from fencepost.spark.epoch.frame import EpochFrames  # and PySpark with it, for which no worker's start waits
    from fencepost.spark.epoch.records import EpochRecords

    stream, given = case.instance, given_values(case.plan.effective)
    if isinstance(stream, DataFrameStream):
        return _of_frame(case, lambda: EpochRecords(stream, given))
    assert isinstance(stream, EpochConnector)
    return _of_frame(case, lambda: EpochFrames(stream, given))


def _splits(case: Examination) -> Faults:
    from fencepost.spark.split.splits import SplitReader

    source = case.instance
    assert isinstance(source, DataFrameConnector)
    return _of_frame(case, lambda: SplitReader(source, case.given))


def _of_frame(case: Examination, make_reader: Callable[[], object]) -> Faults:
    """Refuse what DataFrames do not support: transforms of single records, and converters that Spark lacks."""
    try:
        make_reader()
    except ConfigError as error:
        known = {text for texts in case.findings.errors.values() for text in texts}
        return [(text.partition("=")[0].partition(":")[0], text) for text in error.messages if text not in known]
    return ()


def _frame_interval(case: Examination) -> Faults:
    return interval_faults(case) if case.worker.is_exactly_once else ()


def _dead_letters_of_rows(case: Examination) -> Faults:
    if case.given.get(_DEAD_LETTERS):
        yield (
            _DEAD_LETTERS,
            f"{_DEAD_LETTERS}: Spark reads and converts the rows of a DataFrame connector, so single rows cannot fail. "
            f"Remove {_DEAD_LETTERS}; with errors.tolerance=all, a split that cannot be read is set aside as a whole.",
        )


def key_in(text: str, keys: Collection[str]) -> str:
    """Return the key of these that an error names, so that the error is shown with it; else that of the class."""
    words = text.replace(":", " ").replace("'", " ").replace('"', " ").split()
    return next((word for word in words if word in keys), CLASS)


CHECKS = (
    Check("keys that were renamed", _renamed),
    Check("classes of converters", _converters),
    Check("topics of a sink", reader.topic_faults, of=SinkConnector),
    Check("a pattern for closed topics", reader.closed_pattern_faults, of=SinkConnector),
    Check("dead letters among the topics", reader.dead_letter_faults, of=SinkConnector),
    Check("resent dead letters", reader.resend_faults, of=SinkConnector),
    Check("the consumer group", reader.group_faults, of=SinkConnector),
    Check("the group protocol", reader.protocol_faults, of=SinkConnector),
    Check("a stream's output", reader.output_faults, of=StreamConnector),
    Check("one cluster", reader.cluster_faults, of=StreamConnector),
    Check("a stream's interval of commits", interval_faults, of=StreamConnector),
    Check("the isolation level", reader.isolation_faults, of=StreamConnector | SqlStream),
    Check("a query's checkpoint", reader.checkpoint_faults, of=SqlStream),
    Check("creation of topics by sources", _topic_creation, but_not=SinkConnector),
    Check("creation of topics by streams", _topic_creation, of=StreamConnector),
    Check("dead letters among the offsets", _dead_letters_topic),
    Check("closed topics", _closed_topics),
    Check("the connector's own clients", client_settings.own_client_faults),
    Check("credentials of clients", client_settings.credential_faults),
    Check("null values", _nulls),
    Check("references", lambda case: reference_faults(case).items()),
    Check("settings of Fencepost", _unlisted(RuntimeChoice)),
    Check("the choice of the client", client_settings.client_choice_faults),
    Check("the ledger", client_settings.ledger_faults),
    Check("pauses between restarts", _restarts),
    Check("dead letters of sources", _unlisted(DeadLetterConfig), but_not=SinkConnector),
    Check("choices of sinks", _unlisted(SinkChoice), of=SinkConnector),
    Check("construction", _construction),
    Check("a stream that reads its output", reader.loop_faults, of=AnyStream, needs_instance=True),
    Check("epochs", _epochs, of=EpochConnector, needs_instance=True),
    Check("a query", reader.query_faults, of=SqlStream, needs_instance=True),
    Check("exactly-once support", exactly_once_faults, of=SourceConnector, needs_instance=True),
    Check("boundaries of transactions", boundary_faults, of=SourceConnector, needs_instance=True),
    Check("a source's interval of commits", _frame_interval, of=SourceConnector, needs_instance=True),
    Check("splits", _splits, of=DataFrameConnector, needs_instance=True),
    Check("dead letters of rows", _dead_letters_of_rows, of=DataFrameConnector, needs_instance=True),
)
