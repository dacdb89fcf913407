//! Conditions and values of statements.
//!
//! ```text
//! test  := and OR ..      and := not AND ..      not := NOT not | ( test ) | simple
//! simple := function ( term, .. ) | term (= | <> | != | < | <= | > | >=) term
//!         | term [NOT] BETWEEN term AND term | term [NOT] IN (( term, .. ) | [ term, .. ])
//!         | path IS [NOT] (NULL | MISSING)
//! sum   := part (+ | -) part ..            part := ( sum ) | term
//! term  := path | function ( sum, .. ) | literal | ?
//! literal := 'text' | number | true | false | null | [ .. ] | { 'name': .. } | << .. >>
//! path  := name (. name | [ number ] | [ 'name' ]) ..
//! ```

use super::lexer::Token;
use super::parser::Parser;
use super::tree::{Lack, Term, Test};
use crate::error::Error;
use crate::expression::{Comparison, Path, Step};
use crate::number::Number;

/// Operators of a statement: what is evaluated for each item.
const OPERATORS_MAX: usize = 300;
/// Steps of a path.
const STEPS_MAX: usize = 32;

impl Parser<'_> {
    /// *bounded*
    fn operator(&mut self) -> Result<(), Error> {
        self.operators += 1;
        match self.operators <= OPERATORS_MAX {
            true => Ok(()),
            false => Err(self.refuse(&format!("more than {OPERATORS_MAX} operators"))),
        }
    }

    pub(super) fn or(&mut self) -> Result<Test, Error> {
        let mut all = vec![self.and()?];
        while self.takes_word("OR") {
            self.operator()?;
            all.push(self.and()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Test::Or(all) })
    }

    fn and(&mut self) -> Result<Test, Error> {
        let mut all = vec![self.not()?];
        while self.takes_word("AND") {
            self.operator()?;
            all.push(self.not()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Test::And(all) })
    }

    fn not(&mut self) -> Result<Test, Error> {
        if self.takes_word("NOT") {
            self.operator()?;
            return Ok(Test::Not(Box::new(self.deeper(Parser::not)?)));
        }
        if self.takes("(") {
            let inner = self.deeper(Parser::or)?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.simple()
    }

    fn simple(&mut self) -> Result<Test, Error> {
        let left = self.term()?;
        self.operator()?;
        let comparison = match self.peek() {
            Token::Symbol("=") => Some(Comparison::Equal),
            Token::Symbol("<>" | "!=") => Some(Comparison::Unequal),
            Token::Symbol("<") => Some(Comparison::Less),
            Token::Symbol("<=") => Some(Comparison::LessOrEqual),
            Token::Symbol(">") => Some(Comparison::Greater),
            Token::Symbol(">=") => Some(Comparison::GreaterOrEqual),
            _ => None,
        };
        if let Some(comparison) = comparison {
            self.at += 1;
            return Ok(Test::Compare(comparison, left, self.term()?));
        }
        if self.takes_word("IS") {
            return self.lacks(left);
        }
        let is_negated = self.negated()?;
        let test = if self.takes_word("BETWEEN") {
            let low = self.term()?;
            self.expect_word("AND")?;
            Test::Between { term: left, low, high: self.term()? }
        } else if self.takes_word("IN") {
            let end = match self.takes("[") {
                true => "]",
                false if self.takes("(") => ")",
                false => return Err(self.expected("( or [")),
            };
            let all = self.deeper(|parser| parser.list(Parser::term))?;
            self.expect(end)?;
            Test::In(left, all)
        } else {
            return match left {
                Term::Call(name, arguments) if !is_negated => Ok(Test::Call(name, arguments)),
                _ => Err(self.expected("an operator of comparison")),
            };
        };
        Ok(if is_negated { Test::Not(Box::new(test)) } else { test })
    }

    /// A negation within a comparison, which is a level of the tree as any.
    fn negated(&mut self) -> Result<bool, Error> {
        if !self.takes_word("NOT") {
            return Ok(false);
        }
        self.operator()?;
        self.deeper(|_| Ok(true))
    }

    fn lacks(&mut self, left: Term) -> Result<Test, Error> {
        let is_negated = self.negated()?;
        let how = if self.takes_word("NULL") {
            Lack::Null
        } else if self.takes_word("MISSING") {
            Lack::Missing
        } else {
            return Err(self.expected("NULL or MISSING"));
        };
        let Term::Path(path) = left else {
            return Err(self.refuse("what is left of IS is no path to an attribute"));
        };
        let test = Test::Is(path, how);
        Ok(if is_negated { Test::Not(Box::new(test)) } else { test })
    }

    /// What an attribute is set to.
    pub(super) fn sum(&mut self) -> Result<Term, Error> {
        let mut left = self.part()?;
        let mut levels = 0;
        loop {
            let is_sum = self.takes("+");
            if !is_sum && !self.takes("-") {
                self.depth -= levels;
                return Ok(left);
            }
            self.operator()?;
            // Each is a level of the tree, too: (*bounded*).
            self.deeper(|_| Ok(()))?;
            (self.depth, levels) = (self.depth + 1, levels + 1);
            let (a, b) = (Box::new(left), Box::new(self.part()?));
            left = if is_sum { Term::Plus(a, b) } else { Term::Minus(a, b) };
        }
    }

    fn part(&mut self) -> Result<Term, Error> {
        if self.takes("(") {
            let inner = self.deeper(Parser::sum)?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.term()
    }

    pub(super) fn term(&mut self) -> Result<Term, Error> {
        match (self.peek(), self.ahead(1)) {
            (Token::Symbol("["), _) => return self.sequence("[", "]").map(Term::List),
            (Token::Symbol("<<"), _) => return self.sequence("<<", ">>").map(Term::Set),
            (Token::Symbol("{"), _) => return self.map().map(Term::Map),
            (Token::Word(name), Token::Symbol("(")) if !name.eq_ignore_ascii_case("not") => {
                let name = name.to_ascii_lowercase();
                return self.call(name);
            }
            (Token::Word(word), _) => {
                let literal = match word.to_ascii_uppercase().as_str() {
                    "TRUE" => Some(Term::Bool(true)),
                    "FALSE" => Some(Term::Bool(false)),
                    "NULL" => Some(Term::Null),
                    "MISSING" => {
                        return Err(self.refuse("MISSING must be compared using IS operator"));
                    }
                    _ => None,
                };
                if let Some(literal) = literal {
                    self.at += 1;
                    return Ok(literal);
                }
            }
            (Token::Text(text), _) => {
                let text = Term::Text(text.clone());
                self.at += 1;
                return Ok(text);
            }
            (Token::Number(_) | Token::Symbol("-" | "+"), _) => return self.number(),
            (Token::Symbol("?"), _) => {
                self.at += 1;
                return Ok(self.parameter());
            }
            _ => {}
        }
        self.path().map(Term::Path)
    }

    fn number(&mut self) -> Result<Term, Error> {
        let is_negative = self.takes("-");
        if !is_negative {
            self.takes("+");
        }
        let Token::Number(digits) = self.peek() else {
            return Err(self.expected("a number"));
        };
        let text = if is_negative { format!("-{digits}") } else { (*digits).to_owned() };
        let number = Number::parse(&text).map_err(|error| self.refuse(&error.message))?;
        self.at += 1;
        Ok(Term::Number(number))
    }

    fn call(&mut self, name: String) -> Result<Term, Error> {
        self.at += 2;
        self.operator()?;
        let arguments = match self.peek() {
            Token::Symbol(")") => Vec::new(),
            _ => self.deeper(|parser| parser.list(Parser::sum))?,
        };
        self.expect(")")?;
        Ok(Term::Call(name, arguments))
    }

    fn sequence(&mut self, begin: &str, end: &str) -> Result<Vec<Term>, Error> {
        self.expect(begin)?;
        if self.takes(end) {
            return Ok(Vec::new());
        }
        let all = self.deeper(|parser| parser.list(Parser::term))?;
        self.expect(end)?;
        Ok(all)
    }

    pub(super) fn map(&mut self) -> Result<Vec<(String, Term)>, Error> {
        self.expect("{")?;
        if self.takes("}") {
            return Ok(Vec::new());
        }
        let mut all: Vec<(String, Term)> = Vec::new();
        self.deeper(|parser| {
            parser.list(|parser| {
                let Token::Text(name) = parser.peek() else {
                    return Err(parser.expected("a name as 'text'"));
                };
                let name = name.clone();
                if all.iter().any(|(known, _)| *known == name) {
                    return Err(parser.refuse(&format!("a second value for the key {name}")));
                }
                parser.at += 1;
                parser.expect(":")?;
                let value = parser.term()?;
                all.push((name, value));
                Ok(())
            })
        })?;
        self.expect("}")?;
        Ok(all)
    }

    pub(super) fn path(&mut self) -> Result<Path, Error> {
        let mut path = Path::attribute(self.name("an attribute")?);
        loop {
            if self.takes(".") {
                path.steps.push(Step::Name(self.name("an attribute of a map")?));
            } else if self.takes("[") {
                path.steps.push(self.index()?);
                self.expect("]")?;
            } else {
                return Ok(path);
            }
            if path.steps.len() == STEPS_MAX {
                return Err(self.refuse(&format!("a path of more than {STEPS_MAX} levels")));
            }
        }
    }

    fn index(&mut self) -> Result<Step, Error> {
        let step = match self.peek() {
            Token::Number(digits) => digits
                .parse::<u32>()
                .ok()
                .filter(|index| *index < 1 << 31)
                .map(|index| Step::Index(index as usize)),
            Token::Text(name) => Some(Step::Name(name.clone())),
            _ => None,
        };
        let step = step.ok_or_else(|| self.expected("the place of an element of a list"))?;
        self.at += 1;
        Ok(step)
    }
}
