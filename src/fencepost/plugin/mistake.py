"""What is wrong with a plug-in, or with its name, in the words of those who wrote it, and what to do about it.

Well-known Java plug-ins may not be in `plugin.path`, or not run here. A class is looked up in the table of its kind, a
connector in that of its direction: a source is no replacement for a sink of the same store. The first pattern that fits
decides. All but the last also fit class names without a package.
"""

import difflib
import inspect
import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.api import (
    Connector,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
    StreamConnector,
    StreamTask,
)
from fencepost.hook.hosted_task import KnowsSettings
from fencepost.plugin.kind import PluginKind

_OF_JAVA = "a Java plug-in: install it in plugin.path ({command}) and restart the worker, or"
_INSTALL = "`fencepost plugin install`"
_IN_A_JAVA_PACKAGE = re.compile(r"(com|io|org|net|dev|streams)\.([\w-]+\.)+[A-Z]")
_SINK = re.compile(r"sink|\.writer\.", re.IGNORECASE)


class _Offer(NamedTuple):
    """A pattern of class names, what they have in common, and the replacement."""

    pattern: str
    product: str
    instead: str


_FILES = "the connector FilesSink, whose path may be "
_SPOOL = "the connector SpoolDirectorySource, whose input.path may be "
_SPARK_READS = "a DataFrameConnector of a few lines, whose read() returns session.read"
_SPARK_WRITES = "a DataFrameSink of your own, whose write() has Spark write an epoch"
_PUT = "a SinkConnector of your own, whose put() writes batches"
_POLL = "a SourceConnector of your own, whose poll() returns records"
_CCOMPAT = ", with a registry that has Confluent's API"
_CHANGES = "a SourceConnector of your own over the database's change stream"

_SINKS = (
    _Offer(r"mirror|replicator", "a sink for another cluster", "the connector MirrorSink, or `fencepost mirror`"),
    _Offer(r"iceberg|hudi|hoodie|delta|paimon", "a sink for a table format", _SPARK_WRITES),
    _Offer(
        r"bigquery|snowflake|redshift|databricks|synapse|singlestore|doris|starrocks|clickhouse|kusto|vertica|exasol",
        "a sink for a data warehouse", _SPARK_WRITES + ", or " + _PUT,
    ),
    _Offer(r"hdfs|hive", "an HDFS sink", _FILES + "an hdfs:// path"),
    _Offer(r"(?<![a-z])s3(?![a-z])|s3sink|aws.?s3|minio", "an S3 sink", _FILES + "an s3a:// path"),
    _Offer(r"gcs|(google|gcp).?storage", "a sink for Google Cloud Storage", _FILES + "a gs:// path"),
    _Offer(r"blob|adls|data.?lake|azure.?storage(?!.?queue)", "a sink for Azure Storage", _FILES + "an abfss:// path"),
    _Offer(r"(?<![a-z])s?ftp|camelfile|filesink|\.file\.", "a sink for files", _FILES + "a directory"),
    _Offer(
        r"jdbc|(?<![a-z])sql|postgres|mysql|mariadb|oracle|yugabyte",
        "a sink for databases", "the connector PostgresSink, or elsewhere " + _PUT + " to the database",
    ),
    _Offer("", "a sink", _PUT),
)  # fmt: skip
_SOURCES = (
    _Offer(
        r"mirror|replicator", "a source for another cluster", "the connector MirrorSource, or `fencepost mirror`"
    ),
    _Offer(r"datagen|voluble|datafaker", "a source of made-up records", "the connector Datagen"),
    _Offer(
        r"spooldir|filepulse|(?<![a-z])s?ftps?(?![a-z])|sftp|file.?chunk|camelfile|\.fs\.",
        "a source for files", _SPOOL + "a directory that has them",
    ),
    _Offer(r"hdfs", "an HDFS source", _SPOOL + "an hdfs:// path"),
    _Offer(r"(?<![a-z])s3(?![a-z])|s3source|aws.?s3|minio", "an S3 source", _SPOOL + "an s3a:// path"),
    _Offer(r"gcs|(google|gcp).?storage", "a source for Google Cloud Storage", _SPOOL + "a gs:// path"),
    _Offer(
        r"blob|adls|data.?lake|azure.?storage(?!.?queue)", "a source for Azure Storage", _SPOOL + "an abfss:// path"
    ),
    _Offer(r"debezium.*postgres", "a source for the changes of Postgres", "the connector PostgresSource"),
    _Offer(r"debezium|cdc|golden.?gate|maxwell|yugabyte", "a source for the changes of a database", _CHANGES),
    _Offer(r"mongo", "a MongoDB source", _CHANGES),
    _Offer(
        r"jdbc|(?<![a-z])sql|postgres|mysql|mariadb|oracle|bigquery|snowflake|redshift",
        "a source for tables of a database", "the connector JdbcSource",
    ),
    _Offer(r"iceberg|hudi|hoodie|delta", "a source for a table format", _SPARK_READS + " of its table"),
    _Offer("", "a connector", _POLL),
)  # fmt: skip
_TRANSFORMS = (
    _Offer(r"tombstonehandler|tombstonefilter", "a transform", "Filter with the predicate RecordIsTombstone"),
    _Offer(
        r"bylogicaltablerouter|topicregexrouter|patternrename$|changetopic",
        "a transform that changes topics", "RegexRouter",
    ),
    _Offer(
        r"messagetimestamprouter", "a transform that changes topics",
        "TimestampRouter, which takes the record's timestamp, or a Transform of your own",
    ),
    _Offer(
        r"contentbasedrouter|extracttopic|\w*router$", "a transform that changes topics",
        "a Transform of your own, which returns the record with another topic",
    ),
    _Offer(
        r"filter\w*(\$|$)|filterbyfield", "a transform that leaves records out",
        "Filter with a Predicate of your own, a method of a few lines",
    ),
    _Offer(r"(insert|add)\w*header", "a transform that adds headers", "InsertHeader, or a Transform of your own"),
    _Offer(r"fieldstoheader", "a transform of headers", "HeaderFrom, or a Transform of your own"),
    _Offer(r"time(stamp|zone)convert", "a transform of times", "TimestampConverter, or a Transform of your own"),
    _Offer(r"flatten", "a transform", "Flatten, or a Transform of your own"),
    _Offer(r"", "a transform", "a Transform of your own, a method of a few lines"),
)  # fmt: skip
_CONVERTERS = (
    _Offer(r"protobuf", "a schema registry converter", "ProtobufConverter" + _CCOMPAT),
    _Offer(r"jsonschema|extjson", "a schema registry converter", "JsonSchemaConverter" + _CCOMPAT),
    _Offer(r"avro|glue", "a schema registry converter", "AvroConverter" + _CCOMPAT),
    _Offer(r"json", "a converter", "JsonConverter"),
    _Offer(r"bytebuffer|binarydata|bytearray", "a converter of bytes", "ByteArrayConverter"),
    _Offer(r"string", "a converter of text", "StringConverter"),
    _Offer(r"", "a converter", "a Converter of your own"),
)
_TABLES = {
    PluginKind.TRANSFORM: _TRANSFORMS,
    PluginKind.PREDICATE: (_Offer(r"", "a predicate", "a Predicate of your own, a method of a few lines"),),
    PluginKind.CONVERTER: _CONVERTERS,
    PluginKind.HEADER_CONVERTER: (_Offer(r"", "a header converter", "a HeaderConverter of your own"),),
}


