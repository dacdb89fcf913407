//! Functions and aggregates of users, on a simulated node.

use query::CqlError;
use testkit::CqlEnv;

/// Runs on nodes of one and of two shards, with a table `t` that has rows 1 to 3.
fn run<F, Fut>(body: F)
where
    F: Fn(CqlEnv) -> Fut + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    CqlEnv::run_on_one_and_two(move |env| {
        let body = body.clone();
        async move {
            env.ok("CREATE TABLE t (p int PRIMARY KEY, v int)").await;
            for p in 1..=3 {
                env.ok(&format!("INSERT INTO t (p, v) VALUES ({p}, {p})")).await;
            }
            body(env).await;
        }
    });
}

/// What a body gives back as a value of that type.
async fn returned(env: &CqlEnv, ty: &str, body: &str) -> String {
    env.ok(&format!(
        "CREATE OR REPLACE FUNCTION f(a int) CALLED ON NULL INPUT RETURNS {ty} LANGUAGE lua \
         AS $${body}$$"
    ))
    .await;
    let outcome = env.outcome("SELECT f(v) FROM t WHERE p = 1").await;
    env.ok("DROP FUNCTION f").await;
    outcome
}

const RETURNED: &[(&str, &str, &str)] = &[
    ("int", "return 2 * a", "2"),
    ("int", "return 1.5", "error: value is not an integer"),
    ("int", "return '0x123p+1'", "582"),
    ("int", "return 'foo'", "error: value is not a number"),
    ("int", "return ''", "error: value is not a number"),
    ("int", "return false", "error: unexpected value"),
    ("int", "return 1, 2", "error: 2 values returned, expected 1"),
    ("int", "a = 2", "error: 0 values returned, expected 1"),
    ("int", "return nil", "null"),
    ("int", "return 4294967295", "-1"),
    ("tinyint", "return 128", "-128"),
    ("smallint", "return -1", "-1"),
    ("bigint", "return 1 << 40", "1099511627776"),
    ("counter", "return 42", "42"),
    ("varint", "return '18446744073709551616'", "18446744073709551616"),
    ("decimal", "return '18446744073709551616.1'", "18446744073709551616.1"),
    ("decimal", "return 4.2", "error: value is not a decimal"),
    ("decimal", "return 4.0", "4"),
    ("double", "return 1/0", "Infinity"),
    ("float", "return '1.5'", "1.5"),
    ("boolean", "return a > 4", "false"),
    ("text", "return 'x' .. a", "'x1'"),
    (
        "text",
        "return '\\xFF'",
        "error: value is not valid utf8, invalid character at byte offset 0",
    ),
    ("ascii", "return '\\u{f3}'", "error: value is not valid ascii"),
    ("blob", "return '\\1\\2'", "0x0102"),
    ("date", "return '2019-10-01'", "'2019-10-01'"),
    ("date", "return 2147501818", "'2019-10-01'"),
    ("date", "return {year = 2019, month = 10, day = 1}", "'2019-10-01'"),
    ("date", "return 4294967296", "error: date value must fit in 32 bits"),
    ("date", "return {year = 2019, month = 256, day = 1}", "error: month is too large: '256'"),
    ("date", "return {year = 2019, month = 10}", "error: date table must have year, month and day"),
    (
        "date",
        "return {year = 2019, month = 1, day = 1, hour = 4}",
        "error: date type has no hour, minute or second",
    ),
    ("date", "return {abc = 42}", "error: invalid date table field: 'abc'"),
    ("date", "return 42.2", "error: date must be a string, integer or date table"),
    ("time", "return '08:12:54.123'", "'08:12:54.123000000'"),
    ("time", "return 42.2", "error: time must be a string or an integer"),
    (
        "timestamp",
        "return {year = 2011, month = 2, day = 3, hour = 4, min = 5, sec = 6}",
        "'2011-02-03T04:05:06.000Z'",
    ),
    ("timestamp", "return '2011-02-03 04:05:06+0000'", "'2011-02-03T04:05:06.000Z'"),
    (
        "uuid",
        "return '982e9b0f-1df7-4425-ba04-e99d808b8940'",
        "982e9b0f-1df7-4425-ba04-e99d808b8940",
    ),
    ("inet", "return '1.2.3.4'", "'1.2.3.4'"),
    ("inet", "return 'abc'", "error: marshaling error: Failed to parse inet_addr from 'abc'"),
    ("duration", "return {months = 1, days = 2, nanoseconds = 3}", "1mo2d3ns"),
    ("duration", "return '1mo2d3ns'", "1mo2d3ns"),
    (
        "duration",
        "return {days = 2147483648}",
        "error: 2147483648 days doesn't fit in a 32 bit integer",
    ),
    ("duration", "return {foo = 42}", "error: invalid duration field: 'foo'"),
    ("list<int>", "return {3, 1, 2}", "[3, 1, 2]"),
    ("list<int>", "return {[1] = 42, [3] = 43}", "error: table is not a sequence"),
    ("list<int>", "return 'foo'", "error: value is not a table"),
    ("list<int>", "return {foo = 42}", "error: value is not a number"),
    ("set<int>", "return {[42] = true, [1] = true}", "{1, 42}"),
    (
        "set<int>",
        "return {[1] = false}",
        "error: sets are represented with tables with true values",
    ),
    ("map<text, int>", "return {foo = 1, bar = 2}", "{'bar': 2, 'foo': 1}"),
    ("tuple<int, text>", "return {1, 'foo'}", "(1, 'foo')"),
    (
        "tuple<int, text>",
        "return {1, 'foo', 42}",
        "error: key 3 is not valid for a sequence of size 2",
    ),
    ("tuple<int, text>", "return {[2] = 'foo'}", "error: key 1 missing in sequence of size 2"),
    ("vector<int, 3>", "return {1, 2, 3}", "[1, 2, 3]"),
    ("pair", "return {a = 1, b = 'x'}", "{a: 1, b: 'x'}"),
    ("pair", "return {a = 1}", "error: key b missing in udt pair"),
    ("pair", "return {c = 1}", "error: invalid UDT field 'c'"),
];

