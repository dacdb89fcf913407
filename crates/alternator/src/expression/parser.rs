//! From words to what they say, by recursive descent. What placeholders stand for is not looked at.
//!
//! Invariants
//!  - *bounded*: as of [`super`]: [`BYTES_MAX`], [`OPERATORS_MAX`], [`DEPTH_MAX`].

use super::Comparison;
use super::code::{Code, Kind, Span};
use super::lexer::{Token, tokens};
use crate::error::Error;

/// Bytes of an expression.
const BYTES_MAX: usize = 4096;
/// Operators and functions of an expression.
const OPERATORS_MAX: usize = 300;
/// Brackets and negations within each other.
const DEPTH_MAX: usize = 200;
/// What may follow `IN`.
const ALTERNATIVES_MAX: u16 = 100;
/// What an update may do.
const SECTIONS: [&str; 4] = ["SET", "REMOVE", "ADD", "DELETE"];
/// Steps of a path.
const STEPS_MAX: usize = 32;

/// What a text says. `what` names the parameter that it comes from.
pub(super) fn parse(kind: Kind, text: &str, what: &str) -> Result<Vec<Code>, Error> {
    let mut parser = Parser::new(text, what)?;
    match kind {
        Kind::Condition => parser.or()?,
        Kind::Projection => {
            parser.list(Parser::path)?;
        }
        Kind::Update => parser.update()?,
    }
    parser.end()?;
    Ok(parser.codes)
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token<'t>>,
    at: usize,
    what: &'t str,
    codes: Vec<Code>,
    depth: usize,
    operators: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, what: &'t str) -> Result<Parser<'t>, Error> {
        if text.trim().is_empty() {
            return Err(Error::validation(format!(
                "Invalid {what}: The expression can not be empty;"
            )));
        }
        if BYTES_MAX < text.len() {
            return Err(Error::validation(format!(
                "Invalid {what}: Expression size has exceeded the maximum allowed size; expression \
                 size: {}",
                text.len()
            )));
        }
        let tokens = tokens(text, what)?;
        let codes = Vec::with_capacity(tokens.len());
        Ok(Parser { text, tokens, at: 0, what, codes, depth: 0, operators: 0 })
    }

    fn peek(&self) -> &Token<'t> {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token<'t> {
        let token = *self.peek();
        self.at += 1;
        token
    }

    fn refuse(&self) -> Error {
        let before = self.at.saturating_sub(1);
        let near: Vec<&str> = self.tokens.iter().skip(before).take(3).map(Token::shown).collect();
        Error::validation(format!(
            "Invalid {}: Syntax error; token: \"{}\", near: \"{}\" (syntax error at word {})",
            self.what,
            self.peek().shown(),
            near.join(" "),
            self.at + 1
        ))
    }

    fn end(&self) -> Result<(), Error> {
        if *self.peek() == Token::End { Ok(()) } else { Err(self.refuse()) }
    }

    fn takes(&mut self, symbol: &str) -> bool {
        let is_there = matches!(self.peek(), Token::Symbol(found) if *found == symbol);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Error> {
        if self.takes(symbol) { Ok(()) } else { Err(self.refuse()) }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(found) if found.eq_ignore_ascii_case(word))
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_there = self.is_word(word);
        self.at += usize::from(is_there);
        is_there
    }

    /// *bounded*
    fn operator(&mut self) -> Result<(), Error> {
        self.operators += 1;
        match self.operators <= OPERATORS_MAX {
            true => Ok(()),
            false => Err(Error::validation(format!(
                "Invalid {}: The expression contains too many operators; at most {OPERATORS_MAX} \
                 operators are allowed",
                self.what
            ))),
        }
    }

    /// *bounded*
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth == DEPTH_MAX {
            return Err(Error::validation(format!(
                "Invalid {}: expression nested too deeply: more than {DEPTH_MAX} levels",
                self.what
            )));
        }
        self.depth += 1;
        let found = inner(self);
        self.depth -= 1;
        found
    }

    /// A part of the text, as its words are.
    fn span(&self, word: &str) -> Span {
        Span::of(self.text, word)
    }

    /// Says that what has been said from a place on belongs to this. (`code`: *whole-first*)
    fn wrap(&mut self, from: usize, code: Code) {
        self.codes.insert(from, code);
    }

    /// How many there are.
    fn list(&mut self, part: fn(&mut Self) -> Result<(), Error>) -> Result<u16, Error> {
        let mut count = 1;
        part(self)?;
        while self.takes(",") {
            part(self)?;
            count += 1;
        }
        Ok(count)
    }

    fn or(&mut self) -> Result<(), Error> {
        self.joined("OR", Parser::and, Code::Or)
    }

    fn and(&mut self) -> Result<(), Error> {
        self.joined("AND", Parser::not, Code::And)
    }

    fn joined(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Result<(), Error>,
        code: fn(u16) -> Code,
    ) -> Result<(), Error> {
        let (from, mut count) = (self.codes.len(), 1);
        part(self)?;
        while self.takes_word(word) {
            self.operator()?;
            part(self)?;
            count += 1;
        }
        if 1 < count {
            self.wrap(from, code(count));
        }
        Ok(())
    }

    fn not(&mut self) -> Result<(), Error> {
        if self.takes_word("NOT") {
            self.operator()?;
            self.codes.push(Code::Not);
            return self.deeper(Parser::not);
        }
        if self.takes("(") {
            let is_doubled = matches!(self.peek(), Token::Symbol("("));
            let before = self.at;
            self.deeper(Parser::or)?;
            // `((a = b))`: the inner pair ends where the outer one does.
            let ends_doubled = is_doubled && self.closes_at(before) + 1 == self.at;
            self.expect(")")?;
            if ends_doubled {
                return Err(Error::validation(format!(
                    "Invalid {}: The expression has redundant parentheses;",
                    self.what
                )));
            }
            return Ok(());
        }
        self.simple()
    }

    /// Where the bracket closes that opens there.
    fn closes_at(&self, open: usize) -> usize {
        let mut depth = 0;
        for (at, token) in self.tokens.iter().enumerate().skip(open) {
            match token {
                Token::Symbol("(") => depth += 1,
                Token::Symbol(")") => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        usize::MAX - 1
    }

    fn simple(&mut self) -> Result<(), Error> {
        let from = self.codes.len();
        if let Some(name) = self.called() {
            let count = self.arguments()?;
            if !self.is_compared() {
                self.wrap(from, Code::Called(name, count));
                return Ok(());
            }
            self.wrap(from, Code::Valued(name, count));
            return self.compared(from);
        }
        self.operand()?;
        self.compared(from)
    }

    fn is_compared(&self) -> bool {
        matches!(self.peek(), Token::Symbol("=" | "<>" | "<" | "<=" | ">" | ">="))
            || self.is_word("BETWEEN")
            || self.is_word("IN")
    }

    /// What follows the left side of a comparison, which has been said from a place on.
    fn compared(&mut self, from: usize) -> Result<(), Error> {
        let token = *self.peek();
        let comparison = match token {
            Token::Symbol("=") => Comparison::Equal,
            Token::Symbol("<>") => Comparison::Unequal,
            Token::Symbol("<") => Comparison::Less,
            Token::Symbol("<=") => Comparison::LessOrEqual,
            Token::Symbol(">") => Comparison::Greater,
            Token::Symbol(">=") => Comparison::GreaterOrEqual,
            _ if self.takes_word("BETWEEN") => {
                self.operator()?;
                self.wrap(from, Code::Between);
                self.operand()?;
                if !self.takes_word("AND") {
                    return Err(self.refuse());
                }
                return self.operand();
            }
            _ if self.takes_word("IN") => return self.within(from),
            _ => return Err(self.refuse()),
        };
        self.at += 1;
        self.operator()?;
        self.wrap(from, Code::Compare(comparison));
        self.operand()
    }

    /// What follows `IN`.
    fn within(&mut self, from: usize) -> Result<(), Error> {
        self.operator()?;
        self.expect("(")?;
        let count = self.list(Parser::operand)?;
        self.expect(")")?;
        if ALTERNATIVES_MAX < count {
            return Err(Error::validation(format!(
                "Invalid {}: The IN operator is provided with too many operands; number of \
                 operands: {count}",
                self.what
            )));
        }
        self.wrap(from, Code::In(count));
        Ok(())
    }

    /// The name of the function that is called here.
    fn called(&self) -> Option<Span> {
        match (self.peek(), self.tokens.get(self.at + 1)) {
            (Token::Name(name), Some(Token::Symbol("("))) => {
                let is_keyword = ["NOT", "IN"].iter().any(|it| name.eq_ignore_ascii_case(it));
                (!is_keyword).then(|| self.span(name))
            }
            _ => None,
        }
    }

    /// What stands in brackets after the name of a function: how many operands.
    fn arguments(&mut self) -> Result<u16, Error> {
        self.at += 2;
        self.operator()?;
        let count = self.deeper(|parser| parser.list(Parser::operand))?;
        self.expect(")")?;
        Ok(count)
    }

    fn operand(&mut self) -> Result<(), Error> {
        let from = self.codes.len();
        let Some(name) = self.called() else { return self.plain() };
        let count = self.arguments()?;
        self.wrap(from, Code::Valued(name, count));
        Ok(())
    }

    /// A path or a value.
    fn plain(&mut self) -> Result<(), Error> {
        match *self.peek() {
            Token::ValueReference(_) => self.value(),
            _ => self.path(),
        }
    }

    fn value(&mut self) -> Result<(), Error> {
        let Token::ValueReference(reference) = *self.peek() else { return Err(self.refuse()) };
        self.at += 1;
        self.codes.push(Code::Value(self.span(reference)));
        Ok(())
    }

    /// A name of a path, as what it is.
    fn name(&mut self, plain: fn(Span) -> Code, reference: fn(Span) -> Code) -> Result<(), Error> {
        let code = match *self.peek() {
            Token::Name(name) => plain(self.span(name)),
            Token::NameReference(name) => reference(self.span(name)),
            _ => return Err(self.refuse()),
        };
        self.at += 1;
        self.codes.push(code);
        Ok(())
    }

    fn path(&mut self) -> Result<(), Error> {
        const KEYWORDS: [&str; 5] = ["AND", "OR", "NOT", "BETWEEN", "IN"];
        if let Token::Name(name) = self.peek()
            && KEYWORDS.iter().any(|word| name.eq_ignore_ascii_case(word))
        {
            return Err(self.refuse());
        }
        self.name(Code::Root, Code::RootReference)?;
        let from = self.codes.len();
        loop {
            if self.takes(".") {
                self.name(Code::Name, Code::NameReference)?;
            } else if self.takes("[") {
                self.index()?;
            } else {
                break;
            }
        }
        let steps = self.codes.len() - from;
        match steps < STEPS_MAX {
            true => Ok(()),
            false => Err(Error::validation(format!(
                "Invalid {}: The document path has too many nesting elements; nesting levels: {}",
                self.what,
                steps + 1
            ))),
        }
    }

    /// What follows `[`.
    fn index(&mut self) -> Result<(), Error> {
        let Token::Number(digits) = self.next() else {
            self.at -= 1;
            return Err(self.refuse());
        };
        let index = digits.parse::<u32>().ok().filter(|index| *index < 1 << 31);
        let index = index.ok_or_else(|| {
            Error::validation(format!(
                "Invalid {}: List index is not within the allowable range; index: [{digits}]",
                self.what
            ))
        })?;
        self.codes.push(Code::Index(index));
        self.expect("]")
    }

    fn update(&mut self) -> Result<(), Error> {
        let mut seen: Vec<&str> = Vec::with_capacity(SECTIONS.len());
        while *self.peek() != Token::End {
            let Token::Name(name) = *self.peek() else { return Err(self.refuse()) };
            let known = SECTIONS.iter().find(|section| section.eq_ignore_ascii_case(name));
            let section = *known.ok_or_else(|| self.refuse())?;
            if seen.contains(&section) {
                return Err(Error::validation(format!(
                    "Invalid {}: The \"{section}\" section can only be used once in an update \
                     expression;",
                    self.what
                )));
            }
            self.section(section)?;
            seen.push(section);
        }
        if seen.is_empty() { Err(self.refuse()) } else { Ok(()) }
    }

    fn section(&mut self, section: &str) -> Result<(), Error> {
        self.at += 1;
        let from = self.codes.len();
        let code = match section {
            "SET" => Code::Set(self.list(Parser::set)?),
            "REMOVE" => Code::Remove(self.list(Parser::path)?),
            "ADD" => Code::Add(self.list(Parser::change)?),
            "DELETE" => Code::Delete(self.list(Parser::change)?),
            _ => {
                self.at -= 1;
                return Err(self.refuse());
            }
        };
        self.wrap(from, code);
        Ok(())
    }

    fn set(&mut self) -> Result<(), Error> {
        self.path()?;
        self.expect("=")?;
        self.sum()
    }

    fn change(&mut self) -> Result<(), Error> {
        self.path()?;
        self.value()
    }

    /// What `SET` gives to a path.
    fn sum(&mut self) -> Result<(), Error> {
        let from = self.codes.len();
        self.updating()?;
        for (sign, code) in [("+", Code::Plus), ("-", Code::Minus)] {
            if self.takes(sign) {
                self.operator()?;
                self.wrap(from, code);
                return self.updating();
            }
        }
        Ok(())
    }

    fn updating(&mut self) -> Result<(), Error> {
        if self.takes("(") {
            self.deeper(Parser::sum)?;
            return self.expect(")");
        }
        let from = self.codes.len();
        let Some(name) = self.called() else { return self.plain() };
        self.at += 2;
        self.operator()?;
        let count = self.deeper(|parser| parser.list(Parser::updating))?;
        self.expect(")")?;
        self.wrap(from, Code::Updating(name, count));
        Ok(())
    }
}
