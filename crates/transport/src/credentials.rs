//! Who a node is to nodes of other hosts: a certificate of the job's own authority, and its key.
//!
//! Role: the launcher makes an [`Authority`] in its memory, has it issue [`Credentials`] for every rank, and
//! forgets it: nobody can make another certificate of this job. What links do with them: `link/tls/`.
//!
//! A certificate names its job and its rank as DNS names, since those are what certificates are checked for;
//! nobody ever looks them up.
//!
//! Without a launcher every node makes [`Credentials`] of its own, whose digest it tells the others; each then
//! believes those certificates alone, and each for its rank (ADR 37).

use aws_lc_rs::digest::{SHA256, digest};
use core::fmt;
use core::time::Duration;
use multigrain_types::NodeId;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::SystemTime;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A certificate is valid from so long before it is made: clocks of hosts differ.
const BEFORE: Duration = DAY.saturating_mul(30);
/// And so long from then, which is the longest that a node can be told to wait for its peers.
const AFTER: Duration = DAY.saturating_mul(366);

/// The certificate authority of one job.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    job: u128,
    valid: [SystemTime; 2],
}

/// What a node proves itself with: its certificate, that one's key, and what those of all other nodes are checked with.
#[derive(Clone)]
pub struct Credentials {
    pub(crate) trust: Trust,
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) after: After,
}

/// Whose certificates are believed.
#[derive(Clone)]
pub(crate) enum Trust {
    /// Those that this authority has made.
    Authority(Vec<u8>),
    /// These alone.
    Pins(Pins),
}

/// The digests of the certificates of all nodes, by rank.
#[derive(Clone, Debug)]
pub(crate) struct Pins(Arc<[Pin]>);

/// The SHA-256 digest of a certificate.
pub type Pin = [u8; 32];

impl Pins {
    /// Whether this is the certificate of some node.
    pub(crate) fn has(&self, certificate: &[u8]) -> bool {
        self.0.contains(&pin(certificate))
    }

    /// Whether it is that of this one.
    pub(crate) fn is_of(&self, node: NodeId, certificate: &[u8]) -> bool {
        self.0.get(node.index()) == Some(&pin(certificate))
    }
}

fn pin(certificate: &[u8]) -> Pin {
    let mut pin = Pin::default();
    pin.copy_from_slice(digest(&SHA256, certificate).as_ref());
    pin
}

/// How nodes speak once they have proven who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Sealed,
    Clear,
}

impl After {
    const NAMES: [(Self, &str); 2] = [(Self::Sealed, "sealed"), (Self::Clear, "clear")];
}

/// Why there are no credentials, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CredentialsError(pub(crate) String);

impl Authority {
    /// How far a host's clock may be behind the launcher's, and ahead of it.
    pub const VALID: [Duration; 2] = [BEFORE, AFTER];

    /// The authority of a job.
    ///
    /// # Errors
    /// [`CredentialsError`]: the system has no random numbers.
    pub fn new(job: u128) -> Result<Self, CredentialsError> {
        let now = SystemTime::now();
        Self::of_time(job, [now - BEFORE, now + AFTER])
    }

    /// The same, of certificates that are valid from the one time to the other.
    ///
    /// # Errors
    /// As [`Authority::new`].
    pub fn of_time(job: u128, valid: [SystemTime; 2]) -> Result<Self, CredentialsError> {
        let mut own = params(&[], valid);
        own.distinguished_name.push(DnType::CommonName, format!("job {job:032x}"));
        own.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        own.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(own, key()?).map_err(wrong)?;
        Ok(Self { issuer, job, valid })
    }

    /// The credentials of a node.
    ///
    /// # Errors
    /// As [`Authority::new`].
    pub fn issue(&self, node: NodeId) -> Result<Credentials, CredentialsError> {
        let names = [job_name(self.job), node_name(self.job, node)];
        let mut theirs = params(&names, self.valid);
        let subject = format!("rank {} of job {:032x}", node.0, self.job);
        theirs.distinguished_name.push(DnType::CommonName, subject);
        theirs.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        theirs.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = key()?;
        let certificate = theirs.signed_by(&key, &self.issuer).map_err(wrong)?;
        let der = |certificate: &Certificate| certificate.der().to_vec();
        Ok(Credentials {
            trust: Trust::Authority(self.issuer.der().to_vec()),
            certificate: der(&certificate),
            key: key.serialize_der(),
            after: After::Sealed,
        })
    }
}

fn params(names: &[String], [from, until]: [SystemTime; 2]) -> CertificateParams {
    let mut params = CertificateParams::default();
    // Names of letters, digits and dots are never refused.
    params.subject_alt_names = names
        .iter()
        .filter_map(|name| Some(rcgen::SanType::DnsName(name.as_str().try_into().ok()?)))
        .collect();
    params.distinguished_name = rcgen::DistinguishedName::new();
    (params.not_before, params.not_after) = (from.into(), until.into());
    params
}

fn key() -> Result<KeyPair, CredentialsError> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(wrong)
}