#[test]
fn lua_values_as_values_of_cql() {
    run(|env| async move {
        env.ok("CREATE TYPE pair (a int, b text)").await;
        for (ty, body, expected) in RETURNED {
            assert_eq!(returned(&env, ty, body).await, *expected, "{ty}: {body}");
        }
    });
}

const TAKEN: &[(&str, &str, &str, &str, &str)] = &[
    ("boolean", "true", "int", "return x and 1 or 0", "1"),
    ("tinyint", "-3", "int", "return x - 1", "-4"),
    ("time", "'01:23:45.6789'", "bigint", "return x", "5025678900000"),
    ("timestamp", "'2011-03-02 04:05+0000'", "bigint", "return x", "1299038700000"),
    ("date", "'2019-08-26'", "int", "return x - 2^31", "18134"),
    ("duration", "1mo2d3ns", "int", "return 100 * x.months + 10 * x.days + x.nanoseconds", "123"),
    ("inet", "'::1'", "text", "return x", "'::1'"),
    (
        "uuid",
        "5375ddb6-d5a5-4cce-9aa1-b10c3fea36a3",
        "text",
        "return x",
        "'5375ddb6-d5a5-4cce-9aa1-b10c3fea36a3'",
    ),
    ("blob", "0x123456", "int", "return x:byte(2)", "52"),
    ("tuple<int, bigint, int>", "(1, 2, 3)", "bigint", "return x[1] + x[2] + x[3]", "6"),
    ("tuple<int, bigint>", "(1, null)", "bigint", "return x[2]", "null"),
    ("pair", "{a: 42, b: 'x'}", "int", "return x.a", "42"),
    ("list<int>", "[4, 5]", "int", "return x[1] * 10 + x[2] + #x", "47"),
    ("vector<float, 2>", "[1.5, 2]", "double", "return x[1] + x[2]", "3.5"),
    ("set<int>", "{1, 2}", "int", "local n = 0 for k in pairs(x) do n = n + k end return n", "3"),
    ("map<int, int>", "{1: 2, 3: 4}", "int", "return x[1] + x[3]", "6"),
    (
        "varint",
        "9223372036854775808",
        "varint",
        "return x * x + 1",
        "85070591730234615865843651857942052865",
    ),
    ("varint", "9223372036854775808", "tinyint", "return x", "0"),
    ("varint", "7", "text", "return x", "'7'"),
    ("varint", "-7", "varint", "return x // 2", "-4"),
    ("varint", "-7", "varint", "return x % 3", "2"),
    ("varint", "7", "double", "return x / 2", "3.5"),
    ("varint", "7", "boolean", "return x < 8.5 and 6 < x and x <= x", "true"),
    (
        "varint",
        "7",
        "int",
        "for i = 1, 100 do x = x * x end return 1",
        "error: lua execution failed: number too large",
    ),
    ("decimal", "1.5", "decimal", "return x + 1", "2.5"),
    ("decimal", "1.5", "decimal", "return 2 - x", "0.5"),
    ("decimal", "1.5", "decimal", "return -x * x", "-2.25"),
    ("decimal", "1.5", "double", "return 42.2 + x", "43.7"),
    ("decimal", "4.2", "text", "return x", "'4.2'"),
    ("decimal", "4.2", "int", "return x", "error: value is not an integer"),
];

