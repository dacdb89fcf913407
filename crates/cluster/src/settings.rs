//! The node's options as every shard sees them, and those that change while the node runs.
//!
//! [`Settings`] is in `runtime::local` of each shard. The program offers its configuration
//! ([`Settings::offer`]); code that depends on an option that can change registers it by name,
//! type and rule ([`Settings::register`]) and keeps the [`Live`] value that it gets. Clients see
//! and change options in `system.config`.
//!
//! Invariants
//!  - *on-every-shard*: a change is visible on all shards before it is acknowledged, one change
//!    after the other, so shards never disagree for long.
//!  - *checked-first*: no shard shows a value that the option's type or rule refuses.
//!  - *shown-is-read*: what is shown of a value can be read again.
//!  - *offered-first*: the configuration is offered before the code that obeys it registers.
//!
//! Knows no option by name but the one that allows changes.

use runtime::Erased;
use runtime::sync::Semaphore;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Changes that wait for their turn at most.
const WAITING_MAX: usize = 1024;

/// The option without which nothing can be changed by statements.
const CHANGEABLE: &str = "live_updatable_config_params_changeable_via_cql";

/// What an option's value can be.
pub trait SettingValue: Clone + 'static {
    /// As `system.config` names the type.
    const KIND: &'static str;
    /// The value of a text, as an operator writes it or as [`SettingValue::show`] does.
    fn parse(text: &str) -> Option<Self>;
    /// As JSON.
    fn show(&self) -> String;
}

