//! What threads bring to a collective operation and what they take from it: values, and how two are combined.
//!
//! An operation that is known here is *folded*: the operands of a node become one, and those of all nodes, in the
//! order of their places, so that sums of floating-point numbers do not depend on who comes first. What is
//! [`Operation::Gather`]ed stays as it is, for each thread to fold by itself.

use std::collections::BTreeMap;

/// Bytes of an encoded operand at most: one frame.
pub const MOST_OPERAND_BYTES: usize = 1 << 20;
/// Bytes that one thread brings at most.
pub const MOST_SHARE_BYTES: usize = 32 << 10;
/// Bytes before the parts of an encoded operand, and before each part.
const HEAD: usize = 24;
const PART_HEAD: usize = 8;
/// No thread alone takes the result.
const ALL: u32 = u32::MAX;

/// How the values of two threads become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// The sum; integers wrap around.
    Sum = 0,
    /// The least; of a number and a NaN the number.
    Min = 1,
    /// The greatest; of a number and a NaN the number.
    Max = 2,
    /// 1 if none is 0, else 0.
    And = 3,
    /// 1 if any is not 0, else 0.
    Or = 4,
    /// All values of all threads, in the order of their places.
    Gather = 5,
    /// Those of the one thread that brings any.
    Broadcast = 6,
}

/// What a value is, in the byte order of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Element {
    Int32,
    Int64,
    Uint64,
    Float,
    Double,
    /// So many bytes, which nothing here looks into.
    Bytes(u32),
}

/// What all threads of a collective operation have to agree about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// What is done.
    pub operation: Operation,
    /// With what.
    pub element: Element,
    /// With how many of each thread.
    pub count: u32,
    /// Of how many, over all pieces of an array.
    pub whole: u64,
    /// The place of the thread that gives ([`Operation::Broadcast`]) or alone takes the result; `None`: all take it.
    pub root: Option<u32>,
}

/// The values of one thread or of several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    shape: Shape,
    /// A thread that takes the result is among them.
    takes: bool,
    /// Values, by the place of the thread that brought them, the lowest of those that are folded.
    parts: BTreeMap<u32, Vec<u8>>,
}

/// Bytes that are no operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an operand of a collective operation that makes no sense")]
pub struct OperandError;

impl Operation {
    const EACH: [Self; 7] =
        [Self::Sum, Self::Min, Self::Max, Self::And, Self::Or, Self::Gather, Self::Broadcast];
}

impl Element {
    /// Bytes of one.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::Int32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::Double => 8,
            Self::Bytes(bytes) => bytes,
        }
    }

    fn to_word(self) -> u32 {
        match self {
            Self::Int32 => 0,
            Self::Int64 => 1,
            Self::Uint64 => 2,
            Self::Float => 3,
            Self::Double => 4,
            Self::Bytes(bytes) => 5 + bytes,
        }
    }

    fn from_word(word: u32) -> Self {
        match word {
            0 => Self::Int32,
            1 => Self::Int64,
            2 => Self::Uint64,
            3 => Self::Float,
            4 => Self::Double,
            bytes => Self::Bytes(bytes - 5),
        }
    }
}

impl core::fmt::Display for Shape {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let operation = format!("{:?}", self.operation).to_lowercase();
        let element = if let Element::Bytes(bytes) = self.element {
            format!("{bytes} bytes")
        } else {
            format!("{:?}", self.element).to_lowercase()
        };
        write!(f, "{operation} of {} x {element}", self.whole)?;
        self.root.map_or(Ok(()), |root| write!(f, " with root {root}"))
    }
}

impl Operand {
    /// What the thread at `place` brings: `count` values, or none to a broadcast of another's.
    #[must_use]
    pub fn new(shape: Shape, place: u32, values: Vec<u8>) -> Self {
        let gives = shape.operation == Operation::Broadcast;
        let takes = gives || shape.root.is_none_or(|root| root == place);
        Self { shape, takes, parts: BTreeMap::from([(place, values)]) }
    }

    /// What it is about.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether a thread that takes the result is among those who brought it.
    #[must_use]
    pub fn takes(&self) -> bool {
        self.takes
    }