def offer_for(kind: PluginKind, name: str) -> str | None:
    """Return a sentence that names the replacement of a Java class of that kind; None if the name is not one's."""
    is_java = _IN_A_JAVA_PACKAGE.match(name) is not None
    if "." in name and not is_java:
        return None
    offers = (one for one in _table(kind, name) if one.pattern or is_java)
    found = next((one for one in offers if re.search(one.pattern, name, re.IGNORECASE)), None)
    if found is None:
        return None
    from fencepost.builtin.java.install.known import plugin_of  # nothing of Java is loaded before it is asked for

    known = plugin_of(name)
    how = _OF_JAVA.format(command=_INSTALL if known is None else known.command)
    return f"{name} is {found.product}, {how} use {found.instead}"


def _table(kind: PluginKind, name: str) -> tuple[_Offer, ...]:
    if kind is PluginKind.CONNECTOR:
        return _SINKS if _SINK.search(name) is not None else _SOURCES
    return _TABLES.get(kind, ())


_TASKS: tuple[tuple[type[Any], type[Any]], ...] = (
    (StreamConnector, StreamTask),
    (SinkConnector, SinkTask),
    (SourceConnector, SourceTask),
)
_CLOSE, _TYPO, _TIE, _MOST_CLOSE = 0.7, 0.9, 0.05, 3
_FEW = 4
RESTART = "Plug-ins are read when a worker starts: restart it if this one was added or changed since"


def unknown(kind: PluginKind, name: str, known: Iterable[str], causes: Sequence[str], offer: str | None) -> str:
    """Return the answer for a class that is not found: why that may be, and which names are close to it.

    Args:
        known: The full names of the classes of this kind.
        causes: What could not be loaded.
        offer: What to use instead of a class of another product.
    """
    from fencepost.builtin.java.install.known import plugin_of  # nothing of Java is loaded before it is asked for

    what = (
        f"Failed to find any class that implements Connector and which name matches {name}"
        if kind is PluginKind.CONNECTOR
        else f"Class {name} could not be found"
    )
    where = (
        f"`fencepost plugin list` names every {kind.value.replace('_', ' ')} of a worker: with --url URL if it runs, "
        "or with --properties FILE, its file"
    )
    close = _close(kind, name, sorted(known))
    if close.is_typo and plugin_of(name) is None:  # then nothing else is likely
        text = [*_ended(what), *close.sentence(), *_ended(*causes, RESTART, where)]
    elif offer is not None:  # what has a similar name is of another product
        text = _ended(what, *causes, offer, where)
    else:
        text = [*_ended(what, *causes), *close.sentence(), *_ended(RESTART, where)]
    return " ".join(text).removesuffix(".")


