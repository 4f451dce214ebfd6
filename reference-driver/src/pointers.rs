use crate::interpreter::{Invocation, Output, Pointer, Value, World};
use crate::spirv::{Answer, Type, Unsupported};
use crate::words::id;

const UNIFORM_CONSTANT: u32 = 0;
const INPUT: u32 = 1;
const UNIFORM: u32 = 2;
const OUTPUT: u32 = 3;
const PRIVATE: u32 = 6;
const FUNCTION: u32 = 7;
const PUSH_CONSTANT: u32 = 9;
const STORAGE_BUFFER: u32 = 12;

impl<W: World> Invocation<'_, '_, W> {
    pub(crate) fn local(&mut self, operands: &[u32]) -> Answer<Value> {
        let Type::Pointer(FUNCTION, pointee) = self.module.type_at(id(operands, 0)?)? else {
            return Err(Unsupported);
        };
        self.module.width(pointee)?;
        Ok(Value::variable(id(operands, 1)?, pointee))
    }

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

    pub(crate) fn access(&self, operands: &[u32]) -> Answer<Value> {
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
                    // A block of built-ins has no offsets. Only its first member, the position, is supported.
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

    fn word_type(&self) -> Answer<usize> {
        let mut types = self.module.types.iter();
        types.position(|each| *each == Type::Word).ok_or(Unsupported)
    }

    pub(crate) fn load(&self, pointer: Value) -> Answer<Value> {
        let Value::Pointer(Pointer { variable, offset, pointee }) = pointer else {
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
                INPUT | PRIVATE | FUNCTION | OUTPUT => *whole.get((at / 4) as usize).ok_or(Unsupported)?,
                _ => return Err(Unsupported),
            };
        }
        Ok(Value::Words(words))
    }

    pub(crate) fn store(&mut self, pointer: Value, words: [u32; 4]) -> Answer<()> {
        let Value::Pointer(Pointer { variable, offset, pointee }) = pointer else {
            return Err(Unsupported);
        };
        let (class, whole_type) = self.class(variable)?;
        let width = self.module.width(pointee)?;
        if class == STORAGE_BUFFER {
            let binding = self.binding(variable);
            for (index, word) in (0..).zip(words.into_iter().take(width)) {
                self.world.store(binding, offset.saturating_add(4 * index), word);
            }
            return Ok(());
        }
        if !matches!(class, OUTPUT | PRIVATE | FUNCTION) {
            return Err(Unsupported);
        }
        let whole = self.variables.get_mut(variable).ok_or(Unsupported)?;
        let first = (offset / 4) as usize;
        let places = whole.get_mut(first..first + width).ok_or(Unsupported)?;
        places.iter_mut().zip(words).for_each(|(place, word)| *place = word);
        if class == OUTPUT {
            let whole = *whole;
            let output = self.output(variable, whole_type)?;
            self.world.output(output, whole);
        }
        Ok(())
    }

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

    /// OpImageFetch without image operands.
    pub(crate) fn fetch(&self, operands: &[u32]) -> Answer<[u32; 4]> {
        let binding = self.image(operands, Type::Texels)?;
        if operands.len() != 4 {
            return Err(Unsupported);
        }
        let texel = self.world.fetch(binding, self.words(operands, 3)?[0]);
        Ok([texel, 0, 0, 1])
    }

    /// OpImageSampleImplicitLod without image operands.
    pub(crate) fn sample(&self, operands: &[u32]) -> Answer<[u32; 4]> {
        let binding = self.image(operands, Type::Picture)?;
        if operands.len() != 4 {
            return Err(Unsupported);
        }
        let [x, y, ..] = self.words(operands, 3)?.map(f32::from_bits);
        Ok([self.world.sample(binding, [x, y]), 0, 0, 1])
    }
}
