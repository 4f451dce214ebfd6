#![forbid(unsafe_code)]

use std::io::Write;
use std::path::Path;

use clap_mangen::Man;
use vk_report::files::{SHARED, create_folders, write};

use super::ProgramError;
use super::files::unwritable;
use crate::cli::Cli;

pub(super) fn manual(folder: &Path, out: &mut dyn Write) -> Result<(), ProgramError> {
    create_folders(folder).map_err(|reason| unwritable(folder, reason))?;
    for (name, page) in pages()? {
        let file = folder.join(name);
        write(&file, &page, SHARED).map_err(|reason| unwritable(&file, reason))?;
        writeln!(out, "wrote {}", file.display())?;
    }
    Ok(())
}

fn pages() -> Result<Vec<(String, Vec<u8>)>, ProgramError> {
    let mut program = Cli::shown();
    // Commands get the names of their pages, and the options of all commands.
    program.build();
    let mut pages = Vec::new();
    let mut left = vec![program];
    while let Some(command) = left.pop() {
        let commands = command.get_subcommands().filter(|it| it.get_name() != "help");
        left.extend(commands.cloned());
        let page = Man::new(command);
        let mut text = Vec::new();
        page.render(&mut text)?;
        pages.push((page.get_filename(), text));
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::pages;

    #[test]
    fn each_command_has_a_page_that_names_its_options() {
        let pages = pages().expect("written to memory");
        let names: Vec<_> = pages.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names[0], "steward.1");
        for name in ["steward-run.1", "steward-layer.1", "steward-layer-install.1"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("help")), "{names:?}");
        let run = pages.iter().find(|(name, _)| name == "steward-run.1");
        let (_, text) = run.expect("a page");
        let text = String::from_utf8_lossy(text);
        for part in [".SH NAME", "\\-\\-stacks", ".SH EXTRA", "Exit code"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
