//! Who may join: the HELLO a connecting node says, and the checks of the one that accepts it.
//!
//! Role: pure: bytes in, a verdict out. The connecting node sends a HELLO frame with a body of
//! fixed size; the accepting node answers a WELCOME or REFUSED frame without payload.

use crate::frame_header::{HELLO, Header, REFUSED, WELCOME};
use core::fmt;
use multigrain_types::NodeId;
use multigrain_types::phrases::{CUT_IN_HANDSHAKE, SILENT_IN_HANDSHAKE};
use zerocopy::little_endian::{U16, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the header, the handshake and whatever the users of the mesh say with them.
pub const PROTOCOL_VERSION: u16 = 6;

/// How TLS begins: the type of a record of its handshake.
const TLS_HANDSHAKE: u8 = 22;

const MAGIC: [u8; 4] = *b"MGRN";

/// What every node of a job knows, and no other.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) rank: NodeId,
    pub(crate) nodes: u16,
    pub(crate) job: u128,
    pub(crate) secret: [u8; 32],
    pub(crate) build: u64,
}

impl Identity {
    /// As it is said over a link: without the secret where that proves ranks.
    pub(crate) fn over(&self, proves_rank: bool) -> Self {
        let secret = if proves_rank { [0; 32] } else { self.secret };
        Self { secret, ..self.clone() }
    }
}

/// The body of a HELLO frame.
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
struct Hello {
    magic: [u8; 4],
    version: U16,
    rank: U16,
    nodes: U16,
    job: U128,
    secret: [u8; 32],
    build: U64,
}

/// Bytes of a HELLO frame, header and body.
pub(crate) const HELLO_BYTES: usize = Header::BYTES + size_of::<Hello>();

/// Why a connection was refused. The codes go over the wire in the REFUSED frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The bytes are no HELLO frame of Multigrain.
    Garbage,
    /// Another version of the protocol, with the version that was offered.
    Version(u16),
    /// The id of another job.
    Job,
    /// Not the job's secret.
    Secret,
    /// Another build of the program or the library.
    Build,
    /// The peer counts this many nodes.
    Nodes(u16),
    /// A rank that does not exist, or that must not connect to this one.
    Rank(u16),
    /// That rank is connected already.
    Duplicate(u16),
    /// The connection ended before the HELLO did.
    Cut,
    /// Nothing, or not enough, was said in time.
    Silence,
    /// The process belongs to another user, with that user's id.
    User(u32),
    /// All peers are there already.
    Complete,
    /// Too many unauthenticated connections at once.
    TooMany,
    /// It says plain bytes where TLS is wanted.
    Plain,
    /// It speaks TLS where plain bytes are wanted.
    Encrypted,
    /// It speaks TLS, but no version that is good enough.
    OldTls,
    /// It has no certificate.
    NoCertificate,
    /// Its certificate is not from the job's authority.
    Certificate,
    /// Its certificate is not valid at this time.
    Expired,
    /// What it says in the TLS handshake is wrong otherwise.
    Tls,
    /// It does not trust this node's certificate.
    Alert,
    /// Its certificate is not this rank's.
    NotRank(u16),
    /// Its rank is lower, and this node's own connection to it stands.
    Crossed,
    /// A code this version does not know.
    Unknown(u64),
}

