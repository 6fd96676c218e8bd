"""The Python classes that stand for Java classes: connectors, what their configs name, and chains of Python
connectors.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from fencepost.api import (
    ConfigData,
    ConfigProvider,
    Connector,
    ConnectorContext,
    Converter,
    ExactlyOnceSupport,
    FatalError,
    HeaderConverter,
    Predicate,
    RetriableError,
    SinkConnector,
    SourceConnector,
    Transform,
)
from fencepost.api.source import SourceOffset
from fencepost.builtin.java.error import (
    ConnectionLostError,
    HostEndedError,
    JavaError,
    JavaPluginError,
    JavaRetriableError,
    JavaUnavailableError,
)
from fencepost.builtin.java.index import JavaKind
from fencepost.builtin.java.plugins import JavaPlugins
from fencepost.builtin.java.port import ChainStart, ChainStep, Figures, JavaClass
from fencepost.builtin.java.questions import as_config_errors
from fencepost.builtin.java.shared_host import Lease, SharedHost
from fencepost.builtin.java.sink_task import JavaSinkTask
from fencepost.builtin.java.source_task import JavaSourceTask, task_class_for
from fencepost.config import Config, ConfigError, Setting, SettingValue
from fencepost.config.setting import as_text
from fencepost.hook.hosted_chain import ChainUse, HostedChain, HostedPart, HostedStep, Passed, Refused
from fencepost.hook.hosted_task import TASK_CLASS, ForeignRecordError, ForeignRetriableError
from fencepost.record import ConnectRecord, TopicPartition

if TYPE_CHECKING:
    from fencepost.builtin.java.client.host import JavaHost
    from fencepost.builtin.java.client.session import HostedConnector


class JavaChain:
    """Implements `HostedChain`, in the host that the Java tasks of this process share. It ends with its last user."""

    def __init__(self, host: SharedHost, steps: Sequence[HostedStep], use: ChainUse) -> None:
        """Raises what a class throws when it is configured, and HostLostError if the host ends meanwhile."""
        self._classes: list[JavaClass] = [step.part.java for step in steps]  # type: ignore[attr-defined]
        self._is_calling = False
        self._lease: Lease = host.take(use.incarnation)
        try:
            described = [
                ChainStep(step.role, java_class, step.prefix, step.is_negated, step.is_conditional)
                for step, java_class in zip(steps, self._classes, strict=True)
            ]
            start = ChainStart(use.task, use.is_source, use.config, described)
            self._chain = self._call(self._lease.host.chain, start)
        except BaseException:
            self._lease.end()
            raise

    def run(
        self, records: Sequence[ConnectRecord], first: int, end: int, is_chosen: Sequence[bool] | None = None
    ) -> Passed | Refused:
        return self._outcome(self._chain.run, records, first, end, is_chosen)

    def again(self) -> Passed | Refused:
        return self._outcome(self._chain.again)

    def skip(self) -> Passed | Refused:
        return self._outcome(self._chain.skip)

    def close(self) -> None:
        """Close the plug-ins: the host does so when the connection ends."""
        self._chain.close()
        self._lease.end()

    def abandon(self) -> None:
        if self._is_calling:
            self._lease.kill("a Java transform or converter of a task that is to stop did not return in time")

    def _outcome(self, call: Callable[..., Passed | Refused], *arguments: Any) -> Passed | Refused:
        found: Passed | Refused = self._call(call, *arguments)
        if isinstance(found, Refused):
            return found._replace(error=_judged(found.error, self._classes[found.step].name))
        return found

    def _call(self, call: Callable[..., Any], *arguments: Any) -> Any:
        self._is_calling = True
        try:
            return call(*arguments)
        except HostEndedError as error:
            raise self._lease.lost(error) from error
        finally:
            self._is_calling = False


def _judged(error: Exception, class_name: str) -> Exception:
    if not isinstance(error, JavaError | JavaRetriableError):
        return error
    kind = ForeignRetriableError if isinstance(error, JavaRetriableError) else ForeignRecordError
    return kind.of(error.thrown.class_name, error.thrown.message, class_name, error.thrown.trace)


log = logging.getLogger(__name__)

T = TypeVar("T")

_WATCH_S = 0.5
_POLITE_S, _STOP_S, _KILL_S = 5.0, 30.0, 5.0
_MOST_LOST, _LOST_WITHIN_S = 3, 60.0
_TOPICS = ("topics", "topics.regex")


class JavaConfigProvider(ConfigProvider):
    """A class of `plugin.path`. Java creates, configures and closes an instance for each look-up."""

    java: ClassVar[JavaClass]
    plugins: ClassVar[JavaPlugins]

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """Return nothing: Java's providers do not declare their settings, and no JVM is asked."""
        return {}

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        settings = {key: str(value) for key, value in self.originals.items()}
        try:
            return self.plugins.hosts.inspection.answer(
                f"look-up by {self.java.name}",
                lambda host: ConfigData(*host.ask.look_up(self.java, settings, path, sorted(keys))),
            )
        except (HostEndedError, JavaRetriableError) as error:
            raise RetriableError(_text(error)) from None
        except (JavaError, JavaPluginError, JavaUnavailableError) as error:
            raise ConfigError(_text(error)) from None


