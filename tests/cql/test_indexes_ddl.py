"""Secondary indexes as part of the schema: what makes and drops them, and what answers them."""
import json

import pytest


@pytest.fixture
def base(db):
    return db.table("p int, q int, c int, v int, w text, m map<int, text>, l list<int>, "
                    "e set<int>, f frozen<list<int>>, s int static, PRIMARY KEY ((p, q), c)")


def indexes(db, base):
    return db.rows(f"SELECT index_name, kind, options FROM system_schema.indexes WHERE "
                   f"keyspace_name = '{db.keyspace}' AND table_name = '{base.split('.')[1]}'")


def columns(db, view):
    found = db.rows("SELECT kind, position, column_name FROM system_schema.columns WHERE "
                    f"keyspace_name = '{db.keyspace}' AND table_name = '{view}'")
    return tuple([name for kind, _, name in sorted(found) if kind == wanted]
                 for wanted in ("partition_key", "clustering"))


REST = ["idx_token", "p", "q", "c"]


@pytest.mark.parametrize("target, stored, partition, clustering", [
    ("v", "v", ["v"], REST),
    ("c", "c", ["c"], ["idx_token", "p", "q"]),
    ("q", "q", ["q"], ["idx_token", "p", "c"]),
    ("s", "s", ["s"], ["idx_token", "p", "q"]),
    ("full(f)", "f", ["f"], REST),
    ("keys(m)", "keys(m)", ["coll_value"], REST),
    ("entries(m)", "entries(m)", ["coll_value"], REST),
    ("m", "values(m)", ["coll_value"], REST + ["keys_for_values_idx"]),
    ("l", "values(l)", ["coll_value"], REST + ["keys_for_values_idx"]),
    ("e", "keys(e)", ["coll_value"], REST),
])
def test_an_index_and_the_view_that_answers_it(db, base, target, stored, partition, clustering):
    db.run(f"CREATE INDEX ON {base} ({target})")
    [(name, kind, options)] = indexes(db, base)
    assert (kind, options) == ("COMPOSITES", {"target": stored})
    assert columns(db, f"{name}_index") == (partition, clustering)
    db.run(f"DROP INDEX {db.keyspace}.{name}")
    assert indexes(db, base) == [] and columns(db, f"{name}_index") == ([], [])


def test_local_indexes(db, base):
    db.run(f"CREATE INDEX near ON {base} ((p, q), v)")
    try:
        [(name, kind, options)] = indexes(db, base)
        assert (name, kind) == ("near", "COMPOSITES")
        assert json.loads(options["target"]) == {"pk": ["p", "q"], "ck": ["v"]}
        assert columns(db, "near_index") == (["p", "q"], ["v", "c"])
    finally:
        db.run(f"DROP INDEX {db.keyspace}.near")


def test_names(db, base):
    table = base.split(".")[1]
    db.run(f"CREATE INDEX ON {base} (v)")
    db.run(f"CREATE INDEX ON {base} ((p, q), v)")
    assert [row[0] for row in indexes(db, base)] == [f"{table}_v_idx", f"{table}_v_idx_1"]
    db.run(f"CREATE INDEX IF NOT EXISTS ON {base} (v)")
    db.refuse(f"CREATE INDEX ON {base} (v)", "is a duplicate of existing index")
    db.refuse(f"CREATE INDEX {table}_v_idx ON {base} (w)", "Index already exists")
    # Whoever wants an index that is not there hears that its name is taken.
    db.run(f"CREATE INDEX IF NOT EXISTS {table}_v_idx ON {base} (v)")
    db.run(f"CREATE INDEX IF NOT EXISTS other ON {base} (v)")
    db.refuse(f"CREATE INDEX IF NOT EXISTS {table}_v_idx ON {base} (w)", "Index already exists")
    assert len(indexes(db, base)) == 2