impl SettingValue for bool {
    const KIND: &'static str = "bool";
    fn parse(text: &str) -> Option<bool> {
        match unquoted(text).to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Some(true),
            "false" | "0" | "no" | "off" => Some(false),
            _ => None,
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for i64 {
    const KIND: &'static str = "integer";
    fn parse(text: &str) -> Option<i64> {
        unquoted(text).parse().ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for f64 {
    const KIND: &'static str = "double";
    fn parse(text: &str) -> Option<f64> {
        unquoted(text).parse().ok().filter(|number: &f64| number.is_finite())
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl SettingValue for String {
    const KIND: &'static str = "string";
    fn parse(text: &str) -> Option<String> {
        Some(unquoted(text).to_owned())
    }
    fn show(&self) -> String {
        quoted(self)
    }
}

impl SettingValue for Rc<str> {
    const KIND: &'static str = "string";
    fn parse(text: &str) -> Option<Rc<str>> {
        Some(Rc::from(unquoted(text)))
    }
    fn show(&self) -> String {
        quoted(self)
    }
}

/// Items by commas, in brackets or not, quoted or not.
impl SettingValue for Rc<[String]> {
    const KIND: &'static str = "string list";
    fn parse(text: &str) -> Option<Rc<[String]>> {
        let text = text.trim();
        let inner = match text.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?,
            None => text,
        };
        let items = inner.split(',').map(unquoted).filter(|item| !item.is_empty());
        Some(items.map(str::to_owned).collect())
    }
    fn show(&self) -> String {
        let items: Vec<String> = self.iter().map(|item| quoted(item)).collect();
        format!("[{}]", items.join(","))
    }
}

/// Lists and maps within each other, as JSON; nothing is an empty text. What it says is for the
/// rule of its option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree(pub Rc<str>);

impl SettingValue for Tree {
    const KIND: &'static str = "json";
    fn parse(text: &str) -> Option<Tree> {
        let text = text.trim();
        Some(Tree(Rc::from(if text == "\"\"" { "" } else { text })))
    }
    fn show(&self) -> String {
        if self.0.is_empty() { quoted("") } else { self.0.to_string() }
    }
}

/// Keys and values, by commas: `{"key": "value"}`, or `key=value`.
impl SettingValue for Rc<[(String, String)]> {
    const KIND: &'static str = "string map";
    fn parse(text: &str) -> Option<Rc<[(String, String)]>> {
        let text = text.trim();
        let (inner, between) = match text.strip_prefix('{') {
            Some(rest) => (rest.strip_suffix('}')?, ':'),
            None => (text, '='),
        };
        let entries = inner.split(',').filter(|entry| !entry.trim().is_empty());
        let entry = |entry: &str| {
            let (key, value) = entry.split_once(between)?;
            Some((unquoted(key).to_owned(), unquoted(value).to_owned()))
        };
        entries.map(entry).collect()
    }
    fn show(&self) -> String {
        let entry = |(key, value): &(String, String)| format!("{}:{}", quoted(key), quoted(value));
        format!("{{{}}}", self.iter().map(entry).collect::<Vec<_>>().join(","))
    }
}

/// What becomes of something that is seldom wise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restriction {
    /// It is done.
    Allowed,
    /// It is done, and the client is warned.
    Warned,
    /// It is refused.
    Refused,
}

impl SettingValue for Restriction {
    const KIND: &'static str = "restriction_mode";
    fn parse(text: &str) -> Option<Restriction> {
        match unquoted(text).to_ascii_lowercase().as_str() {
            "false" | "0" => Some(Restriction::Allowed),
            "warn" => Some(Restriction::Warned),
            "true" | "1" => Some(Restriction::Refused),
            _ => None,
        }
    }
    fn show(&self) -> String {
        let word = match self {
            Restriction::Allowed => "false",
            Restriction::Warned => "warn",
            Restriction::Refused => "true",
        };
        quoted(word)
    }
}

/// A text without the quotation marks of JSON.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if (control as u32) < 0x20 => {
                out.push_str(&format!("\\u{:04x}", control as u32));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// The present value of an option on this shard.
#[derive(Clone, Debug)]
pub struct Live<T>(Rc<RefCell<T>>);

impl<T: Clone> Live<T> {
    /// A value that never changes.
    pub fn fixed(value: T) -> Live<T> {
        Live(Rc::new(RefCell::new(value)))
    }

    /// The value.
    pub fn get(&self) -> T {
        self.0.borrow().clone()
    }
}

/// Why an option keeps its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn refuse<T>(text: &str) -> Result<T, Refused> {
    Err(Refused(text.to_owned()))
}

/// What holds for an option's values besides their type; says what is wrong.
pub type Rule<T> = fn(&T) -> Result<(), String>;

/// An option without further rule.
pub fn anything<T>(_: &T) -> Result<(), String> {
    Ok(())
}

/// An option that changes, whatever its type.
trait Slot {
    fn check(&self, text: &str) -> Result<(), Refused>;
    /// Sets a checked value; as JSON.
    fn set(&self, text: &str) -> Option<String>;
}

struct Typed<T> {
    live: Live<T>,
    rule: Rule<T>,
}

impl<T: SettingValue> Slot for Typed<T> {
    fn check(&self, text: &str) -> Result<(), Refused> {
        match T::parse(text) {
            Some(value) => (self.rule)(&value).map_err(Refused),
            None => refuse("cannot parse option value"),
        }
    }

    fn set(&self, text: &str) -> Option<String> {
        let value = T::parse(text)?;
        let shown = value.show();
        assert!((self.rule)(&value).is_ok(), "checked-first: {shown} is set unchecked");
        debug_assert!(T::parse(&shown).is_some(), "shown-is-read: {shown} cannot be read");
        *self.live.0.borrow_mut() = value;
        Some(shown)
    }
}

fn typed<T: SettingValue>(live: Live<T>, rule: Rule<T>) -> Rc<dyn Slot> {
    Rc::new(Typed { live, rule })
}

/// An option as the program was started with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub name: &'static str,
    /// `bool`, `integer`, `double`, `string`, `string list`, `string map` or `json`.
    pub kind: &'static str,
    /// As JSON.
    pub shown: String,
    /// `default`, `config`, `cli` or `internal`.
    pub source: &'static str,
    /// Whether it can be changed even if it is not registered: it then has no effect.
    pub changes: bool,
}

struct Entry {
    kind: &'static str,
    shown: String,
    source: &'static str,
    /// Of options that change.
    slot: Option<Rc<dyn Slot>>,
    /// Whether it is registered.
    is_obeyed: bool,
    watchers: Vec<Rc<dyn Fn()>>,
}

/// An option as `system.config` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub name: String,
    pub source: &'static str,
    pub kind: &'static str,
    /// As JSON.
    pub value: String,
}

/// The source of a change of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A statement, where statements may.
    Client,
    /// A request of the REST API.
    Operator,
    /// The options file, read again.
    File,
    /// The same, which does not say any more.
    Default,
}

