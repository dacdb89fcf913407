//! From words to what they mean, by recursive descent.
//!
//! Invariants
//!  - *bounded*: as of [`super`]: [`BYTES_MAX`], [`OPERATORS_MAX`], [`DEPTH_MAX`].

use super::check;
use super::lexer::{Token, tokens};
use super::{Comparison, Condition, Operand, Path, Placeholders, Selection, Step, Update};
use crate::error::Error;

/// Bytes of an expression.
const BYTES_MAX: usize = 4096;
/// Operators and functions of an expression.
const OPERATORS_MAX: usize = 300;
/// Brackets and negations within each other.
const DEPTH_MAX: usize = 200;
/// What may follow `IN`.
const ALTERNATIVES_MAX: usize = 100;
/// Room for parts of a list, more than most have.
const PARTS: usize = 8;
/// What an update may do.
const SECTIONS: [&str; 4] = ["SET", "REMOVE", "ADD", "DELETE"];
/// Steps of a path.
const STEPS_MAX: usize = 32;

/// A condition or filter. `what` names the parameter, here and below.
pub fn condition(text: &str, what: &str, known: &Placeholders<'_>) -> Result<Condition, Error> {
    let mut parser = Parser::new(text, what, known)?;
    let condition = parser.or()?;
    parser.end()?;
    Ok(condition)
}

/// A projection.
pub fn projection(text: &str, what: &str, known: &Placeholders<'_>) -> Result<Selection, Error> {
    let mut parser = Parser::new(text, what, known)?;
    let paths = parser.list(Parser::path)?;
    parser.end()?;
    Selection::of(paths.iter(), what)
}

/// An update.
pub fn update(text: &str, what: &str, known: &Placeholders<'_>) -> Result<Update, Error> {
    let mut parser = Parser::new(text, what, known)?;
    let mut update = Update::default();
    let mut seen: Vec<&str> = Vec::new();
    while *parser.peek() != Token::End {
        let Token::Name(name) = *parser.peek() else { return Err(parser.refuse()) };
        let known = SECTIONS.iter().find(|section| section.eq_ignore_ascii_case(name));
        let section = *known.ok_or_else(|| parser.refuse())?;
        if seen.contains(&section) {
            return Err(Error::validation(format!(
                "Invalid {what}: The \"{section}\" section can only be used once in an update \
                 expression;"
            )));
        }
        parser.section(section, &mut update)?;
        seen.push(section);
    }
    if seen.is_empty() {
        return Err(parser.refuse());
    }
    if !are_apart(&update) {
        Selection::of(update.paths().collect::<Vec<_>>().into_iter(), what)?;
    }
    Ok(update)
}

