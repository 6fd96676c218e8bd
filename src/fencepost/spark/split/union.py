"""Frames of several splits as one, with a column that says which split a row belongs to."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

from fencepost.api.dataframe import DataFrame
from fencepost.spark.split.run import SPLIT_COLUMN


def mark_of(n: int) -> str:
    """Return the value of `SPLIT_COLUMN` in the rows of split `n`: text.

    For a number, Spark would generate and compile another program for each split.
    """
    return str(n)


def mark_column(n: int) -> Any:
    return F.lit(mark_of(n)).alias(SPLIT_COLUMN)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Concatenate frames, half by half: each union is analysed as a whole."""
    half = len(frames) // 2
    return union(frames[:half]).union(union(frames[half:])) if half else frames[0]
