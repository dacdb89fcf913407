"""INSERT JSON: names, what is left out, and what goes with any other INSERT."""
import pytest
from cassandra import InvalidRequest
from cassandra.query import UNSET_VALUE


@pytest.fixture(name="t")
def fixture_t(db):
    return db.table('k int PRIMARY KEY, "Mixed" text, v int, l list<int>')


@pytest.mark.parametrize("default, left", [
    ("", (None, None)), ("DEFAULT NULL", (None, None)), ("DEFAULT UNSET", ("x", [1])),
])
def test_what_is_left_out(db, t, default, left):
    whole = r'{"k": 1, "\"Mixed\"": "x", "v": 1, "l": [1]}'
    db.run(f"INSERT INTO {t} JSON '{whole}'")
    db.run(f"INSERT INTO {t} JSON '{{\"k\": 1, \"v\": 2}}' {default}")
    assert db.rows(f'SELECT "Mixed", l, v FROM {t}') == [(*left, 2)]
    db.run(f"INSERT INTO {t} JSON '{{\"k\": 1, \"v\": null}}' {default}")
    assert db.one(f"SELECT v FROM {t}") is None


def test_bound(db, t):
    insert = f"INSERT INTO {t} JSON ? USING TTL ? AND TIMESTAMP ?"
    db.prepared(insert, '{"k": 1, "v": 3}', 1000, 77)
    ((left, written),) = db.rows(f"SELECT ttl(v), writetime(v) FROM {t}")
    assert 990 <= left <= 1000 and written == 77
    db.prepared(f"INSERT INTO {t} JSON :row DEFAULT UNSET", '{"K": 1, "L": [1, 2]}')
    assert db.rows(f"SELECT v, l FROM {t}") == [(3, [1, 2])]
    assert [db.rows(f"INSERT INTO {t} JSON '{{\"k\": 9, \"v\": 1}}' IF NOT EXISTS")[0][0]
            for _ in range(2)] == [True, False]


@pytest.mark.parametrize("text, words", [
    ('{"k": 1, "nope": 2}', "unrecognized column: nope"), ('{"v": 1}', "null value"),
    ('{"k": null}', "null value"), ('{"k": 1, "v": "x"}', ""), ('{"k": 1', ""), ("[1]", ""),
    ('{"k": 1, "l": [null]}', ""), ("5", ""), ("", ""),
])
def test_refused(db, t, text, words):
    db.refuse(f"INSERT INTO {t} JSON '{text}'", words)
    insert = db.session.prepare(f"INSERT INTO {t} JSON ?")
    with pytest.raises(InvalidRequest):
        db.session.execute(insert, (text,))
    assert db.rows(f"SELECT * FROM {t}") == []


def test_no_text_is_no_row(db, t):
    insert = db.session.prepare(f"INSERT INTO {t} JSON ?")
    for nothing in (None, UNSET_VALUE):
        with pytest.raises(InvalidRequest):
            db.session.execute(insert, (nothing,))
