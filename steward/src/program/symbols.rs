//! `steward symbols`: the functions in the stacks of reports that were written elsewhere.

#![forbid(unsafe_code)]

use std::io::{self, Read as _, Write};

use serde_json::Value;

use super::{ProgramError, outputs};
use crate::cli::{Output, SymbolsArgs};
use crate::guarding::Symbols;

pub(super) fn symbols(options: &SymbolsArgs, output: &Output, out: &mut dyn Write) -> Result<(), ProgramError> {
    let mut bytes = Vec::new();
    let read = match options.file.as_str() {
        "-" => io::stdin().lock().read_to_end(&mut bytes).map(drop),
        file => std::fs::read(file).map(|read| bytes = read),
    };
    read.map_err(|reason| ProgramError::Unreadable { file: options.file.clone(), reason })?;
    // Other parts of a program write to its error output as they like.
    let told = Symbols::default().annotate(&String::from_utf8_lossy(&bytes));
    let reports: Vec<Value> = told.lines().filter_map(Symbols::report).collect();
    outputs::write(output, &told, &reports, outputs::no_page, out)
}
