"""Writes the pages of `docs/reference` from what the code declares.

python docs/generate.py            write the pages
python docs/generate.py --check    say which are out of date; exit code 1 if any is
"""

import ast
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fencepost
from fencepost.builtin.postgres.envelope.other_settings import REFUSED, REFUSED_PREFIXES, WITHOUT_EFFECT
from fencepost.config import Config, Setting
from fencepost.config.connector import (
    ConnectorConfig,
    DeadLetterConfig,
    RuntimeChoice,
    SinkChoice,
    SinkTopicsConfig,
    SourceConnectorConfig,
    StreamConnectorConfig,
)
from fencepost.config.setting import rendered
from fencepost.config.worker import WorkerConfig
from fencepost.plugin.kind import BUILT_IN, PluginKind
from fencepost.plugin.registry import PluginRegistry
from fencepost.rest.access.need import NEEDS, Where

REFERENCE = Path(__file__).parent / "reference"
_COMMAND = re.compile(r"`fencepost docs ([\w/-]+)(#[\w-]+)?`")
_NOTE = "<!-- Written by docs/generate.py from the code; change it there. -->"


def pages() -> dict[str, str]:
    """Return the text of every page by its file name."""
    return {
        "worker-settings.md": _page(_worker_settings()),
        "connector-settings.md": _page(_connector_settings()),
        "spark-reader.md": _page(_spark_reader()),
        "spark-writer.md": _page(_spark_writer()),
        "rest.md": _page(_rest()),
        "metrics.md": _page(_metrics()),
        "limits.md": _page(_limits()),
        "postgres-keys.md": _page(_postgres_keys()),
        "cli.md": _page(_cli()),
    }


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or compare them. Returns the exit code."""
    stale = [name for name, text in pages().items() if _read(REFERENCE / name) != text]
    if "--check" in arguments:
        for name in stale:
            print(f"docs/reference/{name} is out of date: run `python docs/generate.py`")
        return 1 if stale else 0
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text)
    return 0


def _read(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def _page(lines: Iterable[str]) -> str:
    first, *rest = lines
    return _COMMAND.sub(_link, "\n".join([first, "", _NOTE, *rest])) + "\n"


def _link(named: re.Match[str]) -> str:
    """Return the link to a page that a text of the code names by its command."""
    page, heading = named.groups(default="")
    return f"[more](../{page}.md{heading})"


# settings


def _worker_settings() -> Iterator[str]:
    yield "# Worker settings"
    yield from _paragraph(
        "A worker reads the file of Kafka Connect's distributed worker: Java's `.properties` format, the same keys. "
        "Wrong values are reported all at once and stop the start. An unknown key has no effect; the log names it, "
        "with the nearest known key. A setting without a default is required."
    )
    yield from _paragraph(
        "Beside the keys below there are prefixes. `producer.`, `consumer.` and `admin.` hold settings of the "
        "connectors' Kafka clients under their Java names. What stands under `config.storage.`, `offset.storage.` and "
        "`status.storage.` becomes a config of that topic. `key.converter.`, `value.converter.` and "
        "`header.converter.` configure the converters. `spark.` is passed to Spark as it is. `listeners.https.` and "
        "`admin.listeners.https.` hold the `ssl.` settings of [HTTPS](../how-to/protect-rest.md#https)."
    )
    yield from _paragraph(
        "[Operate](../how-to/operate.md#settings-that-have-no-effect-yet) names the settings that are read and have no "
        "effect yet."
    )
    for base in WorkerConfig.__mro__[1:]:
        own = [value for value in vars(base).values() if isinstance(value, Setting)]
        if not own:
            continue
        yield from ("", f"## {_title(base.__name__.removesuffix('Config'))}")
        yield from _paragraph(_first_paragraph(base))
        yield from _table(own)
    yield from ("", "## Config providers")
    yield from _paragraph(
        "A worker's file names them in `config.providers`, with their classes in `config.providers.NAME.class` and the "
        "following settings below `config.providers.NAME.param.`: [how to](../how-to/secrets.md)."
    )
    yield from _plugins(PluginKind.CONFIG_PROVIDER)


_OVERRIDES = (
    "A connector may change settings of its own Kafka clients under `producer.override.`, `consumer.override.` and "
    "`admin.override.`, with Kafka's Java names, as far as the worker's "
    "`connector.client.config.override.policy` lets it. Settings that would break a guarantee are ignored, with a "
    "warning. Settings that would make the worker load code, read files or reach other hosts are refused."
)


def _connector_settings() -> Iterator[str]:
    yield "# Connector settings"
    yield from _paragraph(
        "A connector's config is a map of strings. The first table holds for every connector; the last ones are the "
        "settings of the plug-ins that are shipped. A plug-in is named by its full class name, by the class name "
        "alone, or by that without its suffix (`Connector` and so on). A setting without a default is required."
    )
    yield from _paragraph(_OVERRIDES)
    yield from ("", "## Every connector")
    yield from _table(ConnectorConfig.settings().values())
    yield from _paragraph("And what Kafka Connect has not, which `validate` names only where it is wrong:")
    yield from _table(_own(RuntimeChoice))
    yield from ("", "## Every source connector")
    yield from _table(_own(SourceConnectorConfig))
    yield from ("", "## Every sink connector")
    yield from _table(_own(SinkTopicsConfig))
    yield from ("", "## Every stream connector")
    yield from _paragraph(
        "Beside those of a sink and, where it is to create topics, those of [topic creation](#topic-creation): "
        "[how to](../how-to/write-a-stream-task.md)."
    )
    yield from _table(_own(StreamConnectorConfig))
    yield from ("", "## Dead letters")
    yield from _paragraph(
        "For sinks, and beyond Kafka Connect for sources whose tasks run in slots: [how to](../how-to/dead-letters.md)."
    )
    yield from _table([*_own(DeadLetterConfig), *_own(SinkChoice)])
    yield from _topic_creation()
    for kind, title in (
        (PluginKind.CONNECTOR, "Connectors"),
        (PluginKind.TRANSFORM, "Transforms"),
        (PluginKind.PREDICATE, "Predicates"),
        (PluginKind.CONVERTER, "Converters"),
        (PluginKind.HEADER_CONVERTER, "Header converters"),
    ):
        yield from ("", f"## {title}")
        yield from _plugins(kind)


def _topic_creation() -> Iterator[str]:
    yield from ("", "## Topic creation")
    yield from _paragraph(
        "Where a config has any key below `topic.creation.`, the connector's topics are created before the first "
        "record goes there (KIP-158). `GROUP` is one of `topic.creation.groups`, or `default`, which always exists, "
        "takes every topic and must say how many partitions and replicas there shall be."
    )
    yield from (
        "",
        "| setting | meaning |",
        "|---|---|",
        "| `topic.creation.GROUP.include` | Regular expressions: the topics that belong to the group. |",
        "| `topic.creation.GROUP.exclude` | Regular expressions: the topics that do not, even if included. |",
        "| `topic.creation.GROUP.partitions` | Partitions of a new topic; -1: the broker's default. |",
        "| `topic.creation.GROUP.replication.factor` | Replicas of a new topic; -1: the broker's default. |",
        "| `topic.creation.GROUP.…` | Anything else becomes a config of the new topic. |",
    )


def _plugins(kind: PluginKind) -> Iterator[str]:
    registry = PluginRegistry()
    for name in sorted(BUILT_IN[kind]):
        plugin = registry.find(kind, name)
        shared = Config.settings() if kind is not PluginKind.CONNECTOR else {}
        own = [one for key, one in plugin.settings().items() if key not in shared]
        yield from ("", f"### {name.rpartition('.')[2]}", "", f"`{name}`")
        yield from _paragraph(_about(plugin))
        if own:
            yield from _table(own)


def _own(config: type[Config]) -> list[Setting]:
    return [value for value in vars(config).values() if isinstance(value, Setting)]


def _table(settings: Iterable[Setting]) -> Iterator[str]:
    yield from ("", "| setting | type | default | valid values | importance | meaning |", "|---|---|---|---|---|---|")
    for one in settings:
        valid = one.check.text if one.check else ", ".join(one.recommended)
        cells = (
            f"`{one.key}`",
            one.kind.value.lower(),
            _default(one),
            _escaped(valid),
            one.importance.value.lower(),
            _escaped(_meaning(one)),
        )
        yield f"| {' | '.join(cells)} |"


def _meaning(setting: Setting) -> str:
    return setting.doc + (f" Without effect: {setting.without_effect}." if setting.without_effect else "")


def _default(setting: Setting) -> str:
    if setting.is_required:
        return "required"
    text = rendered(setting.default, setting.kind)
    if text is None:
        return "unset"
    return f"`{_in_cell(text)}`" if text else "empty"


def _title(name: str) -> str:
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
    return words[:1].upper() + words[1:]


def _about(plugin: type[Any]) -> str:
    return " ".join((plugin.__doc__ or "").split())


def _first_paragraph(config: type[Any]) -> str:
    return " ".join((config.__doc__ or "").strip().partition("\n\n")[0].split())


def _paragraph(text: str) -> Iterator[str]:
    if text:
        yield from ("", text)


def _escaped(text: str) -> str:
    return _in_cell(text).replace("<", "&lt;")


def _in_cell(text: str) -> str:
    """Return code for a cell of a table: an entity would be shown as it is written."""
    return text.replace("|", "\\|")


# reading from Spark


def _spark_reader() -> Iterator[str]:
    from fencepost.spark.kafka_read.options import KafkaReadConfig

    yield "# Options of the Spark reader"
    yield from _paragraph(_about(KafkaReadConfig))
    yield from _paragraph(
        "`kafka.*` options are consumer settings with their Java names; `kafka.bootstrap.servers` is required. A setting "
        "without a counterpart in the client library causes a warning. Settings that Spark's own source rejects are "
        "rejected here, too, and so are options that are not in the table. Option names are not case-sensitive. "
        "[Read Kafka from Spark](../how-to/read-kafka-from-spark.md) has examples."
    )
    yield from _options(KafkaReadConfig)


_COLUMNS = (
    ("`value`", "string or binary", "The value. A null is written as a tombstone."),
    ("`key`", "string or binary", "The key. Rows with the same key go to the same partition, as with Java's producer."),
    ("`topic`", "string", "The topic of the row, if option `topic` is not set. A row without one fails the write."),
    ("`partition`", "int", "The partition of the topic. Null: by the key."),
    ("`timestamp`", "timestamp", "The time of the record. Null, or no such column: the time when it is encoded."),
    ("`headers`", "array<struct<key:string,value:binary>>", "The headers."),
)


def _spark_writer() -> Iterator[str]:
    from fencepost.spark.write.options import WriterConfig

    yield "# Options and columns of the Spark writer"
    yield from _paragraph(_about(WriterConfig))
    yield from _paragraph(
        "`kafka.*` options are producer settings with their Java names; `kafka.bootstrap.servers` is required. Options "
        "that are not in the table are refused. A write, or a micro-batch of a stream, is one transaction: "
        "[what that guarantees](../delivery-guarantees.md#direct-writes-dfwriteformatfencepost). "
        "[Write Kafka from Spark](../how-to/write-kafka-from-spark.md) has examples."
    )
    yield from _options(WriterConfig)
    yield from ("", "## Modes")
    yield from _paragraph(
        'Rows are appended, as by Spark\'s own Kafka sink: `mode("append")`, or no mode in a program that imports '
        "`fencepost.spark.datasource`. Elsewhere Spark refuses a write without a mode. `overwrite` and `ignore` are "
        "refused everywhere."
    )
    yield from ("", "## Columns")
    yield from _paragraph(
        "The columns are those of Spark's own Kafka sink. Other columns beside `value` are refused. A frame without a "
        "column `value` is written as JSON: each row is an object of all its columns, and needs option `topic`."
    )
    yield from ("", "| column | type | meaning |", "|---|---|---|")
    for cells in _COLUMNS:
        yield f"| {' | '.join(map(_escaped, cells))} |"


def _options(config: type[Config]) -> Iterator[str]:
    yield from ("", "| option | type | default | valid values | meaning |", "|---|---|---|---|---|")
    for one in config.settings().values():
        valid = one.check.text if one.check else ", ".join(one.recommended)
        cells = (f"`{one.key}`", one.kind.value.lower(), _default(one), _escaped(valid), _escaped(_meaning(one)))
        yield f"| {' | '.join(cells)} |"


# REST


def _rest() -> Iterator[str]:
    from fencepost.rest.app import create_app

    nobody: Any = SimpleNamespace(local=None)
    document = create_app(nobody, version="any").openapi()
    yield "# REST API"
    yield from _paragraph(
        "Kafka Connect's REST API. Bodies are JSON. Every error is an object of `error_code`, which equals the HTTP "
        "status, and `message`. Connector names are percent-encoded in paths. A worker answers `GET /docs` with this "
        "list and `GET /openapi.json` with the same as an OpenAPI document."
    )
    yield from _paragraph(
        "[Migrating from Kafka Connect](../migrating-from-kafka-connect.md#the-rest-api) says where answers differ. With "
        "[roles](../how-to/protect-rest.md#roles), a caller needs the given one: for the connector of the path, if "
        "nothing else is said."
    )
    rows: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            rows.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
    for tag, lines in rows.items():
        yield from (
            "",
            f"## {tag[:1].upper()}{tag[1:]}",
            "",
            "| request | success | role | meaning |",
            "|---|---|---|---|",
            *lines,
        )


def _needed(request: str) -> str:
    need = NEEDS[request]
    where = {Where.NAMED: "", Where.SOMEWHERE: ", any connectors", Where.EVERYWHERE: ", all connectors"}
    if need.where is Where.SIGNED:
        return "signed"
    return f"{need.role.name.lower()}{where[need.where]}" if need.where in where else "-"


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    names = [item["name"] for item in operation.get("parameters", ()) if item["in"] == "query"]
    query = f"?{'&'.join(f'{name}=' for name in names)}" if names else ""
    codes = ", ".join(code for code in operation["responses"] if code != "default")
    role = _needed(f"{method.upper()} {path}")
    return f"| `{method.upper()} {path}{query}` | {codes} | {role} | {_escaped(operation.get('description', ''))} |"


# limits

_LIMIT = re.compile(r"_(S|MS|BYTES)$|^_?(MOST|LONGEST|LARGEST|DEEPEST|SHORTEST|SMALLEST|FEWEST|LEAST)(_|$)|_MAX(_|$)")
_UNITS = {"S": " s", "MS": " ms", "BYTES": " bytes"}  # of names that end so


def _postgres_keys() -> Iterator[str]:
    yield "# Debezium's keys for Postgres"
    yield from _paragraph(
        "`PostgresSource` takes a config of Debezium's Postgres connector, version 3.6.1. What it reads is among the "
        "[connector settings](connector-settings.md). These are the others; a key that is nowhere is ignored, as Kafka "
        "Connect ignores keys that nobody reads."
    )
    yield from _paragraph(
        "Keys with a part of their own, whose values are patterns of columns, are read, too: `column.truncate.to.N.chars`, `column.mask.with.N.chars`, "
        "`column.mask.hash.ALGORITHM.with.salt.SALT` and `column.mask.hash.v2.ALGORITHM.with.salt.SALT`."
    )
    yield from ("", "## Accepted, without an effect", "", "| key | why |", "|---|---|")
    yield from (f"| `{key}` | {_escaped(why)} |" for key, why in sorted(WITHOUT_EFFECT.items()))
    yield from ("", "## Refused", "", "Unless they have Debezium's default.", "")
    yield from ("| key | why |", "|---|---|")
    refused = {key: why for key, (_, why) in REFUSED.items()}
    families = {f"{prefix}*": why for prefix, why in REFUSED_PREFIXES.items() if prefix.endswith(".")}
    yield from (f"| `{key}` | {_escaped(why)} |" for key, why in sorted({**refused, **families}.items()))


def _limits() -> Iterator[str]:
    yield "# Limits"
    yield from _paragraph(
        "Numbers that users may meet and that are not settings: how long something may take, how large it may be, or how "
        "many there may be. Each is a constant of the module that its name says, by package of "
        "[the architecture](../architecture.md)."
    )
    source = Path(fencepost.__file__).parent
    rooms: dict[str, list[str]] = {}
    for path in sorted(source.rglob("*.py")):
        room, *rest = path.relative_to(source).with_suffix("").parts
        if room == "builtin" and len(rest) > 1:
            room, *rest = f"{room}.{rest[0]}", *rest[1:]
        for name, value, meaning in _limits_of(path.read_text()):
            cells = f"`{'.'.join((*rest, name.lstrip('_')))}`", value, _escaped(meaning)
            rooms.setdefault(room, []).append(f"| {' | '.join(cells)} |")
    rooms.pop("testing", None)
    for room, lines in sorted(rooms.items()):
        yield from ("", f"## {room}", "", "| limit | value | meaning |", "|---|---|---|", *lines)


def _limits_of(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the value and the meaning of the limits of a module that have a text below them."""
    for node, after in pairwise(ast.parse(text).body):
        match node, after:
            case ast.Assign([ast.Name(name)], value), ast.Expr(ast.Constant(str(meaning))):
                if _LIMIT.search(name) and _is_number(value):
                    number = eval(ast.unparse(value))  # an expression of numbers only
                    unit = _UNITS.get(name.rpartition("_")[2], "")
                    yield name, f"{number:,.12g}{unit}", " ".join(meaning.split())


