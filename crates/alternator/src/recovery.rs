//! What the schema of a table says of its recovery to points in time, and which points there are.
//! Pure.
//!
//! A table that can be recovered has *bases* and a *history*. A base is a backup that nobody has
//! asked for. The history is the log of the table's changes, the same that its stream shows
//! (`streams`), which tells all of each change for as long as the recovery period and more
//! ([`Recovery::log_secs`]). A point in time is the newest base before it, and all of the history
//! from a margin before that base up to the point; times of writes make the rest.
//!
//! Invariants
//!  - *nothing-between*: what was acknowledged before a point is in its base or in its history.
//!    What a base has not was under way when the base was begun, or came later: it has a time from
//!    [`MARGIN_MILLIS`] before the base on, and was logged.
//!  - *none-later*: a base is for points after it was complete, by as much as the time of a write
//!    may be ahead of its node's clock.
//!  - *kept-long-enough*: each point within the period has a base whose history is there still.

use crate::tags::Tags;
use model::schema::cdc::AHEAD_MICROS;

/// The tag.
const TAG: &str = "system:table_recovery";
/// Days that a period may have, and has where nobody says so.
pub(crate) const DAYS_MAX: u32 = 35;
pub(crate) const DAY_MILLIS: i64 = 24 * 3600 * 1000;
/// How often a base is made.
const BASE_MILLIS: i64 = DAY_MILLIS;
/// How old a write may be when it is acknowledged.
const MARGIN_MILLIS: i64 = 3600 * 1000;
/// How long what a restore needs stays after nobody may ask for it any more.
const SLACK_MILLIS: i64 = DAY_MILLIS;
/// By how much a base is older than the first point that it makes.
const AHEAD_MILLIS: i64 = AHEAD_MICROS / 1000;
/// By how much the latest point is older than the present.
pub(crate) const LATE_MILLIS: i64 = 5000;

const _: () = assert!(MARGIN_MILLIS < SLACK_MILLIS, "kept-long-enough: less than is read");

/// What a table says. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovery {
    /// Since when it can be recovered.
    pub(crate) since: i64,
    pub(crate) days: u32,
    /// What was written before a time was kept for as long as a shorter period wants.
    shorter: Option<(i64, u32)>,
}

/// A base that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// When it was begun, and when it was complete.
    pub(crate) begun: i64,
    pub(crate) taken: i64,
}

/// How long the history of a period is kept.
fn kept_millis(days: u32) -> i64 {
    i64::from(days) * DAY_MILLIS + BASE_MILLIS + MARGIN_MILLIS + SLACK_MILLIS
}

impl Base {
    /// The first point that it makes. (*none-later*)
    fn point(&self) -> i64 {
        debug_assert!(self.begun <= self.taken, "none-later: {self:?}");
        self.taken.saturating_add(AHEAD_MILLIS)
    }

    /// The first time of which its points need the history. (*nothing-between*)
    pub(crate) fn history_from(&self) -> i64 {
        self.begun.saturating_sub(MARGIN_MILLIS)
    }
}

impl Recovery {
    /// One that begins now.
    pub(crate) fn new(now: i64, days: u32) -> Recovery {
        debug_assert!((1..=DAYS_MAX).contains(&days), "a period of {days} days");
        Recovery { since: now, days, shorter: None }
    }

    /// The same with another period from now on.
    pub(crate) fn with_days(self, now: i64, days: u32) -> Recovery {
        debug_assert!((1..=DAYS_MAX).contains(&days), "a period of {days} days");
        let counts = |(until, days): &(i64, u32)| now < until.saturating_add(kept_millis(*days));
        let before = self.shorter.filter(counts).map_or(self.days, |(_, it)| it.min(self.days));
        let is_shorter = before < days;
        Recovery { days, shorter: is_shorter.then_some((now, before)), ..self }
    }

    /// That of a table; none where it cannot be recovered. A damaged tag is none.
    pub(crate) fn of(tags: &Tags) -> Option<Recovery> {
        let mut words = tags.get(TAG)?.split(' ');
        let (since, days) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let shorter = match (words.next(), words.next()) {
            (Some(until), Some(days)) => Some((until.parse().ok()?, days.parse().ok()?)),
            _ => None,
        };
        let is_period = |days: u32| (1..=DAYS_MAX).contains(&days);
        let is_sound = is_period(days) && shorter.is_none_or(|(_, days)| is_period(days));
        is_sound.then_some(Recovery { since, days, shorter })
    }