/// What a function makes of a literal of that type.
#[test]
fn values_of_cql_as_lua_values() {
    run(|env| async move {
        env.ok("CREATE TYPE pair (a int, b text)").await;
        for (ty, literal, returns, body, expected) in TAKEN {
            env.ok(&format!(
                "CREATE OR REPLACE FUNCTION g(x {ty}) RETURNS NULL ON NULL INPUT RETURNS \
                 {returns} LANGUAGE lua AS $${body}$$"
            ))
            .await;
            let outcome = env.outcome(&format!("SELECT g({literal}) FROM t WHERE p = 1")).await;
            assert_eq!(outcome, *expected, "{ty} {literal}: {body}");
            env.ok("DROP FUNCTION g").await;
        }
    });
}

#[test]
fn a_script_reaches_nothing_and_ends() {
    run(|env| async move {
        let checks = [
            // Nothing of the system.
            "return os and 1 or 0",
            "return io and 1 or 0",
            "return (debug or package or require or load or dofile or print) and 1 or 0",
            "return (coroutine or collectgarbage or rawset) and 1 or 0",
            "return string.dump and 1 or 0",
            // Nothing that lasts.
            "local before = kept kept = 1 return before and 1 or 0",
            "return pcall(function() string.kept = 1 end) and 1 or 0",
            "return pcall(table.insert, math, 1) and 1 or 0",
            "return getmetatable('') and 1 or 0",
            "return getmetatable(_ENV) and 1 or 0",
            "return pcall(setmetatable, {}, {__gc = function() end}) and 1 or 0",
        ];
        for body in checks {
            for _ in 0..2 {
                assert_eq!(returned(&env, "int", body).await, "0", "{body}");
            }
        }
        let endless = [
            "while true do end",
            "while true do pcall(function() while true do end end) end",
            "local function f() return 1 + f() end return f()",
            "table.sort({1, 2}, function() while true do pcall(function() while true do end \
             end) end \
             end)",
            "return ('x'):gsub('x', function() while true do end end)",
            "return tostring(setmetatable({}, {__tostring = function() while true do end end}))",
        ];
        for body in endless {
            let outcome = returned(&env, "int", body).await;
            let timeout = outcome.starts_with("error: lua execution timeout: ");
            let full = outcome.contains("stack overflow") || outcome.contains("not enough memory");
            assert!(timeout || full, "{body}: {outcome}");
        }
        let hungry = [
            "local a = 'foo' while true do a = a .. a end",
            "local t = {} while true do t[#t + 1] = {} end",
            "return #string.rep('x', 1 << 40)",
        ];
        for body in hungry {
            let outcome = returned(&env, "int", body).await;
            let ended = ["not enough memory", "timeout", "too large"];
            assert!(ended.iter().any(|text| outcome.contains(text)), "{body}: {outcome}");
        }
        // What stands in each other many times over does not come out.
        let body = "local t = {1} for i = 1, 30 do t = {t, t} end return t";
        let mut ty = "int".to_owned();
        (0..31).for_each(|_| ty = format!("list<{ty}>"));
        let outcome = returned(&env, &ty, body).await;
        assert_eq!(outcome, "error: value is larger than 16777216 bytes");
        // And the next call is as good as the first.
        assert_eq!(returned(&env, "int", "return a").await, "1");
    });
}

