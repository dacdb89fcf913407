use super::*;

/// A registry that is told what to do in words, and shows what is left.
///
/// `+a`, `+a/b`: a new task, below another; `>a` starts, `.a` is done, `!a` fails, `xa` is aborted,
/// `-a` is taken from the list, `ha` and `ra` hold and release, `tN` is the time, `d` drains.
struct Run {
    registry: Registry,
    now: i64,
}

fn id(name: char) -> Uuid {
    Uuid::from_u128(name as u128)
}

impl Run {
    fn new() -> Run {
        Run { registry: Registry::new(&["m"], 0, 100), now: 0 }
    }

    fn create(&mut self, name: char, parent: Option<char>, about: About) -> Result<(), Refusal> {
        self.registry.create(id(name), "m", parent.map(id), about, self.now)
    }

    fn obey(&mut self, steps: &str) {
        for step in steps.split_whitespace() {
            let (what, rest) = step.split_at(1);
            let mut names = rest.chars();
            let name = names.next().unwrap_or(' ');
            let about = About { abortable: true, of_user: true, ..About::default() };
            match what {
                "+" => {
                    let parent = names.nth(1);
                    let (name, parent) = parent.map_or((name, None), |below| (below, Some(name)));
                    self.create(name, parent, about).unwrap();
                }
                ">" => self.registry.start(id(name), self.now),
                "." => self.registry.end(id(name), Ok(()), self.now),
                "!" => self.registry.end(id(name), Err("why".to_owned()), self.now),
                "x" => self.registry.abort(id(name)).unwrap(),
                "-" => self.registry.unlist(id(name)).unwrap(),
                "h" => self.registry.hold(id(name)).unwrap(),
                "r" => self.registry.release(id(name), self.now),
                "t" => {
                    self.now = rest.parse().unwrap();
                    self.registry.expire(self.now);
                }
                "d" => self.registry.drain("m").unwrap(),
                _ => panic!("{step}"),
            }
        }
    }

    /// The tree below each root: the name, how it is, and in parentheses what is below.
    fn shown(&self) -> String {
        let roots = self.registry.order.values().filter_map(|id| self.registry.get(*id));
        let roots = roots.filter(|task| task.parent.is_none());
        roots.map(|task| self.tree(task)).collect::<Vec<_>>().join(" ")
    }

    fn tree(&self, task: &Task) -> String {
        let name = char::from_u32(task.id.as_u128() as u32).unwrap();
        let mark = match (&task.state, task.is_aborted) {
            (State::Created, false) => "",
            (State::Running, false) => ">",
            (State::Done, _) => ".",
            (State::Failed(_), _) => "!",
            (_, true) => "x",
        };
        let below = task.children.iter().filter_map(|id| self.registry.get(*id));
        let below: Vec<String> = below.map(|task| self.tree(task)).collect();
        match below.is_empty() {
            true => format!("{name}{mark}"),
            false => format!("{name}{mark}({})", below.join(" ")),
        }
    }
}

#[test]
fn tasks_go_on_and_end() {
    let check = |steps: &str, expected: &str| {
        let mut run = Run::new();
        run.obey(steps);
        assert_eq!(run.shown(), expected, "{steps}");
    };
    check("+a >a +b", "a> b");
    check("+a >a .a !a", "a.");
    check("+a .a >a", "a.");
    // What is kept ends with its time, and so does all below it.
    check("+a +a/b t5 .b .a t104", "a.(b.)");
    check("+a +a/b t5 .b .a t105", "");
    check("+a ha .a t999", "a.");
    check("+a ha .a t999 ra", "");
    check("+a .a +b d", "b");
    check("+a +a/b -b", "a(b)");
    check("+a +a/b -a", "");
    check("+a +a/b +b/c +d xa", "ax(bx(cx)) d");
    check("+a xa +a/b", "ax(bx)");
    check("+a .a xa", "a.");
}

#[test]
fn what_is_below_is_folded_save_for_failures() {
    let tree = "+a +a/b +a/c +b/d +b/e +c/f +c/g +d/h +d/i +e/j +e/k +f/l +f/m +g/n +g/o";
    let check = |ends: &str, expected: &str, completed: f64| {
        let mut run = Run::new();
        run.obey(tree);
        run.obey(ends);
        assert_eq!(run.shown(), expected, "{ends}");
        let done = run.registry.progress(id('a'));
        assert_eq!(done, Progress { completed, total: 8.0 }, "{ends}");
    };
    check(".o .n .m .l .k .j .i .h .g .f .e .d .c .b .a", "a.(b. c.)", 8.0);
    check(".o .n .m .l .k .j .i !h .g .f .e .d .c .b .a", "a.(b.(d.(h!)) c.)", 7.0);
    check(".o .n .m .l .k .j .i .h .g .f .e !d .c .b .a", "a.(b.(d!) c.)", 8.0);
    check(".o .n .m .l .k .j .i !h .g .f .e !d .c !b !a", "a!(b!(d!(h!)) c.)", 7.0);
    check(".o .n !m .l .k .j .i .h .g !f .e .d .c !b .a", "a.(b! c.(f!(m!)))", 7.0);
}