def _text(error: Any) -> str:
    return str(error).partition("\n")[0]


class _Version:
    """The version of a Java class, as an attribute of the Python class that stands for it. A host may be asked."""

    def __get__(self, instance: object, owner: "type[_Java]") -> str | None:
        with as_config_errors():
            return owner.plugins.questions.facts.version(owner.java)


class _Java(Config):
    """What all of them have in common. `java` is the class, `plugins` where it is from."""

    java: ClassVar[JavaClass]
    plugins: ClassVar[JavaPlugins]
    version: Any = _Version()

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """Return the settings. Raises ConfigError if no host can say."""
        return cls.plugins.questions.settings(cls.java)

    @classmethod
    def known_settings(cls, *, asks: bool = True) -> dict[str, Setting] | None:
        """Return the settings if they are known without a JVM: for those who must not wait for one."""
        return cls.plugins.questions.known_settings(cls.java, asks=asks)


class JavaPart(_Java, HostedPart):
    """A transform, predicate or converter. Its instances have only a config: it works in a host."""

    @classmethod
    def open_chain(cls, steps: Sequence[HostedStep], use: ChainUse) -> HostedChain:
        return JavaChain(cls.plugins.hosts.tasks, steps, use)

    def _only_in_java(self, *_: object) -> NoReturn:
        """Refuse what only the Java class can do: the contracts' methods would do nothing, in silence."""
        raise FatalError(f"{self.java.name} is a Java class, which cannot be used here: use one in Python")

    apply = test = from_connect_data = to_connect_data = from_connect_record = to_connect_record = _only_in_java
    from_connect_header = to_connect_header = _only_in_java

    def require_valid(self) -> None:
        """Raise ConfigError with what Java says is wrong."""
        faults = [text for each in self.plugins.questions.validated(self.java, self.originals) for text in each.errors]
        if faults:
            raise ConfigError(faults)


@dataclass
class _Call:
    """A call of a started connector that is under way."""

    what: str
    lease: Lease | None
    hosted: "HostedConnector | None" = None
    has_ended: threading.Event = field(default_factory=threading.Event)

    def end(self, connector: str, polite_s: float, kill_s: float) -> None:
        """Interrupt the call after `polite_s`, and kill the host after `kill_s` more, unless the call returns.

        Java may still create the connector, which cannot be interrupted: that has these `kill_s`, too.
        """
        if self.has_ended.wait(polite_s):
            return
        kill_at = time.monotonic() + kill_s
        while self.hosted is None and (left_s := kill_at - time.monotonic()) > 0:
            if self.has_ended.wait(min(left_s, _WATCH_S)):
                return
        if self.hosted is not None:
            log.warning("connector %s: its %s is interrupted, as it is to stop", connector, self.what)
            with contextlib.suppress(HostEndedError):
                self.hosted.interrupt()
            if self.has_ended.wait(kill_s):
                return
        if self.lease is not None:
            self.lease.kill(f"the {self.what} of connector {connector} did not return in time")


