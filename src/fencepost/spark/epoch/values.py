"""How the values of an epoch's records become columns: the port, whose implementations know the formats."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from fencepost.api.dataframe import DataFrame

CORRUPT = "_fencepost_corrupt"
"""The last field of the struct of a value, which is null unless Spark could not parse it; and a column of the frame."""


class EpochValues(ABC):
    """The columns of values. Driver side."""

    kind: ClassVar[str]
    """Spark's type of the column `value` as the executors read it."""
    misfit: ClassVar[str]
    """What is wrong with a value that does not fit; a reason may follow."""
    advice: ClassVar[str]
    """What a user may do about it."""

    @abstractmethod
    def made(self) -> dict[str, Any]:
        """Return those of MADE_COLUMNS, with Spark's types, that executors make of the values."""

    @abstractmethod
    def made_of_letters(self) -> dict[str, Any]:
        """Return those that are needed to find the values that do not fit."""

    @abstractmethod
    def options(self) -> dict[str, str]:
        """Return the options by which executors make them."""

    @abstractmethod
    def value_of(self, frame: DataFrame) -> tuple[Any, Any]:
        """Return the struct of a value, and whether there is more to say against it than its field CORRUPT says.

        The frame may lack what executors make, if it is never read.
        """
