"""`"t$paxos"`: the state of conditional writes to a table, and lists of what there is none of."""
from cassandra import InvalidRequest, Unauthorized


def test_the_state_of_a_table_is_read_by_its_name(db):
    one, other = db.table("p int PRIMARY KEY, x int"), db.table("p int PRIMARY KEY, x int")
    keyspace, name = one.split(".")
    paxos = f'{keyspace}."{name}$paxos"'
    assert db.rows(f"SELECT * FROM {paxos}") == []
    db.run(f"INSERT INTO {one} (p, x) VALUES (1, 2) IF NOT EXISTS")
    db.run(f"INSERT INTO {other} (p, x) VALUES (7, 2) IF NOT EXISTS")
    ids = db.rows("SELECT id FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s",
                  keyspace, name)
    key = (1).to_bytes(4, "big")
    # It goes once what was decided is on the disk.
    assert db.rows(f"SELECT row_key, cf_id FROM {paxos}") in ([(key, *ids[0])], [])
    assert db.rows(f"SELECT row_key FROM {paxos} WHERE row_key = %s", key) in ([(key,)], [])
    assert db.rows(f"SELECT row_key FROM {paxos} WHERE row_key = 0x00000007") == []


def test_the_state_is_described_where_it_is_named_and_not_changed(db):
    table = db.table("p int PRIMARY KEY, x int")
    keyspace, name = table.split(".")
    paxos = f'{keyspace}."{name}$paxos"'
    for text in [f"DESC TABLE {paxos}", f"DESC {paxos}"]:
        shown = db.run(text).one().create_statement
        assert shown.startswith("/* Do NOT execute") and shown.endswith("\n*/")
        assert f"CREATE TABLE {paxos} (" in shown
    assert f"{name}$paxos" not in [row.name for row in db.run("DESC TABLES")]
    db.refuse(f"ALTER TABLE {paxos} WITH comment = 'x'", "not user-modifiable", kind=Unauthorized)
    db.refuse(f"DROP TABLE {paxos}", "not user-modifiable", kind=Unauthorized)
    for text in [f'SELECT * FROM {keyspace}."nothing$paxos"', f"INSERT INTO {paxos} (p) VALUES (1)"]:
        db.refuse(text, "unconfigured table", kind=InvalidRequest)
    db.refuse(f'DESC TABLE {keyspace}."nothing$paxos"', "not found", kind=InvalidRequest)


def test_service_levels_are_listed_until_they_are_dropped(db):
    db.refuse("LIST SERVICE LEVEL gold", "Service Level gold doesn't exists.")
    db.run("CREATE SERVICE LEVEL gold WITH timeout = 5s")
    db.refuse("CREATE SERVICE LEVEL gold", "Service Level gold already exists.")
    listed = db.run("LIST SERVICE LEVEL gold")
    assert listed.column_names[:3] == ["service_level", "timeout", "workload_type"]
    assert [row[0] for row in listed] == ["gold"]
    db.run("DROP SERVICE LEVEL gold")
    assert "gold" not in [row[0] for row in db.run("LIST ALL SERVICE LEVELS")]
    assert db.rows("LIST ALL ATTACHED SERVICE LEVELS") == []


def test_nearest_by_a_column_that_is_not_there(db):
    table = db.table("p int PRIMARY KEY, v vector<float, 1>")
    db.refuse(f"SELECT p FROM {table} ORDER BY w ANN OF [1.0] LIMIT 1", "Unrecognized name w")
    db.refuse(f"SELECT p FROM {table} ORDER BY v ANN OF [1.0] LIMIT 1", "column to be indexed")