#[test]
fn errors_of_scripts() {
    run(|env| async move {
        let checks = [
            ("return a.b", "attempt to index a number value"),
            ("return nothing + 1", "attempt to perform arithmetic on a nil value"),
            ("error('mine')", "lua execution failed: [string \"<internal>\"]:2: mine"),
            ("error('mine', 0)", "lua execution failed: mine"),
        ];
        for (body, expected) in checks {
            let outcome = returned(&env, "int", body).await;
            assert!(outcome.contains(expected) && !outcome.contains('\n'), "{body}: {outcome}");
        }
        let create = |body: &str, language: &str| {
            format!(
                "CREATE FUNCTION g(a int) CALLED ON NULL INPUT RETURNS int LANGUAGE {language} AS \
                 $${body}$$"
            )
        };
        let error = env.error(&create("return 2 @ a", "Lua")).await;
        assert_eq!(error, "could not compile: [string \"<internal>\"]:2: <eof> expected near '@'");
        let error = env.error(&create("return 1 end, function() return 2", "Lua")).await;
        assert!(error.starts_with("could not compile: "), "{error}");
        let error = env.error(&create("return 2;", "Java")).await;
        assert_eq!(error, "Language 'java' is not supported");
        let failure = env.query("SELECT nosuch(v) FROM t").await.expect_err("no such function");
        assert!(matches!(failure, CqlError::Invalid(_)));
    });
}

#[test]
fn nulls() {
    run(|env| async move {
        env.ok("INSERT INTO t (p) VALUES (9)").await;
        let make = |name: &str, null: &str| {
            format!(
                "CREATE FUNCTION {name}(a int) {null} ON NULL INPUT RETURNS int LANGUAGE lua AS \
                 'return 2'"
            )
        };
        env.ok(&make("called", "CALLED")).await;
        env.ok(&make("spared", "RETURNS NULL")).await;
        assert_eq!(env.rows("SELECT called(v), spared(v) FROM t WHERE p = 9").await, "2, null");
        assert_eq!(env.rows("SELECT called(v), spared(v) FROM t WHERE p = 1").await, "2, 2");
    });
}