/// Whether few paths have each a root of its own, which is the rule: then none is within another.
fn are_apart(update: &Update) -> bool {
    const FEW: usize = 16;
    let is_seen_before = |(at, path): (usize, &Path)| {
        update.paths().take(at).any(|earlier| earlier.root == path.root)
    };
    update.paths().count() <= FEW && !update.paths().enumerate().any(is_seen_before)
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    what: &'t str,
    known: &'t Placeholders<'t>,
    depth: usize,
    operators: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, what: &'t str, known: &'t Placeholders<'t>) -> Result<Parser<'t>, Error> {
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
        Ok(Parser { tokens, at: 0, what, known, depth: 0, operators: 0 })
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

    fn list<T>(
        &mut self,
        mut part: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut all = Vec::with_capacity(PARTS);
        all.push(part(self)?);
        while self.takes(",") {
            all.push(part(self)?);
        }
        Ok(all)
    }

    fn or(&mut self) -> Result<Condition, Error> {
        let first = self.and()?;
        if !self.is_word("OR") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.takes_word("OR") {
            self.operator()?;
            all.push(self.and()?);
        }
        Ok(Condition::Or(all))
    }

    fn and(&mut self) -> Result<Condition, Error> {
        let first = self.not()?;
        if !self.is_word("AND") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.takes_word("AND") {
            self.operator()?;
            all.push(self.not()?);
        }
        Ok(Condition::And(all))
    }

    fn not(&mut self) -> Result<Condition, Error> {
        if self.takes_word("NOT") {
            self.operator()?;
            return Ok(Condition::Not(Box::new(self.deeper(Parser::not)?)));
        }
        if self.takes("(") {
            let is_doubled = matches!(self.peek(), Token::Symbol("("));
            let before = self.at;
            let inner = self.deeper(Parser::or)?;
            // `((a = b))`: the inner pair ends where the outer one does.
            let ends_doubled = is_doubled && self.closes_at(before) + 1 == self.at;
            self.expect(")")?;
            if ends_doubled {
                return Err(Error::validation(format!(
                    "Invalid {}: The expression has redundant parentheses;",
                    self.what
                )));
            }
            return Ok(inner);
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

    fn simple(&mut self) -> Result<Condition, Error> {
        if let Some(name) = self.called() {
            let arguments = self.arguments()?;
            if !self.is_compared() {
                return check::called(self.what, name, arguments);
            }
            let left = check::valued(self.what, name, arguments)?;
            return self.compared(left);
        }
        let left = self.operand()?;
        self.compared(left)
    }

    fn is_compared(&self) -> bool {
        matches!(self.peek(), Token::Symbol("=" | "<>" | "<" | "<=" | ">" | ">="))
            || self.is_word("BETWEEN")
            || self.is_word("IN")
    }

    /// What follows the left side of a comparison.
    fn compared(&mut self, left: Operand) -> Result<Condition, Error> {
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
                let low = self.operand()?;
                if !self.takes_word("AND") {
                    return Err(self.refuse());
                }
                let high = self.operand()?;
                return check::between(self.what, left, low, high);
            }
            _ if self.takes_word("IN") => {
                self.operator()?;
                self.expect("(")?;
                let all = self.list(Parser::operand)?;
                self.expect(")")?;
                if ALTERNATIVES_MAX < all.len() {
                    return Err(Error::validation(format!(
                        "Invalid {}: The IN operator is provided with too many operands; number \
                         of operands: {}",
                        self.what,
                        all.len()
                    )));
                }
                return check::within(self.what, left, all);
            }
            _ => return Err(self.refuse()),
        };
        self.at += 1;
        self.operator()?;
        let right = self.operand()?;
        check::comparison(self.what, comparison, left, right)
    }

    /// The name of the function that is called here.
    fn called(&mut self) -> Option<&'t str> {
        match (self.peek(), self.tokens.get(self.at + 1)) {
            (Token::Name(name), Some(Token::Symbol("("))) => {
                let is_keyword = ["NOT", "IN"].iter().any(|it| name.eq_ignore_ascii_case(it));
                let name = *name;
                (!is_keyword).then_some(name)
            }
            _ => None,
        }
    }

    /// What stands in brackets after the name of a function.
    fn arguments(&mut self) -> Result<Vec<Operand>, Error> {
        self.at += 2;
        self.operator()?;
        let arguments = self.deeper(|parser| parser.list(Parser::operand))?;
        self.expect(")")?;
        Ok(arguments)
    }

    fn operand(&mut self) -> Result<Operand, Error> {
        if let Some(name) = self.called() {
            let arguments = self.arguments()?;
            return check::valued(self.what, name, arguments);
        }
        self.plain()
    }

    /// A path or a value.
    fn plain(&mut self) -> Result<Operand, Error> {
        match *self.peek() {
            Token::ValueReference(reference) => {
                self.at += 1;
                Ok(Operand::Value(self.known.value(reference, self.what)?))
            }
            _ => Ok(Operand::Path(self.path()?)),
        }
    }

    fn name(&mut self) -> Result<String, Error> {
        match *self.peek() {
            Token::Name(name) => {
                self.at += 1;
                Ok(name.to_owned())
            }
            Token::NameReference(reference) => {
                self.at += 1;
                Ok(self.known.name(reference, self.what)?.to_owned())
            }
            _ => Err(self.refuse()),
        }
    }

    fn path(&mut self) -> Result<Path, Error> {
        const KEYWORDS: [&str; 5] = ["AND", "OR", "NOT", "BETWEEN", "IN"];
        if let Token::Name(name) = self.peek()
            && KEYWORDS.iter().any(|word| name.eq_ignore_ascii_case(word))
        {
            return Err(self.refuse());
        }
        let mut path = Path::attribute(self.name()?);
        loop {
            if self.takes(".") {
                path.steps.push(Step::Name(self.name()?));
            } else if self.takes("[") {
                let Token::Number(digits) = self.next() else {
                    self.at -= 1;
                    return Err(self.refuse());
                };
                let index = digits.parse::<u32>().ok().filter(|index| *index < 1 << 31);
                let index = index.ok_or_else(|| {
                    Error::validation(format!(
                        "Invalid {}: List index is not within the allowable range; index: \
                         [{digits}]",
                        self.what
                    ))
                })?;
                path.steps.push(Step::Index(index as usize));
                self.expect("]")?;
            } else {
                break;
            }
        }
        match path.steps.len() < STEPS_MAX {
            true => Ok(path),
            false => Err(Error::validation(format!(
                "Invalid {}: The document path has too many nesting elements; nesting levels: {}",
                self.what,
                path.steps.len() + 1
            ))),
        }
    }

    fn section(&mut self, section: &str, update: &mut Update) -> Result<(), Error> {
        self.at += 1;
        match section {
            "SET" => {
                update.set = self.list(|parser| {
                    let path = parser.path()?;
                    parser.expect("=")?;
                    Ok((path, parser.sum()?))
                })?;
            }
            "REMOVE" => update.remove = self.list(Parser::path)?,
            "ADD" => update.add = self.list(|parser| parser.change("ADD"))?,
            "DELETE" => update.delete = self.list(|parser| parser.change("DELETE"))?,
            _ => {
                self.at -= 1;
                return Err(self.refuse());
            }
        }
        Ok(())
    }

    fn change(&mut self, action: &str) -> Result<(Path, crate::value::Value), Error> {
        let path = self.path()?;
        match self.next() {
            Token::ValueReference(reference) => {
                let value = self.known.value(reference, self.what)?;
                check::changing(self.what, action, path, value)
            }
            _ => {
                self.at -= 1;
                Err(self.refuse())
            }
        }
    }

    /// What `SET` gives to a path.
    fn sum(&mut self) -> Result<Operand, Error> {
        let left = self.updating()?;
        for sign in ["+", "-"] {
            if self.takes(sign) {
                self.operator()?;
                let right = self.updating()?;
                return check::sum(self.what, sign, left, right);
            }
        }
        Ok(left)
    }

    fn updating(&mut self) -> Result<Operand, Error> {
        if self.takes("(") {
            let inner = self.deeper(Parser::sum)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let Some(name) = self.called() else { return self.plain() };
        self.at += 2;
        self.operator()?;
        let arguments = self.deeper(|parser| parser.list(Parser::updating))?;
        self.expect(")")?;
        check::updating(self.what, name, arguments)
    }
}
