//! Signatures that depend on the arguments: `min` of any type, `map_keys` of any map,
//! `similarity_cosine` of vectors of any dimension, `fromJson` of whatever is expected.

use crate::aggregate::Aggregate;
use crate::collection::CollectionFunction;
use crate::error::Error;
use crate::mask::Mask;
use crate::scalar::Function;
use crate::signature::Signature;
use crate::vector::Similarity;
use model::Type;

/// The types of numbers that functions and operators take; counters are read as `bigint`.
pub(crate) const NUMBERS: [Type; 8] = [
    Type::TinyInt,
    Type::SmallInt,
    Type::Int,
    Type::BigInt,
    Type::Float,
    Type::Double,
    Type::Decimal,
    Type::Varint,
];

/// Makes a signature for the arguments at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factory {
    /// The argument's value as JSON.
    ToJson,
    /// JSON as a value of whatever type is expected.
    FromJson,
    /// Values that are not null.
    Count,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
    /// The sum of numbers.
    Sum,
    /// The mean of numbers.
    Average,
    /// What two sets have in common.
    SetIntersection,
    /// How near two vectors of floats are.
    Similarity(Similarity),
    /// A function of one collection.
    Collection(CollectionFunction),
    /// A function that hides values.
    Mask(Mask),
}

/// An argument as a factory sees it.
pub trait Argument {
    /// The type that it has by itself.
    fn natural(&self) -> Option<Type>;
    /// Whether it can be a value of that type.
    fn suits(&self, ty: &Type) -> bool;
    /// How many elements a list literal has.
    fn list_length(&self) -> Option<usize>;
    /// As errors show it.
    fn text(&self) -> String;
}

/// A call that wants a signature.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    /// The function, with its keyspace.
    pub name: &'a str,
    /// Its arguments.
    pub of: &'a [&'a dyn Argument],
    /// The type expected of the value.
    pub receiver: Option<&'a Type>,
}

impl Factory {
    /// The signature for these arguments.
    pub fn signature(self, call: Arguments<'_>) -> Result<Signature, Error> {
        match self {
            Factory::ToJson => {
                call.count_is(1)?;
                let Some(ty) = call.of[0].natural() else {
                    return Err(Error::invalid("toJson() is only valid in SELECT clause"));
                };
                Ok(Signature::native(vec![ty.clone()], Type::Text, Function::ToJson(ty)))
            }
            Factory::FromJson => {
                call.count_is(1)?;
                let Some(receiver) = call.receiver else {
                    let text = "fromJson() can only be called if receiver type is known";
                    return Err(Error::invalid(text));
                };
                let function = Function::FromJson(receiver.clone());
                Ok(Signature::native(vec![Type::Text], receiver.clone(), function))
            }
            Factory::Count => Ok(Signature::aggregate(call.aggregated()?, Aggregate::Count)),
            Factory::Min | Factory::Max => {
                let ty = call.aggregated()?;
                if ty.mentions_duration() {
                    return Err(call.refused(format!("{} has no order", ty.to_cql())));
                }
                let make = if self == Factory::Min { Aggregate::Min } else { Aggregate::Max };
                Ok(Signature::aggregate(ty.clone(), make(ty)))
            }
            Factory::Sum | Factory::Average => {
                let ty = call.aggregated()?;
                if !NUMBERS.contains(&ty) {
                    return Err(call.none_of_numbers());
                }
                let make = if self == Factory::Sum { Aggregate::Sum } else { Aggregate::Average };
                Ok(Signature::aggregate(ty.clone(), make(ty)))
            }
            Factory::SetIntersection => set_intersection(call),
            Factory::Similarity(similarity) => vectors(similarity, call),
            Factory::Collection(function) => collection(function, call),
            Factory::Mask(mask) => masked(mask, call),
        }
    }
}

impl Arguments<'_> {
    /// Refuses another number of arguments.
    fn count_is(&self, required: usize) -> Result<(), Error> {
        if self.of.len() == required {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "Invalid number of arguments in call to function {}: {required} required but {} \
             provided",
            self.name,
            self.of.len()
        )))
    }

    /// The type of the only argument.
    fn only(&self) -> Result<Type, Error> {
        self.count_is(1)?;
        self.natural(0)
    }

    fn aggregated(&self) -> Result<Type, Error> {
        self.count_is(1)?;
        let bare = self.name.split_once('.').map_or(self.name, |(_, name)| name);
        self.of[0].natural().ok_or_else(|| {
            Error::Invalid(format!("{bare}() function is only valid when argument types are known"))
        })
    }

    /// The type of an argument, which must show it by itself.
    fn natural(&self, index: usize) -> Result<Type, Error> {
        self.of[index].natural().ok_or_else(|| {
            Error::Invalid(format!(
                "Cannot infer type of argument {} for function {}: use type casts to disambiguate",
                self.of[index].text(),
                self.name
            ))
        })
    }

    fn refused(&self, why: String) -> Error {
        Error::Invalid(format!("Invalid call to function {}: {why}", self.name))
    }

    fn none_of_numbers(&self) -> Error {
        let known: Vec<String> =
            NUMBERS.iter().map(|ty| format!("{} : ({}) -> {0}", self.name, ty.to_cql())).collect();
        Error::Invalid(format!(
            "Invalid call to function {}, none of its type signatures match (known type \
             signatures: {})",
            self.name,
            known.join(", ")
        ))
    }

    fn requires(&self, index: usize, what: &str, found: Option<&Type>) -> Error {
        let of_type = found.map(|ty| format!(" of type {}", ty.to_cql())).unwrap_or_default();
        Error::Invalid(format!(
            "Function {} requires a {what} argument, but found {}{of_type}",
            self.name,
            self.of[index].text()
        ))
    }
}

