"""Functions of users in WebAssembly, written out by hand."""
import pytest
from cassandra import InvalidRequest

PAGE = '(memory (export "memory") 1) '
# Where version 1 and version 2 of the ABI are said.
FIRST = PAGE + '(global (export "_scylla_abi") i32 (i32.const 8)) (data (i32.const 8) "\\01") '
SECOND = PAGE + '(global (export "_scylla_abi") i32 (i32.const 8)) (data (i32.const 8) "\\02") '
ALLOCATOR = """
    (global $top (mut i32) (i32.const 64))
    (func (export "_scylla_malloc") (param $size i32) (result i32) (local $at i32)
      (local.set $at (global.get $top))
      (global.set $top (i32.add (global.get $top) (local.get $size)))
      (local.get $at))
    (func (export "_scylla_free") (param $at i32) (global.set $top (local.get $at)))"""
SUM = '(func (export "{f}") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))'
SAME = '(func (export "{f}") (param i64) (result i64) local.get 0)'
FIB = """
    (func $fib (export "{f}") (param $n i64) (result i64)
      (if (i64.lt_s (local.get $n) (i64.const 2)) (then (return (local.get $n))))
      (i64.add (call $fib (i64.sub (local.get $n) (i64.const 1)))
        (call $fib (i64.sub (local.get $n) (i64.const 2)))))"""
# Adds the second word's int to the first one's, in place; null counts nothing.
ADD = """
    (func $swap (param $v i32) (result i32)
      (i32.or
        (i32.and (i32.rotl (local.get $v) (i32.const 8)) (i32.const 0x00ff00ff))
        (i32.and (i32.rotr (local.get $v) (i32.const 8)) (i32.const 0xff00ff00))))
    (func (export "{f}") (param $sum i64) (param $v i64) (result i64)
      (if (i64.ge_s (local.get $v) (i64.const 0)) (then
        (i32.store (i32.wrap_i64 (local.get $sum)) (call $swap (i32.add
          (call $swap (i32.load (i32.wrap_i64 (local.get $sum))))
          (call $swap (i32.load (i32.wrap_i64 (local.get $v)))))))))
      (local.get $sum))"""


@pytest.fixture(name="wasm", scope="module")
def fixture_wasm(db):
    """Makes a function of a module's parts; its name."""
    def make(arguments, returns, parts, null="RETURNS NULL", language="wasm"):
        name = db.name()
        body = "(module " + parts.replace("{f}", name.split(".")[-1]) + ")"
        db.run(f"CREATE FUNCTION {name}({arguments}) {null} ON NULL INPUT RETURNS {returns} "
               f"LANGUAGE {language} AS $${body}$$")
        return name
    return make


@pytest.fixture(name="t", scope="module")
def fixture_t(db, wasm):
    t = db.table("p int PRIMARY KEY, v int, b bigint, x text, s set<int>")
    for p in range(1, 5):
        db.run(f"INSERT INTO {t} (p, v, b, x, s) "
               f"VALUES ({p}, {p * 10}, {p + 20}, 'x{p}', {{{p}, {p + 1}}})")
    db.run(f"INSERT INTO {t} (p) VALUES (9)")
    return t


def test_plain_values(db, wasm, t):
    total = wasm("a int, b int", "int", SUM)
    assert db.one(f"SELECT {total}(v, p) FROM {t} WHERE p = 2") == 22
    assert db.one(f"SELECT {total}(v, p) FROM {t} WHERE p = 9") is None
    small = wasm("a tinyint, b tinyint", "tinyint", SUM)
    assert db.one(f"SELECT {small}(cast(120 as tinyint), cast(112 as tinyint)) "
                  f"FROM {t} WHERE p = 1") == -24
    fib = wasm("n bigint", "bigint", FIB, language="xwasm")
    assert db.one(f"SELECT {fib}(b) FROM {t} WHERE p = 1") == 10946
    db.run(f"INSERT INTO {t} (p, v) VALUES ({total}(40, 2), 1)")
    assert db.one(f"SELECT v FROM {t} WHERE p = {total}(41, 1)") == 1
    db.run(f"DELETE FROM {t} WHERE p = 42")