impl Refusal {
    /// Code in the low 16 bits, operand above.
    pub(crate) fn code(self) -> u64 {
        let with = |code: u64, operand: u64| code | (operand << 16);
        match self {
            Self::Garbage => 1,
            Self::Version(version) => with(2, version.into()),
            Self::Job => 3,
            Self::Secret => 4,
            Self::Build => 5,
            Self::Nodes(nodes) => with(6, nodes.into()),
            Self::Rank(rank) => with(7, rank.into()),
            Self::Duplicate(rank) => with(8, rank.into()),
            Self::Cut => 9,
            Self::Silence => 10,
            Self::User(uid) => with(11, uid.into()),
            Self::Complete => 12,
            Self::TooMany => 13,
            Self::Plain => 14,
            Self::Encrypted => 15,
            Self::OldTls => 16,
            Self::NoCertificate => 17,
            Self::Certificate => 18,
            Self::Expired => 19,
            Self::Tls => 20,
            Self::Alert => 21,
            Self::NotRank(rank) => with(22, rank.into()),
            Self::Crossed => 23,
            Self::Unknown(code) => code,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the operand's width is its meaning")]
    pub(crate) fn from_code(code: u64) -> Self {
        let operand = code >> 16;
        match code & 0xffff {
            1 => Self::Garbage,
            2 => Self::Version(operand as u16),
            3 => Self::Job,
            4 => Self::Secret,
            5 => Self::Build,
            6 => Self::Nodes(operand as u16),
            7 => Self::Rank(operand as u16),
            8 => Self::Duplicate(operand as u16),
            9 => Self::Cut,
            10 => Self::Silence,
            11 => Self::User(operand as u32),
            12 => Self::Complete,
            13 => Self::TooMany,
            14 => Self::Plain,
            15 => Self::Encrypted,
            16 => Self::OldTls,
            17 => Self::NoCertificate,
            18 => Self::Certificate,
            19 => Self::Expired,
            20 => Self::Tls,
            21 => Self::Alert,
            22 => Self::NotRank(operand as u16),
            23 => Self::Crossed,
            _ => Self::Unknown(code),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Garbage => write!(out, "it does not speak Multigrain"),
            Self::Version(version) => {
                write!(out, "it speaks version {version}, not {PROTOCOL_VERSION}")
            }
            Self::Job => write!(out, "it belongs to another job"),
            Self::Secret => write!(out, "it does not know the job's secret"),
            Self::Build => write!(out, "it runs another build of the program"),
            Self::Nodes(nodes) => write!(out, "it counts {nodes} nodes in the job"),
            Self::Rank(rank) => write!(out, "no node of rank {rank} is expected here"),
            Self::Duplicate(rank) => write!(out, "rank {rank} is connected already"),
            Self::Cut => out.write_str(CUT_IN_HANDSHAKE),
            Self::Silence => out.write_str(SILENT_IN_HANDSHAKE),
            Self::User(uid) => write!(out, "it belongs to another user ({uid})"),
            Self::Complete => write!(out, "all nodes of the job are here already"),
            Self::TooMany => write!(out, "too many unfinished connections"),
            Self::Plain => write!(out, "it does not speak TLS, as this job does"),
            Self::Encrypted => write!(out, "it speaks TLS, which this job does not"),
            Self::OldTls => write!(out, "it does not speak TLS 1.3 as this job does"),
            Self::NoCertificate => write!(out, "it has no certificate"),
            Self::Certificate => write!(out, "its certificate is not of this job"),
            Self::Expired => {
                let when = "its certificate is not valid at this time";
                write!(out, "{when}: it is old, or the clocks of the hosts differ")
            }
            Self::Tls => write!(out, "its part of the TLS handshake is wrong"),
            Self::Alert => write!(out, "it does not trust this node's certificate"),
            Self::NotRank(rank) => write!(out, "its certificate is not that of rank {rank}"),
            Self::Crossed => write!(out, "a connection the other way stands"),
            Self::Unknown(code) => write!(out, "for an unknown reason ({code:#x})"),
        }
    }
}

/// The HELLO frame of `own`.
pub(crate) fn hello(own: &Identity) -> [u8; HELLO_BYTES] {
    let body = Hello {
        magic: MAGIC,
        version: PROTOCOL_VERSION.into(),
        rank: own.rank.0.into(),
        nodes: own.nodes.into(),
        job: own.job.into(),
        secret: own.secret,
        build: own.build.into(),
    };
    let header = Header {
        kind: HELLO,
        from: own.rank.0,
        payload: size_of::<Hello>() as u64,
        ..Header::default()
    };
    let mut frame = [0; HELLO_BYTES];
    frame[..Header::BYTES].copy_from_slice(&header.encode());
    frame[Header::BYTES..].copy_from_slice(body.as_bytes());
    frame
}

/// Judges what a connecting node has said so far: `Ok(None)` while it may still become a good
/// HELLO, the peer's rank once it is one. `expects` tells whether another rank of the job is welcome.
pub(crate) fn judge(
    said: &[u8],
    own: &Identity,
    expects: impl Fn(NodeId) -> Result<(), Refusal>,
) -> Result<Option<NodeId>, Refusal> {
    if said.first() == Some(&TLS_HANDSHAKE) {
        return Err(Refusal::Encrypted);
    }
    if said.first().is_some_and(|kind| *kind != HELLO) {
        return Err(Refusal::Garbage);
    }
    let Some((head, body)) = said.split_at_checked(Header::BYTES) else { return Ok(None) };
    let header = Header::decode(head).map_err(|_| Refusal::Garbage)?;
    if header.payload_bytes() != size_of::<Hello>() {
        return Err(Refusal::Garbage);
    }
    let seen = body.len().min(MAGIC.len());
    if body[..seen] != MAGIC[..seen] {
        return Err(Refusal::Garbage);
    }
    let Ok((hello, _)) = Hello::ref_from_prefix(body) else { return Ok(None) };
    check(hello, own, expects).map(Some)
}

/// What a node says to a peer that connects, where each node connects to lower ranks alone.
pub(crate) fn only_higher(own: NodeId, peer: NodeId, taken: bool) -> Result<(), Refusal> {
    if peer <= own {
        Err(Refusal::Rank(peer.0))
    } else if taken {
        Err(Refusal::Duplicate(peer.0))
    } else {
        Ok(())
    }
}

fn check(
    hello: &Hello,
    own: &Identity,
    expects: impl Fn(NodeId) -> Result<(), Refusal>,
) -> Result<NodeId, Refusal> {
    let rank = hello.rank.get();
    if hello.version.get() != PROTOCOL_VERSION {
        return Err(Refusal::Version(hello.version.get()));
    }
    if hello.job.get() != own.job {
        return Err(Refusal::Job);
    }
    if !same_secret(&hello.secret, &own.secret) {
        return Err(Refusal::Secret);
    }
    if hello.build.get() != own.build {
        return Err(Refusal::Build);
    }
    if hello.nodes.get() != own.nodes {
        return Err(Refusal::Nodes(hello.nodes.get()));
    }
    if rank == own.rank.0 || rank >= own.nodes {
        return Err(Refusal::Rank(rank));
    }
    expects(NodeId(rank))?;
    Ok(NodeId(rank))
}

/// Compares in a time that does not tell how much of a guess was right.
fn same_secret(left: &[u8; 32], right: &[u8; 32]) -> bool {
    let differing = left.iter().zip(right).fold(0, |all, (a, b)| all | (a ^ b));
    core::hint::black_box(differing) == 0
}

/// The answer that lets a peer in.
#[expect(clippy::cast_possible_truncation, reason = "the two halves of the job id")]
pub(crate) fn welcome(own: &Identity) -> [u8; Header::BYTES] {
    let header = Header {
        kind: WELCOME,
        from: own.rank.0,
        thread: PROTOCOL_VERSION.into(),
        subject: own.job as u64,
        value: (own.job >> 64) as u64,
        ..Header::default()
    };
    header.encode()
}

/// The answer that turns a peer down.
pub(crate) fn refused(own: NodeId, why: Refusal) -> [u8; Header::BYTES] {
    let header = Header { kind: REFUSED, from: own.0, value: why.code(), ..Header::default() };
    header.encode()
}

/// What the accepting side answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Welcome,
    Refused(Refusal),
    /// Neither; in words.
    Malformed(String),
}

/// Reads the answer of `peer` to our HELLO.
pub(crate) fn answer(said: &[u8; Header::BYTES], own: &Identity, peer: NodeId) -> Answer {
    let header = match Header::decode(said) {
        Ok(header) => header,
        Err(error) => return Answer::Malformed(error.to_string()),
    };
    let expected = welcome(&Identity { rank: peer, ..own.clone() });
    match header.kind {
        REFUSED => Answer::Refused(Refusal::from_code(header.value)),
        WELCOME if *said == expected => Answer::Welcome,
        WELCOME => Answer::Malformed(format!(
            "its WELCOME is from rank {} of job {:x}{:016x}, version {}",
            header.from, header.value, header.subject, header.thread
        )),
        kind => Answer::Malformed(format!("it answered a frame of kind {kind}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn identity(rank: u16) -> Identity {
        Identity { rank: NodeId(rank), nodes: 4, job: 7 << 64 | 5, secret: [9; 32], build: 3 }
    }

    fn verdict(peer: &Identity) -> Result<Option<NodeId>, Refusal> {
        judge(&hello(peer), &identity(1), |rank| only_higher(NodeId(1), rank, rank.0 == 3))
    }

    #[test]
    fn a_hello_has_these_golden_bytes() {
        let frame = hello(&identity(2));
        assert_eq!(frame.len(), 106);
        assert_eq!(frame[..40], [[240, 0, 2, 0].as_slice(), &[0; 28], &[66], &[0; 7]].concat());
        let body = [
            b"MGRN".as_slice(),
            &[6, 0, 2, 0, 4, 0],
            &[5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0],
            &[9; 32],
            &[3, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(frame[40..], body.concat());
    }

    #[test]
    fn the_right_peer_is_let_in_and_every_wrong_one_is_told_why() {
        let good = identity(2);
        assert_eq!(verdict(&good), Ok(Some(NodeId(2))));
        assert_eq!(verdict(&Identity { job: 1, ..good.clone() }), Err(Refusal::Job));
        let mut secret = [9; 32];
        secret[31] = 8;
        assert_eq!(verdict(&Identity { secret, ..good.clone() }), Err(Refusal::Secret));
        assert_eq!(verdict(&Identity { build: 1, ..good.clone() }), Err(Refusal::Build));
        assert_eq!(verdict(&Identity { nodes: 5, ..good }), Err(Refusal::Nodes(5)));
        for rank in [0, 1, 4] {
            assert_eq!(verdict(&identity(rank)), Err(Refusal::Rank(rank)));
        }
        assert_eq!(verdict(&identity(3)), Err(Refusal::Duplicate(3)));
        let mut old = hello(&identity(2));
        old[Header::BYTES + 4] = 99;
        assert_eq!(judge(&old, &identity(1), |_| Ok(())), Err(Refusal::Version(99)));
    }

    #[test]
    fn a_cut_hello_is_waited_for_and_garbage_is_not() {
        let whole = hello(&identity(2));
        for cut in 0..whole.len() {
            assert_eq!(judge(&whole[..cut], &identity(1), |_| Ok(())), Ok(None));
        }
        assert_eq!(judge(b"G", &identity(1), |_| Ok(())), Err(Refusal::Garbage));
    }

    #[test]
    fn answers_are_understood() {
        let (own, peer) = (identity(2), identity(1));
        assert_eq!(answer(&welcome(&peer), &own, NodeId(1)), Answer::Welcome);
        assert!(matches!(answer(&welcome(&peer), &own, NodeId(0)), Answer::Malformed(_)));
        for why in [Refusal::Version(8), Refusal::User(70_000), Refusal::Complete, Refusal::Crossed]
        {
            let said = refused(NodeId(1), why);
            assert_eq!(answer(&said, &own, NodeId(1)), Answer::Refused(why));
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(said in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = judge(&said, &identity(1), |_| Ok(()));
            let mut hello_like = hello(&identity(2)).to_vec();
            let at = said.len() % hello_like.len();
            hello_like.splice(at.., said);
            let _ = judge(&hello_like, &identity(1), |_| Ok(()));
        }
    }
}
