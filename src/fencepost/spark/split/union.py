"""Frames of several splits as one, with a column that says which of them a row is of."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from fencepost.api.dataframe import DataFrame
from fencepost.spark.split.run import SPLIT_COLUMN


def mark_of(n: int) -> str:
    """Return what `SPLIT_COLUMN` has in the rows of split `n`: text.

    Of a number Spark would make, and compile, another program for each split.
    """
    return str(n)


def mark_column(n: int) -> Any:
    return F.lit(mark_of(n)).alias(SPLIT_COLUMN)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Put frames one after the other, half by half: each union is analysed whole."""
    half = len(frames) // 2
    return union(frames[:half]).union(union(frames[half:])) if half else frames[0]