/// The options of one shard. Lives in `runtime::local`; see [`Settings::of_shard`].
pub struct Settings {
    entries: RefCell<BTreeMap<String, Entry>>,
    /// What was offered and could not be used.
    refused: RefCell<Vec<String>>,
    /// How often one was changed.
    changes: Cell<u64>,
    /// Shard 0: whose turn it is to change one.
    turn: Semaphore,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            entries: RefCell::default(),
            refused: RefCell::default(),
            changes: Cell::new(0),
            turn: Semaphore::new(1, WAITING_MAX),
        }
    }
}

impl Settings {
    /// The options of this shard.
    pub fn of_shard() -> Rc<Settings> {
        runtime::local::get_or_default()
    }

    /// Makes an option known with the value that the program was started with.
    pub fn offer(&self, offer: Offer) {
        let Offer { name, kind, shown, source, changes } = offer;
        let slot = match kind {
            _ if !changes => None,
            "bool" => bool::parse(&shown).map(|it| typed(Live::fixed(it), anything)),
            "integer" => i64::parse(&shown).map(|it| typed(Live::fixed(it), anything)),
            "double" => f64::parse(&shown).map(|it| typed(Live::fixed(it), anything)),
            "string list" => {
                <Rc<[String]>>::parse(&shown).map(|it| typed(Live::fixed(it), anything))
            }
            _ => String::parse(&shown).map(|it| typed(Live::fixed(it), anything)),
        };
        debug_assert!(!name.is_empty(), "an option without a name");
        let known = self.entries.borrow().get(name).is_some_and(|entry| entry.is_obeyed);
        debug_assert!(!known, "offered-first: option {name} is registered already");
        let entry = Entry { kind, shown, source, slot, is_obeyed: false, watchers: Vec::new() };
        self.entries.borrow_mut().insert(name.to_owned(), entry);
    }

    /// Registers an option that changes: on every shard, by the code that depends on it. The value
    /// is the one that was offered, else `default`; an offered value that is invalid is reported by
    /// [`Settings::refused`].
    pub fn register<T: SettingValue>(&self, name: &str, default: T, rule: Rule<T>) -> Live<T> {
        let mut entries = self.entries.borrow_mut();
        let entry = entries.entry(name.to_owned()).or_insert_with(|| Entry {
            kind: T::KIND,
            shown: default.show(),
            source: "default",
            slot: None,
            is_obeyed: true,
            watchers: Vec::new(),
        });
        let live = Live::fixed(default);
        let slot = typed(live.clone(), rule);
        match slot.check(&entry.shown) {
            Ok(()) => entry.shown = slot.set(&entry.shown).unwrap_or_default(),
            Err(Refused(why)) => {
                let text = format!("option {name}: {why}: {}", entry.shown);
                self.refused.borrow_mut().push(text);
                entry.shown = live.get().show();
            }
        }
        debug_assert!(slot.check(&entry.shown).is_ok(), "checked-first: {name} {}", entry.shown);
        entry.kind = T::KIND;
        entry.slot = Some(slot);
        entry.is_obeyed = true;
        live
    }

    /// Calls `changed` on this shard after every change of the option, for code that cannot hold a
    /// [`Live`].
    pub fn watch(&self, name: &str, changed: Rc<dyn Fn()>) {
        if let Some(entry) = self.entries.borrow_mut().get_mut(name) {
            entry.watchers.push(changed);
        }
    }

