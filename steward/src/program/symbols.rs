#![forbid(unsafe_code)]

use std::io::{self, Write};

use serde_json::Value;

use super::{ProgramError, outputs};
use crate::cli::SymbolsArgs;
use crate::input;
use crate::symbols::Symbols;

pub(super) fn symbols(options: &SymbolsArgs, out: &mut dyn Write) -> Result<(), ProgramError> {
    let (_, bytes) = input::read(&options.reports);
    let bytes = bytes.map_err(|reason| ProgramError::Unreadable { file: options.reports.clone(), reason })?;
    // The error output of a program may contain any bytes.
    let text = String::from_utf8_lossy(&bytes);
    let mut symbols = Symbols::default().all_frames(options.all_frames);
    let annotated = symbols.annotate(&text);
    warn(&symbols, options);
    let reports: Vec<Value> = annotated.lines().filter_map(Symbols::report).collect();
    outputs::write_data(&options.json, &annotated, &reports, out)
}

fn warn(symbols: &Symbols, options: &SymbolsArgs) {
    let mut err = io::stderr().lock();
    // A closed error output cannot be reported.
    for file in symbols.unread() {
        let _ = writeln!(err, "steward: {file} cannot be read: its functions are not named");
    }
    let written = std::fs::metadata(&options.reports).and_then(|file| file.modified());
    for file in written.iter().flat_map(|written| symbols.younger_than(*written)) {
        let _ = writeln!(
            err,
            "steward: {file} is younger than {}: the names of its functions may be wrong",
            options.reports
        );
    }
    if !symbols.has_read() && symbols.unread().next().is_none() {
        let _ = writeln!(err, "steward: no stack of a guard in {}: it comes out as it is", options.reports);
    }
}
