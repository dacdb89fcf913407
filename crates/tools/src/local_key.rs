//! `nereid local-file-key-generator`: makes keys of encryption in the files that ScyllaDB reads.
//!
//! A key is a line: `ALGORITHM/MODE/PADDING:BITS:KEY`, the key in base 64. Nereid itself encrypts
//! no files: keys are for nodes that do.
//!
//! Invariants
//!  - *owner-only*: a file that is made can be read by its owner alone.
//!  - *nothing-lost*: `generate` makes a new file; `append` adds a line to one that there may be.

use clap::{Arg, Command};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where random bytes come from.
const RANDOM: &str = "/dev/urandom";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Runs the tool.
pub fn main(words: &[String]) -> ExitCode {
    let name = std::iter::once("nereid local-file-key-generator".to_string());
    let matches = match command().try_get_matches_from(name.chain(words.iter().cloned())) {
        Ok(matches) => matches,
        Err(error) => error.exit(),
    };
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let bits = matches.get_one::<u32>("length").copied().unwrap_or_default();
    let path = PathBuf::from(text("file"));
    let (algorithm, mode, padding) = (text("alg"), text("block-mode"), text("padding"));
    let made = random(bits).and_then(|key| {
        let line = line((&algorithm, &mode, &padding), bits, &key);
        store(&path, text("operation") == "append", &line)
    });
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}: {error}", path.display());
            ExitCode::from(2)
        }
    }
}

pub fn command() -> Command {
    let option = |name: &'static str, short: char, default: &'static str| {
        Arg::new(name).long(name).short(short).default_value(default)
    };
    Command::new("nereid local-file-key-generator")
        .about("Generate a key for files that are encrypted")
        .arg(
            option("alg", 'a', "AES")
                .help("Algorithm")
                .ignore_case(true)
                .value_parser(["AES", "DES", "DESEDE", "BLOWFISH", "RC2"]),
        )
        .arg(
            option("block-mode", 'b', "CBC")
                .help("Block mode")
                .ignore_case(true)
                .value_parser(["CBC", "ECB"]),
        )
        .arg(
            option("padding", 'p', "PKCS5")
                .help("Padding")
                .ignore_case(true)
                .value_parser(["PKCS5", "NO"]),
        )
        .arg(
            option("length", 'l', "128")
                .help("Length of the key in bits, a multiple of 8")
                .value_parser(bits_of),
        )
        .arg(
            Arg::new("operation")
                .required(true)
                .help("Make a new file, or append the key to one")
                .value_parser(["generate", "append"]),
        )
        .arg(Arg::new("file").required(true).help("The file"))
}

fn bits_of(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(bits) if 0 < bits && bits <= 4096 && bits % 8 == 0 => Ok(bits),
        _ => Err("bits are a multiple of 8, at most 4096".to_string()),
    }
}

#[allow(clippy::disallowed_methods, reason = "the tool has no shard that could stall")]
fn random(bits: u32) -> std::io::Result<Vec<u8>> {
    let mut key = vec![0; bits as usize / 8];
    File::open(RANDOM)?.read_exact(&mut key)?;
    Ok(key)
}

fn line((algorithm, mode, padding): (&str, &str, &str), bits: u32, key: &[u8]) -> String {
    let upper = |text: &str| text.to_ascii_uppercase();
    let (algorithm, mode, padding) = (upper(algorithm), upper(mode), upper(padding));
    let padding = if padding == "NO" { "No" } else { &padding };
    format!("{algorithm}/{mode}/{padding}Padding:{bits}:{}\n", base64(key))
}

fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let number = (0..3).fold(0u32, |all, at| {
            (all << 8) | u32::from(group.get(at).copied().unwrap_or_default())
        });
        for at in 0..4 {
            let digit = BASE64[(number >> (18 - 6 * at)) as usize & 63] as char;
            out.push(if at <= group.len() { digit } else { '=' });
        }
    }
    out
}

/// *owner-only*, *nothing-lost*
fn store(path: &Path, append: bool, line: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    match append {
        true => options.append(true).create(true),
        false => options.write(true).create_new(true),
    };
    let mut file = options.open(path)?;
    file.write_all(line.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_lines_in_base_64() {
        let check = |key: &[u8], expected: &str| assert_eq!(base64(key), expected);
        check(b"", "");
        check(b"f", "Zg==");
        check(b"fo", "Zm8=");
        check(b"foo", "Zm9v");
        check(&[0xfb, 0xff, 0xfe, 0x3e], "+//+Pg==");
        let made = line(("aes", "cbc", "pkcs5"), 16, b"ab");
        assert_eq!(made, "AES/CBC/PKCS5Padding:16:YWI=\n");
        assert_eq!(line(("DES", "ECB", "no"), 8, b"f"), "DES/ECB/NoPadding:8:Zg==\n");
    }

    #[test]
    fn lengths_are_whole_bytes() {
        for (text, expected) in
            [("128", Some(128)), ("0", None), ("7", None), ("8192", None), ("x", None)]
        {
            assert_eq!(bits_of(text).ok(), expected, "{text}");
        }
        command().debug_assert();
    }
}
