//! Where an encoder puts its bytes: room that has an end.

/// Bytes one behind the other, in room that is given.
#[derive(Debug)]
pub(super) struct Output<'a> {
    room: &'a mut [u8],
    len: usize,
}

impl<'a> Output<'a> {
    pub(super) fn new(room: &'a mut [u8]) -> Self {
        Self { room, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that there is room for.
    pub(super) fn left(&self) -> usize {
        self.room.len() - self.len
    }

    /// Appends `bytes`; None if there is no room for all of them.
    pub(super) fn extend(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len + bytes.len();
        self.room.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    /// Appends a byte.
    pub(super) fn push(&mut self, byte: u8) -> Option<()> {
        *self.room.get_mut(self.len)? = byte;
        self.len += 1;
        Some(())
    }
}