def _is_number(value: ast.expr) -> bool:
    parts = ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop
    constants = [each for each in ast.walk(value) if not isinstance(each, parts)]
    return all(isinstance(each, ast.Constant) and type(each.value) in (int, float) for each in constants)


# metrics


def _metrics() -> Iterator[str]:
    yield "# Metrics"
    yield from _paragraph(
        "`GET /metrics` answers in Prometheus' text format. Names follow the JMX beans of Kafka Connect, as the JMX "
        "exporter spells them: attribute `source-record-poll-total` of `kafka.connect:type=source-task-metrics` is "
        "`kafka_connect_source_task_metrics_source_record_poll_total`, and `connector-count` of "
        "`kafka.connect:type=connect-worker-metrics` is `kafka_connect_connect_worker_metrics_connector_count`. Where "
        "an attribute begins with `total-`, a counter that ends in `_total` is beside it: `total_record_errors` and "
        "`record_errors_total`. "
        "The beans of mirrors stand in lower case: `record-count` of "
        "`kafka.connect.mirror:type=MirrorSourceConnector` is `kafka_connect_mirror_mirrorsourceconnector_record_count`. "
        "`fencepost_` begins what Kafka Connect does not have; `process_` is the worker's process, and "
        "`fencepost_spark_jvm_process_` the JVM of its Spark. [Monitor with the tools you have](../how-to/monitor.md) "
        "says where names mean something else than in Kafka Connect."
    )
    yield from _paragraph(
        "Counters of a task begin anew with each start of the task; `rate()` and `increase()` allow for that. Metrics of "
        "tasks are those of the tasks on the worker that is asked."
    )
    yield from ("", "| metric | type | labels | meaning |", "|---|---|---|---|")
    for family in _families():
        labels = ", ".join(f"`{name}`" for name in getattr(family, "_labelnames", ()))
        name = family.name + ("_total" if family.type == "counter" else "")
        yield f"| `{name}` | {family.type} | {labels} | {_escaped(family.documentation)} |"