def _ended(*sentences: str) -> list[str]:
    return [f"{sentence.rstrip('.')}." for sentence in sentences]


class _Close(NamedTuple):
    """The names that may be meant, and whether one is so near that the given one is misspelt."""

    names: Sequence[str]
    is_typo: bool
    known: Sequence[str]

    def sentence(self) -> list[str]:
        """Return a sentence with these names, if there are some; with all, if these are few."""
        if self.names and (self.is_typo or len(self.known) > _FEW):
            return [f"Did you mean {' or '.join(self.names)}?"]
        return [f"There are {', '.join(self.known)}."] if len(self.known) <= _FEW else []


def _close(kind: PluginKind, name: str, known: Sequence[str]) -> _Close:
    """Return the names nearest to `name`, in the form in which it is given: full, or without its package."""
    candidates: dict[str, str] = {}
    for full in known:
        short = full.rpartition(".")[2]
        for each in (full, short, short.removesuffix(kind.suffix)):
            candidates.setdefault(each.lower(), each if "." in name else short)
    ratios = {each: difflib.SequenceMatcher(None, name.lower(), each).ratio() for each in candidates}
    least = max(_CLOSE, max(ratios.values(), default=0.0) - _TIE)
    found = sorted((each for each, ratio in ratios.items() if ratio >= least), key=lambda each: -ratios[each])
    names = list(dict.fromkeys(candidates[each] for each in found))[:_MOST_CLOSE]
    return _Close(names, bool(found) and ratios[found[0]] >= _TYPO, known)


def class_fault(cls: type[Any]) -> str | None:
    """Return why a class of connectors cannot run; None if it can, or is a plug-in of another kind."""
    if not issubclass(cls, Connector):
        return None
    if isinstance(cls, KnowsSettings):
        return None  # a class of Java, which is checked when it is loaded
    missing = _abstract(cls)
    if missing:
        return f"{_named(cls)} does not define {' and '.join(missing)}"
    base = next((task for connector, task in _TASKS if issubclass(cls, connector)), None)
    if base is None:
        return f"{_named(cls)} derives from Connector: derive it from SourceConnector, SinkConnector or StreamConnector"
    return None if getattr(cls, "is_dataframe", False) else _task_fault(cls, base)


def _task_fault(cls: type[Any], base: type[Any]) -> str | None:
    task = getattr(cls, "task", None)
    if task is None:
        return f"{_named(cls)} has no task: write `task = ...` in the class, with the name of its {base.__name__}"
    if not (isinstance(task, type) and issubclass(task, base)):
        shown = task.__name__ if isinstance(task, type) else repr(task)
        return f"{_named(cls)} has the task {shown}, which is no {base.__name__}: derive it from {base.__name__}"
    missing = _abstract(task)
    if missing:
        return f"{task.__name__}, the task of {_named(cls)}, does not define {' and '.join(missing)}"
    needed = _needed(task)
    if needed:
        return (
            f"{task.__name__}, the task of {_named(cls)}, is created without arguments, but its __init__ needs "
            f"{' and '.join(needed)}: prepare it in `start`, where `self.config` has the settings"
        )
    return None


def _needed(task: type[Any]) -> list[str]:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    arguments = inspect.signature(task).parameters.values()
    return [each.name for each in arguments if each.default is each.empty and each.kind not in variadic]


def import_fault(error: BaseException, place: Path | None = None) -> str:
    """Return what went wrong at the import of a file, or of a package, and in which of its lines."""
    said = f"{type(error).__name__}: {error}"
    if place is None or isinstance(error, SyntaxError):  # it names the line itself
        return said
    own = place.parent if place.name == "__init__.py" else place
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame for frame in frames if Path(frame.filename).resolve().is_relative_to(own.resolve())]
    return f"{said} ({Path(lines[-1].filename).name}, line {lines[-1].lineno})" if lines else said


def _abstract(cls: type[Any]) -> list[str]:
    return sorted(name for name in dir(cls) if getattr(getattr(cls, name, None), "__isabstractmethod__", False))


def _named(cls: type[Any]) -> str:
    try:
        return f"{cls.__name__} ({inspect.getfile(cls)})"
    except (TypeError, OSError):
        return cls.__name__


def unusable_names(entries: Iterable[Path]) -> Iterator[str]:
    """Yield a text for each file or package of a directory of plug-ins whose name no module can have."""
    for entry in entries:
        is_package = (entry / "__init__.py").is_file()
        if not is_package and entry.suffix != ".py":
            continue
        name = entry.name if is_package else entry.stem
        if not name.isidentifier():
            better = "".join(c if c.isalnum() else "_" for c in name)
            better = better if better.isidentifier() else f"my_{better}"
            yield (
                f"plugin.path: {entry} is not read, because {name} cannot be the name of a module: rename it to "
                f"{better}{entry.suffix}"
            )
