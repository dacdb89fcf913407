//! Families of samples as messages of Protocol Buffers, each behind its length: the other format
//! that Prometheus reads. Pure.
//!
//! What shards write is text; here its lines are read again. They are our own, so that one that
//! cannot be read is a mistake of ours: it is left out, and an assertion of debug builds.
//!
//! Invariants
//!  - *same-samples*: what the messages have is what the text has.

use super::sheet::Kind;

/// What a client says that it takes, and is answered with.
pub(super) const TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Whether these types of answers, as a request lists them, have this one.
pub(super) fn is_taken(accept: &str) -> bool {
    accept.split(',').any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_type = parts.next() == Some("application/vnd.google.protobuf");
        let mut proto = false;
        let mut delimited = false;
        for part in parts {
            proto |= part == "proto=io.prometheus.client.MetricFamily";
            delimited |= part == "encoding=delimited";
        }
        is_type && proto && delimited
    })
}

/// A message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;

impl Message {
    fn varint(&mut self, mut value: u64) {
        while 0x80 <= value {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | VARINT);
        self.varint(value);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.varint(field << 3 | FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }
}

/// A family, when all its lines were taken.
pub(super) struct FamilyMessage {
    name: String,
    kind: Kind,
    message: Message,
    /// The quantiles or buckets, and the sum, of the sample whose number has not come.
    parts: Message,
    sum: f64,
}

impl FamilyMessage {
    pub(super) fn new(name: String, help: &str, kind: Kind) -> FamilyMessage {
        let mut message = Message::default();
        message.bytes(1, name.as_bytes());
        message.bytes(2, help.as_bytes());
        let code = match kind {
            Kind::Counter => 0,
            Kind::Gauge => 1,
            Kind::Summary => 2,
            Kind::Histogram => 4,
        };
        message.number(3, code);
        FamilyMessage { name, kind, message, parts: Message::default(), sum: 0.0 }
    }

    /// Takes some whole lines of the text.
    pub(super) fn take(&mut self, lines: &str) {
        for line in lines.lines() {
            let taken = self.line(line);
            debug_assert!(taken.is_some(), "same-samples: {line:?} of {}", self.name);
        }
    }

    /// The message behind its length.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut out = Message::default();
        out.varint(self.message.0.len() as u64);
        out.0.extend_from_slice(&self.message.0);
        out.0
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let rest = line.strip_prefix(self.name.as_str())?;
        let (tail, rest) = rest.split_at(rest.find(['{', ' '])?);
        let (mut labels, rest) = labels(rest)?;
        let value: f64 = rest.strip_prefix(' ')?.parse().ok()?;
        match (self.kind, tail) {
            (Kind::Counter, "") => self.sample(&labels, 3, &of_double(value)),
            (Kind::Gauge, "") => self.sample(&labels, 2, &of_double(value)),
            (Kind::Histogram, "_bucket") => {
                let (_, bound) = labels.pop().filter(|(label, _)| label == "le")?;
                let mut bucket = Message::default();
                bucket.number(1, value as u64);
                bucket.double(2, bound.replace("+Inf", "inf").parse().ok()?);
                self.parts.message(3, &bucket);
            }
            (Kind::Summary, "") => {
                let (_, part) = labels.pop().filter(|(label, _)| label == "quantile")?;
                let mut quantile = Message::default();
                quantile.double(1, part.parse().ok()?);
                quantile.double(2, value);
                self.parts.message(3, &quantile);
            }
            (Kind::Histogram | Kind::Summary, "_sum") => self.sum = value,
            (Kind::Histogram | Kind::Summary, "_count") => {
                let mut whole = Message::default();
                whole.number(1, value as u64);
                whole.double(2, self.sum);
                whole.0.append(&mut self.parts.0);
                let field = if self.kind == Kind::Histogram { 7 } else { 4 };
                self.sample(&labels, field, &whole);
            }
            _ => return None,
        }
        Some(())
    }

    fn sample(&mut self, labels: &[(String, String)], field: u64, value: &Message) {
        let mut metric = Message::default();
        for (label, of) in labels {
            let mut pair = Message::default();
            pair.bytes(1, label.as_bytes());
            pair.bytes(2, of.as_bytes());
            metric.message(1, &pair);
        }
        metric.message(field, value);
        self.message.message(4, &metric);
    }
}

fn of_double(value: f64) -> Message {
    let mut message = Message::default();
    message.double(1, value);
    message
}

/// The labels before a value, and what follows them.
fn labels(text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut found = Vec::new();
    let Some(mut rest) = text.strip_prefix('{') else { return Some((found, text)) };
    loop {
        let (label, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = after.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match letters.next()?.1 {
                    'n' => '\n',
                    letter => letter,
                }),
                (_, letter) => value.push(letter),
            }
        };
        found.push((label.to_owned(), value));
        rest = &after[end + 1..];
        match rest.split_at_checked(1)? {
            (",", more) => rest = more,
            ("}", more) => return Some((found, more)),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_golden_bytes() {
        let mut family = FamilyMessage::new("x".to_owned(), "h", Kind::Counter);
        family.take("x{a=\"b\"} 1\n");
        let hex: String = family.finish().iter().map(|byte| format!("{byte:02x}")).collect();
        // The counter is field 3 of the metric, which is field 4 of the family.
        let expected = "1d0a0178120168180022130a060a01611201621a\
                        0909000000000000f03f";
        assert_eq!(hex, expected);
    }

    #[test]
    fn labels_are_those_of_the_text() {
        let text = "{ks=\"a\\\"b\\n\\\\\",cf=\"}, \"} 7";
        let (found, rest) = labels(text).expect("labels");
        let expected = [("ks", "a\"b\n\\"), ("cf", "}, ")];
        let found: Vec<_> = found.iter().map(|(one, two)| (one.as_str(), two.as_str())).collect();
        assert_eq!((&found[..], rest), (&expected[..], " 7"));
        assert_eq!(labels(" 7"), Some((Vec::new(), " 7")));
        for broken in ["{", "{a", "{a=\"", "{a=\"b\"", "{a=\"b\";"] {
            assert_eq!(labels(broken), None, "{broken}");
        }
    }

    #[test]
    fn histograms_and_summaries_are_one_sample_each() {
        let mut family = FamilyMessage::new("h".to_owned(), "", Kind::Histogram);
        family.take("h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 4\nh_sum 7.5\nh_count 4\n");
        let bytes = family.finish();
        let infinity = f64::INFINITY.to_le_bytes();
        let sum = 7.5f64.to_le_bytes();
        let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        assert!(has(&[&[8, 4, 0x11][..], &infinity].concat()), "a bucket without a bound");
        assert!(has(&[&[8, 4, 0x11][..], &sum].concat()), "the number and the sum");
        let mut family = FamilyMessage::new("s".to_owned(), "", Kind::Summary);
        family.take("s{quantile=\"0.5\"} 3\ns_sum 12\ns_count 3\n");
        let (bytes, half, three) = (family.finish(), 0.5f64.to_le_bytes(), 3f64.to_le_bytes());
        let part = [&[0x1a, 18, 9][..], &half, &[0x11], &three].concat();
        assert!(bytes.windows(part.len()).any(|window| window == part), "a quantile");
    }

    #[test]
    fn who_takes_messages_says_so() {
        assert!(is_taken(TYPE));
        assert!(is_taken(&format!("text/plain;q=0.5, {TYPE};q=0.6")));
        for other in ["", "*/*", "text/plain", "application/vnd.google.protobuf"] {
            assert!(!is_taken(other), "{other}");
        }
    }
}
