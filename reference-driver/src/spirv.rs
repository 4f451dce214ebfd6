//! Unknown instructions are refused (RD19).

use ash::vk;

use crate::arithmetic::{binary, concat};
use crate::interpreter::Value;
use crate::words::{id, instruction, is_executable, is_named, operand};

/// Ids are below this.
pub(crate) const MAX_IDS: usize = 256;

/// The words are no module, or use a feature that the driver lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported;

impl core::error::Error for Unsupported {}

impl core::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the words are no SPIR-V module, or use a feature that the driver lacks")
    }
}

pub(crate) type Answer<T> = Result<T, Unsupported>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Unknown,
    Void,
    /// A 32-bit number of any kind.
    Word,
    Vector(u32),
    /// Element and stride in bytes.
    Array(usize, u32),
    /// The position of its instruction.
    Struct(usize),
    /// Storage class and pointee.
    Pointer(u32, usize),
    Texels,
    Picture,
    Sampler,
    /// The image's type.
    Sampled(usize),
    Function,
}

pub(crate) struct Module<'w> {
    pub(crate) words: &'w [u32],
    pub(crate) types: [Type; MAX_IDS],
    pub(crate) type_of: [usize; MAX_IDS],
    pub(crate) values: [Value; MAX_IDS],
    /// The word behind each `OpFunction`.
    pub(crate) functions: [usize; MAX_IDS],
    pub(crate) entry: usize,
    pub(crate) local_size: [u32; 3],
}

impl<'w> Module<'w> {
    pub(crate) fn new(words: &'w [u32], stage: vk::ShaderStageFlags, name: &[u8]) -> Answer<Self> {
        let &[0x0723_0203, _, _, bound, 0, ..] = words else {
            return Err(Unsupported);
        };
        if bound as usize > MAX_IDS {
            return Err(Unsupported);
        }
        let mut module = Self {
            words,
            types: [Type::Unknown; MAX_IDS],
            type_of: [0; MAX_IDS],
            values: [Value::None; MAX_IDS],
            functions: [0; MAX_IDS],
            entry: 0,
            local_size: [1; 3],
        };
        let mut at = 5;
        while let Some((code, operands, next)) = instruction(words, at)? {
            module.declare(code, operands, at, next, (stage, name))?;
            at = next;
        }
        let begins = module.functions.get(module.entry);
        match begins {
            Some(0) | None => Err(Unsupported),
            Some(_) => Ok(module),
        }
    }

    fn declare(
        &mut self,
        code: u32,
        operands: &[u32],
        at: usize,
        next: usize,
        (stage, name): (vk::ShaderStageFlags, &[u8]),
    ) -> Answer<()> {
        match code {
            // Imported instruction sets are refused at their instructions.
            2..=8 | 11 | 14 | 317 => Ok(()),
            // OpEntryPoint
            15 => {
                let model = match operand(operands, 0)? {
                    0 => vk::ShaderStageFlags::VERTEX,
                    4 => vk::ShaderStageFlags::FRAGMENT,
                    5 => vk::ShaderStageFlags::COMPUTE,
                    _ => return Err(Unsupported),
                };
                if model == stage && is_named(operands.get(2..).ok_or(Unsupported)?, name) {
                    self.entry = id(operands, 1)?;
                }
                Ok(())
            }
            // OpExecutionMode: LocalSize, OriginUpperLeft
            16 => match (operand(operands, 1)?, operands.get(2..)) {
                (17, Some(&[x, y, z])) => {
                    self.local_size = [x, y, z];
                    Ok(())
                }
                (7, _) => Ok(()),
                _ => Err(Unsupported),
            },
            // OpCapability: Shader, SampledBuffer
            17 => match operand(operands, 0)? {
                1 | 46 => Ok(()),
                _ => Err(Unsupported),
            },
            // OpDecorate, OpMemberDecorate
            71 | 72 => Ok(()),
            19..=33 => self.declare_type(code, operands, at),
            43 | 44 | 50 | 52 => self.declare_constant(code, operands),
            // OpVariable of the module, without initializer
            59 if self.is_outside_functions(at)? => {
                let (pointer, variable) = (id(operands, 0)?, id(operands, 1)?);
                let Type::Pointer(_, pointee) = self.type_at(pointer)? else {
                    return Err(Unsupported);
                };
                if operands.len() != 3 {
                    return Err(Unsupported);
                }
                self.set(variable, pointer, Value::variable(variable, pointee))
            }
            // OpFunction
            54 => {
                let function = id(operands, 1)?;
                *self.functions.get_mut(function).ok_or(Unsupported)? = next;
                Ok(())
            }
            _ if is_executable(code) => Ok(()),
            _ => Err(Unsupported),
        }
    }

