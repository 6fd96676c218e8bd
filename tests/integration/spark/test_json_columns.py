"""Arrow parses JSON as Spark does, or leaves it to Spark."""

import json
import os
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

from fencepost.spark.row.json_columns import JsonColumns
from fencepost.spark.session.session import SparkRuntime

DRAWN = int(os.environ.get("FENCEPOST_JSON_TEXTS") or 3_000)
CORRUPT = "corrupt"
TYPES = {
    "t": "tinyint",
    "h": "smallint",
    "n": "int",
    "l": "bigint",
    "d": "double",
    "b": "boolean",
    "s": "string",
}
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in {**TYPES, CORRUPT: "string"}.items())
NUMBERS = [
    "0", "-0", "1", "-1", "127", "128", "-129", "255", "32768", "2147483647", "2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", "9007199254740993", "1.0", "-0.0", "0.1",
    "5e-324", "2.2250738585072011e-308", "1.7976931348623157e308", "1e400", "-1e400", "1e-400",
    "123456789012345678901234567890",
    "1E3", "1e+3", "01", "1.",
    ".5", "+5", "0x10", "NaN", "-NaN", "nan", "Inf", "-Inf", "Infinity", "-Infinity",
    "+Infinity", "INF", "1_000", "9" * 999, "9" * 1_001,
    "0." + "3" * 999,
]  # fmt: skip
TEXTS = [
    '""', '"a"', '"NaN"', '"Infinity"', '"true"', '"5"', "'a'", '"a\\/b"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud800"',
    '"\\udc00x"', '"\\u0000"', '"\u0000"', '"a\tb"', '"a\nb"', '"\\x41"', '"\\n"', '"é😀"', '"\u2028"', '"\ufeff"',
    '"' + "x" * 1_200 + '"',
]  # fmt: skip
OTHERS = [
    "true", "false", "True", "tru", "null", "NULL", "{}", "[]", '{"n": 1}', '[1, "a", {"n": 2}]', "[1", "{]",
    "[" * 999 + "]" * 999, "[" * 1_001 + "]" * 1_001, "",
]  # fmt: skip
WHOLE = [
    "", " ", "{}", "[]", "[{}]", "null", "1", '"a"', "{", "}", "{}}", "{}{}", '{"n":1}{"n":2}', '{"n":1} {"n":2}',
    '{"n":1} x}', '{"n":1,}', '{,}', '{"n"}', '{"n":}', '{n:1}', "{'n':1}", '{"n":1 /* c */}', '{"n":1}//}',
    '{"x":[1,-Inf]}', '{"x":{"y":Inf }}', '{"x":[Inf\n]}', '{"x":[-NaN]}', '{"' + "k" * 50_001 + '":1}',
    '{"x":{"' + "k" * 60_000 + '":1}}',
    '{"N":1}', '{"\\u006e":1}', '{"n":1,"n":2}', '{"x":1,"x":"a"}', '{\n "n" : 1\r\n}', '\ufeff{"n":1}', ' {"n":1}',
    '{"n":1} ', '{"x":"}', '{"}', '{"corrupt":"x"}', '{"n":1,"corrupt":5}',
]  # fmt: skip
BROKEN = [b'{"s":"\xff\xfe"}', b'{"x":"\xff","n":1}', b'{"s":"\xed\xa0\x80"}', b'{"\xff":1,"n":2}', b'{"s":"\xc0\x80"}']


def drawn(rng: random.Random) -> bytes:
    """Return an object of a few fields, some of which there are no columns for, and some twice."""
    names = rng.choices([*TYPES, "x", "y"], k=rng.randrange(5))
    pool = rng.choice([NUMBERS, TEXTS, OTHERS, NUMBERS + TEXTS + OTHERS])
    fields = [f"{json.dumps(name)}:{rng.choice(pool)}" for name in names]
    return f"{{{rng.choice([',', ', ']).join(fields)}}}".encode("utf-8", "surrogatepass")


def fitting(rng: random.Random) -> bytes:
    """Return an object whose fields are of the types of their columns."""
    made = {
        "t": rng.randrange(-128, 128), "h": rng.randrange(-(1 << 15), 1 << 15), "n": rng.randrange(-(1 << 31), 1 << 31),
        "l": rng.randrange(-(1 << 63), 1 << 63),
        "d": rng.choice([rng.random(), rng.randrange(1 << 70), 1e300 * rng.random(), 1.5]),
        "b": rng.random() < 0.5, "s": "".join(rng.choices('aé"\\\n😀\x00\u2028', k=rng.randrange(5))), "x": [{"n": 1}],
    }  # fmt: skip
    kept = rng.sample(sorted(made), rng.randrange(len(made) + 1))
    return json.dumps(
        {name: None if rng.random() < 0.1 else made[name] for name in kept}, ensure_ascii=rng.random() < 0.5
    ).encode()


