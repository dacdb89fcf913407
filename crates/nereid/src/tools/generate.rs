//! `nereid generate`: completions of shells and manual pages, for who makes packages. It is not
//! listed: what it prints is made from the tables that the program itself reads its words with.

use clap::Command;
use clap_complete::Shell;
use std::io;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
Usage: nereid generate bash|zsh|fish FILE
       nereid generate man FOLDER
";

/// Runs the tool.
pub(crate) fn main(words: &[String]) -> ExitCode {
    let written = match words {
        [what, path] if what == "man" => pages(Path::new(path)),
        [what, path] => match what.parse::<Shell>() {
            Ok(shell) => write(Path::new(path), &completions(shell)),
            Err(text) => Err(io::Error::other(text)),
        },
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
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
    let mut commands = vec![("nereid".to_owned(), crate::options::command())];
    for (name, about) in super::listed() {
        if name != "server" {
            commands.push((format!("nereid-{name}"), of_tool(name, about)));
        }
    }
    for operation in nodetool::command().get_subcommands() {
        commands.extend(operations(format!("nereid-nodetool-{}", operation.get_name()), operation));
    }
    let mut pages = Vec::new();
    for (name, command) in commands {
        let mut page = Vec::new();
        let command = command.name(&name).display_name(&name).version(crate::version::version());
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
    let tools = super::listed().into_iter().map(|(name, about)| of_tool(name, about).name(name));
    crate::options::command().name("nereid").no_binary_name(false).subcommands(tools)
}

/// The table of a tool's words, as far as it has one.
fn of_tool(name: &'static str, about: &'static str) -> Command {
    match name {
        "compactions" => super::compactions::command(),
        "config" => super::config::command(),
        "load" => transfer::load_command(),
        "nodetool" => nodetool::command().about(about),
        "probe" => super::probe::command(),
        "setup" => super::setup::command(),
        "unload" => transfer::unload_command(),
        _ => Command::new(name).about(about),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_and_every_tool_is_completed() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = String::from_utf8(completions(shell)).expect("text");
            for row in crate::options::rows() {
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
