"""Options: the reference is true of a running node; check and show say what a node would do."""
import json
import re
import signal
import subprocess

import pytest
from cassandra import WriteFailure
from node import NEREID, ROOT, Node

IDLE = "options without effect in this version: "


def config(*words):
    return subprocess.run([NEREID, "config", *words], capture_output=True, text=True, timeout=60,
                          check=False)


def reference():
    """Rows of docs/options.md: name to (value, default, text)."""
    rows = {}
    for line in (ROOT / "docs" / "options.md").read_text().splitlines():
        match = re.match(r"\| `(\w+)` \| (.*?) \| (?:`(.*)`)? ?\| (.*) \|$", line)
        if match:
            rows[match[1]] = (match[2], match[3] or "", match[4])
    assert len(rows) > 350
    return rows


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A node that is given every option of a file, each with its default."""
    lines = []
    for name, (kind, default, text) in reference().items():
        if default and "command line only" not in text and name not in Node.GIVEN:
            lines.append(f"{name}: '{default}'\n")
    path = tmp_path_factory.mktemp("options") / "all.yaml"
    path.write_text("".join(lines))
    with Node("--options-file", path) as node:
        yield node


def test_the_reference_names_what_has_no_effect(node):
    """What a node says of itself, and what the reference says, are the same."""
    log = node.log.read_text()
    said = log.split(IDLE, 1)[1].splitlines()[0].split(", ")
    rows = reference()
    idle = {name for name, (_, _, text) in rows.items() if "**no effect yet**" in text}
    given = {name for name, (_, default, text) in rows.items()
             if default and "command line only" not in text}
    assert set(said) == idle & given


def test_the_reference_names_what_changes_while_a_node_runs(node):
    session = node.connect()
    update = session.prepare("UPDATE system.config SET value = ? WHERE name = ?")
    rows = {row.name: row for row in session.execute("SELECT name, type, value FROM system.config")}
    wrong = []
    for name, (_, _, text) in reference().items():
        try:
            session.execute(update, (rows[name].value, name))
            changes = True
        except WriteFailure as refused:
            assert "not live-updateable" in str(refused), (name, refused)
            changes = False
        if changes != ("**live**" in text):
            wrong.append((name, changes))
    assert not wrong
    after = {row.name: row for row in session.execute("SELECT name, type, value FROM system.config")}
    assert {name: row.value for name, row in rows.items()} == \
        {name: row.value for name, row in after.items()}


def test_sources_are_named(tmp_path):
    path = tmp_path / "options.yaml"
    path.write_text("batch_size_warn_threshold_in_kb: 100\n")
    with Node("--options-file", path) as node:
        session = node.connect()
        session.execute("UPDATE system.config SET value = '9' WHERE name = 'twcs_max_window_count'")
        found = dict(session.execute("SELECT name, source FROM system.config"))
    assert found["batch_size_warn_threshold_in_kb"] == "config"
    assert found["rpc_address"] == "cli"
    assert found["twcs_max_window_count"] == "cql"
    assert found["data_file_directories"] == "internal"
    assert found["auto_snapshot"] == "default"


@pytest.mark.parametrize("text, words", [
    ("num_tokens: many\nrpc_adress: x\n", ["1:13: ", "not a whole number: many", "2:1: ",
                                          "did you mean rpc_address?"]),
    ("client_encryption_options:\n  certficate: x\n", ["2:3: ", "did you mean certificate?"]),
    ("num_tokens: 1\nnum_tokens: 2\n", ["2:1: "]),
    ("a: [1\n", ["not YAML"]),
    ("prometheus_port: 9042\nprometheus_address: 127.0.0.1\n", ["1:1: ", "native_transport_port"]),
    ("smp: 999\n", ["1:1: ", "not 1 to 256"]),
])
def test_faults_are_found_without_a_node(tmp_path, text, words):
    path = tmp_path / "options.yaml"
    path.write_text(text)
    done = config("check", str(path))
    assert done.returncode == 1, done
    assert all(word in done.stdout for word in words), done.stdout
    assert str(path) in done.stdout
    started = subprocess.run([NEREID, "--options-file", str(path), "--workdir", tmp_path / "data"],
                             capture_output=True, text=True, timeout=60, check=False)
    assert started.returncode in (1, 2), started


def test_warnings_do_not_fail_a_check(tmp_path):
    path = tmp_path / "options.yaml"
    path.write_text("key_cache_size_in_mb: 100\nunsafe_bypass_fsync: true\nssl_storage_port: 7100\n")
    done = config("check", str(path), "--listen-address", "192.0.2.1")
    assert done.returncode == 0, done
    for part in [f"{path}:1:1: warning: option key_cache_size_in_mb", "2:1: ", "power cut",
                 "3:1: warning: option ssl_storage_port: no effect", "not an address of this machine"]:
        assert part in done.stdout, done.stdout
    assert config("check", "--no-such-option").returncode == 2
    assert config("check", str(tmp_path / "absent.yaml")).returncode == 1


def test_values_are_shown_with_their_sources(tmp_path):
    path = tmp_path / "options.yaml"
    path.write_text("num_tokens: 4\nldap_bind_passwd: secret\n")
    done = config("show", "--changed", "--json", str(path), "--smp", "3")
    rows = {row["name"]: (row["type"], row["source"], row["value"]) for row in json.loads(done.stdout)}
    assert rows == {"num_tokens": ("integer", "config", 4), "smp": ("integer", "cli", 3),
                    "ldap_bind_passwd": ("string", "config", "***")}
    done = config("show", str(path))
    assert len(done.stdout.splitlines()) == len(reference())


def test_the_reference_is_what_the_program_prints():
    assert config("reference").stdout == (ROOT / "docs" / "options.md").read_text()


def reread(node, path, text):
    """Writes the file, asks the node to read it again, and returns what it says."""
    path.write_text(text)
    offset = node.log.stat().st_size
    node.process.send_signal(signal.SIGHUP)
    return node.wait_for_log("completed re-reading configuration file", offset)


def test_a_file_is_read_again_at_sighup(tmp_path):
    path = tmp_path / "options.yaml"
    base = "batch_size_warn_threshold_in_kb: 100\n"
    path.write_text(base)
    with Node("--options-file", path, "--twcs-max-window-count", "7") as node:
        session = node.connect()

        def value(name):
            query = "SELECT value, source FROM system.config WHERE name = %s"
            return tuple(session.execute(query, (name,)).one())

        session.execute("UPDATE system.config SET value = '5' WHERE name = "
                        "'max_relations_in_where_clause'")
        said = reread(node, path, "batch_size_warn_threshold_in_kb: 90\nnum_tokens: 3\n"
                                  "twcs_max_window_count: 9\n")
        assert "re-reading configuration file" in said
        assert "Updating batch_size_warn_threshold_in_kb from 100 to 90 due to config" in said
        assert "options that change at the next start: num_tokens" in said
        assert value("batch_size_warn_threshold_in_kb") == ("90", "config")
        assert value("twcs_max_window_count") == ("7", "cli")
        assert value("max_relations_in_where_clause") == ("5", "cql")
        # A file with a fault changes nothing, be it in its text or in a rule of who obeys.
        for text, fault in [("read_request_timeout_in_ms: x\n", "1:29: option read_request"),
                            ("compaction_static_shares: 5000\n", "not 0 to 1000"),
                            ("batch_size_fail_threshold_in_kb: 1\n", "is above"),
                            ("a: [1\n", "not YAML")]:
            said = reread(node, path, text)
            assert "changes nothing" in said and fault in said, said
            assert value("batch_size_warn_threshold_in_kb") == ("90", "config")
        reread(node, path, "")
        assert value("batch_size_warn_threshold_in_kb") == ("128", "default")
        assert node.stop() == 0


@pytest.mark.parametrize("words, said", [
    (["--seed-provider-parameters", "seeds=no.such.name.invalid"],
     "option seeds: no address is known of no.such.name.invalid"),
    (["--endpoint-snitch", "Ec2Snitch"], "option endpoint_snitch: Ec2Snitch is not supported yet"),
    (["--server-encryption-options", "internode_encryption=all"],
     "option server_encryption_options: truststore: missing: it says which nodes are trusted"),
    (["--server-encryption-options", "internode_encryption=some", "--server-encryption-options",
      "truststore=t", "--server-encryption-options", "certificate=c",
      "--server-encryption-options", "keyfile=k"],
     "option server_encryption_options: internode_encryption: some is none of none, dc, rack, all"),
    (["--murmur3-partitioner-ignore-msb-bits", "0"],
     "option murmur3_partitioner_ignore_msb_bits: 0: use 12"),
])
def test_what_would_make_another_cluster_is_refused(tmp_path, words, said):
    """A node that cannot join another one does not start as a cluster of its own."""
    command = [NEREID, "--workdir", tmp_path, "--developer-mode", "1", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and f"Startup failed: {said}" in done.stdout + done.stderr
    assert not (tmp_path / "data").exists()


def test_a_node_is_its_own_seed():
    with Node() as node:
        node.stop()
        node.options = ["--seed-provider-parameters", f"seeds={node.address}"]
        node.start()


def test_new_tables_have_so_many_tablets_for_each_shard():
    count = "SELECT tablet_count FROM system.tablets WHERE table_id = %s LIMIT 1"
    with Node("--tablets-mode-for-new-keyspaces", "enabled",
              "--tablets-initial-scale-factor", "5") as node:
        session = node.connect()
        session.execute("CREATE KEYSPACE ks WITH replication = "
                        "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}")

        def tablets(name):
            session.execute(f"CREATE TABLE ks.{name} (a int PRIMARY KEY)")
            query = ("SELECT id FROM system_schema.tables WHERE keyspace_name = 'ks' "
                     "AND table_name = %s")
            (table,) = session.execute(query, [name]).one()
            return session.execute(count, [table]).one().tablet_count

        assert tablets("first") == 16
        session.execute("UPDATE system.config SET value = '1' "
                        "WHERE name = 'tablets_initial_scale_factor'")
        assert tablets("second") == 2
