"""Values of plain JSON that Spark's `from_json` would change without a word: exact, or refused by name."""

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812

from fencepost.spark.row.exact_json import ExactColumns, has_long_numbers
from fencepost.spark.row.json_columns import PayloadColumns
from fencepost.spark.row.kafka_columns import MISFIT_REASON, PARSED
from fencepost.spark.row.payloads import MisfitError

DECIMAL = T.DecimalType(10, 2)


def columns(**types: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in types.items()])


def exact(kind: T.DataType, text: str) -> str:
    return ExactColumns(columns(a=kind)).exact(text.encode()).decode()


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (T.ByteType(), "200", "200"),
        (T.ByteType(), "128", "128"),
        (DECIMAL, "1.239", "1.239"),
        (DECIMAL, '"1.239"', "'1.239'"),
        (DECIMAL, '"1,000.239"', "'1,000.239'"),
        (DECIMAL, "1e-999", "1E-999"),
        (T.DecimalType(38, 18), "0.1234567890123456789", "0.1234567890123456789"),
        (T.FloatType(), "0.123456789", "0.123456789"),
        (T.FloatType(), "16777217", "16777217"),
        (T.FloatType(), "1e60", "1E+60"),
        (T.FloatType(), "1e-60", "1E-60"),
        (T.DoubleType(), "0.12345678901234567890", "0.12345678901234567890"),
        (T.DoubleType(), "9007199254740993", "9007199254740993"),
        (T.DoubleType(), "123456789012345678901234567890", "123456789012345678901234567890"),
        (T.DoubleType(), "1e999", "1E+999"),
        (T.DoubleType(), "1e-999", "1E-999"),
        (T.DateType(), '"2020-01-01T23:59:59"', "'2020-01-01T23:59:59'"),
        (T.DateType(), '"2020-01-01 and more"', "'2020-01-01 and more'"),
        (T.DateType(), '"2020-01-01T00:00:00-08:00"', "'2020-01-01T00:00:00-08:00'"),
        (T.TimestampType(), '"2020-01-01T00:00:00.1234567Z"', "'2020-01-01T00:00:00.1234567Z'"),
        (T.TimestampNTZType(), '"2020-01-01 00:00:00.123456789"', "'2020-01-01 00:00:00.123456789'"),
        (T.TimestampType(), '"10:11:12"', "'10:11:12'"),
        (T.TimestampType(), "9300000000000", "9300000000000"),
        (T.TimeType(3), '"12:00:00.1234"', "'12:00:00.1234'"),
        (T.VariantType(), "1" * 43, "1" * 40 + "…"),
        (T.VariantType(), "1" * 39 + "e0", "1" * 39),
        (T.DoubleType(), "9007199254740993e0", "9007199254740993"),
        (DECIMAL, '"1,5"', "'1,5'"),
        (DECIMAL, '"1,2,3.5"', "'1,2,3.5'"),
        (DECIMAL, "1e999999999", "1E+999999999"),
        (DECIMAL, '"1e999999999"', "'1e999999999'"),
        (T.DateType(), '"20200101"', "'20200101'"),
        (T.DateType(), '"202001"', "'202001'"),
        (T.DateType(), '"12"', "'12'"),
        (T.DateType(), '"-5"', "'-5'"),
        (T.DateType(), '"\\u0000202001\\u007f"', "'\\x00202001\\x7f'"),
        (T.DateType(), '"\\u00002020-01-01T23:59:59"', "'\\x002020-01-01T23:59:59'"),
        (T.TimestampType(), '"202001"', "'202001'"),
        (T.TimestampType(), '"2020"', "'2020'"),
        (T.TimestampNTZType(), '"+202001 "', "'+202001 '"),
        (T.TimestampType(), '"\\u000010:11"', "'\\x0010:11'"),
        (T.TimestampType(), '"T5"', "'T5'"),
        (T.BinaryType(), '"AP8=AP8="', "'AP8=AP8='"),
        (T.BinaryType(), '"QQ== QUJD"', "'QQ== QUJD'"),
        (T.DayTimeIntervalType(), '"1 02:03:04.123456789"', "'1 02:03:04.123456789'"),
        (T.CalendarIntervalType(), '"0.1234567 seconds"', "'0.1234567 seconds'"),
        (T.CalendarIntervalType(), '"P1D"', "'P1D'"),
        (T.CalendarIntervalType(), '"999999999999 days"', "'999999999999 days'"),
    ],
)  # fmt: skip
def test_a_value_that_spark_would_change_is_refused_by_name(kind: T.DataType, value: str, shown: str) -> None:
    """Also in texts that are more than JSON, or less, which Spark reads."""
    said = f"{shown} does not fit {kind.simpleString().upper()}"
    strangers = ("'\"'", r'"it\'s"', r"'it\'s \"'", r'"\\"', r"'\\'", "NaN", "-INF", r'"\ud800"')
    for text in (
        f'{{"a":{value}}}',
        f' {{"a":{value}}} more',
        *(f"{{'x':{other}, 'a':{value},'y':'\"'}}" for other in strangers),
    ):
        with pytest.raises(MisfitError) as found:
            exact(kind, text)
        assert str(found.value) == f"a: {said}"
    nested = columns(b=T.ArrayType(columns(c=T.MapType(T.StringType(), kind))))
    with pytest.raises(MisfitError) as found:
        ExactColumns(nested).exact(f'{{"b":[null,{{"c":{{"x":{value}}}}}]}}'.encode())
    assert str(found.value) == f"b[].c[]: {said}"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (T.ByteType(), "-128"), (T.ByteType(), "1.5"), (T.ByteType(), '"x"'), (T.ByteType(), "null"),
        (T.IntegerType(), "4000000000"), (DECIMAL, "1.230"), (DECIMAL, "1.2390e1"), (DECIMAL, "1e3"),
        (DECIMAL, '"1,000.5"'), (DECIMAL, '"x"'), (DECIMAL, "true"), (DECIMAL, "0.000"), (T.FloatType(), "0.1"),
        (T.FloatType(), "123456.789"), (T.FloatType(), "NaN"), (T.FloatType(), '"NaN"'), (T.FloatType(), "-Infinity"),
        (T.FloatType(), "3.4028235e38"), (T.DoubleType(), "0.1"), (T.DoubleType(), "5e-324"), (T.DoubleType(), "-0.0"),
        (T.DoubleType(), "0.10000000000000001"), (T.DoubleType(), "0.1000000000000000055511151231257827"),
        (T.DoubleType(), "123456789012345680000"), (T.DoubleType(), "1.10000000000000000000000000"),
        (T.DateType(), '"2020-01-01"'), (T.DateType(), '"2020-01-01T00:00:00Z"'), (T.DateType(), "5"),
        (T.TimestampType(), '"2020-01-01T00:00:00.123456000Z"'), (T.TimestampType(), "1700000000"),
        (T.TimestampType(), '"2020-01-01"'), (T.TimeType(3), '"12:00:00.1230"'), (T.StringType(), "1.10"),
        (T.StringType(), '{"b": 1.10}'), (T.StringType(), "123456789012345678901234567890"),
        (T.VariantType(), '{"b":[12345678901234567890123, 1e-7]}'), (T.VariantType(), "0.10000000000000001"),
        (T.DateType(), '"2020-1"'), (T.DateType(), '"+12020-01-01"'), (T.TimestampType(), '"2020-01"'),
        (DECIMAL, "99999999.99"), (T.BinaryType(), '"AP8="'), (T.BinaryType(), '"QUJD\\nQQ=="'), (T.BinaryType(), '""'),
        (T.DayTimeIntervalType(), '"1 02:03:04.123456000"'), (T.DayTimeIntervalType(), '"P1D"'),
        (T.CalendarIntervalType(), '"INTERVAL - 1 year 2 Days +3.123456 seconds"'), (T.CalendarIntervalType(), "5"),
    ],
)  # fmt: skip
def test_json_that_spark_reads_exactly_or_refuses_is_unchanged(kind: T.DataType, value: str) -> None:
    assert exact(kind, text := f'{{"a": {value}}}') == text