    fn is_outside_functions(&self, at: usize) -> Answer<bool> {
        Ok(self.functions.iter().all(|begins| *begins == 0 || *begins > at))
    }

    fn declare_type(&mut self, code: u32, operands: &[u32], at: usize) -> Answer<()> {
        let result = id(operands, 0)?;
        let new = match (code, operands.get(1..).ok_or(Unsupported)?) {
            (19, _) => Type::Void,
            (21, [32, _]) | (22, [32]) => Type::Word,
            (23, &[word, size @ 2..=4]) if self.type_at(word as usize)? == Type::Word => Type::Vector(size),
            // Sampled images of one layer and sample: of texels in a buffer, of two dimensions.
            (25, [_, 5, 0, 0, 0, 1, _]) => Type::Texels,
            (25, [_, 1, 0, 0, 0, 1, _]) => Type::Picture,
            (26, []) => Type::Sampler,
            (27, [_]) => Type::Sampled(id(operands, 1)?),
            (28, [_, _]) | (29, [_]) => Type::Array(id(operands, 1)?, self.decoration(result, 6).unwrap_or(0)),
            (30, _) => Type::Struct(at),
            (32, &[class, _]) => Type::Pointer(class, id(operands, 2)?),
            (33, _) => Type::Function,
            _ => return Err(Unsupported),
        };
        *self.types.get_mut(result).ok_or(Unsupported)? = new;
        Ok(())
    }

    fn declare_constant(&mut self, code: u32, operands: &[u32]) -> Answer<()> {
        let (of, result) = (id(operands, 0)?, id(operands, 1)?);
        let rest = operands.get(2..).ok_or(Unsupported)?;
        let value = match (code, rest) {
            (43 | 50, &[word]) if self.type_at(of)? == Type::Word => Value::Words([word, 0, 0, 0]),
            (44, parts) => Value::Words(concat(self, &self.type_of, &self.values, parts)?),
            (52, &[code, _, _]) => {
                let (a, b) = (id(operands, 3)?, id(operands, 4)?);
                let words = |id: usize| self.values.get(id).ok_or(Unsupported)?.words();
                Value::Words(binary(code, words(a)?, words(b)?)?)
            }
            _ => return Err(Unsupported),
        };
        self.set(result, of, value)
    }

    fn set(&mut self, result: usize, of: usize, value: Value) -> Answer<()> {
        *self.type_of.get_mut(result).ok_or(Unsupported)? = of;
        *self.values.get_mut(result).ok_or(Unsupported)? = value;
        Ok(())
    }

    pub(crate) fn type_at(&self, id: usize) -> Answer<Type> {
        self.types.get(id).copied().ok_or(Unsupported)
    }

    pub(crate) fn width(&self, of: usize) -> Answer<usize> {
        match self.type_at(of)? {
            Type::Word => Ok(1),
            Type::Vector(size) => Ok(size as usize),
            _ => Err(Unsupported),
        }
    }

    pub(crate) fn member(&self, at: usize, index: u32) -> Answer<usize> {
        match instruction(self.words, at)? {
            Some((30, operands, _)) => id(operands, 1 + index as usize),
            _ => Err(Unsupported),
        }
    }

    /// 0 for a decoration without argument.
    pub(crate) fn decoration(&self, target: usize, decoration: u32) -> Option<u32> {
        self.decorated(71, &[target as u32, decoration])
    }

    /// `at` is the word of the struct.
    pub(crate) fn member_decoration(&self, at: usize, member: u32, decoration: u32) -> Option<u32> {
        let target = self.words.get(at + 1)?;
        self.decorated(72, &[*target, member, decoration])
    }

    fn decorated(&self, wanted: u32, begins: &[u32]) -> Option<u32> {
        let mut at = 5;
        while let Ok(Some((code, operands, next))) = instruction(self.words, at) {
            if code == wanted && operands.starts_with(begins) {
                return Some(operands.get(begins.len()).copied().unwrap_or(0));
            }
            // Decorations stand before all functions.
            if code == 54 {
                return None;
            }
            at = next;
        }
        None
    }
}