    /// Whether the option has an effect: it is registered, or handled here.
    pub fn is_obeyed(&self, name: &str) -> bool {
        name == CHANGEABLE || self.entries.borrow().get(name).is_some_and(|entry| entry.is_obeyed)
    }

    /// Whether the option takes effect when it is changed while the node runs.
    pub fn is_live(&self, name: &str) -> bool {
        let entries = self.entries.borrow();
        entries.get(name).is_some_and(|entry| entry.slot.is_some())
    }

    /// How often options were changed so far on this shard, for code that caches what may depend on
    /// any of them.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// A configured value makes no sense, though the option takes it later, while the node runs.
    pub fn refuse_at_start(&self, text: String) {
        self.refused.borrow_mut().push(text);
    }

    /// Configured values that were refused when their option was registered.
    pub fn refused(&self) -> Vec<String> {
        self.refused.borrow().clone()
    }

    /// All options, by name.
    pub fn shown(&self) -> Vec<Shown> {
        let entries = self.entries.borrow();
        let shown = entries.iter().map(|(name, entry)| Shown {
            name: name.clone(),
            source: entry.source,
            kind: entry.kind,
            value: entry.shown.clone(),
        });
        shown.collect()
    }

    /// Changes an option on every shard.
    pub fn change(name: String, text: String, by: By) -> Erased<'static, Result<(), Refused>> {
        Erased::new(move || async move {
            let change = move || async move {
                assert!(runtime::shard_id() == 0, "on-every-shard: changed on another one");
                let settings = Settings::of_shard();
                let turn = settings.turn.acquire(1).await;
                let _turn = turn.map_err(|error| Refused(error.to_string()))?;
                settings.check(&name, &text, by)?;
                let set = move || async move {
                    Settings::of_shard().set(&name, &text, by);
                    Settings::of_shard().shown_value(&name)
                };
                let shown = runtime::on_all_shards(set).await;
                let agree = shown.windows(2).all(|pair| pair[0] == pair[1]);
                debug_assert!(agree, "on-every-shard: {shown:?}");
                Ok(())
            };
            runtime::on_shard(0, change).await
        })
    }

    fn shown_value(&self, name: &str) -> Option<String> {
        self.entries.borrow().get(name).map(|entry| entry.shown.clone())
    }

    /// Why [`Settings::change`] would not.
    pub fn check(&self, name: &str, text: &str, by: By) -> Result<(), Refused> {
        let entries = self.entries.borrow();
        let is_closed = |entry: &Entry| bool::parse(&entry.shown) == Some(false);
        if by == By::Client && entries.get(CHANGEABLE).is_some_and(is_closed) {
            return refuse("this virtual table doesn't allow updates");
        }
        match entries.get(name) {
            None => refuse("no such option"),
            Some(Entry { slot: None, .. }) => refuse("option is not live-updateable"),
            Some(Entry { slot: Some(slot), .. }) => slot.check(text),
        }
    }

    /// Sets a value that was checked on shard 0.
    fn set(&self, name: &str, text: &str, by: By) {
        let watchers = {
            let mut entries = self.entries.borrow_mut();
            let Some(entry) = entries.get_mut(name) else { return };
            let Some(shown) = entry.slot.as_ref().and_then(|slot| slot.set(text)) else { return };
            entry.shown = shown;
            entry.source = match by {
                By::Client => "cql",
                By::Operator => "api",
                By::File => "config",
                By::Default => "default",
            };
            self.changes.set(self.changes.get() + 1);
            entry.watchers.clone()
        };
        watchers.iter().for_each(|changed| changed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_written_and_as_shown() {
        fn check<T: SettingValue + PartialEq + fmt::Debug>(
            text: &str,
            expected: Option<(T, &str)>,
        ) {
            let found = T::parse(text);
            assert_eq!(found.as_ref(), expected.as_ref().map(|(value, _)| value), "{text}");
            if let (Some(value), Some((_, shown))) = (found, expected) {
                assert_eq!(value.show(), shown);
                assert_eq!(T::parse(shown), Some(value));
            }
        }
        check("1", Some((true, "true")));
        check::<bool>("maybe", None);
        check(" -1 ", Some((-1i64, "-1")));
        check::<i64>("", None);
        check("0.5", Some((0.5, "0.5")));
        check::<f64>("nan", None);
        check("\"a\"", Some(("a".to_owned(), "\"a\"")));
        let list =
            |items: &[&str]| -> Rc<[String]> { items.iter().map(|it| it.to_string()).collect() };
        check("", Some((list(&[]), "[]")));
        check("[]", Some((list(&[]), "[]")));
        check("[A]", Some((list(&["A"]), "[\"A\"]")));
        check("A, B", Some((list(&["A", "B"]), "[\"A\",\"B\"]")));
        check::<Rc<[String]>>("[A", None);
        check("warn", Some((Restriction::Warned, "\"warn\"")));
        check("1", Some((Restriction::Refused, "\"true\"")));
        check::<Restriction>("no", None);
        assert_eq!(quoted("a\"\n"), "\"a\\\"\\u000a\"");
    }

    fn offer(name: &'static str, shown: &str, changes: bool) -> Offer {
        Offer { name, kind: "integer", shown: shown.to_owned(), source: "cli", changes }
    }

    #[test]
    fn what_was_offered_is_what_is_registered() {
        let settings = Settings::default();
        settings.offer(offer("a", "5", false));
        settings.offer(offer("b", "-5", false));
        let positive = |value: &i64| match value {
            1.. => Ok(()),
            _ => Err("not positive".to_owned()),
        };
        let values = ["a", "b", "c"].map(|name| settings.register(name, 7, positive));
        assert_eq!(values.map(|live| live.get()), [5, 7, 7]);
        assert_eq!(settings.refused(), ["option b: not positive: -5"]);
        let sources: Vec<_> =
            settings.shown().into_iter().map(|it| (it.source, it.value)).collect();
        let expected = [("cli", "5"), ("cli", "7"), ("default", "7")];
        assert_eq!(sources, expected.map(|(source, value)| (source, value.to_owned())));
    }

    #[test]
    fn only_options_that_change_are_changed() {
        let settings = Settings::default();
        settings.offer(offer("fixed", "1", false));
        settings.offer(offer("free", "1", true));
        let live = settings.register("live", 1i64, anything);
        let seen = Rc::new(RefCell::new(0));
        let counter = seen.clone();
        settings.watch("live", Rc::new(move || *counter.borrow_mut() += 1));
        let why = |name: &str, text: &str| settings.check(name, text, By::Client).unwrap_err().0;
        assert_eq!(why("none", "1"), "no such option");
        assert_eq!(why("fixed", "1"), "option is not live-updateable");
        assert_eq!(why("free", "x"), "cannot parse option value");
        let obeyed = ["none", "fixed", "free", "live"].map(|name| settings.is_obeyed(name));
        assert_eq!(obeyed, [false, false, false, true]);
        settings.set("live", "3", By::Client);
        assert_eq!((live.get(), *seen.borrow()), (3, 1));
        assert_eq!(settings.check("free", "2", By::Client), Ok(()));
        settings.set("free", "2", By::Client);
        let of = |name: &str| settings.shown().into_iter().find(|it| it.name == name);
        assert_eq!(of("free").map(|it| (it.value, it.source)), Some(("2".to_owned(), "cql")));
        settings.offer(Offer { kind: "bool", ..offer(CHANGEABLE, "false", false) });
        assert_eq!(why("live", "1"), "this virtual table doesn't allow updates");
        assert_eq!(settings.check("live", "4", By::Operator), Ok(()));
        settings.set("live", "4", By::Operator);
        assert_eq!(of("live").map(|it| (it.value, it.source)), Some(("4".to_owned(), "api")));
        settings.set("live", "5", By::File);
        assert_eq!(of("live").map(|it| (it.value, it.source)), Some(("5".to_owned(), "config")));
        settings.set("live", "7", By::Default);
        assert_eq!(of("live").map(|it| (it.value, it.source)), Some(("7".to_owned(), "default")));
    }
}
