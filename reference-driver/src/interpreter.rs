//! Runs one invocation of a shader: straight through, a function at a time, without memory of its own.

use crate::spirv::{Answer, MAX_IDS, Module, Type, Unsupported, id, instruction};

/// Instructions of one invocation; a module that needs more is refused when its pipeline is created.
const MAX_STEPS: u32 = 1 << 14;
/// Functions within functions.
const MAX_DEPTH: u32 = 8;

/// What an id stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    None,
    /// A number, or a vector of up to four.
    Words([u32; 4]),
    Pointer(Pointer),
    /// The image of the variable of that id.
    Image(usize),
}

/// A variable, and how far into it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pointer {
    variable: usize,
    /// Bytes; of a vector outside of buffers, too.
    offset: u32,
    pointee: usize,
}

/// The storage classes that matter.
const UNIFORM_CONSTANT: u32 = 0;
const INPUT: u32 = 1;
const UNIFORM: u32 = 2;
const OUTPUT: u32 = 3;
const PRIVATE: u32 = 6;
const FUNCTION: u32 = 7;
const PUSH_CONSTANT: u32 = 9;
const STORAGE_BUFFER: u32 = 12;

/// What a shader sees of the world. Of set and binding the set is in the upper half.
pub(crate) trait World {
    /// A built-in variable, by SPIR-V's number; `None` for one that this stage lacks.
    fn builtin(&self, number: u32) -> Option<[u32; 4]>;
    fn push_constant(&self, offset: u32) -> u32;
    fn load(&self, binding: u32, offset: u32) -> u32;
    fn store(&mut self, binding: u32, offset: u32, word: u32);
    fn fetch(&self, binding: u32, index: u32) -> u32;
    fn sample(&self, binding: u32, at: [f32; 2]) -> u32;
    /// A built-in or location that the shader wrote.
    fn output(&mut self, output: Output, words: [u32; 4]);
}

/// What a shader writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Position,
    Location(u32),
}

impl Value {
    pub(crate) const fn variable(variable: usize, pointee: usize) -> Self {
        Self::Pointer(Pointer {
            variable,
            offset: 0,
            pointee,
        })
    }

    pub(crate) const fn words(self) -> Answer<[u32; 4]> {
        match self {
            Self::Words(words) => Ok(words),
            _ => Err(Unsupported),
        }
    }
}

/// Runs the module's entry point once.
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

struct Invocation<'m, 'w, W> {
    module: &'m Module<'w>,
    world: &'m mut W,
    values: [Value; MAX_IDS],
    type_of: [usize; MAX_IDS],
    variables: [[u32; 4]; MAX_IDS],
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