    pub(crate) fn put(&self, tags: &mut Tags) {
        let mut text = format!("{} {}", self.since, self.days);
        if let Some((until, days)) = self.shorter {
            text += &format!(" {until} {days}");
        }
        tags.insert(TAG.to_owned(), text);
        debug_assert_eq!(Recovery::of(tags).as_ref(), Some(self));
    }

    /// It can be recovered no more.
    pub(crate) fn remove(tags: &mut Tags) {
        tags.remove(TAG);
    }

    /// For how long the log keeps what is written from now on, in seconds.
    pub(crate) fn log_secs(&self) -> u32 {
        u32::try_from(kept_millis(self.days) / 1000).unwrap_or(u32::MAX)
    }

    /// What was written from then on is in the history.
    fn kept_from(&self, now: i64) -> i64 {
        let (by_period, slack) = (now - kept_millis(self.days), SLACK_MILLIS);
        let by_shorter = |(until, days): (i64, u32)| until.min(now - kept_millis(days));
        slack + self.shorter.map_or(by_period, |shorter| by_period.max(by_shorter(shorter)))
    }

    /// Whether a base makes points still. (*kept-long-enough*)
    fn makes(&self, base: &Base, now: i64) -> bool {
        self.since <= base.begun && self.kept_from(now) <= base.history_from()
    }

    /// The first point and the last one; `None`: there is none yet.
    pub(crate) fn window(&self, bases: &[Base], now: i64) -> Option<(i64, i64)> {
        let points = bases.iter().filter(|base| self.makes(base, now)).map(Base::point);
        let first = points.min()?.max(now - i64::from(self.days) * DAY_MILLIS);
        let last = now - LATE_MILLIS;
        (first <= last).then_some((first, last))
    }

    /// Which base makes a point.
    pub(crate) fn base_of(&self, bases: &[Base], point: i64, now: i64) -> Option<usize> {
        let all = bases.iter().enumerate();
        let can = |base: &Base| self.makes(base, now) && base.point() <= point;
        all.filter(|(_, base)| can(base)).max_by_key(|(_, base)| base.begun).map(|(at, _)| at)
    }

    /// Whether another base is to be made, where the newest was begun then.
    pub(crate) fn is_due(&self, newest: Option<i64>, now: i64) -> bool {
        let newest = newest.filter(|begun| self.since <= *begun);
        newest.is_none_or(|begun| begun.saturating_add(BASE_MILLIS) <= now)
    }