#[test]
fn statements_about_functions() {
    run(|env| async move {
        let body = "RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 2 * a'";
        let checks = [
            (format!("CREATE FUNCTION f(a int, b float) {body}"), "Created Function ks.f"),
            (format!("CREATE FUNCTION IF NOT EXISTS f(a int, b float) {body}"), "Void"),
            (
                format!("CREATE FUNCTION f(a int, b float) {body}"),
                "error: The function 'ks.f : (int, float) -> int' already exists",
            ),
            (
                format!("CREATE OR REPLACE FUNCTION f(a int, b float) {body}"),
                "Created Function ks.f",
            ),
            (format!("CREATE FUNCTION f(a int, b double) {body}"), "Created Function ks.f"),
            ("DROP FUNCTION f".into(), "error: There are multiple functions named ks.f"),
            ("DROP FUNCTION f(int)".into(), "error: User function ks.f(int) doesn't exist"),
            ("DROP FUNCTION IF EXISTS f(int)".into(), "Void"),
            ("DROP FUNCTION g".into(), "error: No function named ks.g found"),
            ("DROP FUNCTION IF EXISTS g".into(), "Void"),
            ("DROP FUNCTION f(int, double)".into(), "Dropped Function ks.f"),
            ("DROP FUNCTION f".into(), "Dropped Function ks.f"),
            ("DROP FUNCTION f".into(), "error: No function named ks.f found"),
            (format!("CREATE FUNCTION f(a none) {body}"), "error: Unknown type ks.none"),
            (format!("CREATE FUNCTION f(a frozen<list<int>>) {body}"), "Created Function ks.f"),
            ("DROP FUNCTION f(list<int>)".into(), "Dropped Function ks.f"),
            (
                format!("CREATE FUNCTION f(a int, a int) {body}"),
                "error: duplicate argument names for given function f with argument names a, a",
            ),
            (
                format!("CREATE OR REPLACE FUNCTION system.now(a int) {body}"),
                "error: system keyspace is not user-modifiable.",
            ),
            ("DROP FUNCTION system.now".into(), "error: system keyspace is not user-modifiable."),
            ("CREATE TYPE u (a int)".into(), "Created Type ks.u"),
            (
                format!("CREATE FUNCTION f(a frozen<u>) {body}"),
                "error: User defined argument and return types should not be frozen",
            ),
            (
                "CREATE FUNCTION f(x u) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE Lua AS \
                 'return x.a'"
                    .into(),
                "Created Function ks.f",
            ),
            (
                "DROP TYPE u".into(),
                "error: Cannot drop user type ks.u as it is still used by function ks.f : \
                 (frozen<u>) -> int",
            ),
            ("ALTER TYPE u ADD b int".into(), "Updated Type ks.u"),
        ];
        for (text, expected) in checks {
            let outcome = env.outcome(&text).await;
            assert_eq!(outcome, expected, "{text}");
        }
        let stored = env.rows("SELECT * FROM system_schema.functions").await;
        let expected = "'ks', 'f', ['frozen<u>'], ['x'], 'return x.a', false, 'lua', 'int'";
        assert_eq!(stored, expected);
        // It knows the fields that the type has now.
        env.ok("CREATE TABLE of_u (p int PRIMARY KEY, u frozen<u>)").await;
        env.ok("INSERT INTO of_u (p, u) VALUES (1, {a: 7, b: 8})").await;
        assert_eq!(env.rows("SELECT f(u) FROM of_u").await, "7");
        env.ok("DROP FUNCTION f").await;
        assert_eq!(env.rows("SELECT * FROM system_schema.functions").await, "");
    });
}

#[test]
fn overloads_and_functions_of_ours() {
    run(|env| async move {
        for (ty, value) in [("int", "int"), ("text", "text"), ("list<int>", "list")] {
            env.ok(&format!(
                "CREATE FUNCTION kind(a {ty}) CALLED ON NULL INPUT RETURNS text LANGUAGE lua AS \
                 $$return '{value}'$$"
            ))
            .await;
        }
        let check = |text: &'static str| format!("SELECT {text} FROM t WHERE p = 1");
        assert_eq!(
            env.rows(&check("kind(v), ks.kind('x'), kind([1])")).await,
            "'int', 'text', 'list'"
        );
        let error = env.error(&check("kind(null)")).await;
        assert!(error.starts_with("Ambiguous call to function"), "{error}");
        let error = env.error(&check("system.kind(v)")).await;
        assert_eq!(error, "Unknown function 'system.kind' called");
        // One of our names.
        env.ok(
            "CREATE FUNCTION max(a int, b int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS \
             'return math.max(a, b)'",
        )
        .await;
        assert_eq!(env.rows(&check("ks.max(v, p)")).await, "1");
        assert_eq!(env.rows("SELECT max(v), system.max(p) FROM t").await, "3, 3");
        assert_eq!(env.rows("SELECT v FROM t WHERE p = ks.max(2, 1)").await, "2");
        env.ok("INSERT INTO t (p, v) VALUES (20, ks.max(7, 8))").await;
        assert_eq!(env.rows("SELECT v FROM t WHERE p = 20").await, "8");
    });
}

