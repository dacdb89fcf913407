//! Expressions: values, and what a `SELECT` selects.

use super::{Bracket, NESTING_MAX, Parser, Result, TokenKind, is_name};
use crate::Position;
use crate::ast::{
    Arithmetic, ArithmeticOperator, Call, CellAttribute, Expr, ExprKind, LiteralKind, Name,
    QualifiedName, Type, TypeKind,
};
use crate::keyword::Keyword;

/// Where an expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Where a value is expected: no columns.
    Value,
    /// In a select list: columns, their parts and casts too.
    Selector,
}

impl Parser<'_> {
    /// A value.
    pub(crate) fn term(&mut self) -> Result<Expr> {
        self.expression(Place::Value)
    }

    /// What may be selected.
    pub(super) fn selectable(&mut self) -> Result<Expr> {
        self.expression(Place::Selector)
    }

    fn expression(&mut self, place: Place) -> Result<Expr> {
        self.nested(|parser| parser.sum(place))
    }

    /// An expression inside another, whose height so far is kept if it is greater.
    fn child(&mut self, place: Place) -> Result<Expr> {
        let height = self.height;
        let child = self.expression(place)?;
        self.height = self.height.max(height);
        Ok(child)
    }

    fn sum(&mut self, place: Place) -> Result<Expr> {
        let mut left = self.product(place)?;
        loop {
            let operator = match self.token.kind {
                TokenKind::Plus if place == Place::Value && self.is_column_next() => {
                    return Ok(left);
                }
                TokenKind::Plus => ArithmeticOperator::Add,
                TokenKind::Minus
                    if Self::is_duration(&left) && self.peek() == TokenKind::Duration =>
                {
                    let second = self.text_of(self.next);
                    return Err(self.error(format!("mismatched input '-{second}'")));
                }
                TokenKind::Minus => ArithmeticOperator::Subtract,
                _ => return Ok(left),
            };
            left = self.operation(left, operator, |parser| parser.product(place))?;
        }
    }

    /// Whether it is a duration: the parts of one have no signs of their own.
    fn is_duration(expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Literal(literal) => literal.kind == LiteralKind::Duration,
            _ => false,
        }
    }

    /// Whether a column follows the operator here, as in `SET c = [1] + c`.
    fn is_column_next(&self) -> bool {
        let (next, after) = self.peek_two();
        is_name(next) && !matches!(after, TokenKind::Open(Bracket::Round) | TokenKind::Dot)
    }

    fn product(&mut self, place: Place) -> Result<Expr> {
        let mut left = self.operand(place)?;
        loop {
            let operator = match self.token.kind {
                TokenKind::Star => ArithmeticOperator::Multiply,
                TokenKind::Slash => ArithmeticOperator::Divide,
                TokenKind::Percent => ArithmeticOperator::Modulo,
                _ => return Ok(left),
            };
            left = self.operation(left, operator, |parser| parser.operand(place))?;
        }
    }

    /// The operator here and its right side.
    fn operation(
        &mut self,
        left: Expr,
        operator: ArithmeticOperator,
        right: impl FnOnce(&mut Self) -> Result<Expr>,
    ) -> Result<Expr> {
        let height = self.height;
        self.advance();
        let right = right(self)?;
        self.height = self.height.max(height);
        self.grow()?;
        let at = left.at;
        let arithmetic = Box::new(Arithmetic { operator, left, right });
        Ok(Expr { kind: ExprKind::Arithmetic(arithmetic), at })
    }

    /// The expression parsed last becomes the left side of another.
    fn grow(&mut self) -> Result<()> {
        self.height += 1;
        if NESTING_MAX < self.height { Err(self.too_deep()) } else { Ok(()) }
    }

    /// What stands between binary operators.
    fn operand(&mut self, place: Place) -> Result<Expr> {
        if self.token.kind == TokenKind::Minus && !Self::is_signable(self.peek()) {
            let at = self.advance().at;
            let of = self.nested(|parser| parser.operand(place))?;
            return Ok(Expr { kind: ExprKind::Negate(Box::new(of)), at });
        }
        let whole = self.primary(place)?;
        if place == Place::Selector { self.part(whole) } else { Ok(whole) }
    }

    /// The part of `whole` that `.field`, `[index]` and so on select.
    fn part(&mut self, whole: Expr) -> Result<Expr> {
        let at = whole.at;
        let mut part = whole;
        loop {
            let kind = match self.token.kind {
                TokenKind::Dot => {
                    self.advance();
                    ExprKind::Field(Box::new(part), Box::new(self.name()?))
                }
                TokenKind::Open(Bracket::Square) => self.subscript(Box::new(part))?,
                _ => return Ok(part),
            };
            self.grow()?;
            part = Expr { kind, at };
        }
    }

    /// `[index]` or `[from..to]` after what is selected.
    fn subscript(&mut self, of: Box<Expr>) -> Result<ExprKind> {
        self.open(Bracket::Square)?;
        let mut from = None;
        if self.token.kind != TokenKind::DotDot {
            let index = Box::new(self.child(Place::Value)?);
            if self.take(TokenKind::Close(Bracket::Square)) {
                return Ok(ExprKind::Element(of, index));
            }
            from = Some(index);
        }
        self.expect(TokenKind::DotDot, "']'")?;
        let mut to = None;
        if self.token.kind != TokenKind::Close(Bracket::Square) {
            to = Some(Box::new(self.child(Place::Value)?));
        }
        self.close(Bracket::Square)?;
        Ok(ExprKind::Slice(of, from, to))
    }

    fn primary(&mut self, place: Place) -> Result<Expr> {
        self.height = 0;
        let at = self.token.at;
        let kind = match self.token.kind {
            TokenKind::Question | TokenKind::Colon => ExprKind::Marker(self.marker()?),
            TokenKind::Open(Bracket::Round) => self.round(place)?,
            TokenKind::Open(Bracket::Curly) => self.curly(place)?,
            TokenKind::Open(Bracket::Square) => {
                self.advance();
                let items = self.list_until(Bracket::Square, |parser| parser.child(place))?;
                ExprKind::List(items)
            }
            TokenKind::Keyword(Keyword::NULL) => {
                self.advance();
                ExprKind::Null
            }
            TokenKind::Keyword(Keyword::TOKEN) => self.named(place)?,
            kind if is_name(kind) => self.named(place)?,
            _ => ExprKind::Literal(self.literal()?),
        };
        Ok(Expr { kind, at })
    }

    /// `{a, b}`, `{a: b}` or `{field: a}`.
    fn curly(&mut self, place: Place) -> Result<ExprKind> {
        self.open(Bracket::Curly)?;
        if self.take(TokenKind::Close(Bracket::Curly)) {
            return Ok(ExprKind::Set(Vec::new()));
        }
        let kind = if self.is_name() && self.peek() == TokenKind::Colon {
            ExprKind::UserType(self.list(|parser| {
                let field = parser.name()?;
                parser.expect(TokenKind::Colon, "':'")?;
                Ok((field, parser.child(place)?))
            })?)
        } else {
            let first = self.child(place)?;
            if self.token.kind == TokenKind::Colon {
                self.map_from(first, place)?
            } else {
                ExprKind::Set(self.list_from(first, |parser| parser.child(place))?)
            }
        };
        self.close(Bracket::Curly)?;
        Ok(kind)
    }

    /// A map whose first key is known.
    fn map_from(&mut self, first: Expr, place: Place) -> Result<ExprKind> {
        self.expect(TokenKind::Colon, "':'")?;
        let first = (first, self.child(place)?);
        let entries = self.list_from(first, |parser| {
            let key = parser.child(place)?;
            parser.expect(TokenKind::Colon, "':'")?;
            Ok((key, parser.child(place)?))
        })?;
        Ok(ExprKind::Map(entries))
    }

    /// `(type) a`, `(a, b)`, or `(a)` that groups.
    fn round(&mut self, place: Place) -> Result<ExprKind> {
        self.open(Bracket::Round)?;
        if let Some(ty) = self.type_hint(place) {
            let of = self.nested(|parser| parser.operand(place))?;
            return Ok(ExprKind::Hint(Box::new(ty), Box::new(of)));
        }
        let mut items = self.list(|parser| parser.child(place))?;
        self.close(Bracket::Round)?;
        let groups = items.len() == 1
            && (place == Place::Selector
                || matches!(items[0].kind, ExprKind::Arithmetic(_))
                || self.is_operator());
        match items.pop() {
            Some(only) if groups => Ok(only.kind),
            last => {
                items.extend(last);
                Ok(ExprKind::Tuple(items))
            }
        }
    }

    fn is_operator(&self) -> bool {
        match self.token.kind {
            TokenKind::Plus => !self.is_column_next(),
            TokenKind::Minus | TokenKind::Star | TokenKind::Slash | TokenKind::Percent => true,
            _ => false,
        }
    }

    /// `type)` before an operand. If something else is here, nothing is taken.
    fn type_hint(&mut self, place: Place) -> Option<Type> {
        let can_be_type = match self.token.kind {
            TokenKind::Keyword(Keyword::SET) => true,
            kind => is_name(kind),
        };
        if !can_be_type {
            return None;
        }
        let (lexer, token, next) = (self.lexer, self.token, self.next);
        let hint = self.type_name().ok();
        let closed = self.take(TokenKind::Close(Bracket::Round));
        if let Some(ty) = hint.filter(|ty| closed && self.begins_hinted(ty, place)) {
            return Some(ty);
        }
        (self.lexer, self.token, self.next) = (lexer, token, next);
        None
    }

    /// Whether what is here can follow `(type)`. `(a) - 1`, `(a)[1]` and
    /// `{(a): 1}` are about a column `a`.
    fn begins_hinted(&self, ty: &Type, place: Place) -> bool {
        let maybe_column = place == Place::Selector && matches!(ty.kind, TypeKind::User(_));
        match self.token.kind {
            TokenKind::Minus => !maybe_column && Self::is_signable(self.peek()),
            TokenKind::Open(Bracket::Square) | TokenKind::Colon => !maybe_column,
            TokenKind::Keyword(Keyword::AS) => false,
            TokenKind::Keyword(Keyword::NULL | Keyword::TOKEN)
            | TokenKind::Question
            | TokenKind::Open(_) => true,
            kind => is_name(kind) || self.literal_kind().is_some(),
        }
    }

    /// What begins with a name: a function call or a column.
    fn named(&mut self, place: Place) -> Result<ExprKind> {
        let round = TokenKind::Open(Bracket::Round);
        let next = self.peek();
        if next == round {
            if self.is_word(Keyword::CAST) {
                return self.cast(place);
            }
            if place == Place::Selector
                && let Some(special) = self.special_call()?
            {
                return Ok(special);
            }
        }
        let token = self.advance();
        let name = Name { text: self.name_text(token), at: token.at };
        if next == round {
            return self.call(QualifiedName { keyspace: None, name }, place);
        }
        if next == TokenKind::Dot && (place == Place::Value || self.is_method_next()) {
            self.advance();
            let qualified = QualifiedName { keyspace: Some(name), name: self.name()? };
            return self.call(qualified, place);
        }
        let is_column = place == Place::Selector && is_name(token.kind);
        if is_column { Ok(ExprKind::Column(name)) } else { Err(self.unexpected()) }
    }

    /// Whether `name(` follows the dot here.
    fn is_method_next(&self) -> bool {
        let (name, bracket) = self.peek_two();
        is_name(name) && bracket == TokenKind::Open(Bracket::Round)
    }

    /// The arguments of a function.
    fn call(&mut self, function: QualifiedName, place: Place) -> Result<ExprKind> {
        if self.token.kind != TokenKind::Open(Bracket::Round) {
            return Err(self.unexpected());
        }
        self.advance();
        let arguments = self.list_until(Bracket::Round, |parser| parser.child(place))?;
        Ok(ExprKind::Call(Box::new(Call { function, arguments })))
    }

    /// `f(..)` with columns as arguments; a bracket is known to follow the name here.
    pub(super) fn call_of_columns(&mut self) -> Result<Call> {
        let name = self.name()?;
        self.height = 0;
        match self.call(QualifiedName { keyspace: None, name }, Place::Selector)? {
            ExprKind::Call(call) => Ok(*call),
            _ => Err(self.unexpected()),
        }
    }

    /// What looks like a function but is none: `COUNT(*)`, `TTL(c)`.
    fn special_call(&mut self) -> Result<Option<ExprKind>> {
        let attribute = match self.token.kind {
            TokenKind::Keyword(Keyword::COUNT) => return Ok(self.count_rows()),
            TokenKind::Keyword(Keyword::WRITETIME) => CellAttribute::WriteTime,
            TokenKind::Keyword(Keyword::MAXWRITETIME) => CellAttribute::MaxWriteTime,
            TokenKind::Keyword(Keyword::TTL) => CellAttribute::Ttl,
            // The newer name is no keyword.
            _ if self.text_of(self.token).eq_ignore_ascii_case("max_writetime") => {
                CellAttribute::MaxWriteTime
            }
            _ => return Ok(None),
        };
        self.advance();
        self.open(Bracket::Round)?;
        let of = self.cell()?;
        self.close(Bracket::Round)?;
        Ok(Some(ExprKind::Attribute(attribute, Box::new(of))))
    }

    /// A column, an element or a field.
    fn cell(&mut self) -> Result<Expr> {
        let at: Position = self.token.at;
        if !self.is_name() || self.peek() == TokenKind::Open(Bracket::Round) {
            return Err(self.unexpected());
        }
        let cell = self.nested(|parser| parser.operand(Place::Selector))?;
        assert_eq!(cell.at, at);
        Ok(cell)
    }

    /// `COUNT(*)` or `COUNT(1)`. If another count is here, nothing is taken.
    fn count_rows(&mut self) -> Option<ExprKind> {
        let mut ahead = self.lexer;
        let argument = ahead.token();
        let all = match argument.kind {
            TokenKind::Star => true,
            TokenKind::Integer => self.text_of(argument) == "1",
            _ => false,
        };
        if !all || ahead.token().kind != TokenKind::Close(Bracket::Round) {
            return None;
        }
        self.lexer = ahead;
        self.token = self.lexer.token();
        self.next = self.lexer.token();
        Some(ExprKind::CountRows)
    }

    fn cast(&mut self, place: Place) -> Result<ExprKind> {
        self.advance();
        self.open(Bracket::Round)?;
        let of = self.child(place)?;
        self.expect_word(Keyword::AS)?;
        let ty = self.type_name()?;
        self.close(Bracket::Round)?;
        Ok(ExprKind::Cast(Box::new(of), Box::new(ty)))
    }
}
