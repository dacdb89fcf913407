//! `SELECT`.

use super::{Bracket, Parser, Result, TokenKind, is_name};
use crate::ast::{Direction, OrderBy, Select, Selection, Selector, Source, Using};
use crate::keyword::Keyword;

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Result<Select> {
        self.expect_word(Keyword::SELECT)?;
        let json = self.modifier(Keyword::JSON);
        let distinct = self.modifier(Keyword::DISTINCT);
        let selection = self.selection()?;
        let from = if self.take_word(Keyword::FROM) { Some(self.source()?) } else { None };
        if distinct && from.is_none() {
            return Err(self.unexpected());
        }
        let filter = self.optional_filter()?;
        let group_by = if self.take_words(Keyword::GROUP, Keyword::BY) {
            self.list(Self::selectable)?
        } else {
            Vec::new()
        };
        let order_by = if self.take_word(Keyword::ORDER) {
            self.expect_word(Keyword::BY)?;
            self.list(Self::order_by)?
        } else {
            Vec::new()
        };
        let mut per_partition_limit = None;
        if self.take_words(Keyword::PER, Keyword::PARTITION) {
            self.expect_word(Keyword::LIMIT)?;
            per_partition_limit = Some(self.integer_or_marker()?);
        }
        let mut limit = None;
        if self.take_word(Keyword::LIMIT) {
            limit = Some(self.integer_or_marker()?);
        }
        let allow_filtering = self.take_word(Keyword::ALLOW);
        if allow_filtering {
            self.expect_word(Keyword::FILTERING)?;
        }
        let bypass_cache = self.take_words(Keyword::BYPASS, Keyword::CACHE);
        let using = self.select_using()?;
        Ok(Select {
            json,
            distinct,
            selection,
            from,
            filter,
            group_by,
            order_by,
            per_partition_limit,
            limit,
            allow_filtering,
            bypass_cache,
            using,
        })
    }

    fn select_using(&mut self) -> Result<Using> {
        self.using(&[Keyword::TIMEOUT, Keyword::SERVICE])
    }

    /// Takes `JSON` or `DISTINCT` unless it is the name of a column or function here.
    fn modifier(&mut self, keyword: Keyword) -> bool {
        if !self.is_word(keyword) {
            return false;
        }
        let begins_selector = match self.peek() {
            TokenKind::Keyword(Keyword::AS) => false,
            TokenKind::Keyword(Keyword::TOKEN | Keyword::NULL) => true,
            TokenKind::Star
            | TokenKind::Open(Bracket::Round | Bracket::Curly)
            | TokenKind::Question
            | TokenKind::Colon
            | TokenKind::String
            | TokenKind::DollarString
            | TokenKind::Integer
            | TokenKind::Float
            | TokenKind::Blob
            | TokenKind::Uuid
            | TokenKind::Duration => true,
            kind => is_name(kind),
        };
        if begins_selector {
            self.advance();
        }
        begins_selector
    }

    /// `*` or `a, f(b) AS c`
    pub(super) fn selection(&mut self) -> Result<Selection> {
        let at = self.token.at;
        if self.take(TokenKind::Star) {
            return Ok(Selection::All(at));
        }
        Ok(Selection::Items(self.list(Self::selector)?))
    }

    fn selector(&mut self) -> Result<Selector> {
        let expr = self.selectable()?;
        let alias = if self.take_word(Keyword::AS) { Some(self.name()?) } else { None };
        Ok(Selector { expr, alias })
    }

    fn source(&mut self) -> Result<Source> {
        let round = TokenKind::Open(Bracket::Round);
        if self.is_word(Keyword::MUTATION_FRAGMENTS) && self.peek() == round {
            self.advance();
            self.advance();
            let table = self.qualified_name()?;
            self.close(Bracket::Round)?;
            return Ok(Source::MutationFragments(table));
        }
        Ok(Source::Table(self.qualified_name()?))
    }

    fn order_by(&mut self) -> Result<OrderBy> {
        if self.peek() == TokenKind::Open(Bracket::Round) {
            let function = self.selectable()?;
            return Ok(OrderBy::Function(function, self.direction()?));
        }
        let column = self.name()?;
        if self.take_word(Keyword::ANN) {
            self.expect_word(Keyword::OF)?;
            return Ok(OrderBy::Nearest(column, self.term()?));
        }
        let direction: Direction = self.direction()?;
        Ok(OrderBy::Column(column, direction))
    }
}
