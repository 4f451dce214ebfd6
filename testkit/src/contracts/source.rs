//! The parts of Rust source in which rows are cited: comments and names of tests.

/// The lines of `text` with their numbers, the first one being `first`.
pub(super) fn numbered_lines(first: usize, text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(move |(n, line)| (first + n, line))
}

/// The comments of Rust source, each with the number of its first line. What looks like a comment in a literal is none.
pub(super) fn comments(source: &str) -> Vec<(usize, &str)> {
    let (mut comments, mut at, mut line) = (Vec::new(), 0, 1);
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let is_comment = rest.starts_with("//") || rest.starts_with("/*");
        let length = match rest.as_bytes()[0] {
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if is_comment => block_comment(rest),
            b'"' => quoted(rest, '"'),
            b'r' if !ends_in_word(&source[..at]) => raw_string(rest).unwrap_or(1),
            b'\'' if is_char(rest) => quoted(rest, '\''),
            _ => rest
                .char_indices()
                .skip(1)
                .find(|(_, c)| matches!(c, '/' | '"' | 'r' | '\''))
                .map_or(rest.len(), |(at, _)| at),
        };
        let part = &rest[..length];
        if is_comment {
            comments.push((line, part));
        }
        line += part.matches('\n').count();
        at += length;
    }
    comments
}

/// Whether a raw string cannot begin here: the `r` belongs to a name. `b` and `c` may stand before it.
fn ends_in_word(before: &str) -> bool {
    let word = before
        .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
        .unwrap_or("");
    !matches!(word, "" | "b" | "c")
}

/// Length of a literal from its first quote to its last one.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    rest.len()
}

/// Whether the quote begins a character, and not a lifetime.
fn is_char(rest: &str) -> bool {
    let mut after = rest.chars().skip(1);
    after.next() == Some('\\') || after.next() == Some('\'')
}

/// Length of the raw string that `rest` begins with, if it is one.
fn raw_string(rest: &str) -> Option<usize> {
    let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
    let text = rest[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    text.find(&end)
        .map(|at| rest.len() - text.len() + at + end.len())
}

/// Length of a block comment, with those that are nested in it.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(part) = rest.get(at..).filter(|part| !part.is_empty()) {
        let step = if part.starts_with("/*") || part.starts_with("*/") {
            2
        } else {
            part.chars().next().map_or(1, char::len_utf8)
        };
        if step == 2 && part.starts_with("/*") {
            depth += 1;
        } else if step == 2 && part.starts_with("*/") {
            depth -= 1;
            if depth == 0 {
                return at + 2;
            }
        }
        at += step;
    }
    rest.len()
}

/// Line and name of each function under `#[test]`, and of all functions of a file that has its own `main` (a test binary without harness).
pub(super) fn test_names(text: &str) -> Vec<(usize, &str)> {
    let own_main = text.lines().any(|line| line.starts_with("fn main()"));
    let mut names = Vec::new();
    let mut marked = false;
    for (number, line) in numbered_lines(1, text).map(|(number, line)| (number, line.trim())) {
        if line.starts_with("#[test]") {
            marked = true;
        } else if let Some((_, rest)) = line
            .split_once("fn ")
            .filter(|(before, _)| before.is_empty() || before.ends_with(' '))
        {
            if marked || own_main {
                names.extend(rest.split(['(', '<']).next().map(|name| (number, name)));
            }
            marked = false;
        } else if !line.starts_with("#[") && !line.starts_with("//") && !line.is_empty() {
            marked = false;
        }
    }
    names
}