#[test]
fn progress_is_the_sum_of_what_is_below() {
    let mut run = Run::new();
    run.obey("+a +a/b +a/c >a");
    assert_eq!(run.registry.progress(id('a')), Progress { completed: 0.0, total: 2.0 });
    run.registry.note_progress(id('b'), 3.0, 10.0);
    assert_eq!(run.registry.progress(id('a')), Progress { completed: 3.0, total: 11.0 });
    run.registry.note_progress(id('b'), 30.0, 10.0);
    run.obey("!b .c");
    assert_eq!(run.registry.progress(id('a')), Progress { completed: 11.0, total: 11.0 });
}

#[test]
fn a_task_that_fails_stays_where_it_was() {
    let mut run = Run::new();
    run.obey("+a >a");
    run.registry.note_progress(id('a'), 3.0, 10.0);
    run.obey("xa !a");
    assert_eq!(run.registry.progress(id('a')), Progress { completed: 3.0, total: 10.0 });
    // Whatever its work said when it was ended.
    let state = run.registry.get(id('a')).map(|task| task.state.clone());
    assert_eq!(state, Some(State::Failed(ABORTED.to_owned())));
}

#[test]
fn what_has_not_begun_counts() {
    let mut run = Run::new();
    run.obey("+a +a/b >a >b");
    run.registry.note_progress(id('b'), 0.0, 4.0);
    assert_eq!(run.registry.progress(id('a')), Progress { completed: 0.0, total: 4.0 });
    // The first table of four.
    run.obey("+b/c .c");
    assert_eq!(run.registry.progress(id('a')), Progress { completed: 1.0, total: 4.0 });
}

#[test]
fn a_task_is_as_far_as_its_jobs() {
    let mut run = Run::new();
    let about = || About {
        keyspace: "ks".to_owned(),
        table: "t".to_owned(),
        shard: 1,
        of_user: true,
        jobs: &["Major"],
        ..About::default()
    };
    run.create('a', None, about()).unwrap();
    run.obey("+z >a >z");
    let job = |name, bytes_done| Job {
        id: id(name),
        kind: "Major",
        keyspace: "ks".to_owned(),
        table: "t".to_owned(),
        shard: 1,
        bytes: 100.0,
        bytes_done,
        table_bytes: 400.0,
    };
    let check = |run: &mut Run, jobs: &[Job], expected: f64| {
        run.registry.look_at_jobs(jobs);
        assert_eq!(run.registry.progress(id('a')).completed, expected, "{jobs:?}");
        assert_eq!(run.registry.progress(id('z')).completed, 0.0);
    };
    check(&mut run, &[], 0.0);
    check(&mut run, &[job('1', 40.0)], 0.1);
    let others = [
        Job { shard: 0, ..job('5', 99.0) },
        Job { kind: "Compaction", ..job('6', 99.0) },
        Job { table: "u".to_owned(), ..job('7', 99.0) },
    ];
    check(&mut run, &others, 0.25); // The first one has ended.
    check(&mut run, &[job('2', 60.0)], 0.4);
    check(&mut run, &[Job { table_bytes: 900.0, ..job('2', 60.0) }], 0.4); // Never back.
    assert!(run.registry.has_jobs());
    run.obey(".a");
    assert!(!run.registry.has_jobs());
    assert_eq!(run.registry.progress(id('a')).completed, 1.0);
}

#[test]
fn numbers_are_of_a_shard_and_of_the_root() {
    let mut run = Run::new();
    let on = |shard| About { shard, ..About::default() };
    run.create('a', None, on(0)).unwrap();
    run.create('b', None, on(0)).unwrap();
    run.create('c', Some('b'), on(1)).unwrap();
    run.create('d', None, on(1)).unwrap();
    let numbers = ['a', 'b', 'c', 'd'].map(|name| run.registry.get(id(name)).unwrap().sequence);
    assert_eq!(numbers, [1, 2, 2, 1]);
}

#[test]
fn what_cannot_be_is_refused() {
    let mut run = Run::new();
    run.create('a', None, About::default()).unwrap();
    assert_eq!(run.registry.abort(id('a')), Err(Refusal::NotAbortable(id('a'))));
    assert_eq!(run.registry.abort(id('z')), Err(Refusal::Unknown(id('z'))));
    assert_eq!(run.create('b', Some('z'), About::default()), Err(Refusal::Unknown(id('z'))));
    let made = run.registry.create(id('b'), "none", None, About::default(), 0);
    assert_eq!(made, Err(Refusal::NoModule("none".to_owned())));
    assert!(run.registry.of_module("none", true).is_err());
    assert!(run.registry.drain("none").is_err());
    run.registry.add_module("none");
    assert_eq!(run.registry.of_module("none", true), Ok(Vec::new()));
    run.registry.remove_module("m");
    assert_eq!(run.registry.asked(id('a')), Err(Refusal::Unknown(id('a'))));
}

#[test]
fn there_are_only_so_many() {
    let mut run = Run::new();
    run.registry.user_ttl = i64::MAX;
    let about = || About { of_user: true, ..About::default() };
    for number in 0..TASKS_MAX as u128 {
        run.registry.create(Uuid::from_u128(number), "m", None, about(), 0).unwrap();
    }
    let one_more = Uuid::from_u128(1 << 64);
    assert_eq!(run.registry.create(one_more, "m", None, about(), 0), Err(Refusal::Full));
    let (later, first) = (Uuid::from_u128(1), Uuid::from_u128(9));
    run.registry.end(first, Ok(()), 5);
    run.registry.end(later, Ok(()), 6);
    run.registry.create(one_more, "m", None, about(), 7).unwrap();
    assert!(run.registry.get(first).is_none() && run.registry.get(later).is_some());
}
