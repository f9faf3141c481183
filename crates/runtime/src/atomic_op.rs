//! An atomic operation on a word, as a call does it on this node or asks another node to.

#![expect(unsafe_code, reason = "a word is reached by its address")]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use multigrain_protocol::sync::{Element, Operation, Shape};

use crate::error::Error;

/// What is done with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicAction {
    /// It becomes what the operation makes of it and the operand, as in a reduction.
    Combine(Operation),
    /// It becomes the operand.
    Exchange,
    /// It becomes the operand if it has this value; bit for bit, of floating-point numbers too.
    CompareExchange(u64),
}

/// One operation. Values are in the low bytes of 64 bits, bit for bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicOp {
    action: AtomicAction,
    element: Element,
    operand: u64,
}

/// Operations of [`AtomicAction::Combine`], by their numbers on the wire; behind them the other actions.
const COMBINING: [Operation; 5] =
    [Operation::Sum, Operation::Min, Operation::Max, Operation::And, Operation::Or];
const EXCHANGE: u8 = 5;
const COMPARE_EXCHANGE: u8 = 6;
/// Types of words, by their numbers on the wire.
const ELEMENTS: [Element; 5] =
    [Element::Int32, Element::Int64, Element::Uint64, Element::Float, Element::Double];

impl AtomicOp {
    /// Bytes on the wire: action, type, operand, expected value.
    const WIRE_BYTES: usize = 18;

    /// # Errors
    /// [`Error::Invalid`] for an operation or a type that no word has.
    pub fn new(action: AtomicAction, element: Element, operand: u64) -> Result<Self, Error> {
        let combines = |operation| COMBINING.contains(&operation);
        let known = !matches!(action, AtomicAction::Combine(operation) if !combines(operation));
        if !known || !ELEMENTS.contains(&element) {
            return Err(Error::Invalid(format!(
                "{action:?} of {element:?} as an atomic operation"
            )));
        }
        Ok(Self { action, element, operand })
    }

    /// Bytes of the word: 4 or 8.
    pub(crate) fn bytes(self) -> usize {
        self.element.bytes() as usize
    }

    /// Does it; the value before.
    ///
    /// # Safety
    /// `place` points to a word of [`AtomicOp::bytes`], aligned to as many, that nobody accesses but atomically
    /// meanwhile.
    pub(crate) unsafe fn apply(self, place: *mut u8) -> u64 {
        const SUCCEEDED: Ordering = Ordering::SeqCst;
        const FAILED: Ordering = Ordering::SeqCst;
        if self.bytes() == 4 {
            // SAFETY: the caller's promise.
            let word = unsafe { AtomicU32::from_ptr(place.cast()) };
            let operand = self.operand.to_le_bytes();
            let operand = u32::from_le_bytes([operand[0], operand[1], operand[2], operand[3]]);
            let change = |before: u32| match self.action {
                AtomicAction::Combine(operation) => {
                    let mut word = before.to_ne_bytes();
                    self.shape(operation).fold(&mut word, &operand.to_ne_bytes());
                    Some(u32::from_ne_bytes(word))
                }
                AtomicAction::Exchange => Some(operand),
                AtomicAction::CompareExchange(expected) => {
                    (u64::from(before) == expected).then_some(operand)
                }
            };
            let (Ok(before) | Err(before)) = word.fetch_update(SUCCEEDED, FAILED, change);
            return before.into();
        }
        // SAFETY: the caller's promise.
        let word = unsafe { AtomicU64::from_ptr(place.cast()) };
        let change = |before: u64| match self.action {
            AtomicAction::Combine(operation) => {
                let mut word = before.to_ne_bytes();
                self.shape(operation).fold(&mut word, &self.operand.to_ne_bytes());
                Some(u64::from_ne_bytes(word))
            }
            AtomicAction::Exchange => Some(self.operand),
            AtomicAction::CompareExchange(expected) => (before == expected).then_some(self.operand),
        };
        let (Ok(before) | Err(before)) = word.fetch_update(SUCCEEDED, FAILED, change);
        before
    }

    fn shape(self, operation: Operation) -> Shape {
        Shape { operation, element: self.element, count: 1, whole: 1, root: None }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::WIRE_BYTES] {
        let (action, expected) = match self.action {
            AtomicAction::Combine(operation) => (operation as u8, 0),
            AtomicAction::Exchange => (EXCHANGE, 0),
            AtomicAction::CompareExchange(expected) => (COMPARE_EXCHANGE, expected),
        };
        let element = ELEMENTS.iter().position(|&element| element == self.element);
        let mut out = [0; Self::WIRE_BYTES];
        out[0] = action;
        out[1] = element.and_then(|element| u8::try_from(element).ok()).unwrap_or(u8::MAX);
        out[2..10].copy_from_slice(&self.operand.to_le_bytes());
        out[10..].copy_from_slice(&expected.to_le_bytes());
        out
    }