    /// OpFunctionCall: arguments become the values of the parameters, whose ids are the function's alone.
    fn enter(&mut self, operands: &[u32], depth: u32) -> Answer<Value> {
        let mut at = self
            .module
            .functions
            .get(id(operands, 2)?)
            .copied()
            .unwrap_or(0);
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

    /// The value of an instruction that has a result.
    fn result(&mut self, code: u32, operands: &[u32]) -> Answer<Value> {
        let words = |index| self.words(operands, index);
        let float = |word| f32::from_bits(word);
        Ok(Value::Words(match code {
            59 => return self.local(operands),
            61 => return self.load(self.value(operands, 2)?),
            65 => return self.access(operands),
            87 => self.sample(operands)?,
            95 => self.fetch(operands)?,
            // OpImage: of the same variable.
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

    fn value(&self, operands: &[u32], index: usize) -> Answer<Value> {
        match self.values.get(id(operands, index)?) {
            None | Some(Value::None) => Err(Unsupported),
            Some(value) => Ok(*value),
        }
    }

    fn words(&self, operands: &[u32], index: usize) -> Answer<[u32; 4]> {
        self.value(operands, index)?.words()
    }

    fn set(&mut self, operands: &[u32], value: Value) -> Answer<()> {
        let (of, result) = (id(operands, 0)?, id(operands, 1)?);
        *self.type_of.get_mut(result).ok_or(Unsupported)? = of;
        *self.values.get_mut(result).ok_or(Unsupported)? = value;
        Ok(())
    }

    fn local(&mut self, operands: &[u32]) -> Answer<Value> {
        let Type::Pointer(FUNCTION, pointee) = self.module.type_at(id(operands, 0)?)? else {
            return Err(Unsupported);
        };
        self.module.width(pointee)?;
        Ok(Value::variable(id(operands, 1)?, pointee))
    }

    /// Storage class and pointee of a variable.
    fn class(&self, variable: usize) -> Answer<(u32, usize)> {
        let of = self.type_of.get(variable).ok_or(Unsupported)?;
        match self.module.type_at(*of)? {
            Type::Pointer(class, pointee) => Ok((class, pointee)),
            _ => Err(Unsupported),
        }
    }

    fn binding(&self, variable: usize) -> u32 {
        let of = |decoration| self.module.decoration(variable, decoration).unwrap_or(0);
        (of(34) << 16) | (of(33) & 0xFFFF)
    }

    fn access(&self, operands: &[u32]) -> Answer<Value> {
        let Value::Pointer(mut pointer) = self.value(operands, 2)? else {
            return Err(Unsupported);
        };
        for index in 3..operands.len() {
            let step = self.words(operands, index)?[0];
            let (bytes, pointee) = match self.module.type_at(pointer.pointee)? {
                Type::Vector(size) if step < size => (4 * step, self.word_type()?),
                Type::Array(item, stride) if stride > 0 => (step.saturating_mul(stride), item),
                Type::Struct(at) => {
                    let offset = self.module.member_decoration(at, step, 35);
                    // A block of built-ins has no offsets; its only member that is known is the first one, the position.
                    let offset = match (offset, step) {
                        (Some(offset), _) => offset,
                        (None, 0) => 0,
                        _ => return Err(Unsupported),
                    };
                    (offset, self.module.member(at, step)?)
                }
                _ => return Err(Unsupported),
            };
            pointer.offset = pointer.offset.saturating_add(bytes);
            pointer.pointee = pointee;
        }
        Ok(Value::Pointer(pointer))
    }

    /// Any type of one word.
    fn word_type(&self) -> Answer<usize> {
        let mut types = self.module.types.iter();
        types
            .position(|each| *each == Type::Word)
            .ok_or(Unsupported)
    }

    fn load(&self, pointer: Value) -> Answer<Value> {
        let Value::Pointer(Pointer {
            variable,
            offset,
            pointee,
        }) = pointer
        else {
            return Err(Unsupported);
        };
        let (class, _) = self.class(variable)?;
        if class == UNIFORM_CONSTANT {
            return match self.module.type_at(pointee)? {
                Type::Sampled(_) | Type::Texels | Type::Picture => Ok(Value::Image(variable)),
                _ => Err(Unsupported),
            };
        }
        let whole = match class {
            INPUT => {
                let number = self.module.decoration(variable, 11).ok_or(Unsupported)?;
                self.world.builtin(number).ok_or(Unsupported)?
            }
            PRIVATE | FUNCTION | OUTPUT => *self.variables.get(variable).ok_or(Unsupported)?,
            _ => [0; 4],
        };
        let mut words = [0; 4];
        for (index, word) in (0..).zip(words.iter_mut().take(self.module.width(pointee)?)) {
            let at = offset.saturating_add(4 * index);
            *word = match class {
                PUSH_CONSTANT => self.world.push_constant(at),
                UNIFORM | STORAGE_BUFFER => self.world.load(self.binding(variable), at),
                INPUT | PRIVATE | FUNCTION | OUTPUT => {
                    *whole.get((at / 4) as usize).ok_or(Unsupported)?
                }
                _ => return Err(Unsupported),
            };
        }
        Ok(Value::Words(words))
    }

    fn store(&mut self, pointer: Value, words: [u32; 4]) -> Answer<()> {
        let Value::Pointer(Pointer {
            variable,
            offset,
            pointee,
        }) = pointer
        else {
            return Err(Unsupported);
        };
        let (class, whole_type) = self.class(variable)?;
        let width = self.module.width(pointee)?;
        if class == STORAGE_BUFFER {
            let binding = self.binding(variable);
            for (index, word) in (0..).zip(words.into_iter().take(width)) {
                self.world
                    .store(binding, offset.saturating_add(4 * index), word);
            }
            return Ok(());
        }
        if !matches!(class, OUTPUT | PRIVATE | FUNCTION) {
            return Err(Unsupported);
        }
        let whole = self.variables.get_mut(variable).ok_or(Unsupported)?;
        let first = (offset / 4) as usize;
        let places = whole.get_mut(first..first + width).ok_or(Unsupported)?;
        places
            .iter_mut()
            .zip(words)
            .for_each(|(place, word)| *place = word);
        if class == OUTPUT {
            let whole = *whole;
            let output = self.output(variable, whole_type)?;
            self.world.output(output, whole);
        }
        Ok(())
    }

    /// What a variable of class output is.
    fn output(&self, variable: usize, whole: usize) -> Answer<Output> {
        const POSITION: Option<u32> = Some(0);
        let builtin = match self.module.type_at(whole)? {
            Type::Struct(at) => self.module.member_decoration(at, 0, 11),
            _ => self.module.decoration(variable, 11),
        };
        let location = self.module.decoration(variable, 30);
        match (builtin, location) {
            (POSITION, _) => Ok(Output::Position),
            (None, Some(location)) => Ok(Output::Location(location)),
            _ => Err(Unsupported),
        }
    }

    fn image(&self, operands: &[u32], wanted: Type) -> Answer<u32> {
        let Value::Image(variable) = self.value(operands, 2)? else {
            return Err(Unsupported);
        };
        let (_, mut image) = self.class(variable)?;
        if let Type::Sampled(inner) = self.module.type_at(image)? {
            image = inner;
        }
        if self.module.type_at(image)? != wanted {
            return Err(Unsupported);
        }
        Ok(self.binding(variable))
    }

    /// OpImageFetch, without operands of its own.
    fn fetch(&self, operands: &[u32]) -> Answer<[u32; 4]> {
        let binding = self.image(operands, Type::Texels)?;
        if operands.len() != 4 {
            return Err(Unsupported);
        }
        let texel = self.world.fetch(binding, self.words(operands, 3)?[0]);
        Ok([texel, 0, 0, 1])
    }

    /// OpImageSampleImplicitLod, without operands of its own.
    fn sample(&self, operands: &[u32]) -> Answer<[u32; 4]> {
        let binding = self.image(operands, Type::Picture)?;
        if operands.len() != 4 {
            return Err(Unsupported);
        }
        let [x, y, ..] = self.words(operands, 3)?.map(f32::from_bits);
        Ok([self.world.sample(binding, [x, y]), 0, 0, 1])
    }

    /// OpVectorShuffle.
    fn shuffle(&self, operands: &[u32]) -> Answer<[u32; 4]> {
        let [first, second] = [self.words(operands, 2)?, self.words(operands, 3)?];
        let of = self.type_of.get(id(operands, 2)?).ok_or(Unsupported)?;
        let width = self.module.width(*of)?;
        let picks = operands.get(4..).ok_or(Unsupported)?;
        let mut words = [0; 4];
        if picks.len() > words.len() {
            return Err(Unsupported);
        }
        for (word, pick) in words.iter_mut().zip(picks) {
            let pick = *pick as usize;
            let picked = if pick < width {
                first.get(pick)
            } else {
                second.get(pick - width)
            };
            *word = *picked.ok_or(Unsupported)?;
        }
        Ok(words)
    }
}

/// The words of several values, one behind the other.
pub(crate) fn concat(
    module: &Module<'_>,
    type_of: &[usize; MAX_IDS],
    values: &[Value; MAX_IDS],
    parts: &[u32],
) -> Answer<[u32; 4]> {
    let mut words = [0; 4];
    let mut places = words.iter_mut();
    for index in 0..parts.len() {
        let part = id(parts, index)?;
        let width = module.width(*type_of.get(part).ok_or(Unsupported)?)?;
        let value = values.get(part).ok_or(Unsupported)?.words()?;
        for word in value.into_iter().take(width) {
            *places.next().ok_or(Unsupported)? = word;
        }
    }
    Ok(words)
}

/// What two numbers, or each pair of two vectors, make.
pub(crate) fn binary(code: u32, a: [u32; 4], b: [u32; 4]) -> Answer<[u32; 4]> {
    let floats =
        |make: fn(f32, f32) -> f32, a, b| make(f32::from_bits(a), f32::from_bits(b)).to_bits();
    let one = |a: u32, b: u32| {
        Ok(match code {
            128 => a.wrapping_add(b),
            130 => a.wrapping_sub(b),
            132 => a.wrapping_mul(b),
            129 => floats(|a, b| a + b, a, b),
            131 => floats(|a, b| a - b, a, b),
            133 => floats(|a, b| a * b, a, b),
            136 => floats(|a, b| a / b, a, b),
            194 => a.checked_shr(b).unwrap_or(0),
            195 => a.cast_signed().checked_shr(b).unwrap_or(0).cast_unsigned(),
            196 => a.checked_shl(b).unwrap_or(0),
            197 => a | b,
            198 => a ^ b,
            199 => a & b,
            _ => return Err(Unsupported),
        })
    };
    let mut words = [0; 4];
    for (word, (a, b)) in words.iter_mut().zip(a.into_iter().zip(b)) {
        *word = one(a, b)?;
    }
    Ok(words)
}
