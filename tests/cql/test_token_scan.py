"""token(): scans of the ring in parts, as Spark and backup tools do them."""
import pytest
from cassandra import InvalidRequest

KEYS = 300
LOW, HIGH = -2**63, 2**63 - 1


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    t = db.table("k int, c int, v text, PRIMARY KEY (k, c)")
    insert = db.session.prepare(f"INSERT INTO {t} (k, c, v) VALUES (?, ?, ?)")
    for k in range(KEYS):
        for c in range(2):
            db.session.execute(insert, (k, c, f"{k}-{c}"))
    return t


def test_rows_come_in_order_of_their_tokens(db, t):
    tokens = db.column(f"SELECT token(k) FROM {t}")
    assert len(tokens) == 2 * KEYS and tokens == sorted(tokens)


@pytest.mark.parametrize("parts", [1, 2, 7, 64])
def test_parts_make_up_the_whole(db, t, parts):
    bounds = [LOW + (HIGH - LOW) * n // parts for n in range(parts)] + [HIGH]
    seen = []
    for start, end in zip(bounds, bounds[1:]):
        text = f"SELECT k, c FROM {t} WHERE token(k) > {start} AND token(k) <= {end}"
        seen += [row for page in db.pages(text, 13) for row in page]
    assert len(seen) == 2 * KEYS and set(seen) == {(k, c) for k in range(KEYS) for c in range(2)}


def test_bounds(db, t):
    tokens = sorted(set(db.column(f"SELECT token(k) FROM {t}")))
    middle = tokens[len(tokens) // 2]

    def count(where):
        return len(set(db.column(f"SELECT k FROM {t} WHERE {where}")))

    half = len(tokens) // 2
    assert count(f"token(k) < {middle}") == half
    assert count(f"token(k) <= {middle}") == half + 1
    assert count(f"token(k) >= {middle}") == len(tokens) - half
    assert count(f"token(k) > {middle}") == len(tokens) - half - 1
    assert count(f"token(k) = {middle}") == 1
    assert count(f"token(k) > {middle} AND token(k) < {middle}") == 0
    assert count("token(k) > token(5) AND token(k) <= token(5)") == 0
    assert count("token(k) = token(5)") == 1
    assert db.prepared(f"SELECT DISTINCT k FROM {t} WHERE token(k) >= token(?) "
                       "AND token(k) <= token(?)", 7, 7) == [(7,)]


def test_token_with_filtering_and_limits(db, t):
    rows = db.rows(f"SELECT k, c FROM {t} WHERE token(k) > 0 AND c = 1 ALLOW FILTERING")
    assert rows and all(c == 1 for _, c in rows)
    assert len(db.rows(f"SELECT k FROM {t} WHERE token(k) > 0 LIMIT 5")) == 5
    assert len(db.rows(f"SELECT DISTINCT k FROM {t} WHERE token(k) > 0 LIMIT 5")) == 5


@pytest.mark.parametrize("where", [
    "token(c) > 0", "token(k, c) > 0", "token(k) > 'text'", "token(k) IN (1, 2)",
    "token(v) = 1",
])
def test_refused(db, t, where):
    with pytest.raises(InvalidRequest):
        db.run(f"SELECT * FROM {t} WHERE {where}")
