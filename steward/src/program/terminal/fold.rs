#![forbid(unsafe_code)]

const STEP: usize = 2;

/// `text` in lines of at most `width` characters, if words allow it. Lines that fit are unchanged.
pub(super) fn folded(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        fold(line, width, &mut out);
    }
    out
}

fn fold(line: &str, width: usize, out: &mut String) {
    if line.chars().count() <= width {
        out.push_str(line);
        return;
    }
    let indent = line.chars().take_while(|one| *one == ' ').count();
    let deeper = " ".repeat((indent + STEP).min(width / 2));
    let mut taken = 0;
    let mut begun = false;
    // Spaces between words of one line are kept, as in tables.
    for word in line.split_inclusive(' ') {
        let length = word.trim_end_matches(' ').chars().count();
        if begun && length > 0 && taken + length > width {
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            out.push_str(&deeper);
            taken = deeper.len();
        }
        begun |= length > 0;
        out.push_str(word);
        taken += word.chars().count();
    }
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn what_is_too_long_breaks_between_words_and_loses_none() {
        let text = "one two three four\n  five six seven eight\n\nnine";
        assert_eq!(folded(text, 12), "one two\n  three four\n  five six\n    seven\n    eight\n\nnine");
        assert_eq!(folded(text, 40), text);
        let long = "x".repeat(30);
        assert_eq!(folded(&long, 10), long, "a word has a line of its own");
        let row = "  a      1     2";
        assert_eq!(folded(row, 16), row, "columns stay");
    }

    #[test]
    fn words_are_those_of_the_text_at_any_width() {
        let text = "  violation V23 the implementation freed 160 B (scope DEVICE) of the device's\n       allocator\n";
        for width in 8..90 {
            let done = folded(text, width);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&done), words(text), "{width}");
            let longest = text.split_whitespace().map(str::len).max().unwrap_or(0);
            let most = width.max(longest + width / 2);
            assert!(done.lines().all(|line| line.len() <= most), "{width}: {done}");
        }
    }
}
