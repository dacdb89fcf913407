"""What is not there yet is refused with an error that says so, and does nothing."""
import pytest
from cassandra import InvalidRequest
from cassandra.protocol import ConfigurationException, SyntaxException

STATEMENTS = [
    "PRUNE MATERIALIZED VIEW {ks}.mv",
    "CREATE CUSTOM INDEX ON {t} (e) USING 'vector_index'",
    "CREATE CUSTOM INDEX ON {t} (w) USING 'fulltext_index'",
    "SELECT * FROM {t} ORDER BY e ANN OF [1, 2] LIMIT 1",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_refused(db, statement):
    t = db.table("k int PRIMARY KEY, v int, w text, m map<int, int>, e vector<float, 2>")
    before = db.rows(f"DESCRIBE KEYSPACE {db.keyspace}")
    with pytest.raises(Exception) as caught:
        db.run(statement.format(t=t, ks=db.keyspace))
    assert isinstance(caught.value, (InvalidRequest, ConfigurationException)) \
        and not isinstance(caught.value, SyntaxException), caught.value
    assert str(caught.value)
    assert db.rows(f"DESCRIBE KEYSPACE {db.keyspace}") == before
