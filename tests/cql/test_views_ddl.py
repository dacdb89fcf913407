"""Materialized views as part of the schema: what makes, alters and drops them, and what they are."""
import pytest
from cassandra.protocol import ConfigurationException


@pytest.fixture
def base(db):
    return db.table("p int, c int, v int, w text, m map<int, int>, s int static, "
                    "PRIMARY KEY (p, c)")


def view(db, base, select="v", key="(v, p, c)", more="", rest=""):
    name = db.name()
    where = " AND ".join(f"{column} IS NOT NULL" for column in ("v", "p", "c") if column in key)
    db.run(f"CREATE MATERIALIZED VIEW {name} AS SELECT {select} FROM {base} WHERE {where}{more} "
           f"PRIMARY KEY {key} {rest}")
    return name


def rows_of(db, table, name, columns="*"):
    return db.rows(f"SELECT {columns} FROM system_schema.{table} WHERE keyspace_name = "
                   f"'{db.keyspace}' AND {'view_name' if 'view' in table else 'table_name'} = "
                   f"'{name.split('.')[1]}'")


def test_a_view_is_where_drivers_look(db, base):
    name = view(db, base)
    found = rows_of(db, "views", name, "base_table_name, include_all_columns, where_clause, id")
    assert [row[:3] for row in found] == [
        (base.split(".")[1], False, "v IS NOT NULL AND p IS NOT NULL AND c IS NOT NULL")]
    assert rows_of(db, "tables", name) == []
    columns = rows_of(db, "columns", name, "column_name, kind, position, type")
    assert columns == [("c", "clustering", 1, "int"), ("p", "clustering", 0, "int"),
                       ("v", "partition_key", 0, "int")]
    assert rows_of(db, "view_virtual_columns", name) == []


def test_hidden_columns_are_apart(db, base):
    name = view(db, base, "v", "(c, p)")
    assert [row[0] for row in rows_of(db, "columns", name, "column_name")] == ["c", "p", "v"]
    hidden = rows_of(db, "view_virtual_columns", name, "column_name, kind, type")
    assert hidden == [("m", "regular", "map<int, empty>"), ("w", "regular", "empty")]


def test_drivers_see_views(db, base):
    name = view(db, base, "v, w", rest="WITH comment = 'of mine'")
    db.session.cluster.refresh_schema_metadata()
    known = db.session.cluster.metadata.keyspaces[db.keyspace]
    found = known.views[name.split(".")[1]]
    assert found.base_table_name == base.split(".")[1]
    assert list(found.columns) and found.options["comment"] == "of mine"
    assert name.split(".")[1] in known.tables[base.split(".")[1]].views


def test_a_view_is_described_and_made_again(db, base):
    name = view(db, base, "v, w", "(v, c, p)", " AND p > 3",
                "WITH CLUSTERING ORDER BY (c DESC, p ASC) AND synchronous_updates = true")
    text = db.rows(f"DESCRIBE MATERIALIZED VIEW {name}")[0][-1]
    assert "CLUSTERING ORDER BY (c DESC, p ASC)" in text and "p > 3" in text, text
    assert "synchronous_updates = true" in text
    assert text in [row[-1] for row in db.rows(f"DESCRIBE TABLE {base}")]
    db.run(f"DROP MATERIALIZED VIEW {name}")
    db.run(text)
    assert db.rows(f"DESCRIBE MATERIALIZED VIEW {name}")[0][-1] == text