/// The functions of the aggregate `mean`.
async fn functions_of_mean(env: &CqlEnv) {
    env.ok("CREATE FUNCTION plus(s tuple<bigint, bigint>, v int) CALLED ON NULL INPUT RETURNS \
         tuple<bigint, bigint> LANGUAGE lua AS 'return {s[1] + v, s[2] + 1}'")
        .await;
    env.ok("CREATE FUNCTION quotient(s tuple<bigint, bigint>) CALLED ON NULL INPUT RETURNS \
         double LANGUAGE lua AS 'return s[1] / s[2]'")
        .await;
    env.ok("CREATE FUNCTION both(a tuple<bigint, bigint>, b tuple<bigint, bigint>) CALLED ON \
         NULL INPUT RETURNS tuple<bigint, bigint> LANGUAGE lua AS \
         'return {a[1] + b[1], a[2] + b[2]}'")
        .await;
}

#[test]
fn statements_about_aggregates() {
    run(|env| async move {
        functions_of_mean(&env).await;
        let create = "CREATE AGGREGATE mean(int) SFUNC plus STYPE tuple<bigint, bigint>";
        let checks = [
            (format!("{create} FINALFUNC nosuch"), "error: Final function nosuch not found"),
            (
                "CREATE AGGREGATE mean(text) SFUNC plus STYPE tuple<bigint, bigint>".into(),
                "error: State function plus not found",
            ),
            (
                "CREATE AGGREGATE mean() SFUNC quotient STYPE tuple<bigint, bigint>".into(),
                "error: State function 'quotient' doesn't return state",
            ),
            (format!("{create} REDUCEFUNC plus"), "error: Reduce function plus not found"),
            (
                format!("{create} REDUCEFUNC both FINALFUNC quotient INITCOND (0, 0)"),
                "Created Aggregate ks.mean",
            ),
            (
                format!("{create} INITCOND (0, 0)"),
                "error: The function 'ks.mean : (int) -> double' already exists",
            ),
            (
                "DROP FUNCTION plus".into(),
                "error: Cannot delete function ks.plus : (frozen<tuple<bigint, bigint>>, int) -> \
                 frozen<tuple<bigint, bigint>>, as it is used by user-defined aggregate ks.mean : \
                 (int) -> double",
            ),
            (
                "DROP FUNCTION mean".into(),
                "error: 'ks.mean : (int) -> double' is not a user defined function",
            ),
            (
                "DROP AGGREGATE quotient".into(),
                "error: 'ks.quotient : (frozen<tuple<bigint, bigint>>) -> double' is not a user \
                 defined aggregate",
            ),
        ];
        for (text, expected) in checks {
            let outcome = env.outcome(&text).await;
            assert_eq!(outcome, expected, "{text}");
        }
    });
}