class JavaConnector(_Java, Connector):
    """A connector. An instance that was not started answers questions; a started one lives in the host of connectors.

    If that host ends, the connector is started again in a new one and is asked for task configs. One that was starting
    then, or loses its host twice within a minute, may have ended it, and gets a host of its own; the third loss fails
    it. A host that somebody else kills, such as the system where memory is short, does not count.
    """

    context: ConnectorContext

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        """Take a config that `validate` has checked: the settings are Java's, and only Java reads them."""
        super().__init__(properties)
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._hosted: HostedConnector | None = None
        self._lost: list[float] = []
        self._under_way: _Call | None = None
        self._is_to_stop = False
        self._is_suspect = False

    @classmethod
    def validate(cls, properties: Mapping[str, object]) -> list[SettingValue]:
        return cls.plugins.questions.validated(cls.java, properties)

    @classmethod
    def validate_values(cls, properties: Mapping[str, object]) -> list[SettingValue]:
        """Return nothing: all of the checks are `validate`'s."""
        return []

    @property
    def task_class_name(self) -> str:
        """Return the name of the class of the tasks."""
        return self._running().task_class.name

    def start(self) -> None:
        with self._lock:
            self._begin()

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        hosted, lease = self._running(), self._lease
        try:
            with self._calling(_Call("taskConfigs", lease, hosted)):
                return list(hosted.task_configs(max_tasks))
        except ConnectionLostError:
            raise
        except HostEndedError as error:  # its end starts the connector again, which asks again
            raise RetriableError(str(error)) from error

    def stop(self) -> None:
        self.end_calls()  # a start in another host may be under way
        with self._lock:
            hosted, lease, self._hosted, self._lease = self._hosted, self._lease, None, None
            self._is_suspect = False
            self._is_to_stop = False  # `stop` itself may take longer than the call that it waited for
        if hosted is None or lease is None:
            return
        try:
            with contextlib.suppress(HostEndedError), contextlib.closing(hosted):
                with self._calling(_Call("stop", lease, hosted)):
                    self._end_call(_STOP_S, _KILL_S)
                    hosted.stop()
        finally:
            lease.end()

    def figures(self) -> Figures:
        hosted = self._hosted
        return () if hosted is None else hosted.figures()

    def end_calls(self) -> None:
        """Interrupt the call that is under way, if it does not return soon. If that does not help, kill the host.

        The same holds for calls that begin after this and before `stop`, as when a start still waits for its host.
        """
        self._is_to_stop = True
        self._end_call(_POLITE_S, _KILL_S)

    @contextlib.contextmanager
    def _calling(self, call: _Call) -> Iterator[_Call]:
        self._under_way = call
        if self._is_to_stop:  # looked at after the line before, and set before that is read: one of the two ends it
            self._end_call(_POLITE_S, _KILL_S)
        try:
            yield call
        finally:
            call.has_ended.set()
            if self._under_way is call:  # `task_configs` may end late, in the middle of the next start
                self._under_way = None

    def _end_call(self, polite_s: float, kill_s: float) -> None:
        call = self._under_way
        if call is not None:
            name = f"end-of-{self._name}"
            threading.Thread(target=call.end, args=(self._name, polite_s, kill_s), name=name, daemon=True).start()

    def _running(self) -> "HostedConnector":
        hosted = self._hosted
        if hosted is None:
            raise RetriableError(f"connector {self._name} is between two hosts")
        return hosted

    def _begin(self) -> None:
        """Start in the host of connectors; in another one if it ends, and that may be another connector's doing."""
        left = _MOST_LOST
        while True:
            left -= 1
            hosts = self.plugins.hosts.connectors
            lease = (hosts.take_apart if self._is_suspect else hosts.take)(f"connector {self._name}")
            try:
                self._begin_in(lease)
                return
            except ConnectionLostError:
                raise
            except HostEndedError as error:
                if not left or self._is_to_stop or not (lease.was_killed or lease.is_shared):
                    raise
                self._is_suspect = self._is_suspect or not lease.was_killed
                log.warning("connector %s is started in another host: %s", self._name, error)

    def _begin_in(self, lease: Lease) -> None:
        hosted: HostedConnector | None = None
        try:
            with self._calling(_Call("start", lease)) as call:
                hosted = call.hosted = lease.host.connector(self.java, self._name, self.context)
                hosted.start(self._properties)
        except BaseException:
            if hosted is not None:
                hosted.close()  # else what its start has begun would go on
            lease.end()
            raise
        self.plugins.questions.facts.learn_version(self.java, hosted.version)
        self._lease, self._hosted = lease, hosted
        threading.Thread(target=self._watch, args=(lease,), name=f"host-of-{self._name}", daemon=True).start()

    def _watch(self, lease: Lease) -> None:
        pause = threading.Event()
        while lease.host.end is None:
            if self._lease is not lease:
                return
            pause.wait(_WATCH_S)
        with self._lock:
            if self._lease is not lease:
                return
            self._hosted = self._lease = None
            how = lease.host.end
            log.warning("connector %s starts again in a new host: %s", self._name, how)
            lease.end()
            now = time.monotonic()
            self._lost = [at for at in self._lost if now - at < _LOST_WITHIN_S] + [now] * lease.may_have_ended_it
            self._is_suspect = self._is_suspect or (not lease.was_killed and len(self._lost) == _MOST_LOST - 1)
            try:
                if len(self._lost) >= _MOST_LOST:
                    raise HostEndedError(f"its host (a JVM) ended {_MOST_LOST} times in a minute: {how}")
                self._begin()
            except Exception as error:  # also what the plug-in throws: the connector fails, not this thread alone
                self.context.raise_error(error)
                return
        self.context.request_task_reconfiguration()

    def _answer(self, ask: Callable[["HostedConnector"], T]) -> T:
        """Ask a connector that is not started, in the host for validation; maybe twice, as `SharedHost.answer` says."""
        return self.plugins.hosts.inspection.answer(f"a question to {self.java.name}", self._created_for(ask))

    def _alter(self, alter: Callable[["HostedConnector"], bool]) -> bool:
        """Let a connector change offsets, in a host that nobody else can end: never twice, as that may have effects."""

        def alter_once(hosted: "HostedConnector") -> bool:
            try:
                return alter(hosted)
            except HostEndedError as error:
                raise FatalError(
                    f"It is unknown whether alterOffsets of {self.java.name} took effect, as its host (a JVM) ended: "
                    f"check what it connects to, then send the request again. {error}"
                ) from error

        what = f"alterOffsets of {self.java.name}"
        return self.plugins.hosts.inspection.answer_alone(what, self._created_for(alter_once))

    def _created_for(self, ask: Callable[["HostedConnector"], T]) -> Callable[["JavaHost"], T]:
        def create_and_ask(host: "JavaHost") -> T:
            hosted = host.connector(self.java, self._name, _NoContext())
            try:
                return ask(hosted)
            finally:
                with contextlib.suppress(HostEndedError):
                    hosted.close()

        return create_and_ask

    @property
    def _name(self) -> str:
        return str(self.originals.get("name") or self.java.name)

    @property
    def _properties(self) -> dict[str, str]:
        texts = {key: as_text(key, value) for key, value in self.originals.items()}
        return {key: text for key, text in texts.items() if text is not None}


