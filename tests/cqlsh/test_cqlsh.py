"""A scripted session of cqlsh."""
import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

CQLSH = str(Path(sys.executable).parent / "cqlsh")
SCHEMA = """
CREATE KEYSPACE IF NOT EXISTS shell WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
CREATE TYPE IF NOT EXISTS shell.point (x int, y int);
CREATE TABLE IF NOT EXISTS shell.t (p int, c text, v double, s set<int>, w frozen<point>,
  PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'it''s a table';
"""


@pytest.fixture(name="shell", scope="module")
def fixture_shell(node):
    def shell(script, *options):
        command = [CQLSH, node.address, str(node.port), "--no-color", "--request-timeout=60",
                   *options]
        done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=120,
                              check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not done.stderr.strip(), done.stderr
        # A remark about the version that cqlsh was made for is none of a statement's answer.
        return re.sub(r"\AWARNING: cqlsh was built against .*\n\n?", "", done.stdout)

    shell(SCHEMA)
    return shell


@pytest.mark.parametrize("what, expected", [
    ("CLUSTER", "Cluster:"),
    ("KEYSPACES", "system_schema"),
    ("KEYSPACE shell", "CREATE KEYSPACE shell"),
    ("TABLES", "t"),
    ("TABLE shell.t", "CREATE TABLE shell.t"),
    ("TYPE shell.point", "CREATE TYPE shell.point"),
    ("TYPES", "point"),
    ("SCHEMA", "CREATE TABLE shell.t"),
    ("FULL SCHEMA", "CREATE KEYSPACE system"),
])
def test_describe(shell, what, expected):
    assert expected in shell(f"DESCRIBE {what};")


def test_what_is_described_can_be_executed(shell):
    text = shell("DESCRIBE TABLE shell.t;")
    shell("CREATE KEYSPACE again WITH replication = {'class': 'SimpleStrategy', "
          "'replication_factor': 1}; CREATE TYPE again.point (x int, y int);")
    shell(text.replace("shell.", "again.").strip())
    described = shell("DESCRIBE TABLE again.t;").replace("again.", "shell.")
    assert described == text


def test_copy_goes_both_ways(shell, tmp_path):
    shell("CREATE TABLE shell.copied (k int PRIMARY KEY, t text, d decimal, b blob, l list<text>);")
    rows = [[str(k), f"text {k}, with a comma", f"{k}.50", f"0x{k:04x}", f"['a', 'b{k}']"]
            for k in range(500)]
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    form = {"escapechar": "\\", "doublequote": False}
    with open(source, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, **form).writerows(rows)
    out = shell(f"COPY shell.copied (k, t, d, b, l) FROM '{source}' WITH NUMPROCESSES = 1;")
    assert "500 rows imported" in out, out
    out = shell(f"COPY shell.copied (k, t, d, b, l) TO '{target}' WITH NUMPROCESSES = 1;")
    assert "500 rows exported" in out, out
    with open(target, newline="", encoding="utf-8") as file:
        assert sorted(csv.reader(file, **form)) == sorted(rows)


def test_expand_and_paging(shell):
    for k in range(30):
        shell("".join(f"INSERT INTO shell.t (p, c, v, s, w) VALUES ({k}, '{c}', 1.5, {{1, 2}}, "
                      "{x: 1, y: 2});" for c in "abcde"))
        if k == 2:
            break
    out = shell("EXPAND ON; SELECT * FROM shell.t WHERE p = 1; EXPAND OFF;")
    assert "@ Row 5" in out and "{1, 2}" in out and "{x: 1, y: 2}" in out
    out = shell("PAGING 4; SELECT * FROM shell.t;")
    assert "(15 rows)" in out, out
    assert re.findall(r"1 \| (\w)", out) == list("edcba")


def test_tracing_and_consistency_are_accepted(shell):
    out = shell("CONSISTENCY LOCAL_QUORUM; SERIAL CONSISTENCY LOCAL_SERIAL; SHOW VERSION; SHOW HOST;")
    assert "LOCAL_QUORUM" in out and "Native protocol" in out


@pytest.mark.parametrize("text, expected", [
    ("SELECT * FROM shell.", "t"),
    ("DESCRIBE TABLE shell.", "t"),
    ("SELECT * FROM shell.t WHERE ", "p"),
])
def test_completion_knows_the_schema(node, shell, text, expected):
    """Completion of cqlsh itself, fed with what stands before the cursor."""
    del shell
    program = f"""
import sys
from cqlshlib import cqlshmain
sys.argv = ['cqlsh', '{node.address}', '{node.port}']
from cqlshlib.cqlshmain import Shell, read_options, setup_cqlruleset, cql3handling
options, hostname, port = read_options(sys.argv[1:], {{}})
setup_cqlruleset(cql3handling)
shell = Shell(hostname, int(port), username=None, encoding='utf-8')
found = cqlshmain.cqlruleset.cql_complete('{text}', '', cassandra_conn=shell,
                                          startsymbol='cqlshCommand')
print('completions', *found)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=60, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith("completions")]
    assert found and expected in found[0].split()[1:], done.stdout + done.stderr


def test_the_first_statements_of_the_readme_give_no_warning(shell):
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    statements = re.search(r'cqlsh 127\.0\.0\.1 9042 -e "\n(.*?)"\n', readme, re.DOTALL).group(1)
    answer = shell(statements)
    assert "19.90" in answer and "arning" not in answer
