"""Errors of a transaction, grouped by what the caller must do."""

from fencepost.api import ConnectError, FatalError, FencedError


class WriterFencedError(FencedError):
    """A newer producer holds the transactional id. Close the writer and ask for admission; if current, start again.

    `has_expired`: the transaction was open for the whole time-out although the brokers were healthy, so in all
    likelihood the broker itself has fenced the writer.
    """

    def __init__(self, message: str, *, has_expired: bool = False) -> None:
        super().__init__(message)
        self.has_expired = has_expired


class StaleMemberError(FencedError):
    """The group refused the generation (E4, KIP-447). The transaction was aborted; join again before deciding."""


class WriterOpenError(FatalError):
    """The transactional producer could not be initialised.

    `is_passing`: a broker could not be reached, so retry; if False, it was a refusal and an administrator must act.
    `is_denied`: the refusal is one of authorisation.
    """

    def __init__(self, message: str, *, is_passing: bool, is_denied: bool = False) -> None:
        super().__init__(message)
        self.is_passing = is_passing
        self.is_denied = is_denied


class ProduceError(FatalError):
    """Records could not be written, and the transaction is certainly not committed. Abort it, or close the writer.

    `is_refused`: the same record would be refused again (its size, its topic, authorisation). `is_denied`: the refusal
    is one of authorisation. `is_batch_too_large`: smaller batches may be accepted. `has_expired`: as in
    WriterFencedError, but the time was up before the broker reported it.
    """

    def __init__(
        self,
        message: str,
        *,
        is_refused: bool,
        is_denied: bool = False,
        is_batch_too_large: bool = False,
        has_expired: bool = False,
    ) -> None:
        super().__init__(message)
        self.has_expired = has_expired
        self.is_refused = is_refused
        self.is_denied = is_denied
        self.is_batch_too_large = is_batch_too_large


class CommitUnknownError(ConnectError):
    """The commit ended in an error, so it is unknown whether it happened (E6).

    Close the writer. Then open a new one, be admitted, and read the committed position to find out.
    `has_expired`: as in WriterFencedError.
    """

    def __init__(self, message: str, *, has_expired: bool = False) -> None:
        super().__init__(message)
        self.has_expired = has_expired


def is_refusal(error: Exception) -> bool:
    """Return whether a new producer would get the same refusal.

    False if a broker was down, or the machine was suspended, for longer than the transaction time-out.
    """
    if isinstance(error, WriterOpenError):
        return not error.is_passing
    return isinstance(error, ProduceError) and error.is_refused
