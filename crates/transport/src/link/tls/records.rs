//! TLS 1.3 records of a connection whose handshake is over: bytes are sealed and opened where they lie.
//!
//! RFC 8446, sections 5.1 to 5.4, for the one cipher suite that `super` offers. Keys come from rustls, at the end of the
//! handshake and at each update.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rustix::io::Errno;
use rustls::ConnectionTrafficSecrets;

/// Bytes in front of what is sealed: type, version, length.
pub(super) const HEADER: usize = 5;
/// Bytes behind it: the type that it really has, and the tag.
pub(super) const TRAILER: usize = 1 + TAG;
const TAG: usize = 16;
/// The most that one record carries.
pub(super) const MOST: usize = 1 << 14;
/// The most that a record of a peer may be long.
pub(super) const MOST_RECORD: usize = HEADER + MOST + 256;
/// Records under one key, which stay far below the 2^24 of section 5.5; few where that is tested.
pub(super) const MOST_RECORDS: u64 = if cfg!(test) { 5 } else { 1 << 23 };

/// What a record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Alert,
    Handshake,
    Data,
}

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// A key for one direction, and the number of the next record under it.
pub(super) struct Key {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    next: u64,
}

impl Key {
    /// From what rustls gives.
    pub(super) fn new((next, secrets): (u64, ConnectionTrafficSecrets)) -> Option<Self> {
        let ConnectionTrafficSecrets::Aes128Gcm { key, iv } = secrets else { return None };
        let key = UnboundKey::new(&AES_128_GCM, key.as_ref()).ok()?;
        Some(Self { key: LessSafeKey::new(key), iv: iv.as_ref().try_into().ok()?, next })
    }

    /// Records under this key so far.
    pub(super) fn used(&self) -> u64 {
        self.next
    }

    /// The number that is used once: no two records under a key have the same.
    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.next.to_be_bytes()) {
            *byte ^= number;
        }
        self.next += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seals a record in place: [`HEADER`] bytes of room, what it carries, and [`TRAILER`] bytes of room.
    pub(super) fn seal(&mut self, content: Content, record: &mut [u8]) -> Result<(), Errno> {
        let (header, sealed) = record.split_first_chunk_mut::<HEADER>().ok_or(Errno::INVAL)?;
        let length = u16::try_from(sealed.len()).map_err(|_| Errno::INVAL)?;
        *header = [DATA, 3, 3, 0, 0];
        header[3..].copy_from_slice(&length.to_be_bytes());
        let (inner, tag) = sealed.split_last_chunk_mut::<TAG>().ok_or(Errno::INVAL)?;
        *inner.last_mut().ok_or(Errno::INVAL)? = match content {
            Content::Alert => ALERT,
            Content::Handshake => HANDSHAKE,
            Content::Data => DATA,
        };
        let nonce = self.nonce();
        let made = self.key.seal_in_place_separate_tag(nonce, Aad::from(*header), inner);
        tag.copy_from_slice(made.map_err(|_| Errno::IO)?.as_ref());
        Ok(())
    }

    /// Opens a whole record in place: what it carries lies at the same place, so many bytes behind the header.
    ///
    /// # Errors
    /// `EBADMSG`: nobody who has the key has sealed it as the next record.
    pub(super) fn open(&mut self, record: &mut [u8]) -> Result<(Content, usize), Errno> {
        let (header, sealed) = record.split_first_chunk_mut::<HEADER>().ok_or(Errno::BADMSG)?;
        let nonce = self.nonce();
        let opened = self.key.open_in_place(nonce, Aad::from(*header), sealed);
        let inner = opened.map_err(|_| Errno::BADMSG)?;
        // Zeroes behind the type are padding.
        let end = inner.iter().rposition(|byte| *byte != 0).ok_or(Errno::BADMSG)?;
        let content = match inner[end] {
            ALERT => Content::Alert,
            HANDSHAKE => Content::Handshake,
            DATA => Content::Data,
            _ => return Err(Errno::BADMSG),
        };
        Ok((content, end))
    }
}

/// The length of the record that begins here, with its header; `None` while that is not there as a whole.
///
/// # Errors
/// `EBADMSG`: nothing of TLS 1.3 begins so.
pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>, Errno> {
    let Some(header) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
    let [kind, _, _, high, low] = *header;
    let length = HEADER + usize::from(u16::from_be_bytes([high, low]));
    if kind != DATA || !(HEADER + TRAILER..=MOST_RECORD).contains(&length) {
        return Err(Errno::BADMSG);
    }
    Ok(Some(length))
}
