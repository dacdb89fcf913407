use super::*;
use model::{TableSchema, Type, Uuid};
use mutation::{Cell, MutationBuilder, RowBuilder};

fn table() -> TableSchema {
    let builder = TableSchema::builder("ks", "t", Uuid::from_u128(7));
    let builder = builder.partition_key("pk", Type::Int).regular("v", Type::Int);
    builder.build().expect("a table")
}

fn ballot(micros: i64) -> Ballot {
    Ballot::drawn(micros, micros as u64)
}

fn nothing() -> FrozenMutation {
    MutationBuilder::new(&table(), b"key").freeze()
}

fn proposal(micros: i64) -> FrozenMutation {
    let table = table();
    let mut row = RowBuilder::new(Vec::new());
    row.cell(table.column("v").expect("a column").id, Cell::live(micros, &[0; 4]));
    let mut builder = MutationBuilder::new(&table, b"key");
    builder.row(&[], &row.finish());
    builder.freeze()
}

/// A promise by the ballots of what was accepted (at one, made at another) and learned.
fn promise(accepted: Option<(i64, i64)>, learned: Option<i64>) -> Promise {
    let accepted = accepted.map(|(at, made)| {
        let mutation = if made == 0 { nothing() } else { proposal(made) };
        Proposal { ballot: ballot(at), since: None, of: None, mutation }
    });
    Promise { accepted, learned: learned.map(ballot) }
}

/// The same of a proposal since another one.
fn since(at: i64, since: i64, learned: Option<i64>) -> Promise {
    let (ballot, since, mutation) = (ballot(at), Some(ballot(since)), proposal(at));
    let accepted = Some(Proposal { ballot, since, of: None, mutation });
    Promise { accepted, learned: learned.map(self::ballot) }
}

fn of(promises: [Promise; 2]) -> Vec<(usize, Promise)> {
    promises.into_iter().enumerate().collect()
}

#[test]
fn the_last_proposal_that_may_have_been_chosen_is_finished() {
    let check = |promises, expected| assert_eq!(next(&of(promises)), expected);
    let nothing = || promise(None, None);
    check([nothing(), nothing()], Next::Propose);
    check([promise(Some((5, 5)), None), nothing()], Next::Finish(proposal(5)));
    check([promise(Some((5, 5)), None), promise(Some((6, 6)), None)], Next::Finish(proposal(6)));
    // Under a later ballot than it was made at.
    check([promise(Some((8, 5)), Some(4)), nothing()], Next::Finish(proposal(5)));
    // The end of a read: what was accepted before was not chosen.
    check([promise(Some((5, 5)), None), promise(Some((6, 0)), None)], Next::Propose);
    // One knows that it was chosen, and the other has accepted it.
    check([promise(None, Some(5)), promise(Some((6, 6)), None)], Next::Finish(proposal(6)));
    let teach = Next::Teach { ballot: ballot(5), mutation: proposal(5), who: vec![1] };
    check([promise(Some((5, 5)), Some(5)), promise(None, Some(4))], teach.clone());
    check([promise(Some((5, 5)), Some(5)), promise(Some((4, 4)), None)], teach);
    check([promise(Some((5, 5)), Some(5)), promise(Some((5, 5)), Some(5))], Next::Propose);
    // All have learned it, so nobody has it any more.
    check([promise(None, Some(5)), promise(Some((4, 4)), None)], Next::Propose);
}

#[test]
fn what_became_of_a_proposal_is_known_or_not() {
    let mine = proposal(5);
    let check = |promises, expected: Fate| {
        let promises = of(promises);
        assert_eq!(fate(&promises, ballot(5), &mine), expected, "{promises:?}");
    };
    let none = || promise(None, None);
    check([promise(Some((5, 5)), None), none()], Fate::Mine);
    check([promise(Some((9, 5)), Some(4)), none()], Fate::Mine);
    check([promise(Some((5, 5)), Some(5)), none()], Fate::Mine);
    check([promise(Some((9, 5)), Some(9)), none()], Fate::Mine);
    check([promise(None, Some(5)), none()], Fate::Mine);
    check([none(), none()], Fate::NotChosen);
    check([promise(Some((4, 4)), None), promise(None, Some(3))], Fate::NotChosen);
    check([promise(Some((6, 6)), Some(4)), none()], Fate::NotChosen);
    check([promise(Some((6, 0)), Some(4)), promise(Some((5, 5)), None)], Fate::NotChosen);
    check([promise(Some((6, 0)), Some(5)), promise(Some((5, 5)), None)], Fate::Mine);
    check([promise(Some((6, 6)), Some(6)), promise(Some((5, 5)), None)], Fate::Unknown);
    check([promise(Some((8, 8)), Some(6)), none()], Fate::Unknown);
}

#[test]
fn what_was_proposed_without_knowing_of_another_is_passed_over() {
    let check = |promises, expected| assert_eq!(next(&of(promises)), expected);
    let nothing = || promise(None, None);
    check([since(8, 5, Some(5)), nothing()], Next::Finish(proposal(8)));
    check([since(8, 5, None), promise(Some((5, 5)), Some(5))], Next::Finish(proposal(8)));
    // Between the two another one was accepted, or learned: it had a majority of promises.
    check([since(8, 5, None), promise(Some((6, 6)), None)], Next::Finish(proposal(6)));
    check([since(8, 5, None), promise(Some((6, 0)), Some(5))], Next::Propose);
    check([since(8, 5, None), promise(None, Some(6))], Next::Propose);
    let teach = Next::Teach { ballot: ballot(6), mutation: proposal(6), who: vec![0] };
    check([since(8, 5, None), promise(Some((6, 6)), Some(6))], teach);
    // Of two that nobody has promised, the base of the one tells of the other.
    check([since(8, 5, Some(5)), since(9, 6, Some(5))], Next::Finish(proposal(9)));
    check([since(8, 5, Some(5)), since(7, 6, Some(5))], Next::Finish(proposal(7)));
    let mine = proposal(8);
    let fate = |promises| fate(&of(promises), ballot(8), &mine);
    assert_eq!(fate([since(8, 5, None), nothing()]), Fate::Mine);
    assert_eq!(fate([since(8, 5, None), promise(Some((6, 6)), None)]), Fate::NotChosen);
    assert_eq!(fate([since(8, 5, None), promise(Some((9, 9)), Some(6))]), Fate::NotChosen);
}
