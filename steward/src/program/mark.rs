#![forbid(unsafe_code)]

use std::io::Write;

use super::ProgramError;
use super::requests::{self, processes_named};
use crate::os::processes::listed;

pub(super) fn mark(process: &str, out: &mut dyn Write) -> Result<(), ProgramError> {
    for process in processes_named(process)? {
        requests::mark(process)?;
        writeln!(out, "mark requested of process {}", listed(&[process]))?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::mark;
    use crate::program::ProgramError;
    use crate::program::requests::RequestError;

    #[test]
    fn a_process_without_the_layer_is_left_alone() {
        let own = std::process::id().to_string();
        let refused = mark(&own, &mut Vec::new());
        let not_found = ProgramError::Request(RequestError::NotFound { named: own, running: String::new() });
        let sentence = refused.map_err(|error| error.to_string());
        let expected = not_found.to_string();
        let (head, _) = expected.split_once(':').expect("a remedy");
        assert!(sentence.is_err_and(|sentence| sentence.starts_with(head)));
    }
}