@pytest.mark.parametrize("statement, expected", [
    ("INSERT INTO {v} (v, p, c) VALUES (1, 2, 3)", "Cannot directly modify a materialized view"),
    ("UPDATE {v} SET w = 'x' WHERE v = 1 AND p = 2 AND c = 3", "Cannot directly modify a mater"),
    ("DELETE FROM {v} WHERE v = 1", "Cannot directly modify a materialized view"),
    ("BEGIN BATCH DELETE FROM {v} WHERE v = 1; APPLY BATCH", "Cannot directly modify a mater"),
    ("TRUNCATE {v}", "must truncate base table instead"),
    ("ALTER TABLE {v} ADD x int", "Did you mean ALTER MATERIALIZED VIEW"),
    ("DROP TABLE {v}", "Did you mean DROP MATERIALIZED VIEW"),
    ("DROP TABLE {t}", "materialized views still depend on it"),
    ("ALTER TABLE {t} DROP w", "needs this column"),
    ("ALTER TABLE {t} WITH gc_grace_seconds = 0", "Cannot alter gc_grace_seconds of the base"),
    ("ALTER MATERIALIZED VIEW {v} WITH gc_grace_seconds = 0", "Cannot alter gc_grace_seconds"),
    ("ALTER MATERIALIZED VIEW {t} WITH comment = ''", "Did you mean ALTER TABLE"),
    ("DROP MATERIALIZED VIEW {t}", "Did you mean DROP TABLE"),
    ("DROP MATERIALIZED VIEW {v}_no", "Cannot drop non existing materialized view"),
    ("CREATE INDEX ON {v} (w)", "Secondary indexes are not supported on materialized views"),
])
def test_what_cannot_be_done_with_views(db, base, statement, expected):
    name = view(db, base, "v, w")
    before = db.rows(f"DESCRIBE KEYSPACE {db.keyspace}")
    db.refuse(statement.format(v=name, t=base), expected)
    assert db.rows(f"DESCRIBE KEYSPACE {db.keyspace}") == before


def test_views_follow_their_table(db, base):
    hiding, named = view(db, base, "v", "(c, p)"), view(db, base, "w", "(v, p, c)")
    db.run(f"ALTER TABLE {base} ADD (n int, o list<int>)")
    hidden = rows_of(db, "view_virtual_columns", hiding, "column_name, type")
    assert hidden == [("m", "map<int, empty>"), ("n", "empty"), ("o", "list<empty>"),
                      ("w", "empty")]
    assert [row[0] for row in rows_of(db, "columns", named, "column_name")] == ["c", "p", "v", "w"]
    db.run(f"ALTER TABLE {base} RENAME c TO \"C\" AND p TO pp")
    assert [row[0] for row in rows_of(db, "columns", hiding, "column_name")] == ["C", "pp", "v"]
    clause = rows_of(db, "views", hiding, "where_clause")
    assert clause == [("pp IS NOT NULL AND \"C\" IS NOT NULL",)]


def test_dropping_a_keyspace_takes_views_along(db):
    db.run("CREATE KEYSPACE takes_along WITH replication = {'class': 'NetworkTopologyStrategy', "
           "'replication_factor': 1}")
    try:
        db.run("CREATE TABLE takes_along.t (p int PRIMARY KEY, v int)")
        db.run("CREATE MATERIALIZED VIEW takes_along.mv AS SELECT * FROM takes_along.t "
               "WHERE v IS NOT NULL PRIMARY KEY (v, p)")
        db.run("CREATE INDEX ON takes_along.t (v)")
    finally:
        db.run("DROP KEYSPACE takes_along")
    for table in ("views", "indexes", "columns", "view_virtual_columns", "computed_columns"):
        assert db.rows(f"SELECT * FROM system_schema.{table} WHERE keyspace_name = "
                       "'takes_along'") == []


def test_truncating_a_table_truncates_its_views(db, base):
    name = view(db, base, "v, w")
    db.run(f"INSERT INTO {base} (p, c, v, w) VALUES (1, 2, 3, 'x')")
    db.run(f"TRUNCATE {base}")
    assert db.rows(f"SELECT * FROM {base}") == [] and db.rows(f"SELECT * FROM {name}") == []


def test_what_was_said_of_views_is_described(db, base):
    said = {"true": "synchronous_updates = true", "false": "synchronous_updates = false", None: ""}
    for value, text in said.items():
        name = view(db, base, rest=f"WITH {text}" if text else "")
        shown = db.rows(f"DESCRIBE MATERIALIZED VIEW {name}")[0][-1]
        assert (text in shown) if value else ("synchronous_updates" not in shown)
        assert ("tombstone_gc = {'mode': 'timeout', 'propagation_delay_in_seconds': '3600'}"
                in shown), shown
    name = view(db, base, rest="WITH tombstone_gc = {'mode': 'disabled'}")
    assert "tombstone_gc = {'mode': 'disabled'}" in db.rows(f"DESCRIBE {name}")[0][-1]


