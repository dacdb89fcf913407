use super::*;
use model::Type;
use model::schema::NullInput;
use proptest::prelude::*;
use runtime::Config;
use runtime::task::{join, yield_now};
use runtime::testing::block_on_with;
use std::future::poll_fn;

fn function(takes: &[Type], returns: Type, null_input: NullInput, body: &str) -> Rc<UserFunction> {
    let names = ["a", "b", "c", "d"].map(str::to_owned);
    Rc::new(UserFunction {
        keyspace: "ks".to_owned(),
        name: "f".to_owned(),
        arguments: names.into_iter().zip(takes.iter().cloned()).collect(),
        returns,
        null_input,
        language: "wasm".to_owned(),
        body: body.to_owned(),
    })
}

fn shard(limits: Limits) -> Rc<Shard> {
    Shard::new(limits)
}

async fn call(
    shard: &Rc<Shard>,
    function: &Rc<UserFunction>,
    arguments: &[Option<&[u8]>],
) -> Result<Option<Vec<u8>>, String> {
    let mut running = shard.start(function, arguments, Pace::Steps)?;
    poll_fn(|cx| running.as_mut().poll(cx)).await
}

/// A module with a page of memory that says that it has a version of the ABI.
fn module(version: u8, functions: &str) -> String {
    format!(
        "(module (memory (export \"memory\") 1)
           (global (export \"_scylla_abi\") i32 (i32.const 1024))
           (data (i32.const 1024) \"\\0{version}\\00\\00\\00\")
           {functions})"
    )
}

/// Gives back what is passed in memory.
const SAME: &str = "(func (export \"f\") (param i64) (result i64) local.get 0)";

/// Writes bytes twice, one after the other, into a new page.
const DOUBLE: &str = "(func (export \"f\") (param $w i64) (result i64)
    (local $length i32) (local $from i32) (local $to i32)
    (local.set $length (i32.wrap_i64 (i64.shr_u (local.get $w) (i64.const 32))))
    (local.set $from (i32.wrap_i64 (local.get $w)))
    (local.set $to (i32.mul (memory.grow (i32.const 1)) (i32.const 65536)))
    (memory.copy (local.get $to) (local.get $from) (local.get $length))
    (memory.copy (i32.add (local.get $to) (local.get $length)) (local.get $from)
      (local.get $length))
    (i64.or
      (i64.shl (i64.extend_i32_u (i32.mul (local.get $length) (i32.const 2))) (i64.const 32))
      (i64.extend_i32_u (local.get $to))))";

/// An allocator that fails when something is freed that was not allocated last.
const ALLOCATOR: &str = "
    (global $top (mut i32) (i32.const 4096))
    (global $last (mut i32) (i32.const 0))
    (func (export \"_scylla_malloc\") (param $size i32) (result i32)
      (global.set $last (global.get $top))
      (global.set $top (i32.add (global.get $top) (local.get $size)))
      (global.get $last))
    (func (export \"_scylla_free\") (param $at i32)
      (if (i32.ne (local.get $at) (global.get $last)) (then unreachable))
      (global.set $top (global.get $last)))";

/// A call and what it gives.
struct Case {
    function: Rc<UserFunction>,
    arguments: Vec<Option<Vec<u8>>>,
    expected: Option<Vec<u8>>,
}

fn case(function: Rc<UserFunction>, arguments: &[Option<&[u8]>], expected: Option<&[u8]>) -> Case {
    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let arguments = arguments.iter().map(|bytes| owned(*bytes)).collect();
    Case { function, arguments, expected: owned(expected) }
}

fn cases() -> Vec<Case> {
    let of = |ty: &Type, count: usize, body: &str| {
        function(&vec![ty.clone(); count], ty.clone(), NullInput::ReturnsNull, body)
    };
    let nullable = |ty: &Type, count: usize, body: &str| {
        function(&vec![ty.clone(); count], ty.clone(), NullInput::Called, body)
    };
    let sum = "(module (func (export \"f\") (param i32 i32) (result i32)
        (i32.add (local.get 0) (local.get 1))))";
    let half = "(module (func (export \"f\") (param f64) (result f64)
        (f64.div (local.get 0) (f64.const 2))))";
    let not = "(module (func (export \"f\") (param i32) (result i32) (i32.eqz (local.get 0))))";
    let tables = "(module (table 1 1 funcref) (table 32 externref) (elem (i32.const 0) func)
        (func (export \"f\") (param i64) (result i64) local.get 0))";
    let same = [module(1, SAME), module(2, &format!("{SAME} {ALLOCATOR}"))];
    let double = module(1, DOUBLE);
    let nothing = module(1, "(func (export \"f\") (result i64) (i64.const -4294967296))");
    // A module without anything, but for a function that gives 7.
    let binary = "AGFzbQEAAAABBQFgAAF/AwIBAAcFAQFmAAAKBgEEAEEHCw==";
    let (minus_one, seven) = ([255; 4], [0, 0, 0, 7]);
    let (five, half_of_five) = (5f64.to_be_bytes(), 2.5f64.to_be_bytes());
    let two = 2i64.to_be_bytes();
    let mut cases = vec![
        case(of(&Type::Int, 2, sum), &[Some(&seven), Some(&minus_one)], Some(&[0, 0, 0, 6])),
        // The low bits count.
        case(of(&Type::TinyInt, 2, sum), &[Some(&[120]), Some(&[112])], Some(&[232])),
        case(of(&Type::Double, 1, half), &[Some(&five)], Some(&half_of_five)),
        case(of(&Type::Boolean, 1, not), &[Some(&[0])], Some(&[1])),
        case(of(&Type::Boolean, 1, not), &[Some(&[1])], Some(&[0])),
        case(of(&Type::BigInt, 1, tables), &[Some(&two)], Some(&two)),
        case(of(&Type::Text, 1, &double), &[Some(b"doggo")], Some(b"doggodoggo")),
        case(nullable(&Type::Blob, 0, &nothing), &[], None),
        case(of(&Type::Int, 0, binary), &[], Some(&seven)),
    ];
    for body in &same {
        cases.extend([
            case(of(&Type::Text, 1, body), &[Some(b"abc")], Some(b"abc")),
            case(of(&Type::Text, 1, body), &[Some(b"")], Some(b"")),
            case(of(&Type::Counter, 1, body), &[Some(&two)], Some(&two)),
            case(nullable(&Type::Int, 1, body), &[Some(&seven)], Some(&seven)),
            case(nullable(&Type::Int, 1, body), &[None], None),
        ]);
    }
    cases
}

#[test]
fn values_in_and_out() {
    block_on_with(Config::new(1), || async {
        let shard = shard(Limits::standard());
        for Case { function, arguments, expected } in cases() {
            let arguments: Vec<Option<&[u8]>> = arguments.iter().map(Option::as_deref).collect();
            // Of a new instance, and of one that has been called.
            for _ in 0..3 {
                let outcome = call(&shard, &function, &arguments).await;
                assert_eq!(outcome, Ok(expected.clone()), "{}", function.body);
            }
        }
    });
}

#[test]
fn bodies_that_are_refused() {
    let checks = [
        ("nothing of the kind", "Compilation failed: "),
        ("", "Compilation failed: "),
        (
            "AGFzbQEAAAA!",
            "Compilation failed: the body is neither WebAssembly text nor a base64 module",
        ),
        ("AGFzbQEAAA==", "Compilation failed: "),
        ("(module)", "Function f was not found in the module"),
        ("(module (memory (export \"f\") 1))", "Exported f is not a function"),
        (
            "(module (import \"env\" \"x\" (func)) (func (export \"f\")))",
            "Compilation failed: unknown import env.x",
        ),
        ("(module (func (export \"f\") (result i32) i64.const 1))", "Compilation failed: "),
        ("(module (memory 1) (memory 1) (func (export \"f\")))", "Compilation failed: "),
        ("(module (memory i64 1) (func (export \"f\")))", "Compilation failed: "),
        (
            "(module (import \"wasi_snapshot_preview1\" \"fd_write\" (func)) \
             (func (export \"f\")))",
            "incompatible import type for `wasi_snapshot_preview1::fd_write`",
        ),
        (
            "(module (import \"wasi_snapshot_preview1\" \"x\" (memory 1)) (func (export \"f\")))",
            "unknown import: `wasi_snapshot_preview1::x` has not been defined",
        ),
    ];
    block_on_with(Config::new(1), move || async move {
        let shard = shard(Limits::standard());
        for (body, expected) in checks {
            let function = function(&[], Type::Int, NullInput::ReturnsNull, body);
            let error = shard.check(&function).await.expect_err(body);
            assert!(error.starts_with(expected), "{body}: {error}");
        }
        let long = "x".repeat(body::BODY_BYTES_MAX + 1);
        let function = function(&[], Type::Int, NullInput::ReturnsNull, &long);
        assert!(shard.check(&function).await.is_err());
    });
}

/// Bodies of a function of an int.
const FAILING: &[(&str, &str)] = &[
    ("unreachable", "wasm trap: wasm `unreachable` instruction executed"),
    ("(loop (br 0)) unreachable", "all fuel consumed by WebAssembly"),
    ("(call $f (local.get 0))", "call stack exhausted"),
    ("(i32.div_s (local.get 0) (i32.const 0))", "integer divide by zero"),
    ("(i32.load (i32.const -1))", "out of bounds memory access"),
    (
        "(loop (drop (memory.grow (i32.const 1))) (br 0)) unreachable",
        "refused memory 256 times and asked for more",
    ),
    (
        "(loop (memory.fill (i32.const 0) (i32.const 0) (i32.const 65536)) (br 0)) unreachable",
        "all fuel consumed by WebAssembly",
    ),
];

/// Modules with a function that is to be of an int.
const FAILING_MODULES: &[(&str, &str)] = &[
    ("(memory 1000) (func (export \"f\") (param i32) (result i32) local.get 0)", "memory"),
    ("(table 100000 funcref) (func (export \"f\") (param i32) (result i32) local.get 0)", "table"),
    (
        "(func $l (loop (br 0))) (start $l) (func (export \"f\") (param i32) (result i32) \
         local.get 0)",
        "all fuel consumed by WebAssembly",
    ),
    (
        "(func (export \"f\") (param f32) (result i32) i32.const 1)",
        "argument type mismatch: argument 1 is i32, not f32",
    ),
    (
        "(func (export \"f\") (result i32) i32.const 1)",
        "argument type mismatch: 0 are taken, 1 given",
    ),
    ("(func (export \"f\") (param i32) (result f32) f32.const 1)", "Expected i32, got f32"),
    ("(func (export \"f\") (param i32))", "0 values returned, expected 1"),
    (
        "(import \"wasi_snapshot_preview1\" \"path_open\" (func $o)) \
         (func (export \"f\") (param i32) (result i32) (call $o) local.get 0)",
        "path_open",
    ),
    (
        "(import \"wasi_snapshot_preview1\" \"proc_exit\" (func $e (param i32))) \
         (func (export \"f\") (param i32) (result i32) (call $e (i32.const 3)) unreachable)",
        "the module exited with code 3",
    ),
];

/// Bodies of a function of a text: what it hands back.
const FAILING_WORDS: &[(&str, &str)] = &[
    ("(i64.const 0x100001ffff)", "16 bytes at 131071 are out of bounds"),
    ("(i64.const 0x7fffffffffffffff)", "out of bounds"),
    ("(i64.const -0x200000000)", "out of bounds"),
    (
        "(i32.store8 (i32.const 0) (i32.const 0xff)) (i64.const 0x100000000)",
        "the returned value is not one of type text",
    ),
];

/// Modules with a function of a text that gives it back, and are wrong elsewhere.
const FAILING_ABIS: &[(&str, &str)] = &[
    ("", "memory is not exported"),
    ("(memory (export \"memory\") 1)", "_scylla_abi is not exported"),
    (
        "(memory (export \"memory\") 1) (global (export \"_scylla_abi\") i32 (i32.const -1))",
        "_scylla_abi is out of bounds",
    ),
    (
        "(memory (export \"memory\") 1) (global (export \"_scylla_abi\") i64 (i64.const 1))",
        "_scylla_abi is not an i32",
    ),
    (
        "(memory (export \"memory\") 1) (global (export \"_scylla_abi\") i32 (i32.const 0)) \
         (data (i32.const 0) \"\\03\")",
        "version 3 of _scylla_abi is not supported",
    ),
    (
        "(memory (export \"memory\") 1) (global (export \"_scylla_abi\") i32 (i32.const 0)) \
         (data (i32.const 0) \"\\02\")",
        "_scylla_malloc cannot be called",
    ),
    (
        "(memory (export \"memory\") 1) (global (export \"_scylla_abi\") i32 (i32.const 0)) \
         (data (i32.const 0) \"\\02\") \
         (func (export \"_scylla_malloc\") (param i32) (result i32) i32.const -1) \
         (func (export \"_scylla_free\") (param i32))",
        "are out of bounds",
    ),
    (
        "(memory (export \"memory\") 1) (global (export \"_scylla_abi\") i32 (i32.const 0)) \
         (data (i32.const 0) \"\\02\") \
         (func (export \"_scylla_malloc\") (param i32) (result i32) i32.const 8) \
         (func (export \"_scylla_free\") (param i32) (loop (br 0)))",
        "all fuel consumed",
    ),
];

#[test]
fn calls_that_fail() {
    block_on_with(Config::new(1), || async {
        let limits = Limits { fuel: 1_000_000, yield_fuel: 10_000, ..Limits::standard() };
        let shard = shard(limits);
        let check = async |body: &str, ty: Type, argument: &[u8], expected: &str| {
            let arguments = std::slice::from_ref(&ty);
            let function = function(arguments, ty.clone(), NullInput::ReturnsNull, body);
            let error = call(&shard, &function, &[Some(argument)]).await.expect_err(body);
            assert!(error.starts_with("wasm execution failed: "), "{error}");
            assert!(error.contains(expected), "{body}: {error}");
        };
        for (body, expected) in FAILING {
            let text = format!("(func $f (export \"f\") (param i32) (result i32) {body})");
            let text = format!("(module (memory 1) {text})");
            check(&text, Type::Int, &[0, 0, 0, 1], expected).await;
        }
        for (parts, expected) in FAILING_MODULES {
            check(&format!("(module {parts})"), Type::Int, &[0, 0, 0, 1], expected).await;
        }
        for (body, expected) in FAILING_WORDS {
            let text = format!("(func (export \"f\") (param i64) (result i64) {body})");
            check(&module(1, &text), Type::Text, b"x", expected).await;
        }
        for (parts, expected) in FAILING_ABIS {
            check(&format!("(module {parts} {SAME})"), Type::Text, b"x", expected).await;
        }
        // More than the memory may be.
        let long = vec![b'x'; 3 << 20];
        check(&module(1, SAME), Type::Text, &long, "do not fit in the memory").await;
        assert_eq!(shard.stats().instances, 0);
        let good = function(&[Type::Text], Type::Text, NullInput::ReturnsNull, &module(1, SAME));
        assert_eq!(call(&shard, &good, &[Some(b"x")]).await, Ok(Some(b"x".to_vec())));
    });
}

#[test]
fn what_wasi_gives() {
    let body = "(module
        (import \"wasi_snapshot_preview1\" \"fd_write\"
          (func $write (param i32 i32 i32 i32) (result i32)))
        (import \"wasi_snapshot_preview1\" \"random_get\"
          (func $random (param i32 i32) (result i32)))
        (import \"wasi_snapshot_preview1\" \"environ_sizes_get\"
          (func $sizes (param i32 i32) (result i32)))
        (memory (export \"memory\") 1)
        (global $ready (mut i32) (i32.const 0))
        (func (export \"_initialize\") (global.set $ready (i32.const 1000000)))
        (data (i32.const 16) \"\\40\\00\\00\\00\\05\\00\\00\\00\\40\\00\\00\\00\\07\\00\\00\\00\")
        (func (export \"f\") (param $which i32) (result i32)
          (if (i32.eq (local.get $which) (i32.const 0)) (then
            (drop (call $write (i32.const 1) (i32.const 16) (i32.const 2) (i32.const 8)))
            (return (i32.add (global.get $ready) (i32.load (i32.const 8))))))
          (if (i32.eq (local.get $which) (i32.const 1)) (then
            (return (call $write (i32.const 1) (i32.const 16) (i32.const -1) (i32.const 8)))))
          (if (i32.eq (local.get $which) (i32.const 2)) (then
            (return (call $random (i32.const 65530) (i32.const 7)))))
          (if (i32.eq (local.get $which) (i32.const 3)) (then
            (return (call $random (i32.const 65530) (i32.const 6)))))
          (call $sizes (i32.const 0) (i32.const 4))))";
    block_on_with(Config::new(1), move || async move {
        let shard = shard(Limits::standard());
        let function = function(&[Type::Int], Type::Int, NullInput::ReturnsNull, body);
        for (which, expected) in [(0, 1_000_012), (1, 21), (2, 21), (3, 0), (4, 0i32)] {
            let outcome = call(&shard, &function, &[Some(&i32::to_be_bytes(which))]).await;
            assert_eq!(outcome, Ok(Some(expected.to_be_bytes().to_vec())), "{which}");
        }
    });
}

#[test]
fn others_have_the_shard_while_a_call_runs() {
    let body = "(module (func (export \"f\") (param $n i64) (result i64) (local $sum i64)
        (loop
          (local.set $sum (i64.add (local.get $sum) (local.get $n)))
          (br_if 0 (i64.ne (i64.const 0)
            (local.tee $n (i64.sub (local.get $n) (i64.const 1))))))
        (local.get $sum)))";
    block_on_with(Config::new(1), move || async move {
        let shard = shard(Limits::standard());
        let function = function(&[Type::BigInt], Type::BigInt, NullInput::ReturnsNull, body);
        let (turns, ended) = (Cell::new(0), Cell::new(false));
        let called = async {
            let argument = 1_000_000i64.to_be_bytes();
            let outcome = call(&shard, &function, &[Some(&argument)]).await;
            ended.set(true);
            outcome
        };
        let others = async {
            while !ended.get() {
                turns.set(turns.get() + 1);
                yield_now().await;
            }
        };
        let (outcome, ()) = join(called, others).await;
        assert_eq!(outcome, Ok(Some(500_000_500_000i64.to_be_bytes().to_vec())));
        // About ten million of fuel, a hundred thousand of it at a time.
        assert!(50 <= turns.get(), "{} turns", turns.get());
        // One that is dropped where it stands.
        let argument = 10_000_000i64.to_be_bytes();
        let mut running = shard.start(&function, &[Some(&argument)], Pace::Steps).expect("a call");
        let polled = poll_fn(|cx| std::task::Poll::Ready(running.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
        drop(running);
        let argument = 2i64.to_be_bytes();
        let outcome = call(&shard, &function, &[Some(&argument)]).await;
        assert_eq!(outcome, Ok(Some(3i64.to_be_bytes().to_vec())));
    });
}

/// Does a little of everything that may run out of fuel: loops, calls through a table, copies,
/// fills, and a memory that grows. `$n` is how often.
const BUSY: &str = "(module (memory (export \"memory\") 1)
    (type $t (func (param i64) (result i64)))
    (table funcref (elem $twice $odd))
    (func $start (i64.store (i32.const 0) (i64.const 41)))
    (start $start)
    (func $twice (type $t) (i64.mul (local.get 0) (i64.const 2)))
    (func $odd (type $t) (i64.add (call $deep (local.get 0)) (i64.const 1)))
    (func $deep (param $n i64) (result i64)
      (if (result i64) (i64.lt_u (local.get $n) (i64.const 3)) (then (local.get $n))
        (else (i64.add (i64.const 1) (call $deep (i64.shr_u (local.get $n) (i64.const 1)))))))
    (func (export \"f\") (param $n i64) (result i64) (local $sum i64) (local $half f64)
      (local.set $sum (i64.load (i32.const 0)))
      (loop
        (local.set $sum (i64.xor
          (i64.rotl (local.get $sum) (i64.const 7))
          (call_indirect (type $t) (local.get $n)
            (i32.wrap_i64 (i64.and (local.get $n) (i64.const 1))))))
        (memory.fill (i32.const 512) (i32.wrap_i64 (local.get $n)) (i32.const 300))
        (memory.copy (i32.const 600) (i32.const 512) (i32.const 200))
        (local.set $half (f64.add (local.get $half) (f64.convert_i64_u (local.get $n))))
        (local.set $half (f64.sqrt (local.get $half)))
        (local.set $sum (i64.add (local.get $sum) (i64.load (i32.const 700))))
        (local.set $sum (i64.add (local.get $sum) (i64.extend_i32_u (memory.grow (i32.const 1)))))
        (br_if 0 (i64.ne (i64.const 0)
          (local.tee $n (i64.sub (local.get $n) (i64.const 1))))))
      (i64.xor (local.get $sum) (i64.reinterpret_f64 (local.get $half)))))";

#[test]
fn a_call_gives_the_same_however_often_it_is_put_aside() {
    let run = |yield_fuel| {
        block_on_with(Config::new(1), move || async move {
            // One with a full memory is kept too.
            let instance_bytes_max = 2 * Limits::standard().memory_bytes;
            let shard = shard(Limits { yield_fuel, instance_bytes_max, ..Limits::standard() });
            let function = function(&[Type::BigInt], Type::BigInt, NullInput::ReturnsNull, BUSY);
            let argument = 40i64.to_be_bytes();
            // Once in a memory that grows, and once in one that is full.
            let first = call(&shard, &function, &[Some(&argument)]).await.expect("a value");
            let second = call(&shard, &function, &[Some(&argument)]).await.expect("a value");
            assert_eq!(shard.stats().misses, 1);
            (first, second)
        })
    };
    let whole = run(u64::MAX);
    assert_ne!(whole.0, whole.1);
    for yield_fuel in [0, 1, 7, 50, 333, 5_000, 100_000] {
        assert_eq!(run(yield_fuel), whole, "{yield_fuel}");
    }
}

#[test]
fn tables_do_not_grow() {
    let body = "(module (table $t 2 10 funcref)
        (func (export \"f\") (param $by i32) (result i32)
          (table.grow $t (ref.null func) (local.get $by))))";
    block_on_with(Config::new(1), move || async move {
        let shard = shard(Limits { yield_fuel: 1, ..Limits::standard() });
        let function = function(&[Type::Int], Type::Int, NullInput::ReturnsNull, body);
        for (by, expected) in [(1, -1), (0, 2), (5, -1)] {
            let outcome = call(&shard, &function, &[Some(&i32::to_be_bytes(by))]).await;
            assert_eq!(outcome, Ok(Some(i32::to_be_bytes(expected).to_vec())));
        }
    });
}

#[test]
fn starts_are_put_aside_too() {
    let body = "(module (global $n (mut i32) (i32.const 0))
        (func $count (loop
          (global.set $n (i32.add (global.get $n) (i32.const 1)))
          (br_if 0 (i32.lt_u (global.get $n) (i32.const 100000)))))
        (start $count)
        (func (export \"f\") (result i32) (global.get $n)))";
    block_on_with(Config::new(1), move || async move {
        let shard = shard(Limits::standard());
        let function = function(&[], Type::Int, NullInput::ReturnsNull, body);
        assert_eq!(shard.check(&function).await, Ok(()));
        let mut running = shard.start(&function, &[], Pace::Steps).expect("a call");
        let polled = poll_fn(|cx| std::task::Poll::Ready(running.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
        let outcome = poll_fn(|cx| running.as_mut().poll(cx)).await;
        assert_eq!(outcome, Ok(Some(100_000i32.to_be_bytes().to_vec())));
        let wrong = "(module (func $s (param i32)) (func (export \"f\")) (start $s))";
        let function = self::function(&[], Type::Int, NullInput::ReturnsNull, wrong);
        let error = shard.check(&function).await.expect_err("a start with an argument");
        assert!(error.starts_with("Compilation failed: "), "{error}");
    });
}

#[test]
fn instances_are_used_again() {
    block_on_with(Config::new(1), move || async move {
        let fleeting = shard(Limits { idle: Duration::from_millis(20), ..Limits::standard() });
        let shard = shard(Limits::standard());
        let body = module(1, SAME);
        let same = function(&[Type::Text], Type::Text, NullInput::ReturnsNull, &body);
        for _ in 0..100 {
            assert_eq!(call(&shard, &same, &[Some(&[b'x'; 100])]).await, Ok(Some(vec![b'x'; 100])));
        }
        let Stats { hits, misses, instances, bytes } = shard.stats();
        // A page of its own, and one for arguments.
        assert_eq!((hits, misses, instances), (99, 1, 1));
        assert_eq!(bytes as usize, (128 << 10) + INSTANCE_BYTES);
        // It is no longer called.
        assert_eq!(call(&fleeting, &same, &[Some(b"x")]).await, Ok(Some(vec![b'x'])));
        let gone = async {
            while fleeting.stats().instances != 0 {
                runtime::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = runtime::time::timeout(Duration::from_secs(60), gone).await;
        assert!(waited.is_ok(), "an instance that nobody calls is kept");
        assert_eq!(fleeting.stats().bytes, 0);
        // One that grew too large, and one that failed, are not kept.
        let grows = "(module (memory 17) (func (export \"f\") (result i32) i32.const 1))";
        let large = function(&[], Type::Int, NullInput::ReturnsNull, grows);
        assert_eq!(call(&shard, &large, &[]).await, Ok(Some(vec![0, 0, 0, 1])));
        assert_eq!(shard.stats().instances, 1);
        // One whose function is gone.
        assert!(call(&shard, &same, &[Some(b"x")]).await.is_ok());
        assert_eq!(shard.stats().instances, 1);
        shard.retain(|it| it.body != body);
        assert_eq!(shard.stats().instances, 0);
    });
}

/// Its result is a word that the caller chooses.
const ANY_WORD: &str = "(func (export \"f\") (param i64) (result i64) local.get 0)
    (data (i32.const 0) \"abc\\ff\\00\\00\\00\\02\\00\\00\\00\\01\\00\\00\\00\\01\")";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_word_gives_a_value_or_an_error(
        words in prop::collection::vec(prop_oneof![
            any::<i64>(), (0..40i64, 0..40i64).prop_map(|(length, at)| length << 32 | at)
        ], 1..200)
    ) {
        block_on_with(Config::new(1), move || async move {
            let shard = shard(Limits::standard());
            let set = Type::Set { element: Box::new(Type::Text), frozen: true };
            for ty in [Type::Text, Type::Varint, Type::Duration, set] {
                let body = module(1, ANY_WORD);
                let function = function(&[Type::BigInt], ty.clone(), NullInput::ReturnsNull, &body);
                for word in &words {
                    let argument = word.to_be_bytes();
                    if let Ok(Some(value)) = call(&shard, &function, &[Some(&argument)]).await {
                        assert!(model::value::validate(&ty, &value).is_ok());
                    }
                }
            }
        });
    }

    #[test]
    fn damaged_modules_are_refused_or_run(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        block_on_with(Config::new(1), move || async move {
            let text = module(2, &format!("{DOUBLE} {ALLOCATOR}"));
            let mut bytes = text.into_bytes();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte % 128;
            }
            let cut = cut.index(bytes.len() * 4);
            bytes.truncate(cut.max(1));
            let Ok(body) = String::from_utf8(bytes) else { return };
            let limits = Limits { fuel: 1_000_000, ..Limits::standard() };
            let shard = shard(limits);
            let function = function(&[Type::Text], Type::Text, NullInput::ReturnsNull, &body);
            for argument in [&b"abc"[..], b""] {
                drop(call(&shard, &function, &[Some(argument)]).await);
            }
        });
    }
}
