//! `eurekad completions` and `eurekad man`, made from the definition of the commands.

use std::fs;
use std::path::Path;

use clap_complete::generate;
use clap_mangen::Man;

use super::args::Shell;
use super::failure::{Exit, Failure, Outcome};
use super::screen::Screen;

const NAME: &str = "eurekad";

pub(super) fn completions(
    shell: Shell,
    mut command: clap::Command,
    screen: &mut Screen,
) -> Outcome {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut command, NAME, &mut script);
    screen.bytes(&script)?;
    Ok(Exit::Done)
}

/// The page of the whole program, or the pages of all commands into `dir`.
pub(super) fn man(dir: Option<&Path>, command: clap::Command, screen: &mut Screen) -> Outcome {
    let Some(dir) = dir else {
        let mut page = Vec::new();
        Man::new(command)
            .render(&mut page)
            .map_err(|error| Failure::output(&error))?;
        screen.bytes(&page)?;
        return Ok(Exit::Done);
    };
    let failed = |error: std::io::Error| {
        Failure::refused(format!("cannot write into {}: {error}", dir.display()))
    };
    fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(command, dir).map_err(failed)?;
    screen.note(&format!("wrote the pages into {}", dir.display()));
    Ok(Exit::Done)
}