def test_a_view_has_no_id_that_is_null(db, base):
    with pytest.raises(ConfigurationException, match="Invalid table id"):
        view(db, base, rest="WITH ID = null")


def test_what_is_too_long_for_the_key_of_a_view_is_not_written(db):
    t = db.table("p int PRIMARY KEY, v text, w text")
    name, some = db.name(), db.name()
    db.run(f"CREATE MATERIALIZED VIEW {name} AS SELECT * FROM {t} WHERE v IS NOT NULL "
           "AND p IS NOT NULL PRIMARY KEY (v, p)")
    db.run(f"CREATE MATERIALIZED VIEW {some} AS SELECT * FROM {t} WHERE w = 'of some' "
           "AND p IS NOT NULL PRIMARY KEY (w, p)")
    long = "x" * 65_536
    expected = f"size 65536 to {t}(v), which is in the key of the materialized view {name}"
    insert = f"INSERT INTO {t} (p, v) VALUES (1, %s)"
    db.refuse(insert, expected, long)
    assert db.rows(f"SELECT * FROM {t}") == []
    # It goes into no other key, and a view that asks for another value would not have the row.
    db.run(f"INSERT INTO {t} (p, v, w) VALUES (1, 'a', %s)", long)
    db.run(insert, long[:65_535])
    assert db.column(f"SELECT p FROM {name}") == [1] and db.rows(f"SELECT * FROM {some}") == []
    # Two columns that are each short enough.
    pair = db.name()
    db.run(f"CREATE MATERIALIZED VIEW {pair} AS SELECT * FROM {t} WHERE v IS NOT NULL "
           "AND p IS NOT NULL PRIMARY KEY ((v, p))")
    db.refuse(f"INSERT INTO {t} (p, v) VALUES (2, %s)", f"materialized view {pair}", long[:65_530])


def test_traces_tell_of_views_that_are_waited_for(db, base):
    waited, late = view(db, base, rest="WITH synchronous_updates = true"), view(db, base)
    altered = view(db, base, rest="WITH synchronous_updates = true")
    db.run(f"ALTER MATERIALIZED VIEW {altered} WITH synchronous_updates = false")
    for write in (f"INSERT INTO {base} (p, c, v) VALUES (1, 2, 3)",
                  f"UPDATE {base} SET v = 4 WHERE p = 1 AND c = 2 IF v = 3",
                  f"BEGIN BATCH DELETE FROM {base} WHERE p = 1; APPLY BATCH"):
        trace = db.session.execute(write, trace=True).get_query_trace(max_wait_sec=10)
        told = " ".join(event.description for event in trace.events)
        assert f"Forcing {waited} view update to be synchronous" in told, told
        assert late not in told and altered not in told, told


def test_an_empty_value_is_a_key_of_a_view(db, flush):
    t, name = db.table("p int PRIMARY KEY, v text"), db.name()
    db.run(f"CREATE MATERIALIZED VIEW {name} AS SELECT * FROM {t} WHERE v IS NOT NULL "
           "AND p IS NOT NULL PRIMARY KEY (v, p)")
    for p, v in ((1, ""), (2, "a"), (3, "")):
        db.run(f"INSERT INTO {t} (p, v) VALUES (%s, %s)", p, v)
    for _ in range(2):
        for bypass in ("", "BYPASS CACHE"):
            select = f"SELECT p FROM {name} WHERE v "
            assert db.column(f"{select} = '' {bypass}") == [1, 3]
            assert db.column(f"{select} = '' AND p > 1 {bypass}") == [3]
            assert sorted(db.column(f"{select} IN ('', 'a', 'b') {bypass}")) == [1, 2, 3]
        flush(name)
    assert db.prepared(f"SELECT p FROM {name} WHERE v = ?", "") == [(1,), (3,)]
    # Tables have no such key.
    db.refuse(f"SELECT * FROM {db.table('v text PRIMARY KEY')} WHERE v = ''", "may not be empty")