@pytest.mark.parametrize("text", ["null", "5", "[1]", '[{"a":200}]', '"x"'])
def test_json_that_is_not_an_object_is_left_to_spark(text: str) -> None:
    assert exact(T.ByteType(), text) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, "is not JSON") for text in ("", "no JSON", "[", '{"a":', '{"a":5', '\ufeff{"a":1}', '{"x":01,"a":1}')),
        ('{"x":' + "[" * 999 + "1.2345678901234567890123" + "]" * 999 + ',"a":200}', "is not JSON"),
        ('{"x":1e99999999999999999999,"a":1}', "1e99999999999999999999 has an exponent that is too large"),
    ],
)  # fmt: skip
def test_json_that_cannot_be_checked_is_refused(text: str, reason: str) -> None:
    with pytest.raises(MisfitError, match=reason):
        exact(T.ByteType(), text)


@pytest.mark.parametrize("text", ['{"a":{"x":200,"x":2}}', '{"a":{"x":2,"\\u0078":200}}', "{'a':{'x':200,'x':2}}"])
def test_map_with_a_duplicate_name_is_refused(text: str) -> None:
    """Spark makes two entries of it, of which a look at the last one says nothing."""
    with pytest.raises(MisfitError, match="a: a name occurs twice in it"):
        exact(T.MapType(T.StringType(), T.ByteType()), text)
    other = '{"a":{"x":1.50,"y":NaN},"b":{"z":1,"z":2}}'
    assert exact(T.MapType(T.StringType(), T.FloatType()), other) == other


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("9007199254740993.25e0", "9007199254740993.25"),
        ("9007199254740993.25", "9007199254740993.25"),
        ("12345678901234567890e2", "1234567890123456789000"),
        ("12345678901234567890e-20", "0.12345678901234567890"),
        ('{"b":[0.12345678901234567890123, 1e-7, 0.00001, 1.5]}',
         '{"b":[0.12345678901234567890123,0.0000001,0.00001,1.5]}'),
        ("0.000012345678901234567890", "0.000012345678901234567890"),
    ],
)  # fmt: skip
def test_numbers_of_a_variant_are_written_without_exponent(value: str, written: str) -> None:
    assert exact(T.VariantType(), f'{{"a":{value}}}') == f'{{"a":{written}}}'


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("0.12345678901234567890123", '"0.12345678901234567890123"'),
        ("1e999", '"1E+999"'),
        ('{"b":0.12345678901234567890123,"c":[12345678901234567890123,-Infinity]}',
         r'"{\"b\":0.12345678901234567890123,\"c\":[12345678901234567890123,-Infinity]}"'),
    ],
)  # fmt: skip
def test_a_column_of_text_has_all_digits_of_a_number(value: str, written: str) -> None:
    assert exact(T.StringType(), f'{{"a":{value},"n":1}}') == f'{{"a":{written},"n":1}}'


