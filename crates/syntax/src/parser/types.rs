//! Types.

use super::{Parser, Result, TokenKind};
use crate::ast::{NativeType, QualifiedName, Type, TypeKind};
use crate::keyword::Keyword;

impl Parser<'_> {
    /// A type.
    pub(crate) fn type_name(&mut self) -> Result<Type> {
        self.nested(|parser| {
            let at = parser.token.at;
            let kind = match parser.token.kind {
                TokenKind::String => TypeKind::Custom(parser.string()?),
                TokenKind::Keyword(keyword) if parser.peek() == TokenKind::Less => {
                    parser.parameterised_type(keyword)?
                }
                TokenKind::Word | TokenKind::Keyword(_) if parser.peek() != TokenKind::Dot => {
                    parser.word_type()?
                }
                _ => TypeKind::User(parser.qualified_name()?),
            };
            Ok(Type { kind, at })
        })
    }

    /// A native type, or a user type of the keyspace in use.
    fn word_type(&mut self) -> Result<TypeKind> {
        let name = self.name()?;
        Ok(match NativeType::from_name(&name.text) {
            Some(native) => TypeKind::Native(native),
            None => TypeKind::User(QualifiedName { keyspace: None, name }),
        })
    }

    /// `list<t>` and the like, at its word.
    fn parameterised_type(&mut self, keyword: Keyword) -> Result<TypeKind> {
        let known = matches!(
            keyword,
            Keyword::LIST
                | Keyword::SET
                | Keyword::MAP
                | Keyword::TUPLE
                | Keyword::VECTOR
                | Keyword::FROZEN
        );
        if !known {
            return Err(self.unexpected());
        }
        self.advance();
        self.expect(TokenKind::Less, "'<'")?;
        let kind = match keyword {
            Keyword::TUPLE => TypeKind::Tuple(self.list(Self::type_name)?),
            Keyword::MAP => {
                let key = Box::new(self.type_name()?);
                self.expect(TokenKind::Comma, "','")?;
                TypeKind::Map(key, Box::new(self.type_name()?))
            }
            Keyword::VECTOR => {
                let element = Box::new(self.type_name()?);
                self.expect(TokenKind::Comma, "','")?;
                TypeKind::Vector(element, self.dimension()?)
            }
            Keyword::LIST => TypeKind::List(Box::new(self.type_name()?)),
            Keyword::SET => TypeKind::Set(Box::new(self.type_name()?)),
            _ => TypeKind::Frozen(Box::new(self.type_name()?)),
        };
        self.expect(TokenKind::Greater, "'>'")?;
        Ok(kind)
    }

    /// How many elements a vector has.
    fn dimension(&mut self) -> Result<u32> {
        // A negative one is no more than none: that is refused where the type is made.
        let negative = self.take(TokenKind::Minus);
        if self.token.kind != TokenKind::Integer {
            return Err(self.mismatched("INTEGER"));
        }
        let text = self.text_of(self.token);
        let Ok(dimension) = text.parse() else {
            return Err(self.error(format!("vector dimension {} is too large", self.found())));
        };
        self.advance();
        Ok(if negative { 0 } else { dimension })
    }
}