/// The signature of a function that hides values.
fn masked(mask: Mask, call: Arguments<'_>) -> Result<Signature, Error> {
    let mut types = match mask {
        Mask::Null | Mask::Default => {
            call.count_is(1)?;
            vec![call.natural(0)?]
        }
        Mask::Replace => {
            call.count_is(2)?;
            let ty = call.natural(0)?;
            vec![ty.clone(), ty]
        }
        Mask::Inner | Mask::Outer => {
            if call.of.len() != 4 {
                call.count_is(3)?;
            }
            let ty = call.natural(0)?;
            if !matches!(ty, Type::Text | Type::Ascii) {
                return Err(Error::Invalid(format!(
                    "Function {} should be called with a text or ascii argument, but found {}",
                    call.name,
                    ty.to_cql()
                )));
            }
            vec![ty, Type::Int, Type::Int, Type::Text]
        }
    };
    types.truncate(call.of.len());
    let returns = types[0].clone();
    let function = Function::Mask(mask, returns.clone());
    Ok(Signature::native(types, returns, function))
}

fn set_intersection(call: Arguments<'_>) -> Result<Signature, Error> {
    let [first, second] = call.of else {
        return Err(Error::invalid("set_intersection() accepts 2 arguments"));
    };
    let (left, right) = (first.natural(), second.natural());
    let is_set = |ty: &Option<Type>| !matches!(ty, Some(ty) if !matches!(ty, Type::Set { .. }));
    if !is_set(&left) || !is_set(&right) {
        let text = "set_intersection() requires that both arguments are of set type";
        return Err(Error::invalid(text));
    }
    let suits = |ty: &Type| first.suits(ty) && second.suits(ty);
    let mut candidates = [left, right].into_iter().flatten().map(|ty| ty.freeze()).peekable();
    if candidates.peek().is_none() {
        return Err(call.natural(0).expect_err("no argument has a type"));
    }
    let Some(ty) = candidates.find(|ty| suits(ty)) else {
        let text = "set_intersection() requires that both arguments are of the same set type";
        return Err(Error::invalid(text));
    };
    let function = Function::SetIntersection(ty.clone());
    Ok(Signature::native(vec![ty.clone(), ty.clone()], ty, function))
}

fn vectors(similarity: Similarity, call: Arguments<'_>) -> Result<Signature, Error> {
    if call.of.len() != 2 {
        return Err(Error::Invalid(format!(
            "Invalid number of arguments for function {}(vector<float, n>, vector<float, n>)",
            call.name
        )));
    }
    let mut found: Vec<Type> = Vec::new();
    for (index, argument) in call.of.iter().enumerate() {
        let natural = argument.natural();
        let literal = argument.list_length().and_then(|length| u16::try_from(length).ok());
        let literal = literal.map(floats).filter(|ty| argument.suits(ty));
        match (natural, literal) {
            (_, Some(ty)) => found.push(ty),
            (Some(ty), None) if is_float_vector(&ty) => found.push(ty),
            (natural, None) if natural.is_some() || argument.list_length().is_some() => {
                return Err(call.requires(index, "float vector", natural.as_ref()));
            }
            _ if !argument.suits(&floats(1)) => {
                return Err(call.requires(index, "float vector", None));
            }
            _ => {}
        }
    }
    match &found[..] {
        [] => Err(call.natural(0).expect_err("no argument has a type")),
        [first, second] if first != second => Err(Error::Invalid(format!(
            "All arguments must have the same vector dimensions, but found {} and {}",
            first.to_cql(),
            second.to_cql()
        ))),
        [ty, ..] => {
            let function = Function::Similarity(similarity);
            Ok(Signature::native(vec![ty.clone(), ty.clone()], Type::Float, function))
        }
    }
}

fn floats(dimension: u16) -> Type {
    Type::Vector { element: Box::new(Type::Float), dimension }
}

fn is_float_vector(ty: &Type) -> bool {
    matches!(ty, Type::Vector { element, .. } if **element == Type::Float)
}

fn collection(function: CollectionFunction, call: Arguments<'_>) -> Result<Signature, Error> {
    let ty = call.only()?;
    let (returns, what) = match function {
        CollectionFunction::MapKeys => (
            match &ty {
                Type::Map { key, .. } => Some(Type::Set { element: key.clone(), frozen: true }),
                _ => None,
            },
            "map",
        ),
        CollectionFunction::MapValues => (
            match &ty {
                Type::Map { value, .. } => {
                    Some(Type::List { element: value.clone(), frozen: true })
                }
                _ => None,
            },
            "map",
        ),
        CollectionFunction::Count => (ty.is_collection().then_some(Type::Int), "collection"),
        CollectionFunction::Min | CollectionFunction::Max => {
            let element = element_of(&ty).filter(|element| !element.mentions_duration());
            (element, "set or list")
        }
        CollectionFunction::Sum | CollectionFunction::Average => {
            let element = element_of(&ty).filter(|element| NUMBERS.contains(element));
            (element, "numeric set/list")
        }
    };
    let Some(returns) = returns else {
        return Err(Error::Invalid(format!(
            "Function {} requires a {what} argument, but found argument {} of type {}",
            call.name,
            call.of[0].text(),
            ty.to_cql()
        )));
    };
    let body = Function::Collection(function, ty.clone());
    Ok(Signature::native(vec![ty], returns, body))
}

fn element_of(ty: &Type) -> Option<Type> {
    match ty {
        Type::Set { element, .. } | Type::List { element, .. } => Some((**element).clone()),
        _ => None,
    }
}