#[test]
fn aggregates() {
    run(|env| async move {
        functions_of_mean(&env).await;
        env.ok(
            "CREATE AGGREGATE mean(int) SFUNC plus STYPE tuple<bigint, bigint> REDUCEFUNC both \
             FINALFUNC quotient INITCOND (0, 0)",
        )
        .await;
        let described = env.rows("DESCRIBE AGGREGATE mean").await;
        let create = "CREATE AGGREGATE ks.mean(int)\nSFUNC plus\nSTYPE tuple<bigint, bigint>\n\
                      REDUCEFUNC both\nFINALFUNC quotient\nINITCOND (0, 0);";
        assert_eq!(described, format!("'ks', 'aggregate', 'mean', '{create}'"));
        let described = env.rows("DESCRIBE FUNCTION ks.both").await;
        assert!(described.contains("CREATE FUNCTION ks.both(a tuple<bigint, bigint>"));
        assert_eq!(env.rows("DESCRIBE AGGREGATES").await, "'ks', 'aggregate', 'mean'");
        let named = "'ks', 'function', 'both' | 'ks', 'function', 'plus' | \
                     'ks', 'function', 'quotient'";
        assert_eq!(env.rows("DESCRIBE FUNCTIONS").await, named);
        assert_eq!(env.rows("DESCRIBE mean").await, env.rows("DESCRIBE AGGREGATE mean").await);
        let error = env.error("DESCRIBE FUNCTION mean").await;
        assert_eq!(error, "User defined function 'mean' not found in 'ks'");
        // In an order in which they can be made.
        let whole = env.rows("DESCRIBE KEYSPACE ks").await;
        let places = ["KEYSPACE", "FUNCTION ks.plus", "AGGREGATE ks.mean", "TABLE"];
        let places = places.map(|what| whole.find(&format!("CREATE {what}")).expect("described"));
        assert!(places.is_sorted());
        assert_eq!(env.rows("SELECT mean(v), count(*), ks.mean(p) FROM t").await, "2.0, 3, 2.0");
        assert_eq!(env.rows("SELECT p, mean(v) FROM t WHERE p = 2 GROUP BY p").await, "2, 2.0");
        assert_eq!(
            env.error("SELECT max(mean(v)) FROM t").await,
            "Aggregation functions are not supported outside of the select clause"
        );
        let stored = env
            .rows("SELECT initcond, state_func, return_type FROM system_schema.aggregates")
            .await;
        assert_eq!(stored, "'(0, 0)', 'plus', 'double'");
        let stored = env.rows("SELECT reduce_func FROM system_schema.scylla_aggregates").await;
        assert_eq!(stored, "'both'");
        // A function that is replaced is used from then on.
        env.ok(
            "CREATE OR REPLACE FUNCTION quotient(s tuple<bigint, bigint>) CALLED ON NULL INPUT \
             RETURNS double LANGUAGE lua AS 'return s[1]'",
        )
        .await;
        assert_eq!(env.rows("SELECT mean(v) FROM t").await, "6.0");
        let create = "CREATE OR REPLACE AGGREGATE mean(int) SFUNC plus STYPE tuple<bigint, bigint>";
        env.ok(&format!("{create} INITCOND (10, 1)")).await;
        assert_eq!(env.rows("SELECT mean(v) FROM t").await, "(16, 4)");
        env.ok("DROP AGGREGATE mean(int)").await;
        env.ok("DROP FUNCTION plus").await;
        assert_eq!(env.error("DROP AGGREGATE mean").await, "No function named ks.mean found");
    });
}

/// In a simulation any call may be interrupted: what was done of its step is then done again.
#[test]
fn interrupted_calls_leave_no_trace() {
    for seed in 1..=6 {
        CqlEnv::run(seed, 2, |env| async move {
            env.ok("CREATE TABLE t (p int, c int, v int, l list<int>, PRIMARY KEY (p, c))").await;
            let create = |name: &str, arguments: &str, returns: &str, body: &str| {
                format!(
                    "CREATE FUNCTION {name}({arguments}) CALLED ON NULL INPUT RETURNS {returns} \
                     LANGUAGE lua AS $${body}$$"
                )
            };
            env.ok(&create("twice", "a int", "int", "return 2 * a")).await;
            env.ok(&create("plus", "a int, b int", "int", "return (a or 0) + b")).await;
            env.ok("CREATE AGGREGATE total(int) SFUNC plus STYPE int INITCOND 0").await;
            for c in 0..30 {
                let insert = format!(
                    "INSERT INTO t (p, c, v, l) VALUES (twice({}), {c}, twice(twice({c})), \
                     [twice(1), twice(2)])",
                    c % 3
                );
                env.ok(&insert).await;
                let append = format!(
                    "BEGIN BATCH UPDATE t SET l = l + [twice(3)] WHERE p = twice({p}) AND c = {c}; \
                     UPDATE t SET l = l + [twice(4)] WHERE p = twice({p}) AND c = {c}; APPLY BATCH",
                    p = c % 3
                );
                env.ok(&append).await;
            }
            let sum: i32 = (0..30).map(|c| 4 * c).sum();
            let whole = "SELECT total(v), total(twice(v)), sum(twice(v)), count(*) FROM t";
            assert_eq!(env.rows(whole).await, format!("{sum}, {0}, {0}, 30", 2 * sum));
            let of_two = "SELECT p, total(v), twice(total(v)), sum(v) FROM t GROUP BY p";
            let found = env.rows(of_two).await;
            let group = |p: i32| (0..30).filter(|c| c % 3 == p).map(|c| 4 * c).sum::<i32>();
            for p in 0..3 {
                let (key, sum) = (2 * p, group(p));
                let row = format!("{key}, {sum}, {}, {sum}", 2 * sum);
                assert!(found.split(" | ").any(|found| found == row), "{row} in {found}");
            }
            let lists = env.rows("SELECT l FROM t WHERE p = twice(1)").await;
            assert_eq!(lists, ["[2, 4, 6, 8]"; 10].join(" | "));
            let mut pages = env.pages("SELECT twice(c), v FROM t WHERE p = twice(0)", 3).await;
            pages.retain(|page| !page.is_empty());
            let rows: Vec<String> =
                (0..30).step_by(3).map(|c| format!("{}, {}", 2 * c, 4 * c)).collect();
            assert_eq!(pages.join(" | "), rows.join(" | "));
            let limited = "SELECT twice(c) FROM t PER PARTITION LIMIT 2";
            assert_eq!(env.rows(limited).await.split(" | ").count(), 6);
            let update = "UPDATE t SET v = twice(50) WHERE p = 0 AND c = 3 IF v = 12";
            assert_eq!(env.rows(update).await, "true, 12");
            assert_eq!(env.rows("SELECT v FROM t WHERE p = 0 AND c = 3").await, "100");
        });
    }
}