@pytest.mark.parametrize(
    ("text", "are_long"),
    [
        (b'{"n":1234567890,"d":1.5e30}', False), (b'{"n":1e-99}', False), (b'{"n":9007199254740993}', True),
        (b'{"n":1e-324}', True), (b'{"n":1E+999}', True), (b'{"n":1e999}', True), (b'{"n":0.1234567890123456}', True),
    ],
)  # fmt: skip
def test_json_is_checked_one_by_one_only_if_a_number_may_be_rounded(text: bytes, are_long: bool) -> None:
    assert has_long_numbers(text) is are_long


@pytest.mark.parametrize("parsed", [None, {"d": "double", "corrupt": "string"}])
def test_value_that_does_not_fit_leaves_the_rest_of_its_batch_intact(parsed: dict[str, str] | None) -> None:
    texts = ['{"d":1.5}', None, '{"d":0.12345678901234567890}', '{"d":12345678.90123456}']
    reasons = pa.array([None, "known", None, None], pa.string())
    batch = pa.RecordBatch.from_pydict({"value": pa.array(texts), "offset": pa.array(range(4)), MISFIT_REASON: reasons})
    made = PayloadColumns(columns(d=T.DoubleType()), parsed).made(batch)
    said = "d: 0.12345678901234567890 does not fit DOUBLE"
    assert made[MISFIT_REASON].to_pylist() == [None, "known", said, None]
    assert made["offset"].to_pylist() == [0, 1, 2, 3]
    if parsed is None:
        assert made["value"].to_pylist() == [texts[0], None, None, texts[3]]
    else:
        assert made["value"].to_pylist() == [None] * 4
        assert [row and row["d"] for row in made[PARSED].to_pylist()] == [1.5, None, None, 12345678.90123456]


@pytest.mark.parametrize("depth", [300, 600, 900])
def test_a_long_number_that_is_nested_too_deeply_is_refused(depth: int) -> None:
    with pytest.raises(MisfitError, match="nested too deeply"):
        exact(T.StringType(), '{"a":' + "[" * depth + "0.12345678901234567890123" + "]" * depth + "}")
