//! Runs one invocation of a shader, without memory of its own.

use crate::arithmetic::{binary, concat};
use crate::spirv::{Answer, MAX_IDS, Module, Unsupported};
use crate::words::{id, instruction};

/// A module that needs more is refused when its pipeline is created.
const MAX_STEPS: u32 = 1 << 14;
const MAX_DEPTH: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    None,
    /// A number, or a vector of up to four.
    Words([u32; 4]),
    Pointer(Pointer),
    /// The variable's id.
    Image(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pointer {
    pub(crate) variable: usize,
    /// In bytes, also within a vector outside of buffers.
    pub(crate) offset: u32,
    pub(crate) pointee: usize,
}

/// A binding's upper half is its descriptor set.
pub(crate) trait World {
    /// By SPIR-V's number; `None` for one that this stage lacks.
    fn builtin(&self, number: u32) -> Option<[u32; 4]>;
    fn push_constant(&self, offset: u32) -> u32;
    fn load(&self, binding: u32, offset: u32) -> u32;
    fn store(&mut self, binding: u32, offset: u32, word: u32);
    fn fetch(&self, binding: u32, index: u32) -> u32;
    fn sample(&self, binding: u32, at: [f32; 2]) -> u32;
    fn output(&mut self, output: Output, words: [u32; 4]);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Position,
    Location(u32),
}

impl Value {
    pub(crate) const fn variable(variable: usize, pointee: usize) -> Self {
        Self::Pointer(Pointer { variable, offset: 0, pointee })
    }

    pub(crate) const fn words(self) -> Answer<[u32; 4]> {
        match self {
            Self::Words(words) => Ok(words),
            _ => Err(Unsupported),
        }
    }
}

pub(crate) fn run(module: &Module<'_>, world: &mut impl World) -> Answer<()> {
    let mut invocation = Invocation {
        module,
        world,
        values: module.values,
        type_of: module.type_of,
        variables: [[0; 4]; MAX_IDS],
        steps: 0,
    };
    let mut at = *module.functions.get(module.entry).ok_or(Unsupported)?;
    invocation.body(&mut at, 0).map(drop)
}

pub(crate) struct Invocation<'m, 'w, W> {
    pub(crate) module: &'m Module<'w>,
    pub(crate) world: &'m mut W,
    values: [Value; MAX_IDS],
    pub(crate) type_of: [usize; MAX_IDS],
    pub(crate) variables: [[u32; 4]; MAX_IDS],
    steps: u32,
}

impl<W: World> Invocation<'_, '_, W> {
    fn body(&mut self, at: &mut usize, depth: u32) -> Answer<Value> {
        while let Some((code, operands, next)) = instruction(self.module.words, *at)? {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err(Unsupported);
            }
            match code {
                248 => {}
                253 => return Ok(Value::None),
                254 => return self.value(operands, 0),
                62 => self.store(self.value(operands, 0)?, self.words(operands, 1)?)?,
                57 => {
                    let value = self.enter(operands, depth)?;
                    self.set(operands, value)?;
                }
                _ => {
                    let value = self.result(code, operands)?;
                    self.set(operands, value)?;
                }
            }
            *at = next;
        }
        Err(Unsupported)
    }

    /// OpFunctionCall. The ids of parameters are the function's alone.
    fn enter(&mut self, operands: &[u32], depth: u32) -> Answer<Value> {
        let mut at = self.module.functions.get(id(operands, 2)?).copied().unwrap_or(0);
        if at == 0 || depth >= MAX_DEPTH {
            return Err(Unsupported);
        }
        for index in 3..operands.len() {
            let Some((55, parameter, next)) = instruction(self.module.words, at)? else {
                return Err(Unsupported);
            };
            let argument = self.value(operands, index)?;
            self.set(parameter, argument)?;
            at = next;
        }
        self.body(&mut at, depth + 1)
    }

    fn result(&mut self, code: u32, operands: &[u32]) -> Answer<Value> {
        let words = |index| self.words(operands, index);
        let float = |word| f32::from_bits(word);
        Ok(Value::Words(match code {
            59 => return self.local(operands),
            61 => return self.load(self.value(operands, 2)?),
            65 => return self.access(operands),
            87 => self.sample(operands)?,
            95 => self.fetch(operands)?,
            100 => return self.value(operands, 2),
            79 => self.shuffle(operands)?,
            80 => {
                let parts = operands.get(2..).ok_or(Unsupported)?;
                concat(self.module, &self.type_of, &self.values, parts)?
            }
            81 => {
                let [index] = *operands.get(3..).ok_or(Unsupported)? else {
                    return Err(Unsupported);
                };
                let word = words(2)?.get(index as usize).copied();
                [word.ok_or(Unsupported)?, 0, 0, 0]
            }
            109 => words(2)?.map(|word| float(word) as u32),
            110 => words(2)?.map(|word| (float(word) as i32).cast_unsigned()),
            111 => words(2)?.map(|word| (word.cast_signed() as f32).to_bits()),
            112 => words(2)?.map(|word| (word as f32).to_bits()),
            124 => words(2)?,
            127 => words(2)?.map(|word| (-float(word)).to_bits()),
            200 => words(2)?.map(|word| !word),
            142 => binary(133, words(2)?, [words(3)?[0]; 4])?,
            _ => binary(code, words(2)?, words(3)?)?,
        }))
    }

    pub(crate) fn value(&self, operands: &[u32], index: usize) -> Answer<Value> {
        match self.values.get(id(operands, index)?) {
            None | Some(Value::None) => Err(Unsupported),
            Some(value) => Ok(*value),
        }
    }

    pub(crate) fn words(&self, operands: &[u32], index: usize) -> Answer<[u32; 4]> {
        self.value(operands, index)?.words()
    }

    fn set(&mut self, operands: &[u32], value: Value) -> Answer<()> {
        let (of, result) = (id(operands, 0)?, id(operands, 1)?);
        *self.type_of.get_mut(result).ok_or(Unsupported)? = of;
        *self.values.get_mut(result).ok_or(Unsupported)? = value;
        Ok(())
    }
}
