//! The operations of the REST API, as one table: dispatch, the check of parameters and the
//! description of the API are made of it.
//!
//! Invariants
//!  - *checked-before*: a handler sees a request only after its parameters were checked against
//!    what the table says of them.
//!  - *words-first*: a path without parameters wins over one with them.

use super::Door;
use crate::call::{Answer, Call};
use hyper::Method;
use serde_json::Value;
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// How a handler ends: an answer, or a refusal.
pub(super) type Answered = Result<Answer, Answer>;
type Handler = Box<dyn Fn(Rc<Door>, Call) -> Pin<Box<dyn Future<Output = Answered>>>>;

fn handler_of<H>(handler: H) -> Handler
where
    H: AsyncFn(&Rc<Door>, &Call) -> Answered + Copy + 'static,
{
    Box::new(move |door, call| Box::pin(async move { handler(&door, &call).await }))
}

/// What a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// True or false.
    Flag,
    /// A whole number.
    Integer,
    Number,
    /// One of these words, in letters of either case.
    OneOf(&'static [&'static str]),
    /// JSON in the body.
    Body,
}

/// Where a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
    Body,
}

/// A parameter of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: Cow<'static, str>,
    pub(super) kind: Kind,
    pub(super) place: Place,
    pub(super) required: bool,
    pub(super) summary: &'static str,
}

/// One thing that can be asked for.
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: Cow<'static, str>,
    pub(super) summary: &'static str,
    pub(super) parameters: Vec<Parameter>,
    run: Handler,
}

impl Operation {
    /// It has a parameter that need not be given.
    pub(super) fn takes(
        &mut self,
        name: &'static str,
        kind: Kind,
        summary: &'static str,
    ) -> &mut Operation {
        let place = if kind == Kind::Body { Place::Body } else { Place::Query };
        let name = Cow::Borrowed(name);
        self.parameters.push(Parameter { name, kind, place, required: false, summary });
        self
    }

    /// It has a parameter that has to be given.
    pub(super) fn needs(
        &mut self,
        name: &'static str,
        kind: Kind,
        summary: &'static str,
    ) -> &mut Operation {
        self.takes(name, kind, summary);
        if let Some(parameter) = self.parameters.last_mut() {
            parameter.required = true;
        }
        self
    }

    /// The values of the path's parameters; `None`: it is another path.
    fn matched(&self, path: &[String]) -> Option<Vec<(String, String)>> {
        let words = self.path.split('/').filter(|word| !word.is_empty());
        if words.clone().count() != path.len() {
            return None;
        }
        let mut named = Vec::new();
        for (word, segment) in words.zip(path) {
            match parameter_of(word) {
                Some(name) => named.push((name.to_owned(), segment.clone())),
                None if word == segment => {}
                None => return None,
            }
        }
        Some(named)
    }

