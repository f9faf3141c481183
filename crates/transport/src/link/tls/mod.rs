//! Mutual TLS 1.3 over the links of any backend, for nodes of different hosts.
//!
//! Role: rustls makes the handshake (`handshake`), for which each side has [`Credentials`]; with the keys that come
//! of it records are sealed and opened in place here (`traffic`, `records`): rustls has no way to do so without
//! allocating several times a message (ADR 38). One version, one cipher suite, no resumption, no early data.
//!
//! An unauthenticated connection costs a handshake's first answer, and what `rendezvous` allows connections that are not authenticated.

mod handshake;
mod pinned_certificates;
mod records;
mod traffic;

use super::{Close, Link};
use crate::credentials::{self, After, Credentials, CredentialsError, Pins, Trust};
use crate::handshake::Refusal;
use crate::shim::{Mutex, lock};
use crate::span::Span;
use core::fmt;
use core::task::Poll;
use handshake::{Established, Handshake, Side};
use multigrain_types::NodeId;
use pinned_certificates::Pinned;
use rustix::io::Errno;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{
    Resumption, UnbufferedClientConnection, WebPkiServerVerifier, verify_server_name,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ParsedCertificate, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::sync::{Arc, OnceLock};
use traffic::{Keys, Receiving, Sending};

/// What one node lays over links.
#[derive(Clone)]
pub(crate) struct Tls(Arc<Own>);

/// What all links of a node have in common.
struct Own {
    after: After,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    /// The name of every node of the job.
    of_job: ServerName<'static>,
    job: u128,
    /// With them, a certificate is a rank's by its digest, and else by its names.
    pins: Option<Pins>,
}

type Verifiers = (Arc<dyn ServerCertVerifier>, Arc<dyn ClientCertVerifier>);

/// What checks the certificates of servers and of clients.
fn verifiers(trust: &Trust, provider: &Arc<CryptoProvider>) -> Result<Verifiers, CredentialsError> {
    match trust {
        Trust::Authority(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.clone().into()).map_err(|error| wrong(&error))?;
            let (roots, provider) = (Arc::new(roots), || Arc::clone(provider));
            let server =
                WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), provider()).build();
            let client = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
            Ok((server.map_err(|error| wrong(&error))?, client.map_err(|error| wrong(&error))?))
        }
        Trust::Pins(pins) => {
            let algorithms = provider.signature_verification_algorithms;
            let pinned = Arc::new(Pinned { pins: pins.clone(), algorithms });
            Ok((Arc::<Pinned>::clone(&pinned), pinned))
        }
    }
}

fn wrong(error: &dyn fmt::Display) -> CredentialsError {
    CredentialsError(format!("wrong credentials: {error}"))
}

impl Tls {
    /// Links of a node that has these credentials, to others that have such of the same job.
    pub(crate) fn new(job: u128, own: &Credentials) -> Result<Self, CredentialsError> {
        let provider = Arc::new(CryptoProvider {
            cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
            kx_groups: vec![aws_lc_rs::kx_group::X25519],
            ..aws_lc_rs::default_provider()
        });
        let (of_servers, of_clients) = verifiers(&own.trust, &provider)?;
        let chain = || vec![CertificateDer::from(own.certificate.clone())];
        let key = || PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.key.clone()));

        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| wrong(&error))?
            .dangerous()
            .with_custom_certificate_verifier(of_servers)
            .with_client_auth_cert(chain(), key())
            .map_err(|error| wrong(&error))?;
        client.enable_secret_extraction = true;
        client.resumption = Resumption::disabled();

        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| wrong(&error))?
            .with_client_cert_verifier(of_clients)
            .with_single_cert(chain(), key())
            .map_err(|error| wrong(&error))?;
        server.enable_secret_extraction = true;
        server.send_tls13_tickets = 0;

        let of_job = credentials::name_of_job(job).ok_or_else(|| wrong(&"no name"))?;
        let (client, server) = (Arc::new(client), Arc::new(server));
        let pins = match &own.trust {
            Trust::Authority(_) => None,
            Trust::Pins(pins) => Some(pins.clone()),
        };
        Ok(Self(Arc::new(Own { after: own.after, client, server, of_job, job, pins })))
    }

    /// Over the link of a connection that another node has begun.
    pub(crate) fn accepted(&self, stream: Box<dyn Link>) -> Box<dyn Link> {
        let server = UnbufferedServerConnection::new(Arc::clone(&self.0.server));
        self.link(stream, server.map(Side::Server))
    }

    /// Over the link of a connection that this node begins.
    pub(crate) fn connecting(&self, stream: Box<dyn Link>) -> Box<dyn Link> {
        let own = &self.0;
        let client = UnbufferedClientConnection::new(Arc::clone(&own.client), own.of_job.clone());
        self.link(stream, client.map(Side::Client))
    }

    fn link(&self, stream: Box<dyn Link>, side: Result<Side, rustls::Error>) -> Box<dyn Link> {
        let stage = match side {
            Ok(side) => Stage::Handshake(Box::new(Handshake::new(side))),
            Err(_) => Stage::Over(Err(Refusal::Tls)),
        };
        let (stage, traffic) = (Mutex::new(stage), OnceLock::new());
        Box::new(TlsLink { stream, own: Arc::clone(&self.0), stage, traffic })
    }
}