    /// None for bytes that no node sends.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::WIRE_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let expected = word(10)?;
        let action = match bytes[0] {
            EXCHANGE => AtomicAction::Exchange,
            COMPARE_EXCHANGE => AtomicAction::CompareExchange(expected),
            combines => AtomicAction::Combine(*COMBINING.get(usize::from(combines))?),
        };
        let element = *ELEMENTS.get(usize::from(bytes[1]))?;
        let op = Self { action, element, operand: word(2)? };
        // One spelling each.
        (op.to_bytes() == *bytes).then_some(op)
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;

    #[expect(clippy::unwrap_used, reason = "what a test makes is an operation")]
    fn apply(word: &mut u64, action: AtomicAction, element: Element, operand: u64) -> u64 {
        let op = AtomicOp::new(action, element, operand).unwrap();
        let sent = AtomicOp::from_bytes(&op.to_bytes()).unwrap();
        assert_eq!(op, sent);
        // SAFETY: it is this test's own.
        unsafe { sent.apply(core::ptr::from_mut(word).cast()) }
    }

    #[test]
    fn each_action_does_what_it_says_and_gives_the_value_before() {
        use AtomicAction::{Combine, CompareExchange, Exchange};
        let double = f64::to_bits;
        for (before, action, element, operand, after) in [
            (40, Combine(Operation::Sum), Element::Uint64, 2, 42),
            (u64::MAX, Combine(Operation::Sum), Element::Uint64, 2, 1),
            (5, Combine(Operation::Min), Element::Int64, -3_i64 as u64, -3_i64 as u64),
            (5, Combine(Operation::Max), Element::Uint64, -3_i64 as u64, -3_i64 as u64),
            (6, Combine(Operation::And), Element::Int64, 3, 1),
            (0, Combine(Operation::Or), Element::Int64, 0, 0),
            (double(1.5), Combine(Operation::Sum), Element::Double, double(2.25), double(3.75)),
            (7, Exchange, Element::Double, 9, 9),
            (7, CompareExchange(7), Element::Uint64, 9, 9),
            (7, CompareExchange(8), Element::Uint64, 9, 7),
        ] {
            let mut word = before;
            assert_eq!(apply(&mut word, action, element, operand), before, "{action:?}");
            assert_eq!(word, after, "{action:?} of {before:#x} and {operand:#x}");
        }
    }

    #[test]
    fn a_word_of_4_bytes_changes_no_byte_behind_it() {
        let other = 0xabcd_u64 << 32;
        let float = |value: f32| u64::from(value.to_bits());
        for (before, action, element, operand, after) in [
            (u64::from(u32::MAX), AtomicAction::Combine(Operation::Sum), Element::Int32, 1, 0),
            (
                float(0.5),
                AtomicAction::Combine(Operation::Sum),
                Element::Float,
                float(0.25),
                float(0.75),
            ),
            (3, AtomicAction::Exchange, Element::Int32, u64::MAX, u64::from(u32::MAX)),
            (3, AtomicAction::CompareExchange(3), Element::Int32, 4, 4),
        ] {
            let mut word = other | before;
            assert_eq!(apply(&mut word, action, element, operand), before);
            assert_eq!(word, other | after);
        }
    }

    #[test]
    fn what_no_node_sends_is_no_operation() {
        let op = AtomicOp::new(AtomicAction::Exchange, Element::Int64, 7).unwrap();
        let good = op.to_bytes();
        assert!(AtomicOp::from_bytes(&good).is_some());
        for (at, byte) in [(0, 7), (0, 255), (1, 5), (1, 255), (10, 1)] {
            let mut bad = good;
            bad[at] = byte;
            assert_eq!(AtomicOp::from_bytes(&bad), None, "byte {at}: {byte}");
        }
        assert_eq!(AtomicOp::from_bytes(&good[1..]), None);
        assert_eq!(AtomicOp::from_bytes(&[&good[..], &[0]].concat()), None);
        assert!(AtomicOp::new(AtomicAction::Exchange, Element::Bytes(8), 0).is_err());
        let gather = AtomicAction::Combine(Operation::Gather);
        assert!(AtomicOp::new(gather, Element::Int64, 0).is_err());
    }
}