@pytest.mark.parametrize("parts", [FIRST + SAME, SECOND + SAME + ALLOCATOR], ids=["1", "2"])
def test_values_in_memory(db, wasm, t, parts):
    same = wasm("a text", "text", parts)
    assert db.one(f"SELECT {same}(x) FROM {t} WHERE p = 3") == "x3"
    assert db.one(f"SELECT {same}('') FROM {t} WHERE p = 3") == ""
    assert db.one(f"SELECT {same}(x) FROM {t} WHERE p = 9") is None
    same = wasm("a set<int>", "set<int>", parts, "CALLED")
    assert set(db.one(f"SELECT {same}(s) FROM {t} WHERE p = 3")) == {3, 4}
    assert db.one(f"SELECT {same}(s) FROM {t} WHERE p = 9") is None


def test_an_aggregate(db, wasm, t):
    add = wasm("s int, v int", "int", FIRST + ADD, "CALLED")
    total = db.name()
    db.run(f"CREATE AGGREGATE {total}(int) SFUNC {add.split('.')[-1]} STYPE int INITCOND 0")
    assert db.one(f"SELECT {total}(v) FROM {t}") == 100
    grouped = db.rows(f"SELECT p, {total}(v) FROM {t} WHERE p IN (1, 2) GROUP BY p")
    assert grouped == [(1, 10), (2, 20)]
    db.refuse(f"DROP FUNCTION {add}", "it is used")


def test_bodies_that_are_refused(db, wasm):
    for parts, words in [("nothing of the kind", "Compilation failed"),
                         ("", "not found"),
                         ('(memory (export "{f}") 1)', "not a function"),
                         ('(import "env" "x" (func)) (func (export "{f}"))', "unknown import")]:
        with pytest.raises(InvalidRequest, match=words):
            wasm("a int", "int", parts)


def test_calls_that_fail(db, wasm, t):
    def of_int(body):
        return '(memory 1) (func $f (export "{f}") (param i32) (result i32) ' + body + ")"

    def of_text(body):
        return FIRST + '(func (export "{f}") (param i64) (result i64) ' + body + ")"
    for parts, ty, words in [
            (of_int("unreachable"), "int", "unreachable"),
            (of_int("(loop (br 0)) unreachable"), "int", "all fuel consumed"),
            (of_int("(call $f (local.get 0))"), "int", "call stack exhausted"),
            (of_int("(i32.load (i32.const -1))"), "int", "out of bounds memory access"),
            (of_int("(loop (drop (memory.grow (i32.const 1))) (br 0)) unreachable"), "int",
             "refused memory 256 times"),
            (of_int("local.get 0"), "float", "argument type mismatch"),
            (of_text("(i64.const 0x7fffffffffffffff)"), "text", "out of bounds"),
            (of_text("(i32.store8 (i32.const 0) (i32.const 255)) (i64.const 0x100000000)"), "text",
             "not one of type text"),
            ("(memory 100) " + SUM, "int", "argument type mismatch"),
            (SAME, "text", "memory is not exported")]:
        name = wasm(f"a {ty}", ty, parts)
        column = {"int": "v", "float": "cast(v as float)", "text": "x"}[ty]
        db.refuse(f"SELECT {name}({column}) FROM {t} WHERE p = 1", words)
    assert db.one(f"SELECT count(*) FROM {t}") == 5


def test_a_function_that_is_replaced(db, wasm, t):
    def times(number):
        return ('(func (export "{f}") (param i32) (result i32) '
                f"(i32.mul (local.get 0) (i32.const {number})))")
    name = wasm("a int", "int", times(2))
    for number in (3, 4, 5):
        body = "(module " + times(number).replace("{f}", name.split(".")[-1]) + ")"
        db.run(f"CREATE OR REPLACE FUNCTION {name}(a int) RETURNS NULL ON NULL INPUT RETURNS int "
               f"LANGUAGE wasm AS $${body}$$")
        for p in range(1, 5):
            assert db.one(f"SELECT {name}(v) FROM {t} WHERE p = {p}") == p * 10 * number
