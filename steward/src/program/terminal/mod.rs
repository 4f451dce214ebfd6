#![forbid(unsafe_code)]

mod fold;
mod paint;

use std::env;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use terminal_size::{Width, terminal_size_of};

use clap::ColorChoice;

use crate::os::files::{Stream, takes_escapes};

const MIN_WIDTH: usize = 40;

static COLOURS: OnceLock<ColorChoice> = OnceLock::new();

pub(super) fn set_colours(when: ColorChoice) {
    let _ = COLOURS.set(when);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terminal {
    /// Columns; none if the output is no terminal: lines are not broken.
    width: Option<usize>,
    colours: bool,
}

impl Terminal {
    pub(super) fn of_standard_output() -> Self {
        Self::of(io::stdout())
    }

    pub(super) fn of_standard_error() -> Self {
        Self::of(io::stderr())
    }

    fn of(stream: impl IsTerminal + Stream) -> Self {
        let color = COLOURS.get().copied().unwrap_or_default();
        let is_terminal = stream.is_terminal() && takes_escapes(&stream);
        let variable = || env::var("COLUMNS").ok()?.parse().ok();
        let width = terminal_size_of(&stream).map(|(Width(width), _)| usize::from(width));
        let width = width.or_else(variable).filter(|_| is_terminal);
        Self {
            width: width.filter(|width| *width > 0).map(|width| width.max(MIN_WIDTH)),
            colours: colours(color, is_terminal, &|name| {
                env::var_os(name).map(|value| value.to_string_lossy().into_owned())
            }),
        }
    }

    pub(super) fn columns(self) -> usize {
        self.width.unwrap_or(usize::MAX)
    }

    pub(super) fn rendered(self, text: &str) -> String {
        let folded = self.width.map(|width| fold::folded(text, width));
        let text = folded.as_deref().unwrap_or(text);
        match self.colours {
            true => paint::painted(text),
            false => text.to_owned(),
        }
    }
}

/// `NO_COLOR` and `TERM` are those of <https://no-color.org> and terminfo.
fn colours(when: ColorChoice, is_terminal: bool, variable: &dyn Fn(&str) -> Option<String>) -> bool {
    match when {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            is_terminal
                && variable("NO_COLOR").is_none_or(|value| value.is_empty())
                && variable("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_somebody_wants_none() {
        let set = |pairs: &'static [(&str, &str)]| {
            move |name: &str| {
                let pair = pairs.iter().find(|(one, _)| *one == name);
                pair.map(|(_, value)| (*value).to_owned())
            }
        };
        let auto = |is_terminal, pairs| colours(ColorChoice::Auto, is_terminal, &set(pairs));
        assert!(auto(true, &[]) && auto(true, &[("NO_COLOR", ""), ("TERM", "xterm")]));
        assert!(!auto(false, &[]));
        assert!(!auto(true, &[("NO_COLOR", "1")]) && !auto(true, &[("TERM", "dumb")]));
        assert!(colours(ColorChoice::Always, false, &set(&[("NO_COLOR", "1")])));
        assert!(!colours(ColorChoice::Never, true, &set(&[])));
    }
}
