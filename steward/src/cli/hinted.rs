//! A parser that offers values to completions, and accepts others as well.

#![forbid(unsafe_code)]

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};

#[derive(Clone, Debug)]
pub(super) struct Hinted<P> {
    hints: &'static [&'static str],
    parser: P,
}

impl<P> Hinted<P> {
    pub(super) const fn new(hints: &'static [&'static str], parser: P) -> Self {
        Self { hints, parser }
    }
}

impl<P: TypedValueParser> TypedValueParser for Hinted<P> {
    type Value = P::Value;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<P::Value, clap::Error> {
        self.parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.hints.iter().map(PossibleValue::new)))
    }
}
