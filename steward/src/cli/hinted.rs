//! A parser that offers values to completions, and accepts others as well.

#![forbid(unsafe_code)]

use std::error::Error;
use std::ffi::OsStr;
use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};

#[derive(Debug)]
pub(super) struct Hinted<T> {
    hints: &'static [&'static str],
    parsed: PhantomData<fn() -> T>,
}

impl<T> Hinted<T> {
    pub(super) const fn new(hints: &'static [&'static str]) -> Self {
        Self {
            hints,
            parsed: PhantomData,
        }
    }
}

impl<T> Clone for Hinted<T> {
    fn clone(&self) -> Self {
        Self::new(self.hints)
    }
}

impl<T> TypedValueParser for Hinted<T>
where
    T: FromStr<Err: Display> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let parse = |text: String| {
            text.parse()
                .map_err(|error: T::Err| Box::<dyn Error + Send + Sync>::from(error.to_string()))
        };
        StringValueParser::new()
            .try_map(parse)
            .parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.hints.iter().map(PossibleValue::new)))
    }
}