#[test]
fn functions_in_webassembly() {
    run(|env| async move {
        let create = |name: &str, arguments: &str, returns: &str, body: &str| {
            format!(
                "CREATE OR REPLACE FUNCTION {name}({arguments}) RETURNS NULL ON NULL INPUT RETURNS \
                 {returns} LANGUAGE wasm AS '(module {body})'"
            )
        };
        let twice = "(func (export \"twice\") (param i32) (result i32) \
                     (i32.mul (local.get 0) (i32.const 2)))";
        env.ok(&create("twice", "a int", "int", twice)).await;
        assert_eq!(env.rows("SELECT twice(v) FROM t WHERE p IN (1, 2, 3)").await, "2 | 4 | 6");
        env.ok("INSERT INTO t (p, v) VALUES (twice(2), twice(twice(5)))").await;
        assert_eq!(env.rows("SELECT v FROM t WHERE p = twice(2)").await, "20");
        env.ok("DELETE FROM t WHERE p = 4").await;
        let stored = env.rows("SELECT language FROM system_schema.functions").await;
        assert_eq!(stored, "'wasm'");
        // What is replaced is not called again, on no shard.
        env.ok(&create("twice", "a int", "int", &twice.replace("const 2", "const 20"))).await;
        assert_eq!(env.rows("SELECT twice(v) FROM t WHERE p IN (1, 2, 3)").await, "20 | 40 | 60");
        let plus = "(func (export \"plus\") (param i32 i32) (result i32) \
                    (i32.add (local.get 0) (local.get 1)))";
        env.ok(&create("plus", "a int, b int", "int", plus)).await;
        env.ok("CREATE AGGREGATE total(int) SFUNC plus STYPE int INITCOND 0").await;
        assert_eq!(env.rows("SELECT total(v), total(twice(v)) FROM t").await, "6, 120");
        let failing =
            "(func (export \"failing\") (param i32) (result i32) (loop (br 0)) unreachable)";
        env.ok(&create("failing", "a int", "int", failing)).await;
        let error = env.error("SELECT failing(v) FROM t").await;
        assert_eq!(error, "wasm execution failed: wasm trap: all fuel consumed by WebAssembly");
        let error = env.error(&create("other", "a int", "int", plus)).await;
        assert_eq!(error, "Function other was not found in the module");
        let stats = env.processor().function_stats();
        assert!(0 < stats.hits && 0 < stats.misses && 0 < stats.instances, "{stats:?}");
        for name in ["AGGREGATE total", "FUNCTION twice", "FUNCTION plus", "FUNCTION failing"] {
            env.ok(&format!("DROP {name}")).await;
        }
        assert_eq!(env.processor().function_stats().instances, 0);
    });
}
