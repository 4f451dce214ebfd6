#![forbid(unsafe_code)]

pub(super) fn arguments(command_line: &[u8]) -> impl Iterator<Item = &str> {
    let line = command_line.strip_suffix(b"\0").unwrap_or(command_line);
    line.split(|byte| *byte == 0).map(|argument| {
        let valid = argument.utf8_chunks().next();
        valid.map_or("", |chunk| chunk.valid())
    })
}

#[cfg(test)]
mod tests {
    use super::arguments;
    use crate::os::command_line;

    #[test]
    fn ly50_arguments_are_those_of_the_process() {
        let line = command_line().expect("memory");
        let own: Vec<_> = std::env::args().collect();
        assert_eq!(arguments(&line).collect::<Vec<_>>(), own);
        let odd: Vec<_> = arguments(b"a\0\0b\xff\0").collect();
        assert_eq!(odd, ["a", "", "b"]);
    }
}
