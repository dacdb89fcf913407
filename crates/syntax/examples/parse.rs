//! What it costs to make a tree of a statement of one row: run under an instruction counter with
//! two numbers of rounds and take the slope; the second argument is `read` or `write`.

const READ: &str = "SELECT \"C0\", \"C1\", \"C2\", \"C3\", \"C4\" FROM ks.cf \
    WHERE \"KEY\" = 0x0011223344556677";
const WRITE: &str = "INSERT INTO ks.cf (key, name, value, weight, at, owner) VALUES \
    (12345678, 'a name of a row', 0x00112233445566778899aabbccddeeff, 1.5, \
    '2024-01-31 12:00:00+0000', 123e4567-e89b-12d3-a456-426614174000)";

fn main() {
    let rounds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000);
    let text = if std::env::args().nth(2).as_deref() == Some("write") { WRITE } else { READ };
    for _ in 0..rounds {
        assert!(syntax::parse(std::hint::black_box(text)).is_ok());
    }
}
