//! A page's parts and their text.

/// The ids and headings of the five parts.
pub(crate) const PARTS: [(&str, &str); 5] = [
    ("contexts", "Contexts"),
    ("timeline", "Timeline"),
    ("findings", "Findings"),
    ("coverage", "Callback coverage"),
    ("leftovers", "Leftovers"),
];

/// The part with that id.
#[track_caller]
pub(crate) fn part<'p>(page: &'p str, id: &str) -> &'p str {
    let begin = page.find(&format!("<section id=\"{id}\">")).unwrap_or_else(|| panic!("no part {id}"));
    let rest = &page[begin..];
    &rest[..rest.find("</section>").unwrap_or_else(|| panic!("{id} has no end"))]
}

/// What is between tags, with single spaces, and characters instead of their names.
pub(crate) fn text_of(markup: &str) -> String {
    let mut text = String::new();
    for piece in markup.split('<') {
        text.push_str(piece.split_once('>').map_or(piece, |(_, behind)| behind));
        text.push(' ');
    }
    let text = characters(&text);
    // Not `split_whitespace`: the narrow spaces within numbers are to stay.
    text.split([' ', '\n']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn characters(text: &str) -> String {
    let names = [
        ("&lt;", '<'),
        ("&gt;", '>'),
        ("&quot;", '"'),
        ("&amp;", '&'),
        ("&nbsp;", '\u{a0}'),
        ("&#60;", '<'),
        ("&#62;", '>'),
        ("&#34;", '"'),
        ("&#39;", '\''),
        ("&#38;", '&'),
    ];
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (name, character) = names.into_iter().find(|(name, _)| rest.starts_with(name)).unwrap_or(("&", '&'));
        out.push(character);
        rest = &rest[name.len()..];
    }
    out + rest
}