    /// Whether a base makes no point any more that may be asked for.
    pub(crate) fn is_over(&self, base: &Base, bases: &[Base], now: i64) -> bool {
        let first = now - i64::from(self.days) * DAY_MILLIS;
        let is_later = |other: &&Base| base.begun < other.begun && self.makes(other, now);
        let has_later = bases.iter().filter(is_later).any(|other| other.point() <= first);
        !self.makes(base, now) || has_later
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn base(begun: i64) -> Base {
        Base { begun, taken: begun + 1000 }
    }

    #[test]
    fn a_point_is_of_the_newest_base_before_it() {
        let recovery = Recovery::new(10 * DAY_MILLIS, 2);
        let day = |day: i64| base(day * DAY_MILLIS);
        let check = |bases: &[Base], now: i64, first: Option<i64>| {
            let window = recovery.window(bases, now);
            assert_eq!(window.map(|(first, _)| first), first, "{bases:?} {now}");
            assert!(window.is_none_or(|(_, last)| last == now - LATE_MILLIS));
        };
        let at = |day: i64| day * DAY_MILLIS + 1000 + AHEAD_MILLIS;
        check(&[], 11 * DAY_MILLIS, None);
        check(&[day(9)], 11 * DAY_MILLIS, None);
        check(&[day(10)], 10 * DAY_MILLIS + 1000, None);
        check(&[day(10)], 11 * DAY_MILLIS, Some(at(10)));
        check(&[day(9), day(10), day(11)], 11 * DAY_MILLIS, Some(at(10)));
        check(&[day(10), day(11), day(12)], 13 * DAY_MILLIS, Some(11 * DAY_MILLIS));
        let of = |point: i64| recovery.base_of(&[day(10), day(11)], point, 12 * DAY_MILLIS);
        assert_eq!(of(at(10) - 1), None);
        assert_eq!((of(at(10)), of(at(11) - 1), of(at(11))), (Some(0), Some(0), Some(1)));
        assert!(recovery.is_due(None, 11 * DAY_MILLIS));
        assert!(recovery.is_due(Some(9 * DAY_MILLIS), 9 * DAY_MILLIS + 1));
        assert!(!recovery.is_due(Some(10 * DAY_MILLIS), 11 * DAY_MILLIS - 1));
        assert!(recovery.is_due(Some(10 * DAY_MILLIS), 11 * DAY_MILLIS));
    }

    #[test]
    fn it_goes_both_ways() {
        let mut tags = Tags::new();
        assert_eq!(Recovery::of(&tags), None);
        let first = Recovery::new(7, 5);
        first.put(&mut tags);
        assert_eq!(Recovery::of(&tags), Some(first));
        let longer = first.with_days(9, 35);
        assert_eq!(longer.shorter, Some((9, 5)));
        longer.put(&mut tags);
        assert_eq!(Recovery::of(&tags), Some(longer));
        // What the shorter one let go is not forgotten while it may be missed.
        assert_eq!(longer.with_days(10, 20).shorter, Some((10, 5)));
        let after = 10 + kept_millis(5);
        assert_eq!(longer.with_days(after, 20).shorter, None);
        assert_eq!(first.with_days(9, 1).shorter, None);
        for wrong in ["", "7", "7 0", "7 36", "7 5 9", "x 5", "7 5 9 0", "7 5 x 3"] {
            let tags = Tags::from([(TAG.to_owned(), wrong.to_owned())]);
            assert_eq!(Recovery::of(&tags).is_none(), wrong != "7 5 9", "{wrong}");
        }
        Recovery::remove(&mut tags);
        assert_eq!(Recovery::of(&tags), None);
    }

    proptest! {
        /// *kept-long-enough*: by a model that knows what of the history was let go when.
        #[test]
        fn each_point_has_all_that_it_needs(
            periods in prop::collection::vec((0..20i64, 1..=DAYS_MAX), 1..5),
            days_after in 0..60i64,
        ) {
            let mut now = 100 * DAY_MILLIS;
            let mut recovery = Recovery::new(now, periods[0].1);
            // Since when which period was asked for.
            let mut asked = vec![(now, periods[0].1)];
            let mut bases: Vec<Base> = Vec::new();
            let mut moments: Vec<(i64, Option<u32>)> = Vec::new();
            for (wait, days) in &periods[1..] {
                now += wait * DAY_MILLIS + 1;
                moments.push((now, Some(*days)));
            }
            moments.push((now + days_after * DAY_MILLIS, None));
            let mut clock = 100 * DAY_MILLIS;
            for (at, days) in moments {
                while clock < at {
                    let newest = bases.iter().map(|base| base.begun).max();
                    if recovery.is_due(newest, clock) {
                        bases.push(base(clock));
                    }
                    let all = bases.clone();
                    bases.retain(|base| !recovery.is_over(base, &all, clock));
                    clock += DAY_MILLIS / 4;
                }
                if let Some(days) = days {
                    recovery = recovery.with_days(at, days);
                    asked.push((at, days));
                }
                clock = clock.max(at);
            }
            let Some((first, last)) = recovery.window(&bases, clock) else { return Ok(()) };
            let period = i64::from(recovery.days) * DAY_MILLIS;
            prop_assert!(clock - period <= first && last < clock);
            for point in [first, (first + last) / 2, last] {
                let at = recovery.base_of(&bases, point, clock);
                let base = bases[at.expect("a base of a point")];
                prop_assert!(base.point() <= point, "none-later");
                // Everything that was written in between is there, and stays for a while.
                for (number, (since, days)) in asked.iter().enumerate() {
                    let until = asked.get(number + 1).map_or(clock, |next| next.0);
                    let oldest = base.history_from().max(*since);
                    let is_needed = oldest < until.min(point);
                    let expires = oldest + kept_millis(*days) - SLACK_MILLIS;
                    prop_assert!(!is_needed || clock <= expires, "{base:?} {asked:?} {clock}");
                }
            }
            // Whoever never changed it has all of the period, as far as it has begun.
            if asked.len() == 1 {
                let latest = (100 * DAY_MILLIS + 1000 + AHEAD_MILLIS).max(clock - period);
                prop_assert!(first <= latest, "{first} {latest}");
            }
        }

        #[test]
        fn foreign_tags_do_not_panic(text: String) {
            let _ = Recovery::of(&Tags::from([(TAG.to_owned(), text)]));
        }
    }
}