    /// Refuses what is missing and what is not what it has to be.
    fn check(&self, call: &Call) -> Result<(), Answer> {
        for parameter in &self.parameters {
            let name = parameter.name.as_ref();
            let given = match parameter.place {
                Place::Path => call.segment(name),
                Place::Query => call.parameter(name).unwrap_or_default(),
                Place::Body => continue,
            };
            let refused = |what: &str| Err(Answer::refused(400, format!("{name}: {what}")));
            if given.is_empty() {
                if parameter.required {
                    return refused(match parameter.kind {
                        Kind::Flag => "true or false is required",
                        Kind::Integer | Kind::Number => "a number is required",
                        _ => "a value is required",
                    });
                }
                continue;
            }
            match parameter.kind {
                Kind::Flag => drop(call.flag(name, false)?),
                Kind::Integer if given.parse::<i64>().is_err() => {
                    return refused(&format!("not a number: {given}"));
                }
                Kind::Number if !given.parse::<f64>().is_ok_and(f64::is_finite) => {
                    return refused(&format!("not a number: {given}"));
                }
                Kind::OneOf(words)
                    if !words.iter().any(|word| word.eq_ignore_ascii_case(given)) =>
                {
                    return refused(&format!("not one of {}: {given}", words.join(", ")));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The name of the parameter that a word of a path is.
pub(super) fn parameter_of(word: &str) -> Option<&str> {
    word.strip_prefix('{')?.strip_suffix('}')
}

/// All operations.
#[derive(Default)]
pub(super) struct Api {
    pub(super) operations: Vec<Operation>,
}

impl Api {
    pub(super) fn add<H>(
        &mut self,
        method: Method,
        path: impl Into<Cow<'static, str>>,
        summary: &'static str,
        handler: H,
    ) -> &mut Operation
    where
        H: AsyncFn(&Rc<Door>, &Call) -> Answered + Copy + 'static,
    {
        self.push(method, path.into(), summary, handler_of(handler))
    }

    /// The part of [`Api::add`] that is the same for every handler: it is compiled once.
    fn push(
        &mut self,
        method: Method,
        path: Cow<'static, str>,
        summary: &'static str,
        run: Handler,
    ) -> &mut Operation {
        let parameters = path.split('/').filter_map(parameter_of).map(|name| Parameter {
            name: Cow::Owned(name.to_owned()),
            kind: Kind::Text,
            place: Place::Path,
            required: true,
            summary: path_summary(name),
        });
        let parameters = parameters.collect();
        self.operations.push(Operation { method, path, summary, parameters, run });
        self.operations.last_mut().expect("just pushed")
    }

    pub(super) fn get<H>(
        &mut self,
        path: impl Into<Cow<'static, str>>,
        summary: &'static str,
        handler: H,
    ) -> &mut Operation
    where
        H: AsyncFn(&Rc<Door>, &Call) -> Answered + Copy + 'static,
    {
        self.add(Method::GET, path, summary, handler)
    }

    pub(super) fn post<H>(
        &mut self,
        path: impl Into<Cow<'static, str>>,
        summary: &'static str,
        handler: H,
    ) -> &mut Operation
    where
        H: AsyncFn(&Rc<Door>, &Call) -> Answered + Copy + 'static,
    {
        self.add(Method::POST, path, summary, handler)
    }

    pub(super) fn delete<H>(
        &mut self,
        path: impl Into<Cow<'static, str>>,
        summary: &'static str,
        handler: H,
    ) -> &mut Operation
    where
        H: AsyncFn(&Rc<Door>, &Call) -> Answered + Copy + 'static,
    {
        self.add(Method::DELETE, path, summary, handler)
    }

    /// Something that is known at once.
    pub(super) fn tells(
        &mut self,
        path: impl Into<Cow<'static, str>>,
        summary: &'static str,
        value: fn(&Door) -> Value,
    ) -> &mut Operation {
        self.get(path, summary, async move |door: &Rc<Door>, _: &Call| {
            Ok(Answer::json(value(door)))
        })
    }

    /// Something that this node cannot do, and why.
    pub(super) fn cannot(
        &mut self,
        method: Method,
        path: impl Into<Cow<'static, str>>,
        summary: &'static str,
        why: &'static str,
    ) -> &mut Operation {
        self.add(method, path, summary, async move |_: &Rc<Door>, _: &Call| {
            Err(Answer::refused(500, why))
        })
    }

    /// The operation that a request is for, with the values of its path.
    fn find(&self, call: &Call) -> Option<(&Operation, Vec<(String, String)>)> {
        let of_method = self.operations.iter().filter(|one| one.method == call.method);
        let found = of_method.filter_map(|one| Some((one, one.matched(&call.path)?)));
        found.min_by_key(|(_, named)| named.len())
    }

    /// Does what a request asks for; 404 where it asks for nothing that there is.
    pub(super) async fn answer(&self, door: &Rc<Door>, mut call: Call) -> Answer {
        let Some((operation, named)) = self.find(&call) else {
            let text = format!("Not found: {} /{}", call.method, call.path.join("/"));
            return Answer::refused(404, text);
        };
        call.name_segments(named);
        if let Err(answer) = operation.check(&call) {
            return answer;
        }
        match (operation.run)(door.clone(), call).await {
            Ok(answer) | Err(answer) => answer,
        }
    }
}

/// What the parameters of paths are, by name.
fn path_summary(name: &str) -> &'static str {
    match name {
        "keyspace" => "The name of a keyspace",
        "name" => "keyspace:table, or a name",
        "table" => "A table, as keyspace:table",
        "endpoint" => "The address of a node",
        "task_id" => "The id of a task",
        "module" => "The name of a module",
        _ => "A name",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn nothing(_: &Rc<Door>, _: &Call) -> Answered {
        Ok(Answer::done())
    }

    fn api() -> Api {
        let mut api = Api::default();
        api.get("/a/{name}", "", nothing).takes("flag", Kind::Flag, "").takes(
            "word",
            Kind::OneOf(&["ALL", "user"]),
            "",
        );
        api.get("/a/b", "", nothing).needs("count", Kind::Integer, "");
        api.post("/a/{name}/c/{other}", "", nothing);
        api.post("/n", "", nothing).takes("share", Kind::Number, "");
        api
    }

    #[test]
    fn paths_are_found() {
        let api = api();
        let check = |method, path: &str, expected: Option<(&str, &[&str])>| {
            let call = Call::new(&method, path, "");
            let found = api.find(&call);
            let values: Option<Vec<String>> = found.as_ref().map(|(_, named)| {
                named.iter().map(|(name, value)| format!("{name}={value}")).collect()
            });
            assert_eq!(
                found.map(|(one, _)| one.path.as_ref()),
                expected.map(|(path, _)| path),
                "{path}"
            );
            let expected = expected.map(|(_, values)| values.to_vec());
            assert_eq!(values, expected.map(|all| all.iter().map(|s| s.to_string()).collect()));
        };
        check(Method::GET, "/a/x", Some(("/a/{name}", &["name=x"])));
        check(Method::GET, "/a/b", Some(("/a/b", &[])));
        check(Method::POST, "/a/b", None);
        check(Method::GET, "/a", None);
        check(Method::GET, "/a/", None);
        check(Method::GET, "/", None);
        check(Method::GET, "/a/x/c", None);
        let both: &[&str] = &["name=x", "other=y z"];
        check(Method::POST, "/a/x/c/y%20z", Some(("/a/{name}/c/{other}", both)));
    }

    #[test]
    fn parameters_are_checked() {
        let api = api();
        let check = |method, path: &str, query: &str, expected: &str| {
            let mut call = Call::new(&method, path, query);
            let (operation, named) = api.find(&call).unwrap();
            call.name_segments(named);
            let said = match operation.check(&call) {
                Ok(()) => String::new(),
                Err(answer) => {
                    assert_eq!(answer.status, 400);
                    String::from_utf8(answer.body).unwrap()
                }
            };
            assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said}");
        };
        check(Method::GET, "/a/x", "", "");
        check(Method::GET, "/a/x", "flag=TRUE&word=all&unknown=1", "");
        check(Method::GET, "/a/x", "flag=maybe", "flag: not true or false: maybe");
        check(Method::GET, "/a/x", "word=none", "word: not one of ALL, user: none");
        check(Method::GET, "/a/b", "", "count: a number is required");
        check(Method::GET, "/a/b", "count=x", "count: not a number: x");
        check(Method::GET, "/a/b", "count=-3", "");
        check(Method::POST, "/n", "share=0.5", "");
        check(Method::POST, "/n", "share=inf", "share: not a number");
        check(Method::POST, "/n", "share=nan", "share: not a number");
    }
}
