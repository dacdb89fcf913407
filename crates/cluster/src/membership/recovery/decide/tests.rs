//! The decisions on their own: nodes that are values, whose majority is destroyed, whose messages
//! are lost and come twice and late, and who crash; while every generation commits what it can.

use super::*;
use stdx::prng::Prng;

/// An entry: who it is, and where it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    id: u64,
    at: Position,
}

#[derive(Clone, Debug)]
struct Node {
    generation: Generation,
    promised: Option<Promise>,
    log: Vec<Entry>,
    /// Whether the log is of its generation; else it waits for the leader's.
    has_state: bool,
    is_gone: bool,
    is_away: bool,
    /// The candidacy of this life, and who has promised.
    candidacy: Option<(Plan, Standing, BTreeSet<Uuid>)>,
}

#[derive(Clone, Debug)]
enum Message {
    Ask(Plan),
    Promised(u64, Uuid),
    Begun(Generation),
}

struct World {
    draw: Prng,
    planted: Option<Planted>,
    nodes: Vec<Node>,
    voters: usize,
    waiting: Vec<(usize, Message)>,
    next_id: u64,
    /// What was committed, in which generation, and whether it is known to be lost.
    committed: Vec<(u64, u64, bool)>,
    begun: Vec<Generation>,
}

fn id(number: usize) -> Uuid {
    Uuid::from_u128(number as u128 + 1)
}

fn number(id: Uuid) -> usize {
    id.as_u128() as usize - 1
}

impl World {
    fn new(seed: u64, planted: Option<Planted>) -> World {
        let mut draw = Prng::from_seed(seed);
        let count = [3, 5, 5, 7][draw.below(4) as usize];
        let node = Node {
            generation: Generation::first(Uuid::from_u128(99)),
            promised: None,
            log: vec![Entry { id: 0, at: Position { generation: 0, term: 1, index: 1 } }],
            has_state: true,
            is_gone: false,
            is_away: false,
            candidacy: None,
        };
        World {
            draw,
            planted,
            nodes: vec![node; count],
            voters: count.min(VOTERS),
            waiting: Vec::new(),
            next_id: 1,
            committed: vec![(0, 0, false)],
            begun: Vec::new(),
        }
    }

    fn voters(&self, of: &Generation) -> BTreeSet<Uuid> {
        match of.number {
            0 => (0..self.voters).map(id).collect(),
            _ => of.members.clone(),
        }
    }

    fn gone(&self) -> BTreeSet<Uuid> {
        (0..self.nodes.len()).filter(|at| self.nodes[*at].is_gone).map(id).collect()
    }

    fn standing(&self, at: usize) -> Standing {
        let node = &self.nodes[at];
        let position = node.log.last().expect("the first").at;
        let all = (0..self.nodes.len()).map(id).collect::<BTreeSet<Uuid>>();
        Standing {
            generation: node.generation.clone(),
            promised: node.promised,
            position,
            term: position.term,
            applied: 0,
            leader: None,
            voters: vec![self.voters(&node.generation)],
            known: &all - &node.generation.lost,
            last_timestamp: 0,
        }
    }

    /// Those that could take part in the generation of a node now.
    fn working(&self, of: &Generation) -> Vec<usize> {
        let takes_part = |at: &usize| {
            let node = &self.nodes[*at];
            let silent = self.standing(*at).is_silent() && self.planted != Some(Planted::OldVotes);
            node.generation == *of && !silent && !node.is_gone && !node.is_away
        };
        let voters = self.voters(of);
        (0..self.nodes.len()).filter(takes_part).filter(|at| voters.contains(&id(*at))).collect()
    }

    /// Somebody leads a generation for a moment, and appends; whether that was committed.
    fn append(&mut self, leader: usize) -> bool {
        let of = self.nodes[leader].generation.clone();
        let working = self.working(&of);
        let needed = self.voters(&of).len() / 2 + 1;
        if !working.contains(&leader) || !self.nodes[leader].has_state {
            return false;
        }
        // Who has not the state yet has nothing of this generation.
        let held = |at: usize| match self.nodes[at].has_state {
            true => self.standing(at).position,
            false => Position::default(),
        };
        let votes = working.iter().filter(|at| held(**at) <= held(leader)).count();
        if votes < needed {
            return false;
        }
        let last = held(leader);
        // Each leader has a term of its own.
        let term = self.next_id + 1;
        let index = last.index.max(of.base()) + 1;
        let at = Position { generation: of.number, term, index };
        let entry = Entry { id: self.next_id, at };
        self.next_id += 1;
        self.nodes[leader].log.push(entry);
        let log = self.nodes[leader].log.clone();
        let all = self.draw.below(4) != 0;
        let mut count = 1;
        for at in working.into_iter().filter(|at| *at != leader) {
            if all || self.draw.below(2) == 0 {
                (self.nodes[at].log, self.nodes[at].has_state) = (log.clone(), true);
                count += 1;
            }
        }
        if count < needed {
            return false;
        }
        let latest = self.committed.iter().map(|(_, generation, _)| *generation).max();
        assert!(latest <= Some(of.number), "none-works-beside: {latest:?} and {}", of.number);
        for (id, generation, is_lost) in &self.committed {
            let has = log.iter().any(|entry| entry.id == *id);
            assert!(has || *is_lost, "most-of-the-log: {id} of {generation} is not in {log:?}");
        }
        self.committed.push((entry.id, of.number, false));
        true
    }