def _families() -> Iterable[Any]:
    from fencepost.cluster.info import RetentionInfo
    from fencepost.storage.snapshot import ClusterSnapshot
    from fencepost.storage.status_topic import StatusTable
    from fencepost.worker.operation.metric.collector import WorkerFigures, WorkerMetrics
    from fencepost.worker.supervision.task_metrics import TaskTotals

    def none() -> int:
        return 0

    startups: Callable[[], dict[str, int]] = lambda: dict.fromkeys(("attempts", "successes", "failures", "restarts"), 0)  # noqa: E731
    nothing = RetentionInfo(False)
    leader = SimpleNamespace(is_leading=False, refusal=None)
    figures = WorkerFigures(leader, none, none, startups, os.getpid, dict, lambda: nothing)
    return WorkerMetrics(ClusterSnapshot, StatusTable(), TaskTotals(), figures).families()


# command line


def _cli() -> Iterator[str]:
    from typer.main import get_command

    from fencepost.cli.main import app

    yield "# Command line"
    yield from _paragraph("`fencepost COMMAND --help` says the same at the terminal.")
    yield from _paragraph(
        "`FENCEPOST_LOG_LEVEL` (default `INFO`) sets the level of the log; `FENCEPOST_LOG_FORMAT=json` makes each line "
        "a JSON object; what connectors and tasks log has the fields `connector` and `task` then."
    )
    yield from _paragraph(
        "Commands with `--url` and `--context` ask workers over REST: the first of `--url`, `--context`, `FENCEPOST_URL`, "
        "`FENCEPOST_CONTEXT`, the current context, and `http://127.0.0.1:8083`. "
        "[Manage connectors](../how-to/manage-connectors.md) has their exit codes and the fields of their JSON."
    )
    for name, command in _commands("fencepost", get_command(app)):
        yield from _command(name, command)


def _commands(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _commands(f"{prefix} {name}", command)
        else:
            yield f"{prefix} {name}", command


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help" and not p.hidden]
    usage = " ".join([name, *(["[OPTIONS]"] if options else []), *(a.metavar or a.name.upper() for a in arguments)])
    yield from ("", f"## {name}", "", f"    {usage}")
    yield from _paragraph(" ".join((command.help or "").split()))
    if arguments or options:
        yield from ("", "| | default | meaning |", "|---|---|---|")
    for each in (*arguments, *options):
        spelled = each.metavar or each.name.upper() if each in arguments else ", ".join(each.opts)
        default = "" if each.default is None or each.required else f"`{each.default}`"
        yield f"| `{spelled}` | {default} | {_escaped(getattr(each, 'help', None) or '')} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
