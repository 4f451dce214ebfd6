//! Colours for the program's text, by how its lines begin. Nothing but escape codes is added.

#![forbid(unsafe_code)]

use anstyle::{AnsiColor, Effects, Style};

const BOLD: Style = Style::new().effects(Effects::BOLD);
const RED: Style = AnsiColor::Red.on_default().effects(Effects::BOLD);
const YELLOW: Style = AnsiColor::Yellow.on_default();
const GREEN: Style = AnsiColor::Green.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();

/// The beginnings of lines that get one style, by the first match.
const LINES: [(&str, Style); 12] = [
    ("leftovers: none", GREEN),
    ("leftovers", RED),
    ("never freed:", RED),
    ("alive at the end: nothing", GREEN),
    ("alive at the end:", YELLOW),
    ("findings: none", GREEN),
    ("result: as expected", GREEN),
    ("result: not as expected", RED),
    ("not as expected:", RED),
    ("note:", CYAN),
    ("notes:", CYAN),
    ("no driver:", YELLOW),
];

const LEVELS: [(&str, Style); 3] = [("violation", RED), ("suspect", YELLOW), ("note", CYAN)];

const HEADS: [&str; 3] = ["context ", "phase ", "live  "];

pub(super) fn painted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        paint(line, &mut out);
    }
    out
}

fn paint(line: &str, out: &mut String) {
    let whole = LINES.iter().find(|(begin, _)| line.starts_with(begin));
    if let Some((_, style)) = whole {
        return styled(*style, line, out);
    }
    if let Some(rest) = line.strip_prefix("findings: ") {
        let style = match rest.contains("all known of ") || rest.contains(", known of ") {
            true => YELLOW,
            false => RED,
        };
        return styled(style, line, out);
    }
    let inner = line.trim_start_matches(' ');
    let indent = line.len() - inner.len();
    if indent > 0 && HEADS.iter().any(|head| inner.starts_with(head)) {
        return styled(BOLD, line, out);
    }
    if indent > 0 {
        let level = LEVELS.iter().find(|(name, _)| {
            let behind = inner.strip_prefix(name);
            behind.is_some_and(|behind| behind.starts_with([' ', ':']))
        });
        if let Some((name, style)) = level {
            out.push_str(&line[..indent]);
            styled(*style, name, out);
            out.push_str(&inner[name.len()..]);
            return;
        }
        out.push_str(line);
        return;
    }
    match line.split_once(':') {
        Some((label, rest)) if label.len() < 40 => {
            styled(BOLD, label, out);
            out.push(':');
            out.push_str(rest);
        }
        _ => out.push_str(line),
    }
}

fn styled(style: Style, text: &str, out: &mut String) {
    out.push_str(&format!("{}{text}{}", style.render(), style.render_reset()));
}

#[cfg(test)]
mod tests {
    use super::painted;

    fn plain(text: &str) -> String {
        let mut out = String::new();
        for (nth, part) in text.split('\u{1b}').enumerate() {
            let shown = if nth == 0 { part } else { part.split_once('m').map_or("", |(_, rest)| rest) };
            out.push_str(shown);
        }
        out
    }

    #[test]
    fn colours_say_what_is_wrong_and_change_no_word() {
        let text = "driver: llvmpipe\n\n  context  live\n  VkDevice 7\nleftovers: none, every block was freed\n\
            findings: 9 violations, all known of x 1 (--findings lists them)\n  violation V23 words\n  note      V7 words\n\
            findings: 2 violations\nresult: not as expected: 1 difference\n\
            \n            live        peak\n";
        let done = painted(text);
        assert_eq!(plain(&done), text);
        let has = |part: &str| assert!(done.contains(part), "{part:?}\n{done:?}");
        has("\u{1b}[1mdriver\u{1b}[0m: llvmpipe\n");
        has("\u{1b}[32mleftovers: none");
        has("\u{1b}[33mfindings: 9 violations, all known");
        has("  \u{1b}[1m\u{1b}[31mviolation\u{1b}[0m V23");
        has("\u{1b}[1m\u{1b}[31mfindings: 2 violations");
        has("\u{1b}[1m\u{1b}[31mresult: not");
        has("\n  VkDevice 7\n");
        has("  \u{1b}[36mnote\u{1b}[0m      V7");
        has("\n\u{1b}[1m            live        peak");
    }
}
