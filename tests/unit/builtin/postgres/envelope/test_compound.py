"""Arrays, hstore and geometries of PostGIS, from their text."""

import pytest

from fencepost.builtin.postgres.envelope import compound


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("{}", []),
        ("{1,NULL,3}", ["1", None, "3"]),
        ('{"NULL",null}', ["NULL", "null"]),
        ('{"a,b","c}d","e\\"f","g\\\\h",""}', ["a,b", "c}d", 'e"f', "g\\h", ""]),
        ("{{1,2},{3,4}}", [["1", "2"], ["3", "4"]]),
        ("[0:1]={a,b}", ["a", "b"]),
        ("[-1:0][2:2]={{a},{b}}", [["a"], ["b"]]),
        ('{"line\nbreak"}', ["line\nbreak"]),
        ("{ü,漢}", ["ü", "漢"]),
    ],
)
def test_text_of_an_array_becomes_its_items(text: str, items: list[object]) -> None:
    assert compound.array(None)(text) == items


def test_items_of_an_array_are_converted_except_nulls() -> None:
    assert compound.array(int)("{{1,NULL},{3,4}}") == [[1, None], [3, 4]]


def test_pairs_of_an_hstore_are_in_the_order_of_javas_hash_map() -> None:
    """That of OpenJDK 17 for the keys k0 to k13, in a map that has grown once."""
    text = ", ".join(f'"k{number}"=>"{number}"' for number in range(14))
    expected = ["k0", "k1", "k2", "k3", "k4", "k5", "k11", "k6", "k10", "k7", "k13", "k8", "k12", "k9"]
    assert list(compound.hstore(text)) == expected
    assert compound.hstore('"Aa"=>"1", "BB"=>NULL') == {"Aa": "1", "BB": None}


def test_geometry_keeps_its_bytes_and_shows_its_reference_system() -> None:
    plain = "0101000000000000000000F03F0000000000000040"
    with_srid = "0101000020E6100000000000000000F03F0000000000000040"
    big_endian = "0020000001000010E63FF00000000000004000000000000000"
    assert compound.geometry(plain) == {"wkb": bytes.fromhex(plain), "srid": None}
    assert compound.geometry(with_srid) == {"wkb": bytes.fromhex(with_srid), "srid": 4326}
    assert compound.geometry(big_endian)["srid"] == 4326
