//! Constants, bind markers, and the few places where only these may stand.

use super::{Parser, Result, TokenKind, unquoted};
use crate::Marker;
use crate::ast::{Expr, ExprKind, Literal, LiteralKind};
use crate::keyword::Keyword;
use crate::lexer::Token;
use std::sync::Arc;

impl Parser<'_> {
    /// The kind of constant that begins here, if one does. A sign is none.
    pub(super) fn literal_kind(&self) -> Option<LiteralKind> {
        Some(match self.token.kind {
            TokenKind::String | TokenKind::DollarString => LiteralKind::String,
            TokenKind::Integer => LiteralKind::Integer,
            TokenKind::Float => LiteralKind::Float,
            TokenKind::Blob => LiteralKind::Blob,
            TokenKind::Uuid => LiteralKind::Uuid,
            TokenKind::Duration => LiteralKind::Duration,
            TokenKind::Keyword(Keyword::TRUE | Keyword::FALSE) => LiteralKind::Boolean,
            TokenKind::Keyword(Keyword::NAN | Keyword::INFINITY) => LiteralKind::Float,
            _ => return None,
        })
    }

    /// Whether what is here is a number or a duration, which may have a sign.
    pub(super) fn is_signable(kind: TokenKind) -> bool {
        matches!(
            kind,
            TokenKind::Integer
                | TokenKind::Float
                | TokenKind::Duration
                | TokenKind::Keyword(Keyword::NAN | Keyword::INFINITY)
        )
    }

    /// A constant, with its sign if it has one.
    pub(super) fn literal(&mut self) -> Result<Literal> {
        let negative = self.token.kind == TokenKind::Minus && Self::is_signable(self.peek());
        if negative {
            self.advance();
        }
        let Some(kind) = self.literal_kind() else { return Err(self.unexpected()) };
        let token = self.advance();
        let mut text = self.literal_text(token);
        if negative {
            text.insert(0, '-');
        }
        Ok(Literal { kind, text })
    }

    fn literal_text(&self, token: Token) -> String {
        let text = self.text_of(token);
        match token.kind {
            TokenKind::String => unquoted(text, "'", "''"),
            TokenKind::DollarString => unquoted(text, "$$", "$$"),
            TokenKind::Keyword(Keyword::TRUE) => "true".to_owned(),
            TokenKind::Keyword(Keyword::FALSE) => "false".to_owned(),
            TokenKind::Keyword(Keyword::NAN) => "NaN".to_owned(),
            TokenKind::Keyword(Keyword::INFINITY) => "Infinity".to_owned(),
            _ => text.to_owned(),
        }
    }

    /// A string constant.
    pub(super) fn string(&mut self) -> Result<String> {
        match self.token.kind {
            TokenKind::String | TokenKind::DollarString => {
                let token = self.advance();
                Ok(self.literal_text(token))
            }
            _ => Err(self.mismatched("STRING_LITERAL")),
        }
    }

    /// A boolean constant.
    pub(super) fn boolean(&mut self) -> Result<bool> {
        let value = self.is_word(Keyword::TRUE);
        if !value && !self.is_word(Keyword::FALSE) {
            return Err(self.mismatched("BOOLEAN"));
        }
        self.advance();
        Ok(value)
    }

    /// Whether a bind marker begins here.
    pub(super) fn is_marker(&self) -> bool {
        matches!(self.token.kind, TokenKind::Question | TokenKind::Colon)
    }

    /// `?` or `:name`: its index.
    pub(super) fn marker(&mut self) -> Result<u32> {
        if super::MARKERS_MAX <= self.markers.len() {
            let most = super::MARKERS_MAX;
            return Err(self.error(format!("too many bind markers: at most {most} are allowed")));
        }
        let at = self.token.at;
        let name = match self.advance().kind {
            TokenKind::Colon => Some(Arc::from(self.name()?.text)),
            _ => None,
        };
        self.markers.push(Marker { name, at });
        Ok(self.markers.len() as u32 - 1)
    }

    /// An integer constant or a bind marker.
    pub(super) fn integer_or_marker(&mut self) -> Result<Expr> {
        let at = self.token.at;
        if self.is_marker() {
            return Ok(Expr { kind: ExprKind::Marker(self.marker()?), at });
        }
        let negative = self.token.kind == TokenKind::Minus;
        let kind = if negative { self.peek() } else { self.token.kind };
        if kind != TokenKind::Integer {
            return Err(self.unexpected());
        }
        Ok(Expr { kind: ExprKind::Literal(self.literal()?), at })
    }

    /// A string constant or a bind marker.
    pub(super) fn string_or_marker(&mut self) -> Result<Expr> {
        let at = self.token.at;
        if self.is_marker() {
            return Ok(Expr { kind: ExprKind::Marker(self.marker()?), at });
        }
        let text = self.string()?;
        Ok(Expr { kind: ExprKind::Literal(Literal { kind: LiteralKind::String, text }), at })
    }
}