    /// How many values there are, and their bytes.
    #[must_use]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.parts.len(), self.parts.values().map(Vec::len).sum())
    }

    /// Whether another may be merged into it; else what is wrong.
    ///
    /// # Errors
    /// They differ in what they are about, or two came with one place.
    pub fn check(&self, other: &Self) -> Result<(), String> {
        if self.shape != other.shape {
            return Err(format!("threads disagree: {}, and {}", self.shape, other.shape));
        }
        match other.parts.keys().find(|place| self.parts.contains_key(place)) {
            Some(place) => Err(format!("two threads came with place {place}")),
            None => Ok(()),
        }
    }

    /// Takes another's values in; they were checked.
    pub fn merge(&mut self, other: Self) {
        self.takes |= other.takes;
        self.parts.extend(other.parts);
    }

    /// Makes the values one, in the order of their places, unless they are gathered.
    pub fn fold(&mut self) {
        if self.shape.operation == Operation::Gather {
            return;
        }
        let mut parts = core::mem::take(&mut self.parts).into_iter();
        let Some((place, mut folded)) = parts.next() else { return };
        for (_, values) in parts {
            fold_into(&mut folded, &values, self.shape);
        }
        self.parts.insert(place, folded);
    }

    /// The result: the values, one after the other.
    #[must_use]
    pub fn into_values(mut self) -> Vec<u8> {
        self.fold();
        let parts: Vec<_> = self.parts.into_values().collect();
        parts.concat()
    }

    /// A result for who takes none.
    #[must_use]
    pub fn nothing(shape: Shape) -> Self {
        Self { shape, takes: false, parts: BTreeMap::new() }
    }

    /// Its bytes on the wire.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let shape = self.shape;
        let mut out = vec![shape.operation as u8, self.takes.into(), 0, 0];
        let root = shape.root.unwrap_or(ALL);
        for word in [shape.element.to_word(), shape.count, root] {
            out.extend(word.to_le_bytes());
        }
        out.extend(shape.whole.to_le_bytes());
        for (place, values) in &self.parts {
            out.extend(place.to_le_bytes());
            out.extend(u32::try_from(values.len()).unwrap_or(u32::MAX).to_le_bytes());
            out.extend(values);
        }
        out
    }

    /// The operand these bytes spell.
    ///
    /// # Errors
    /// [`OperandError`] for bytes that no node sends.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OperandError> {
        let (head, mut left) = bytes.split_at_checked(HEAD).ok_or(OperandError)?;
        let operation = Operation::EACH.get(usize::from(head[0])).ok_or(OperandError)?;
        let (element, count) = (Element::from_word(word(head, 4)?), word(head, 8)?);
        let root = Some(word(head, 12)?).filter(|&root| root != ALL);
        let whole = u64::from(word(head, 16)?) | u64::from(word(head, 20)?) << 32;
        let shape = Shape { operation: *operation, element, count, whole, root };
        if shape.bytes() > MOST_SHARE_BYTES as u64 {
            return Err(OperandError);
        }
        let mut parts = BTreeMap::new();
        while !left.is_empty() {
            let (place, len) = (word(left, 0)?, word(left, 4)?);
            let whole = shape.bytes() == u64::from(len);
            let none = len == 0 && shape.operation == Operation::Broadcast;
            let rest = left.get(PART_HEAD..).ok_or(OperandError)?;
            let (values, rest) = rest.split_at_checked(len as usize).ok_or(OperandError)?;
            if !(whole || none) || parts.insert(place, values.to_vec()).is_some() {
                return Err(OperandError);
            }
            left = rest;
        }
        let operand = Self { shape, takes: head[1] != 0, parts };
        // One spelling each.
        if operand.to_bytes() == bytes { Ok(operand) } else { Err(OperandError) }
    }
}