@pytest.mark.parametrize("class_name", ["sai", "StorageAttachedIndex",
                                        "org.apache.cassandra.index.sai.StorageAttachedIndex"])
def test_storage_attached_indexes_are_such_indexes(db, base, class_name):
    db.run(f"CREATE CUSTOM INDEX ON {base} (v) USING '{class_name}' "
           "WITH OPTIONS = {'case_sensitive': 'false'}")
    [(name, kind, options)] = indexes(db, base)
    assert kind == "CUSTOM" and columns(db, f"{name}_index") == (["v"], REST)
    assert options == {"target": "v", "class_name": class_name, "case_sensitive": "false"}


def test_drivers_see_indexes(db, base):
    db.run(f"CREATE INDEX seen ON {base} (v) WITH comment = 'c'")
    try:
        db.session.cluster.refresh_schema_metadata()
        known = db.session.cluster.metadata.keyspaces[db.keyspace]
        index = known.indexes["seen"]
        assert (index.kind, index.index_options["target"]) == ("COMPOSITES", "v")
        assert "seen" in known.tables[base.split(".")[1]].indexes
    finally:
        db.run(f"DROP INDEX {db.keyspace}.seen")


def test_an_index_is_described_and_made_again(db, base):
    db.run(f"CREATE INDEX shown ON {base} (entries(m)) WITH comment = 'what for'")
    text = db.rows(f"DESCRIBE INDEX {db.keyspace}.shown")[0][-1]
    assert text.startswith(f"CREATE INDEX shown ON {base}(entries(m)) WITH ")
    assert "comment = 'what for'" in text and text.endswith(";\n")
    assert "tombstone_gc = {'mode': 'timeout', 'propagation_delay_in_seconds': '3600'}" in text
    kinds = [row[1] for row in db.rows(f"DESCRIBE TABLE {base}")]
    assert kinds == ["table", "index"]
    db.run(f"DROP INDEX {db.keyspace}.shown")
    db.run(text)
    assert db.rows(f"DESCRIBE INDEX {db.keyspace}.shown")[0][-1] == text
    db.run(f"DROP INDEX {db.keyspace}.shown")


@pytest.mark.parametrize("statement, expected", [
    ("CREATE INDEX ON {t} (x)", "No column definition found for column x"),
    ("CREATE INDEX ON {t} (f)", "Cannot create index on value of frozen collection column f"),
    ("CREATE INDEX ON {t} (keys(l))", "Cannot create secondary index on keys of column l"),
    ("CREATE INDEX ON {t} (full(m))", "full() indexes can only be created on frozen collections"),
    ("CREATE INDEX ON {t} (v, w)", "Only CUSTOM indexes support multiple columns"),
    ("CREATE INDEX ON {t} ((p), v)", "Missing column: q"),
    ("CREATE INDEX ON {t} ((p, q), s)", "Local indexes containing static columns"),
    ("CREATE CUSTOM INDEX ON {t} (v)", "CUSTOM index requires specifying the index class"),
    ("CREATE CUSTOM INDEX ON {t} (v) USING 'x'", "Non-supported custom class 'x' provided"),
    ("DROP INDEX {ks}.nothing", "could not be found in any of the tables"),
    ("DROP MATERIALIZED VIEW {ks}.there_index", "Did you mean DROP INDEX"),
    ("ALTER TABLE {t} DROP w", "needs this column"),
])
def test_what_cannot_be(db, base, statement, expected):
    db.run(f"CREATE INDEX there ON {base} (w)")
    try:
        db.refuse(statement.format(t=base, ks=db.keyspace), expected)
    finally:
        db.run(f"DROP INDEX {db.keyspace}.there")


def test_a_table_takes_its_indexes_along(db):
    table = db.table("p int PRIMARY KEY, v int")
    db.run(f"CREATE INDEX goes ON {table} (v)")
    db.run(f"DROP TABLE {table}")
    assert columns(db, "goes_index") == ([], [])
    assert indexes(db, table) == []
