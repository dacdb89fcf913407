//! User-defined functions and aggregates.

use super::{Bracket, Parser, Result, TokenKind};
use crate::ast::{
    CreateAggregate, CreateFunction, DropFunction, IfPresent, NullInput, SchemaStatement,
};
use crate::keyword::Keyword;

impl Parser<'_> {
    /// `[OR REPLACE] FUNCTION ..` or `AGGREGATE ..`
    pub(super) fn create_function_or_aggregate(&mut self) -> Result<SchemaStatement> {
        let mut if_present = IfPresent::Refuse;
        if self.take_word(Keyword::OR) {
            self.expect_word(Keyword::REPLACE)?;
            if_present = IfPresent::Replace;
        }
        let is_function = self.is_word(Keyword::FUNCTION);
        if !is_function && !self.is_word(Keyword::AGGREGATE) {
            return Err(self.unexpected());
        }
        self.advance();
        if if_present == IfPresent::Refuse && self.if_not_exists()? {
            if_present = IfPresent::Keep;
        }
        Ok(if is_function {
            SchemaStatement::CreateFunction(self.create_function(if_present)?)
        } else {
            SchemaStatement::CreateAggregate(self.create_aggregate(if_present)?)
        })
    }

    fn create_function(&mut self, if_present: IfPresent) -> Result<CreateFunction> {
        let name = self.qualified_name()?;
        self.open(Bracket::Round)?;
        let arguments = self.list_until(Bracket::Round, Self::typed_name)?;
        let null_input = if self.take_word(Keyword::CALLED) {
            NullInput::Called
        } else {
            self.expect_words(&[Keyword::RETURNS, Keyword::NULL])?;
            NullInput::ReturnsNull
        };
        self.expect_words(&[Keyword::ON, Keyword::NULL, Keyword::INPUT, Keyword::RETURNS])?;
        let returns = self.type_name()?;
        self.expect_word(Keyword::LANGUAGE)?;
        let language = self.name()?;
        self.expect_word(Keyword::AS)?;
        let body = self.string()?;
        Ok(CreateFunction { name, if_present, arguments, null_input, returns, language, body })
    }

    fn create_aggregate(&mut self, if_present: IfPresent) -> Result<CreateAggregate> {
        let name = self.qualified_name()?;
        self.open(Bracket::Round)?;
        let arguments = self.list_until(Bracket::Round, Self::type_name)?;
        self.expect_word(Keyword::SFUNC)?;
        let state_function = self.name()?;
        self.expect_word(Keyword::STYPE)?;
        let mut aggregate = CreateAggregate {
            name,
            if_present,
            arguments,
            state_function,
            state_type: self.type_name()?,
            reduce_function: None,
            final_function: None,
            initial: None,
        };
        if self.take_word(Keyword::REDUCEFUNC) {
            aggregate.reduce_function = Some(self.name()?);
        }
        if self.take_word(Keyword::FINALFUNC) {
            aggregate.final_function = Some(self.name()?);
        }
        if self.take_word(Keyword::INITCOND) {
            aggregate.initial = Some(self.term()?);
        }
        Ok(aggregate)
    }

    /// The word here, then `[IF EXISTS] name [(types)]`.
    pub(super) fn drop_function(&mut self) -> Result<DropFunction> {
        self.advance();
        let if_exists = self.if_exists();
        let name = self.qualified_name()?;
        let mut arguments = None;
        if self.take(TokenKind::Open(Bracket::Round)) {
            arguments = Some(self.list_until(Bracket::Round, Self::type_name)?);
        }
        Ok(DropFunction { name, if_exists, arguments })
    }
}
