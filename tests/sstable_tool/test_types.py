"""`nereid types`, and its keys as other operations take them."""
from test_operations import KEYS, keys_of, partitions
from tool import one, run, types, write

SCHEMA = "CREATE TABLE ks.t (p int, c int, v text, PRIMARY KEY (p, c))"


def told(*words):
    result = types(*words)
    assert result.code == 0, result
    return result.out.rstrip("\n")


def test_values_there_and_back():
    for ty, text, digits in [("Int32Type", "-7", "fffffff9"), ("UTF8Type", "a:b", "613a62"),
                             ("BooleanType", "true", "01"), ("blob", "00ff", "00ff"),
                             ("ListType(Int32Type)", "[1, 2]",
                              "00000002000000040000000100000004 00000002".replace(" ", ""))]:
        assert told("serialize", "-t", ty, "--", text) == digits
        assert told("deserialize", "-t", ty, digits) == text
        assert told("validate", "-t", ty, digits) == f"{digits}: VALID - {text}"
    assert told("compare", "-t", "int", "00000001", "fffffff9") == "1 > -7"
    assert told("compare", "-t", "ReversedType(Int32Type)", "00000001", "fffffff9") == "1 < -7"
    for words in (("serialize", "-t", "int", "x"), ("deserialize", "-t", "int", "00"),
                  ("nonsense",), ()):
        assert types(*words).code == 1, words


def test_keys_choose_partitions(tmp_path):
    data = write(tmp_path / "t", SCHEMA, partitions())
    schema = ("--schema-file", tmp_path / "t" / "schema.cql")
    dump = one("dump-data", *schema, data)
    for key, partition in zip(KEYS, dump):
        digits = told("serialize", "--full-compound", "-t", "Int32Type", "--", key)
        assert digits == partition["key"]["raw"]
        token = partition["key"]["token"]
        assert told("tokenof", "--full-compound", "-t", "int", digits) == f"({key}): {token}"
        shard = told("shardof", "--full-compound", "-t", "int", "--shards", 2, digits)
        assert shard.startswith(f"({key}): token: {token}, shard: ")
        assert keys_of(one("dump-data", *schema, "--partition", digits, data)) == [key]


COUNT = """
local rows, stop = 0, nil
function consume_stream_start(args) stop = tonumber(args.rows) end
function consume_clustering_row(row)
    rows = rows + 1
    if rows == stop then return false end
end
function consume_partition_end() if stop and rows >= stop then return false end end
function consume_stream_end() print(rows) end
"""


def test_scripts_take_arguments_and_stop(tmp_path):
    data = write(tmp_path / "t", SCHEMA, partitions(4, 3))
    (tmp_path / "count.lua").write_text(COUNT)
    words = ("script", "--schema-file", tmp_path / "t" / "schema.cql", "--script-file",
             tmp_path / "count.lua", data)
    assert run(*words).out == "12\n"
    assert run(*words, "--script-arg", "rows=5").out == "5\n"
    assert run(*words, "--partition", "000400000005").out == "3\n"
    assert run(*words, "--script-arg", "rows").code == 1


def test_scripts_that_are_wrong(tmp_path):
    data = write(tmp_path / "t", SCHEMA, partitions(1, 1))
    schema = ("--schema-file", tmp_path / "t" / "schema.cql")
    for text, code, why in [
            ("function consume_", 1, "wrong.lua:1"),
            ("function consume_clustering_row(row)\n print(row.no.thing) end", 2, "wrong.lua:2"),
            ("io.open('/etc/passwd')", 1, "io"), ("os.execute('true')", 1, "execute"),
            ("function consume_stream_end() x = string.rep('x', (1 << 30) + 64) end", 2, "memory")]:
        (tmp_path / "wrong.lua").write_text(text)
        result = run("script", *schema, "--script-file", tmp_path / "wrong.lua", data)
        assert result.code == code and why in result.err, result
    assert run("script", *schema, data).code == 1
    assert run("script", *schema, "--script-file", tmp_path / "none.lua", data).code == 1