class JavaSourceConnector(JavaConnector, SourceConnector):
    """A source connector; its tasks are `JavaSourceTask`s."""

    task = JavaSourceTask

    @classmethod
    def task_class_for(cls, properties: Mapping[str, str]) -> type[JavaSourceTask]:
        """Return the class for tasks of a class in Java: it depends on what that overrides. Raises HostLostError."""
        return task_class_for(cls.plugins.hosts.callbacks(JavaClass(properties[TASK_CLASS], cls.java.location)))

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return self._answer(lambda hosted: hosted.exactly_once_support(self._properties))

    def can_define_transaction_boundaries(self) -> bool:
        return self._answer(lambda hosted: hosted.can_define_transaction_boundaries(self._properties))

    def alter_offsets(self, offsets: Mapping[tuple[tuple[str, Any], ...], SourceOffset | None]) -> bool:
        listed = [(dict(key), one) for key, one in offsets.items()]
        return self._alter(lambda hosted: hosted.alter_source_offsets(self._properties, listed))


class JavaSinkConnector(JavaConnector, SinkConnector):
    """A sink connector; its tasks are `JavaSinkTask`s."""

    task = JavaSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        """Return what Java does, with the topics, as Kafka Connect gives them to tasks."""
        topics = {key: text for key, text in self._properties.items() if key in _TOPICS}
        return [{**each, **topics} for each in super().task_configs(max_tasks)]

    def alter_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> bool:
        return self._alter(lambda hosted: hosted.alter_sink_offsets(self._properties, offsets))


class _NoContext:
    """The context of a connector that is only asked: it has nothing to ask for."""

    def request_task_reconfiguration(self) -> None: ...

    def raise_error(self, error: Exception) -> None:
        log.warning("a connector that was only asked a question has failed: %s", error)

    def remark(self, text: str | None) -> None: ...

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return []


_BASES: Mapping[JavaKind, tuple[type[Any], ...]] = {
    JavaKind.SOURCE: (JavaSourceConnector,),
    JavaKind.SINK: (JavaSinkConnector,),
    JavaKind.TRANSFORM: (JavaPart, Transform),
    JavaKind.PREDICATE: (JavaPart, Predicate),
    JavaKind.CONVERTER: (JavaPart, Converter),
    JavaKind.HEADER_CONVERTER: (JavaPart, HeaderConverter),
    JavaKind.CONFIG_PROVIDER: (JavaConfigProvider,),
}


def class_for(plugins: JavaPlugins, kind: JavaKind, java_class: JavaClass) -> type[Any]:
    """Return a new Python class with the name of a Java class, which stands for it."""
    package, _, name = java_class.name.rpartition(".")
    attributes = {"__module__": package, "__qualname__": name, "__doc__": "", "java": java_class, "plugins": plugins}
    return type(name, _BASES[kind], attributes)


def java_class_of(cls: type[Any]) -> JavaClass | None:
    """Return the Java class that a class stands for; None for a class of Python."""
    return cls.java if issubclass(cls, _Java | JavaConfigProvider) else None
