//! The files that TLS needs: the certificate of this server, and the authority for those of its
//! clients.
//!
//! 1. Files have the names that qemu and nbdkit use: `ca-cert.pem`, `server-cert.pem`,
//!    `server-key.pem`, and optionally `ca-crl.pem`.
//! 2. A client must show a certificate of that authority that is not revoked, unless the user has
//!    allowed any client. With a list of revoked certificates that is out of date no client is
//!    taken, and with an unreadable one the server does not start: the list is never ignored.
//! 3. No session is resumed: each handshake checks the client's certificate again.

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The certificate of the authority for clients.
const AUTHORITY: &str = "ca-cert.pem";
/// The authority's list of revoked certificates.
const REVOKED: &str = "ca-crl.pem";
/// The server's certificate, and the certificates between it and its authority.
const CERTIFICATE: &str = "server-cert.pem";
/// The key of the server's certificate.
const KEY: &str = "server-key.pem";

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The content of a file is not valid.
    #[error("{}: {why}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The TLS library refuses the configuration.
    #[error("{0}")]
    Refused(String),
}

/// A server's TLS configuration. Cheap to clone.
#[derive(Clone)]
pub struct Tls {
    pub(super) config: Arc<ServerConfig>,
}

impl Tls {
    /// Loads the files of a directory: see the module. With `known` clients need a certificate too.
    ///
    /// # Errors
    /// [`TlsError`] says which file is at fault.
    pub fn from_dir(dir: &Path, known: bool) -> Result<Tls, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(&dir.join(CERTIFICATE))?;
        let path = dir.join(KEY);
        let key = PrivateKeyDer::from_pem_slice(&read(&path)?).map_err(|e| content(&path, &e))?;
        let refused = |e: rustls::Error| TlsError::Refused(e.to_string());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(refused)?;
        let builder = match known {
            true => builder.with_client_cert_verifier(verifier(dir, provider)?),
            false => builder.with_no_client_auth(),
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|e| content(&dir.join(CERTIFICATE), &e))?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Tls { config: Arc::new(config) })
    }
}

fn verifier(
    dir: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let path = dir.join(AUTHORITY);
    let mut roots = rustls::RootCertStore::empty();
    for certificate in certificates(&path)? {
        roots.add(certificate).map_err(|e| content(&path, &e))?;
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let path = dir.join(REVOKED);
    match read(&path) {
        Err(TlsError::File { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
        Ok(text) => {
            let lists = CertificateRevocationListDer::pem_slice_iter(&text)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|e| content(&path, &e))?;
            if lists.is_empty() {
                return Err(content(&path, &"there is no list of revoked certificates in it"));
            }
            builder = builder
                .with_crls(lists)
                .only_check_end_entity_revocation()
                .enforce_revocation_expiration();
        }
    }
    builder.build().map_err(|e| content(&path, &e))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| content(path, &e))?;
    match all.is_empty() {
        true => Err(content(path, &"there is no certificate in it")),
        false => Ok(all),
    }
}

#[allow(clippy::disallowed_methods, reason = "the edge: the files that the user names")]
fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::File { path: path.to_path_buf(), error })
}

fn content(path: &Path, why: &dyn std::fmt::Display) -> TlsError {
    TlsError::Content { path: path.to_path_buf(), why: why.to_string() }
}
