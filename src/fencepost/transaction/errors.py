"""What can go wrong in a transaction, by what the caller must do."""

from fencepost.api import ConnectError, FatalError, FencedError


class WriterFencedError(FencedError):
    """A newer producer holds the transactional id. Close; ask for admission; still current: start again.

    `has_expired` says that the transaction was open for as long as one may be, for no trouble with the brokers: whoever
    fenced the writer was in all likelihood the broker itself.
    """

    def __init__(self, message: str, *, has_expired: bool = False) -> None:
        super().__init__(message)
        self.has_expired = has_expired


class StaleMemberError(FencedError):
    """The group refused the generation (E4, KIP-447). The transaction was aborted; join again before deciding."""


class WriterOpenError(FatalError):
    """The transactional producer could not be initialised.

    `is_passing` tells a broker that cannot be reached (try again) from a refusal (an administrator has to act);
    `is_denied` says that the refusal is one of authorisation.
    """

    def __init__(self, message: str, *, is_passing: bool, is_denied: bool = False) -> None:
        super().__init__(message)
        self.is_passing = is_passing
        self.is_denied = is_denied


class ProduceError(FatalError):
    """Records could not be written; the transaction is certain not to be committed. Abort, or close the writer.

    `is_refused` says that the same record would be refused again (its size, its topic, authorisation), `is_denied`
    that the refusal is one of authorisation, `is_batch_too_large` that smaller batches may be taken. `has_expired`: as
    of WriterFencedError; time was up before the broker said so.
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
    """The commit ended in an error, so nobody knows whether it happened (E6).

    Close the writer; open a new one, be admitted, and read the committed position to learn what happened.
    `has_expired`: as of WriterFencedError.
    """

    def __init__(self, message: str, *, has_expired: bool = False) -> None:
        super().__init__(message)
        self.has_expired = has_expired


def is_refusal(error: Exception) -> bool:
    """Say whether a new producer would only meet the same refusal.

    A broker that was away, or a machine that slept, for longer than a transaction may take is no such refusal.
    """
    if isinstance(error, WriterOpenError):
        return not error.is_passing
    return isinstance(error, ProduceError) and error.is_refused
