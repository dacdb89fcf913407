//! `nereid generate`: completions of shells and manual pages, for who makes packages. It is not
//! listed: what it prints is made from the tables that the program itself reads its words with.

use clap::{Arg, Command, value_parser};
use clap_complete::Shell;
use options::terminal::{refuse, show};
use options::{Line, Listed};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the tool.
pub(crate) fn main(words: &[String]) -> ExitCode {
    let matches = match options::read(command(), words) {
        Ok(Line::Given(matches)) => matches,
        Ok(Line::Help(text)) => return show(&text),
        Err(refused) => return refuse(&refused.to_string()),
    };
    let path = matches.get_one::<PathBuf>("PATH").cloned().unwrap_or_default();
    let written = match matches.get_one::<String>("WHAT").map(|what| what.parse::<Shell>()) {
        Some(Ok(shell)) => write(&path, &completions(shell)),
        _ => pages(&path),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    let what = Arg::new("WHAT").required(true).value_parser(["bash", "zsh", "fish", "man"]);
    let path = Arg::new("PATH").required(true).value_parser(value_parser!(PathBuf));
    Command::new("nereid generate")
        .no_binary_name(true)
        .about("Generate completions for a shell, or manual pages")
        .arg(what.help("A shell, or man"))
        .arg(path.help("The file of completions, or the folder of manual pages"))
}

#[allow(clippy::disallowed_methods, reason = "no shard runs")]
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::write(path, bytes)
        .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}

fn completions(shell: Shell) -> Vec<u8> {
    let mut command = whole();
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut command, "nereid", &mut out);
    out
}

/// A page for the server, and one for each tool.
fn pages(folder: &Path) -> io::Result<()> {
    for (name, page) in rendered()? {
        write(&folder.join(format!("{name}.1")), &page)?;
    }
    Ok(())
}

fn rendered() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut commands = vec![("nereid".to_owned(), server())];
    for (name, _, _, command) in super::TOOLS.iter().filter(|(name, ..)| *name != "server") {
        commands.push((format!("nereid-{name}"), command()));
    }
    for operation in nodetool::command().get_subcommands() {
        commands.extend(operations(format!("nereid-nodetool-{}", operation.get_name()), operation));
    }
    let mut pages = Vec::new();
    for (name, command) in commands {
        let mut page = Vec::new();
        let command = command.name(&name).display_name(&name).version(node::version::version());
        clap_mangen::Man::new(command).render(&mut page)?;
        pages.push((name, page));
    }
    Ok(pages)
}

/// An operation of nodetool, or those of a group of them, by the name of their page.
fn operations(name: String, operation: &Command) -> Vec<(String, Command)> {
    if !operation.has_subcommands() {
        return vec![(name, operation.clone())];
    }
    let below = operation.get_subcommands();
    below.map(|one| (format!("{name}-{}", one.get_name()), one.clone())).collect()
}

/// The server with its options, and its tools below it.
fn whole() -> Command {
    let tools = super::TOOLS.iter().filter(|(name, ..)| *name != "server");
    let tools = tools.map(|(name, _, _, command)| command().name(*name));
    server().no_binary_name(false).subcommands(tools)
}

fn server() -> Command {
    super::command(Listed::All).name("nereid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_and_every_tool_is_completed() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = String::from_utf8(completions(shell)).expect("text");
            for row in options::rows() {
                let long = row.name.replace('_', "-");
                assert!(text.contains(&long), "{shell}: {long}");
            }
            super::super::listed()
                .iter()
                .for_each(|(tool, _)| assert!(text.contains(tool), "{shell}: {tool}"));
            for operation in nodetool::command().get_subcommands() {
                assert!(text.contains(operation.get_name()), "{shell}: {}", operation.get_name());
            }
            assert!(text.contains("rest-api-port"), "{shell}: options of operations");
        }
    }

    #[test]
    fn every_tool_has_a_page() {
        let pages = rendered().expect("pages");
        let operations = pages.iter().filter(|(name, _)| name.starts_with("nereid-nodetool-"));
        let operations: Vec<&str> = operations.map(|(name, _)| name.as_str()).collect();
        assert_eq!(pages.len() - operations.len(), super::super::listed().len());
        for name in ["compact", "status", "tasks-wait"] {
            let page = format!("nereid-nodetool-{name}");
            assert!(operations.contains(&page.as_str()), "{name} is not among {operations:?}");
        }
        let (name, page) = &pages[0];
        let text = String::from_utf8_lossy(page).replace("\\-", "-");
        assert_eq!(name, "nereid");
        assert!(text.contains("--rpc-address") && text.contains(".TH"), "{text}");
    }
}
