//! Functions and aggregates that users wrote.

use crate::types::{Type, UserType, quote_identifier};

/// What a function does when an argument is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NullInput {
    /// It is called.
    Called,
    /// Its value is null.
    ReturnsNull,
}

/// A function of a keyspace. Its types are frozen; name and argument types tell it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFunction {
    pub keyspace: String,
    pub name: String,
    /// Names and types.
    pub arguments: Vec<(String, Type)>,
    pub returns: Type,
    pub null_input: NullInput,
    /// In lower case.
    pub language: String,
    pub body: String,
}

/// An aggregate of a keyspace: a state that a function takes from row to row. The functions are
/// of the same keyspace. Its types are frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAggregate {
    pub keyspace: String,
    pub name: String,
    pub arguments: Vec<Type>,
    /// Takes the state and the arguments.
    pub state_function: String,
    pub state_type: Type,
    /// Takes two states.
    pub reduce_function: Option<String>,
    /// Takes the last state.
    pub final_function: Option<String>,
    /// The first state as a CQL literal; null where there is none.
    pub initial: Option<String>,
    pub returns: Type,
}

impl UserFunction {
    /// The types of its arguments.
    pub fn argument_types(&self) -> impl ExactSizeIterator<Item = &Type> {
        self.arguments.iter().map(|(_, ty)| ty)
    }

    /// Whether it takes arguments of just these types.
    pub fn takes(&self, types: &[Type]) -> bool {
        self.argument_types().eq(types)
    }

    /// Whether a user type stands in its signature.
    pub fn mentions_user_type(&self, keyspace: &str, name: &str) -> bool {
        let mut types = self.argument_types().chain([&self.returns]);
        types.any(|ty| ty.mentions_user_type(keyspace, name))
    }

    /// The same with the present fields of `changed`.
    pub fn with_user_type(&self, changed: &UserType) -> UserFunction {
        let mut function = self.clone();
        for ty in function.arguments.iter_mut().map(|(_, ty)| ty).chain([&mut function.returns]) {
            *ty = ty.with_user_type(changed);
        }
        function
    }

    /// `ks.f : (int, text) -> int`, as messages call it.
    pub fn signature(&self) -> String {
        signature(&self.keyspace, &self.name, self.argument_types(), &self.returns)
    }

    /// The statement that makes it.
    pub fn to_cql_create(&self) -> String {
        let arguments: Vec<String> = self
            .arguments
            .iter()
            .map(|(name, ty)| format!("{} {}", quote_identifier(name), unfrozen(ty)))
            .collect();
        let null_input = match self.null_input {
            NullInput::Called => "CALLED",
            NullInput::ReturnsNull => "RETURNS NULL",
        };
        let body = match self.body.contains('$') {
            true => crate::value::quote_string(&self.body),
            false => format!("$${}$$", self.body),
        };
        format!(
            "CREATE FUNCTION {}.{}({})\n{null_input} ON NULL INPUT\nRETURNS {}\nLANGUAGE {}\nAS \
             {body};",
            quote_identifier(&self.keyspace),
            quote_identifier(&self.name),
            arguments.join(", "),
            unfrozen(&self.returns),
            quote_identifier(&self.language),
        )
    }
}

impl UserAggregate {
    /// Whether a user type stands in its signature.
    pub fn mentions_user_type(&self, keyspace: &str, name: &str) -> bool {
        let mut types = self.arguments.iter().chain([&self.state_type, &self.returns]);
        types.any(|ty| ty.mentions_user_type(keyspace, name))
    }

    /// The same with the present fields of `changed`.
    pub fn with_user_type(&self, changed: &UserType) -> UserAggregate {
        let mut aggregate = self.clone();
        let of_states = [&mut aggregate.state_type, &mut aggregate.returns];
        for ty in aggregate.arguments.iter_mut().chain(of_states) {
            *ty = ty.with_user_type(changed);
        }
        aggregate
    }

    /// What its state function takes.
    pub fn state_arguments(&self) -> Vec<Type> {
        std::iter::once(&self.state_type).chain(&self.arguments).cloned().collect()
    }