def by_arrow(texts: Sequence[bytes | None]) -> tuple[list[Any], list[Any]]:
    """Return what is left of texts, and what was made of the others."""
    binary = pa.array(texts, pa.binary())
    column = pa.StringArray.from_buffers(len(binary), *binary.buffers()[1:], binary.buffers()[0])  # nobody looks
    left, made = JsonColumns(TYPES, CORRUPT).parsed(column)
    return left.cast(pa.binary()).to_pylist(), made.to_pylist()


def by_spark(runtime: SparkRuntime, texts: Sequence[bytes]) -> list[Any]:
    frame = runtime.session.createDataFrame([(bytearray(text),) for text in texts], "value binary").coalesce(1)
    value = F.from_json(F.col("value").cast("string"), SCHEMA, {"columnNameOfCorruptRecord": CORRUPT})
    return [None if row.v is None else row.v.asDict() for row in frame.select(value.alias("v")).collect()]


def test_texts_parsed_by_arrow_have_the_values_that_spark_parses(runtime: SparkRuntime, seed: int) -> None:
    rng = random.Random(seed)
    alone = [
        f'{{"{name}":{value}}}'.encode("utf-8", "surrogatepass")
        for name in [*TYPES, "x"]
        for value in NUMBERS + TEXTS + OTHERS
    ]
    texts = [*alone, *(text.encode() for text in WHOLE), *BROKEN, *(drawn(rng) for _ in range(DRAWN))]
    texts += [fitting(rng) for _ in range(DRAWN // 3)]
    found = [by_arrow([text]) for text in texts]
    taken = [(text, made[0]) for text, (left, made) in zip(texts, found, strict=True) if left == [None]]
    assert all(made == [None] for left, made in found if left != [None])
    expected = by_spark(runtime, [text for text, _ in taken])
    wrong = [
        (text, made, right) for (text, made), right in zip(taken, expected, strict=True) if repr(made) != repr(right)
    ]
    assert not wrong
    assert len(taken) > DRAWN // 2
    assert len(texts) - len(taken) > DRAWN // 3


@pytest.mark.parametrize("count", [1, 2, 500])
def test_texts_that_fit_are_all_parsed_by_arrow_in_order(runtime: SparkRuntime, count: int, seed: int) -> None:
    rng = random.Random(seed + count)
    texts = [None if rng.random() < 0.3 else fitting(rng) for _ in range(count)]
    left, made = by_arrow(texts)
    if texts.count(None) == count:
        assert (left, made) == (texts, texts)
        return
    assert left == [None] * count
    there = [text for text in texts if text is not None]
    expected = iter(by_spark(runtime, there))
    assert made == [None if text is None else next(expected) for text in texts]


@pytest.mark.parametrize("stranger", [b"", b"{}{}", b'{"n":"x"}', b'{"x":"}', b"{", b"no JSON", b'{"d":-0}'])
def test_one_text_for_spark_leaves_its_whole_batch_to_spark(stranger: bytes) -> None:
    texts = [b'{"n":1}', stranger, None, b'{"n":2}', b'{"n":1}{"n":2}' if stranger == b"" else b"{}"]
    assert by_arrow(texts) == (texts, [None] * len(texts))


@pytest.mark.parametrize(
    "texts",
    [
        [b'{"x":"}', b'{","n":2}', b'{"n":7}{"n":8}'],
        [b'{"x":', b'{"q":1}}', b"{}{}"],
        [b'{"x":{}', b',"n":2}', b"{}{}"],
    ],
    ids=["a string", "an object that does not end", "one that does not begin"],
)
def test_a_text_never_continues_in_the_next_text(texts: list[bytes]) -> None:
    """There are as many objects as texts, and none of them is one of the texts."""
    assert by_arrow(texts) == (texts, [None] * len(texts))


def test_a_batch_of_texts_has_the_values_of_each_text_parsed_alone(seed: int) -> None:
    rng = random.Random(seed)
    pool = [*(text.encode() for text in WHOLE), *BROKEN, *(drawn(rng) for _ in range(300))]
    made_of = {text: made[0] for text in pool for left, made in [by_arrow([text])] if left == [None]}
    refused = 0
    for _ in range(DRAWN):
        texts = [rng.choice([pool, list(made_of), list(made_of)][rng.randrange(3)]) for _ in range(rng.randint(2, 4))]
        left, made = by_arrow(texts)
        if made_of.keys() >= set(texts):
            assert (left, repr(made)) == ([None] * len(texts), repr([made_of[text] for text in texts])), texts
        else:
            refused += 1
            assert (left, made) == (texts, [None] * len(texts)), texts
    assert DRAWN // 10 < refused < DRAWN * 9 // 10


def test_a_slice_of_texts_is_parsed_by_itself() -> None:
    column = pa.array(['{"n":0}', "no JSON", None, '{"n":1}', '{"n":2}', "no JSON"])
    left, made = JsonColumns(TYPES, CORRUPT).parsed(column.slice(2, 3))
    assert left.to_pylist() == [None] * 3
    assert [row and row["n"] for row in made.to_pylist()] == [None, 1, 2]