    /// Somebody runs the command on a node, and asks whom it reaches.
    fn run(&mut self, at: usize) {
        if self.nodes[at].is_gone || self.nodes[at].is_away {
            return;
        }
        let reached: Vec<usize> = (0..self.nodes.len())
            .filter(|it| !self.nodes[*it].is_gone && !self.nodes[*it].is_away)
            .collect();
        let all: Vec<Standing> = reached.iter().map(|it| self.standing(*it)).collect();
        let latest = all.iter().map(|it| &it.generation).max_by_key(|it| it.number).cloned();
        let me = self.standing(at);
        if let Some(latest) = latest.filter(|it| me.generation.number < it.number) {
            self.told(at, &latest);
            if self.nodes[at].generation == latest {
                return;
            }
        }
        let best = all.iter().map(|it| it.position).max();
        if Some(me.position) < best && self.planted != Some(Planted::TakesShorter) {
            return;
        }
        let everybody: BTreeSet<Uuid> = (0..self.nodes.len()).map(id).collect();
        let lost = self.gone();
        let resumes = is_unfinished(all.iter());
        let plan = Plan {
            number: next_number(all.iter()),
            candidate: id(at),
            position: me.position,
            survivors: &everybody - &lost,
            lost,
            resumes,
        };
        if let Ok(promise) = me.judge_with(id(at), &plan, self.planted) {
            self.nodes[at].promised = Some(promise);
            self.nodes[at].candidacy = Some((plan.clone(), me, [id(at)].into()));
            for to in plan.survivors.iter().filter(|to| **to != id(at)) {
                self.waiting.push((number(*to), Message::Ask(plan.clone())));
            }
            self.begin(at);
        }
    }

    /// A candidate begins the generation, if it may.
    fn begin(&mut self, at: usize) {
        let Some((plan, before, promised)) = self.nodes[at].candidacy.clone() else { return };
        let group = Uuid::from_u128(1000 + u128::from(plan.number) * 100 + at as u128);
        let begun = match self.planted {
            Some(Planted::TakesFew) => {
                let all = plan.begins(&plan.survivors, &before, group);
                all.expect("a generation")
            }
            _ => match plan.begins(&promised, &before, group) {
                Ok(begun) => begun,
                Err(_) => return,
            },
        };
        let node = &mut self.nodes[at];
        node.candidacy = None;
        // *only-onward*: meanwhile it may have promised to others.
        if node.promised.is_none_or(|it| it.number != plan.number) {
            return;
        }
        let same = self.begun.iter().find(|it| it.number == begun.number);
        assert_eq!(same, None, "one-of-a-number: {begun:?}");
        let log = node.log.clone();
        for (id, _, is_lost) in &mut self.committed {
            let has = log.iter().any(|entry| entry.id == *id);
            let by = |it: &Uuid| {
                let log = &self.nodes[number(*it)].log;
                log.iter().any(|entry| entry.id == *id)
            };
            let is_kept = has || *is_lost || !promised.iter().any(by);
            assert!(is_kept, "most-of-the-log: {id} is lost");
            *is_lost |= !has;
        }
        let node = &mut self.nodes[at];
        (node.generation, node.has_state) = (begun.clone(), true);
        let base = Position { generation: begun.number, term: 1, index: begun.base() };
        node.log.push(Entry { id: u64::MAX - begun.number, at: base });
        for to in begun.members.iter().filter(|to| **to != id(at)) {
            self.waiting.push((number(*to), Message::Begun(begun.clone())));
        }
        self.begun.push(begun);
    }

    fn told(&mut self, at: usize, begun: &Generation) {
        let node = &mut self.nodes[at];
        if follows(id(at), &node.generation, node.promised, begun) == Ok(true) {
            (node.generation, node.has_state) = (begun.clone(), false);
        }
    }

    fn deliver(&mut self, at: usize, message: Message) {
        if self.nodes[at].is_gone || self.nodes[at].is_away {
            return;
        }
        match message {
            Message::Ask(plan) => {
                let standing = self.standing(at);
                match standing.judge_with(id(at), &plan, self.planted) {
                    Ok(promise) => {
                        self.nodes[at].promised = Some(promise);
                        let answer = Message::Promised(plan.number, id(at));
                        self.waiting.push((number(plan.candidate), answer));
                    }
                    // It hears how this one stands.
                    Err(_) if plan.number <= standing.generation.number => {
                        let begun = Message::Begun(standing.generation);
                        self.waiting.push((number(plan.candidate), begun));
                    }
                    Err(_) => {}
                }
            }
            Message::Promised(of, by) => {
                if let Some((plan, _, promised)) = &mut self.nodes[at].candidacy
                    && plan.number == of
                {
                    promised.insert(by);
                    self.begin(at);
                }
            }
            Message::Begun(begun) => self.told(at, &begun),
        }
    }

