"""Java's transforms, predicates and converters in the chain of a Python connector."""

from collections.abc import Callable, Sequence
from typing import Any

from fencepost.builtin.java.error import HostEndedError, JavaError, JavaRetriableError
from fencepost.builtin.java.port import ChainStart, ChainStep, JavaClass
from fencepost.builtin.java.shared_host import Lease, SharedHost
from fencepost.hook.hosted_chain import ChainUse, HostedStep, Passed, Refused
from fencepost.hook.hosted_task import ForeignRecordError, ForeignRetriableError
from fencepost.record import ConnectRecord


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