    /// The functions that it calls: names and argument types.
    pub fn functions(&self) -> Vec<(&str, Vec<Type>)> {
        let state = &self.state_type;
        let mut functions = vec![(self.state_function.as_str(), self.state_arguments())];
        if let Some(name) = &self.reduce_function {
            functions.push((name, vec![state.clone(), state.clone()]));
        }
        if let Some(name) = &self.final_function {
            functions.push((name, vec![state.clone()]));
        }
        functions
    }

    /// `ks.a : (int) -> int`, as messages call it.
    pub fn signature(&self) -> String {
        signature(&self.keyspace, &self.name, self.arguments.iter(), &self.returns)
    }

    /// The statement that makes it.
    pub fn to_cql_create(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(unfrozen).collect();
        let mut text = format!(
            "CREATE AGGREGATE {}.{}({})\nSFUNC {}\nSTYPE {}",
            quote_identifier(&self.keyspace),
            quote_identifier(&self.name),
            arguments.join(", "),
            quote_identifier(&self.state_function),
            unfrozen(&self.state_type),
        );
        let named = [("REDUCEFUNC", &self.reduce_function), ("FINALFUNC", &self.final_function)];
        for (word, function) in named {
            if let Some(function) = function {
                text.push_str(&format!("\n{word} {}", quote_identifier(function)));
            }
        }
        if let Some(initial) = &self.initial {
            text.push_str(&format!("\nINITCOND {initial}"));
        }
        text.push(';');
        text
    }
}

/// `ks.f : (types) -> type`
fn signature<'a>(
    keyspace: &str,
    name: &str,
    arguments: impl Iterator<Item = &'a Type>,
    returns: &Type,
) -> String {
    let arguments: Vec<String> = arguments.map(Type::to_cql).collect();
    format!("{keyspace}.{name} : ({}) -> {}", arguments.join(", "), returns.to_cql())
}

/// A type as a function's declaration spells it, where nothing needs to be called frozen.
fn unfrozen(ty: &Type) -> String {
    let text = ty.to_cql();
    let bare = text.strip_prefix("frozen<").and_then(|text| text.strip_suffix('>'));
    bare.map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(element: Type) -> Type {
        Type::List { element: Box::new(element), frozen: true }
    }

    #[test]
    fn statements_that_make_them() {
        let function = UserFunction {
            keyspace: "ks".into(),
            name: "Twice".into(),
            arguments: vec![("a".into(), Type::Int), ("b".into(), list(list(Type::Text)))],
            returns: Type::Tuple(vec![Type::Int, list(Type::Int)]),
            null_input: NullInput::ReturnsNull,
            language: "lua".into(),
            body: "return {}".into(),
        };
        let text = "CREATE FUNCTION ks.\"Twice\"(a int, b list<frozen<list<text>>>)\n\
                    RETURNS NULL ON NULL INPUT\nRETURNS tuple<int, frozen<list<int>>>\n\
                    LANGUAGE lua\nAS $$return {}$$;";
        assert_eq!(function.to_cql_create(), text);
        assert!(function.takes(&[Type::Int, list(list(Type::Text))]));
        assert!(!function.takes(&[Type::Int]));
        let quoted = UserFunction { body: "return '$'".into(), ..function };
        assert!(quoted.to_cql_create().ends_with("AS 'return ''$''';"));

        let aggregate = UserAggregate {
            keyspace: "ks".into(),
            name: "total".into(),
            arguments: vec![Type::Int],
            state_function: "plus".into(),
            state_type: Type::BigInt,
            reduce_function: Some("both".into()),
            final_function: None,
            initial: Some("0".into()),
            returns: Type::BigInt,
        };
        let text = "CREATE AGGREGATE ks.total(int)\nSFUNC plus\nSTYPE bigint\nREDUCEFUNC both\n\
                    INITCOND 0;";
        assert_eq!(aggregate.to_cql_create(), text);
        assert_eq!(aggregate.signature(), "ks.total : (int) -> bigint");
        let (state, value) = (Type::BigInt, Type::Int);
        assert_eq!(
            aggregate.functions(),
            [("plus", vec![state.clone(), value]), ("both", vec![state.clone(), state])]
        );
    }
}