    fn crash(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.candidacy = None;
        if self.planted == Some(Planted::ForgetsPromise) {
            node.promised = None;
        }
    }

    fn step(&mut self) {
        let at = self.draw.below(self.nodes.len() as u64) as usize;
        match self.draw.below(20) {
            0..3 => self.run(at),
            3..8 => {
                self.append(at);
            }
            8..15 if !self.waiting.is_empty() => {
                let which = self.draw.below(self.waiting.len() as u64) as usize;
                let (to, message) = match self.draw.below(4) {
                    0 => self.waiting[which].clone(),
                    _ => self.waiting.swap_remove(which),
                };
                self.deliver(to, message);
            }
            15 if !self.waiting.is_empty() => {
                self.waiting.swap_remove(self.draw.below(self.waiting.len() as u64) as usize);
            }
            16 => self.crash(at),
            17 => self.nodes[at].is_away = !self.nodes[at].is_away,
            _ => {}
        }
    }

    /// When all is well again the command ends with a group that works.
    fn heal(&mut self) {
        self.waiting.clear();
        self.nodes.iter_mut().for_each(|node| node.is_away = false);
        for _ in 0..20 {
            for at in 0..self.nodes.len() {
                self.run(at);
                while !self.waiting.is_empty() {
                    let (to, message) = self.waiting.remove(0);
                    self.deliver(to, message);
                }
                // Who is behind hears of it by the messages of the group.
                let latest = self.begun.iter().max_by_key(|it| it.number).cloned();
                for other in 0..self.nodes.len() {
                    if let Some(begun) = latest.as_ref().filter(|_| !self.nodes[other].is_gone) {
                        self.told(other, begun);
                    }
                }
            }
            if (0..self.nodes.len()).any(|at| self.append(at)) {
                return;
            }
        }
        panic!("heals: no group works: {:#?}", self.nodes);
    }
}

fn schedule(seed: u64, planted: Option<Planted>) {
    let mut world = World::new(seed, planted);
    for _ in 0..world.draw.below(30) {
        let at = world.draw.below(world.nodes.len() as u64) as usize;
        world.nodes[at].is_away = world.draw.below(4) == 0;
        world.append(at);
    }
    // So many voters are lost that the others are no majority; once more, maybe.
    for _ in 0..=world.draw.below(2) {
        let of = world.nodes.iter().find(|node| !node.is_gone).map(|it| it.generation.clone());
        let voters: Vec<Uuid> = world.voters(&of.expect("a node")).into_iter().collect();
        let mut left = voters.len() - voters.len() / 2;
        for voter in voters {
            let alive = world.nodes.iter().filter(|node| !node.is_gone).count();
            if 0 < left && 1 < alive && world.draw.below(3) != 0 {
                world.nodes[number(voter)].is_gone = true;
                left -= 1;
            }
        }
        for _ in 0..world.draw.below(200) {
            world.step();
        }
    }
    world.heal();
}

fn catches(planted: Planted) {
    let is_broken = |seed: &u64| {
        let Err(why) = std::panic::catch_unwind(|| schedule(*seed, Some(planted))) else {
            return false;
        };
        let why = why.downcast_ref::<String>().map_or("", String::as_str);
        let names = ["one-of-a-number", "none-works-beside", "most-of-the-log"];
        names.iter().any(|name| why.contains(name))
    };
    let caught = (0..5_000).find(is_broken);
    assert!(caught.is_some(), "{planted:?} is not caught");
}

#[test]
fn one_generation_works_and_has_what_was_committed() {
    runtime::sim::seeds(1_000).for_each(|seed| schedule(seed, None));
}

#[test]
fn a_promise_that_is_not_kept_is_caught() {
    catches(Planted::OldVotes);
}

#[test]
fn a_promise_that_a_crash_forgets_is_caught() {
    catches(Planted::ForgetsPromise);
}

#[test]
fn a_candidate_with_less_is_caught() {
    catches(Planted::TakesShorter);
}

#[test]
fn a_candidate_that_waits_for_nobody_is_caught() {
    catches(Planted::TakesFew);
}

/// Somebody who says that it is in the last generation there can be, or has promised it, makes
/// nobody promise a number that could not be kept.
#[test]
fn no_number_above_the_highest_is_promised() {
    let world = World::new(1, None);
    let standing = world.standing(0);
    let all: BTreeSet<Uuid> = (0..world.nodes.len()).map(id).collect();
    let lost: BTreeSet<Uuid> = all.iter().skip(1).copied().collect();
    let mut last = standing.clone();
    last.promised = Some(Promise { number: NUMBER_MAX, candidate: id(0) });
    let plan = |number| Plan {
        number,
        candidate: id(0),
        position: standing.position,
        lost: lost.clone(),
        survivors: [id(0)].into(),
        resumes: false,
    };
    assert!(standing.judge(id(0), &plan(NUMBER_MAX)).is_ok());
    let next = next_number([&last].into_iter());
    let refused = last.judge(id(0), &plan(next)).expect_err("too high");
    assert!(refused.contains("no generation has a number above"), "{refused}");
}