fn wrong(error: rcgen::Error) -> CredentialsError {
    CredentialsError(format!("no certificate can be made: {error}"))
}

/// What every certificate of a job is valid for.
fn job_name(job: u128) -> String {
    format!("job-{job:032x}.multigrain")
}

/// What the certificate of this node alone is valid for.
fn node_name(job: u128, node: NodeId) -> String {
    format!("rank-{}.job-{job:032x}.multigrain", node.0)
}

/// The job's name, for checks of certificates.
pub(crate) fn name_of_job(job: u128) -> Option<ServerName<'static>> {
    ServerName::try_from(job_name(job)).ok()
}

/// A node's name, for checks of certificates.
pub(crate) fn name_of_node(job: u128, node: NodeId) -> Option<ServerName<'static>> {
    ServerName::try_from(node_name(job, node)).ok()
}

impl Credentials {
    /// Those of a node that no authority knows; it trusts nobody yet. Also what the others pin them by.
    ///
    /// # Errors
    /// As [`Authority::new`].
    pub fn of_its_own() -> Result<(Self, Pin), CredentialsError> {
        let now = SystemTime::now();
        let key = key()?;
        let certificate = params(&[], [now - BEFORE, now + AFTER]).self_signed(&key);
        let certificate = certificate.map_err(wrong)?.der().to_vec();
        let (pin, trust) = (pin(&certificate), Trust::Pins(Pins(Arc::new([]))));
        Ok((Self { trust, certificate, key: key.serialize_der(), after: After::Sealed }, pin))
    }

    /// For a node that believes certificates with these digests alone, each for the node of its place.
    #[must_use]
    pub fn trusting(self, pins: Vec<Pin>) -> Self {
        Self { trust: Trust::Pins(Pins(pins.into())), ..self }
    }

    /// For nodes that prove their ranks, and then speak in clear. All of a job have to do the same.
    #[must_use]
    pub fn in_clear(self) -> Self {
        Self { after: After::Clear, ..self }
    }

    /// As text: for a channel that nobody else can read. Nothing for those that a node has made itself, which do not
    /// leave it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Trust::Authority(authority) = &self.trust else { return String::new() };
        let parts = [authority, &self.certificate, &self.key];
        let after = After::NAMES.iter().find(|(after, _)| *after == self.after);
        let after = after.map_or("", |(_, name)| name);
        format!("{}.{after}", parts.map(|part| hex(part)).join("."))
    }

    /// Reads back what [`Credentials::to_text`] gives.
    ///
    /// # Errors
    /// [`CredentialsError`], which does not repeat the text.
    pub fn from_text(text: &str) -> Result<Self, CredentialsError> {
        let read = || {
            let (parts, name) = text.rsplit_once('.')?;
            let (after, _) = *After::NAMES.iter().find(|(_, known)| *known == name)?;
            let parts = parts.split('.').map(unhex).collect::<Option<Vec<_>>>()?;
            let [authority, certificate, key] = parts.try_into().ok()?;
            Some(Self { trust: Trust::Authority(authority), certificate, key, after })
        };
        read().ok_or_else(|| CredentialsError("these are no credentials".to_owned()))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Credentials")
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Authority of job {:032x}", self.job)
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit =
        |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    rest.is_empty().then_some(())?;
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "calls C")]
    fn credentials_are_read_back_and_no_other_text_is() {
        let issued = Authority::new(7).unwrap().issue(NodeId(3)).unwrap();
        let text = issued.to_text();
        let read = Credentials::from_text(&text).unwrap();
        assert_eq!(read.to_text(), text);
        assert_eq!((&read.certificate, &read.key), (&issued.certificate, &issued.key));
        assert_eq!(
            Credentials::from_text(&issued.in_clear().to_text()).unwrap().after,
            After::Clear
        );
        for wrong in ["", "00.11", "00.11.22", "0.11.22.clear", "00.1g.22.clear", "00.é.22.clear"]
        {
            let error = Credentials::from_text(wrong).unwrap_err().to_string();
            assert_eq!(error, "these are no credentials", "{wrong}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "calls C")]
    fn a_pinned_certificate_is_that_of_one_rank() {
        let made = [(); 3].map(|()| Credentials::of_its_own().unwrap());
        let pins = made.iter().take(2).map(|(_, pin)| *pin).collect();
        let Trust::Pins(pins) = made[0].0.clone().trusting(pins).trust else { panic!() };
        for (rank, (own, _)) in made.iter().enumerate() {
            assert_eq!(pins.has(&own.certificate), rank < 2);
            for node in 0..4 {
                let is = pins.is_of(NodeId(node), &own.certificate);
                assert_eq!(is, rank < 2 && usize::from(node) == rank);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "calls C")]
    fn nothing_secret_is_shown() {
        let issued = Authority::new(7).unwrap().issue(NodeId(3)).unwrap();
        assert_eq!(format!("{issued:?}"), "Credentials");
        let (own, _) = Credentials::of_its_own().unwrap();
        assert_eq!((format!("{own:?}"), own.to_text()), ("Credentials".to_owned(), String::new()));
    }
}
