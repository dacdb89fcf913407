//! An overload of a function: its types, and what computes its value.

use crate::NATIVE_KEYSPACE;
use crate::aggregate::Aggregate;
use crate::scalar::Function;
use model::Type;
use std::rc::Rc;

/// One overload of a function.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Where it is: [`NATIVE_KEYSPACE`] or that of a user.
    pub keyspace: Rc<str>,
    /// The types of its arguments.
    pub arguments: Vec<Type>,
    /// The type of its value.
    pub returns: Type,
    /// What computes it.
    pub body: Body,
}

/// What computes an overload's value.
#[derive(Clone, Debug)]
pub enum Body {
    /// From the arguments of one row.
    Scalar(Function),
    /// From those of many rows.
    Aggregate(Aggregate),
}

impl Body {
    /// Whether it is a user's.
    pub fn is_of_user(&self) -> bool {
        matches!(self, Body::Scalar(Function::User(_)) | Body::Aggregate(Aggregate::User(_)))
    }
}

impl Signature {
    /// An overload of a native function.
    pub(crate) fn native(arguments: Vec<Type>, returns: Type, function: Function) -> Signature {
        let body = Body::Scalar(function);
        Signature { keyspace: NATIVE_KEYSPACE.into(), arguments, returns, body }
    }

    /// A native aggregate of one argument.
    pub(crate) fn aggregate(argument: Type, aggregate: Aggregate) -> Signature {
        let returns = aggregate.returns();
        let (arguments, body) = (vec![argument], Body::Aggregate(aggregate));
        Signature { keyspace: NATIVE_KEYSPACE.into(), arguments, returns, body }
    }
}
