//! Device groups: rows I1 to I51 of the contract, and IW1 to IW10 where it says what is better.

mod card;
mod edges;
mod making;
mod matrix;
mod queries;

use crate::*;
use card::*;