/// A link with TLS on it.
struct TlsLink {
    stream: Box<dyn Link>,
    own: Arc<Own>,
    stage: Mutex<Stage>,
    /// Once the handshake is over.
    traffic: OnceLock<Traffic>,
}

enum Stage {
    Handshake(Box<Handshake>),
    Over(Result<(), Refusal>),
}

/// The connection behind the handshake.
struct Traffic {
    certificate: CertificateDer<'static>,
    /// Without, what is said is in clear.
    sealed: Option<Sealed>,
}

struct Sealed {
    sending: Mutex<Sending>,
    receiving: Mutex<Receiving>,
    keys: Mutex<Box<dyn Keys>>,
}

impl Sealed {
    fn new(made: Established) -> Self {
        Self {
            sending: Mutex::new(made.sending),
            receiving: Mutex::new(made.receiving),
            keys: Mutex::new(made.keys),
        }
    }
}

impl fmt::Debug for TlsLink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "TlsLink({:?})", self.stream)
    }
}

impl TlsLink {
    fn sealed(&self) -> Option<&Sealed> {
        self.traffic.get()?.sealed.as_ref()
    }

    fn advance(&self) -> Poll<Result<(), Refusal>> {
        let mut stage = lock(&self.stage);
        let ended = match &mut *stage {
            Stage::Over(ended) => return Poll::Ready(*ended),
            Stage::Handshake(handshake) => match handshake.advance(&*self.stream) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(ended) => ended,
            },
        };
        let Stage::Handshake(handshake) = core::mem::replace(&mut *stage, Stage::Over(ended))
        else {
            return Poll::Ready(ended);
        };
        let made = ended.and_then(|()| handshake.end());
        let ended = made.map(|made| {
            let certificate = made.certificate.clone();
            let sealed = (self.own.after == After::Sealed).then(|| Sealed::new(made));
            // It is set here alone, and once.
            let _ = self.traffic.set(Traffic { certificate, sealed });
        });
        *stage = Stage::Over(ended);
        Poll::Ready(ended)
    }
}

impl Link for TlsLink {
    pass_on! { stream: readiness timer takes_input tells_taken suppress_wakeups connected look_after tap describe }

    unsafe fn send(&self, spans: &mut [Span]) -> Result<usize, Errno> {
        let Some(sealed) = &self.traffic.get().ok_or(Errno::NOTCONN)?.sealed else {
            // SAFETY: the caller's promise is the one asked for.
            return unsafe { self.stream.send(spans) };
        };
        let keys = || lock(&sealed.keys).next_to_send();
        // SAFETY: the caller's promise is the one asked for.
        unsafe { lock(&sealed.sending).send(&*self.stream, spans, keys) }
    }

    unsafe fn receive(&self, spans: &mut [Span]) -> Result<usize, Errno> {
        let Some(sealed) = &self.traffic.get().ok_or(Errno::AGAIN)?.sealed else {
            // SAFETY: the caller's promise is the one asked for.
            return unsafe { self.stream.receive(spans) };
        };
        let keys = || lock(&sealed.keys).next_to_receive();
        // SAFETY: the caller's promise is the one asked for.
        unsafe { lock(&sealed.receiving).receive(&*self.stream, spans, keys) }
    }

    fn holds_input(&self) -> bool {
        self.sealed().is_some_and(|sealed| lock(&sealed.receiving).holds())
            || self.stream.holds_input()
    }

    fn close(&self, what: Close) {
        if let Some(sealed) = self.sealed() {
            lock(&sealed.sending).close(&*self.stream);
        }
        self.stream.close(what);
    }

    /// From here on it reads more than one record at a time: before, what is read and not taken would be forgotten.
    fn tune(&self) -> Result<(), Errno> {
        if let Some(sealed) = self.sealed() {
            lock(&sealed.receiving).in_bulk();
        }
        self.stream.tune()
    }

    /// The other end has a certificate of this job, and its key.
    fn authenticate(&self) -> Poll<Result<(), Refusal>> {
        let below = self.stream.authenticate();
        if below != Poll::Ready(Ok(())) {
            return below;
        }
        let Some(traffic) = self.traffic.get() else { return self.advance() };
        // It may have found out only then that it does not trust this end.
        let alert = traffic.sealed.as_ref().and_then(|sealed| lock(&sealed.receiving).alert());
        Poll::Ready(alert.map_or(Ok(()), |_| Err(Refusal::Alert)))
    }

    fn proves_rank(&self) -> bool {
        true
    }

    fn may_be(&self, node: NodeId) -> Result<(), Refusal> {
        self.stream.may_be(node)?;
        let traffic = self.traffic.get().ok_or(Refusal::Cut)?;
        if let Some(pins) = &self.own.pins {
            let is = pins.is_of(node, &traffic.certificate);
            return is.then_some(()).ok_or(Refusal::NotRank(node.0));
        }
        let name = credentials::name_of_node(self.own.job, node).ok_or(Refusal::Certificate)?;
        ParsedCertificate::try_from(&traffic.certificate)
            .and_then(|certificate| verify_server_name(&certificate, &name))
            .map_err(|_| Refusal::NotRank(node.0))
    }
}
