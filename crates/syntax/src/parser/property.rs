//! `WITH a = 1 AND b = {'c': 'd'}`.

use super::{Bracket, Parser, Result, TokenKind};
use crate::SyntaxError;
use crate::ast::{Direction, Literal, LiteralKind, Name, Property, PropertyValue, TableProperties};
use crate::keyword::Keyword;

impl Parser<'_> {
    /// `WITH name = value AND ..`, if `WITH` is here.
    pub(super) fn optional_properties(&mut self) -> Result<Vec<Property>> {
        if self.is_word(Keyword::WITH) { self.properties() } else { Ok(Vec::new()) }
    }

    /// `WITH name = value AND ..`
    pub(super) fn properties(&mut self) -> Result<Vec<Property>> {
        self.expect_word(Keyword::WITH)?;
        let properties = self.conjunction(Self::property)?;
        refuse_duplicates(&properties)?;
        Ok(properties)
    }

    /// What may follow `WITH` for tables and views, if `WITH` is here.
    pub(super) fn optional_table_properties(&mut self) -> Result<TableProperties> {
        if self.is_word(Keyword::WITH) {
            self.table_properties()
        } else {
            Ok(TableProperties::default())
        }
    }

    /// `WITH COMPACT STORAGE AND CLUSTERING ORDER BY (..) AND name = value ..`
    pub(super) fn table_properties(&mut self) -> Result<TableProperties> {
        self.expect_word(Keyword::WITH)?;
        let mut all = TableProperties::default();
        loop {
            let at = self.token.at;
            if self.take_words(Keyword::COMPACT, Keyword::STORAGE) {
                all.compact_storage = Some(at);
            } else if self.take_words(Keyword::CLUSTERING, Keyword::ORDER) {
                self.expect_word(Keyword::BY)?;
                all.clustering_order.extend(self.bracketed(Self::clustering_order)?);
            } else {
                all.properties.push(self.property()?);
            }
            if !self.take_word(Keyword::AND) {
                break;
            }
        }
        refuse_duplicates(&all.properties)?;
        Ok(all)
    }

    fn clustering_order(&mut self) -> Result<(Name, Direction)> {
        Ok((self.name()?, self.direction()?))
    }

    /// `ASC`, `DESC` or nothing.
    pub(super) fn direction(&mut self) -> Result<Direction> {
        if self.take_word(Keyword::DESC) {
            return Ok(Direction::Descending);
        }
        self.take_word(Keyword::ASC);
        Ok(Direction::Ascending)
    }

    fn property(&mut self) -> Result<Property> {
        let name = self.name()?;
        self.expect(TokenKind::Equal, "'='")?;
        Ok(Property { name, value: self.property_value()? })
    }

    fn property_value(&mut self) -> Result<PropertyValue> {
        match self.token.kind {
            TokenKind::Open(Bracket::Curly) => self.nested(Self::property_braces),
            TokenKind::Open(Bracket::Square) => self.nested(|parser| {
                parser.advance();
                let items = parser.list_until(Bracket::Square, Self::property_value)?;
                Ok(PropertyValue::List(items))
            }),
            TokenKind::Keyword(Keyword::NULL) => {
                self.advance();
                Ok(PropertyValue::Null)
            }
            _ => Ok(PropertyValue::Scalar(self.property_scalar()?)),
        }
    }

    /// A constant, or a word that counts as a string.
    fn property_scalar(&mut self) -> Result<Literal> {
        if self.is_name() && self.token.kind != TokenKind::QuotedName {
            let token = self.advance();
            let text = self.text_of(token).to_owned();
            return Ok(Literal { kind: LiteralKind::String, text });
        }
        self.literal()
    }

    /// `{k: v, ..}` or `{a, b}`.
    fn property_braces(&mut self) -> Result<PropertyValue> {
        self.open(Bracket::Curly)?;
        if self.take(TokenKind::Close(Bracket::Curly)) {
            return Ok(PropertyValue::Map(Vec::new()));
        }
        let first = self.property_value()?;
        if self.token.kind != TokenKind::Colon {
            let mut items = vec![first];
            while self.take(TokenKind::Comma) {
                items.push(self.property_value()?);
            }
            self.close(Bracket::Curly)?;
            return Ok(PropertyValue::Set(items));
        }
        let PropertyValue::Scalar(mut key) = first else { return Err(self.unexpected()) };
        let mut entries = Vec::new();
        loop {
            self.expect(TokenKind::Colon, "':'")?;
            // A word counts as a string only where it is the whole value of a property.
            if self.is_name() {
                return Err(self.unexpected());
            }
            entries.push((key, self.property_value()?));
            if !self.take(TokenKind::Comma) {
                break;
            }
            key = self.property_scalar()?;
        }
        if let Some(twice) = repeated(&entries) {
            return Err(self.error(format!("Multiple definition for property '{twice}'")));
        }
        self.close(Bracket::Curly)?;
        Ok(PropertyValue::Map(entries))
    }
}

/// The first key that is there twice.
fn repeated(entries: &[(Literal, PropertyValue)]) -> Option<&str> {
    let mut keys: Vec<&str> = entries.iter().map(|(key, _)| key.text.as_str()).collect();
    keys.sort_unstable();
    keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[1])
}

/// An error if a property is there twice.
fn refuse_duplicates(properties: &[Property]) -> Result<()> {
    let mut names: Vec<&Name> = properties.iter().map(|property| &property.name).collect();
    names.sort_by(|a, b| a.text.cmp(&b.text).then(a.at.cmp(&b.at)));
    match names.windows(2).find(|pair| pair[0].text == pair[1].text) {
        None => Ok(()),
        Some(pair) => Err(SyntaxError {
            message: format!("Multiple definition for property '{}'", pair[1].text),
            at: pair[1].at,
        }),
    }
}