impl Shape {
    /// Bytes that each thread brings.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.element.bytes()) * u64::from(self.count)
    }

    /// Combines values of one thread with those of another at a later place, as many.
    pub fn fold(self, values: &mut [u8], later: &[u8]) {
        fold_numbers(values, later, self);
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u32, OperandError> {
    let word = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    word.map(u32::from_le_bytes).ok_or(OperandError)
}

/// Combines what comes before with what comes after it.
fn fold_into(folded: &mut Vec<u8>, values: &[u8], shape: Shape) {
    if shape.operation == Operation::Broadcast {
        if folded.is_empty() {
            folded.extend_from_slice(values);
        }
        return;
    }
    fold_numbers(folded, values, shape);
}

fn fold_numbers(folded: &mut [u8], values: &[u8], Shape { operation, element, .. }: Shape) {
    macro_rules! each {
        ($number:ty, $sum:expr, $zero:expr) => {
            each(folded, values, <$number>::from_ne_bytes, <$number>::to_ne_bytes, |one, other| {
                let truth = |is: bool| if is { 1 as $number } else { $zero };
                match operation {
                    Operation::Sum => $sum(one, other),
                    Operation::Min => one.min(other),
                    Operation::Max => one.max(other),
                    Operation::And => truth(one != $zero && other != $zero),
                    Operation::Or => truth(one != $zero || other != $zero),
                    Operation::Gather | Operation::Broadcast => one,
                }
            })
        };
    }
    match element {
        Element::Int32 => each!(i32, i32::wrapping_add, 0),
        Element::Int64 => each!(i64, i64::wrapping_add, 0),
        Element::Uint64 => each!(u64, u64::wrapping_add, 0),
        Element::Float => each!(f32, |one, other| one + other, 0.0),
        Element::Double => each!(f64, |one, other| one + other, 0.0),
        Element::Bytes(_) => {}
    }
}

fn each<T, const BYTES: usize>(
    folded: &mut [u8],
    values: &[u8],
    from: impl Fn([u8; BYTES]) -> T,
    to: impl Fn(T) -> [u8; BYTES],
    combine: impl Fn(T, T) -> T,
) {
    let (folded, _) = folded.as_chunks_mut::<BYTES>();
    let (values, _) = values.as_chunks::<BYTES>();
    for (one, other) in folded.iter_mut().zip(values) {
        *one = to(combine(from(*one), from(*other)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: Shape = Shape {
        operation: Operation::Sum,
        element: Element::Double,
        count: 1,
        whole: 1,
        root: None,
    };

    fn of(shape: Shape, parts: &[(u32, &[u8])]) -> Operand {
        let mut all =
            parts.iter().map(|(place, values)| Operand::new(shape, *place, values.to_vec()));
        let mut first = all.next().unwrap();
        for other in all {
            assert_eq!(first.check(&other), Ok(()));
            first.merge(other);
        }
        first
    }

    #[test]
    fn a_sum_is_that_in_the_order_of_places_whoever_comes_first() {
        // In another order the last bits differ.
        let values = [1e16, 1.0, -1e16, 1.0].map(f64::to_ne_bytes);
        let expected = ((1e16 + 1.0) - 1e16) + 1.0;
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
            let parts = order.map(|at: u32| (at, &values[at as usize][..]));
            let sum = of(SUM, &parts).into_values();
            assert_eq!(sum, f64::to_ne_bytes(expected));
        }
    }

    #[test]
    fn each_operation_does_what_its_name_says_to_each_element_by_itself() {
        let fold = |operation, one: [i32; 2], other: [i32; 2]| {
            let shape =
                Shape { operation, element: Element::Int32, count: 2, whole: 2, root: None };
            let bytes = |of: [i32; 2]| of.map(i32::to_ne_bytes).concat();
            let folded = of(shape, &[(0, &bytes(one)), (1, &bytes(other))]).into_values();
            [0, 4].map(|at| i32::from_ne_bytes(folded[at..at + 4].try_into().unwrap()))
        };
        assert_eq!(fold(Operation::Sum, [1, i32::MAX], [2, 1]), [3, i32::MIN]);
        assert_eq!(fold(Operation::Min, [1, -5], [2, 7]), [1, -5]);
        assert_eq!(fold(Operation::Max, [1, -5], [2, 7]), [2, 7]);
        assert_eq!(fold(Operation::And, [4, 0], [2, 7]), [1, 0]);
        assert_eq!(fold(Operation::Or, [0, 0], [2, 0]), [1, 0]);
        let float = |operation, one: f32, other: f32| {
            let shape =
                Shape { operation, element: Element::Float, count: 1, whole: 1, root: None };
            let folded = of(shape, &[(0, &one.to_ne_bytes()), (1, &other.to_ne_bytes())]);
            f32::from_ne_bytes(folded.into_values().try_into().unwrap())
        };
        assert_eq!(float(Operation::Min, f32::NAN, 3.0), 3.0);
        assert_eq!(float(Operation::And, 0.5, -0.5), 1.0);
    }

    #[test]
    fn what_is_gathered_lies_in_the_order_of_places_and_a_broadcast_is_its_roots() {
        let element = Element::Bytes(2);
        let shape = Shape { operation: Operation::Gather, element, count: 1, whole: 1, root: None };
        assert_eq!(of(shape, &[(1, b"cd"), (2, b"ef"), (0, b"ab")]).into_values(), b"abcdef");
        let shape =
            Shape { operation: Operation::Broadcast, element, count: 1, whole: 1, root: Some(1) };
        assert_eq!(of(shape, &[(0, b""), (1, b"xy"), (2, b"")]).into_values(), b"xy");
    }

    #[test]
    fn an_operand_survives_its_bytes_and_nothing_else_is_one() {
        let element = Element::Bytes(2);
        let shape =
            Shape { operation: Operation::Gather, element, count: 1, whole: 1, root: Some(2) };
        for operand in [
            of(shape, &[(1, b"cd"), (2, b"ef")]),
            of(SUM, &[(7, &[0; 8])]),
            Operand::nothing(SUM),
            Operand::new(Shape { operation: Operation::Broadcast, ..shape }, 0, Vec::new()),
        ] {
            let bytes = operand.to_bytes();
            assert_eq!(Operand::from_bytes(&bytes).as_ref(), Ok(&operand));
            let short = &bytes[..bytes.len() - 1];
            assert!(Operand::from_bytes(short).is_err());
        }
        let good = of(shape, &[(1, b"cd"), (2, b"ef")]).to_bytes();
        let bent = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Operand::from_bytes(&bytes)
        };
        assert!(bent(0, 7).is_err(), "no such operation");
        assert!(bent(8, 2).is_err(), "parts of another length");
        assert!(bent(HEAD, 2).is_err(), "one place twice");
        assert!(bent(HEAD, 3).is_err(), "not in order");
    }

    #[test]
    fn what_threads_disagree_about_is_named() {
        let one = of(SUM, &[(0, &[0; 8])]);
        let check = |shape, place| one.check(&Operand::new(shape, place, vec![0; 8])).unwrap_err();
        let line = check(Shape { operation: Operation::Max, element: Element::Int64, ..SUM }, 1);
        assert_eq!(line, "threads disagree: sum of 1 x double, and max of 1 x int64");
        assert_eq!(check(SUM, 0), "two threads came with place 0");
        assert!(check(Shape { root: Some(3), ..SUM }, 1).ends_with("with root 3"));
    }
}
