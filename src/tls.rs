//! TLS for connections that this program opens: to peers, and from the command line to a node.
//!
//! rustls with ring, HTTP/1.1 only. Trusted are the certification authorities that the system trusts
//! (`SSL_CERT_FILE` and `SSL_CERT_DIR` included) and those of a file of one's own. rustls says what
//! is wrong in the words of the standard; [`explain`] says it in words that lead to what has to be
//! done.
//!
//! Files are read once, when the client is made; a certificate that was renewed needs a restart.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};

/// The connector that speaks http and https.
pub type Connector<R> = HttpsConnector<HttpConnector<R>>;

/// Files that the client's side of TLS is made of, all in PEM form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certification authorities that are trusted besides those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to a server that asks for one, its chain behind it.
    pub certificate: Option<PathBuf>,
    /// The private key of that certificate.
    pub key: Option<PathBuf>,
}

impl TlsFiles {
    /// Whether no file is named.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Why there can be no TLS. The text names the file.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not in PEM form: {source}", path.display())]
    Form { path: PathBuf, source: pem::Error },
    #[error("there is no {what} in PEM form (-----BEGIN ...-----) in {}", path.display())]
    Missing { path: PathBuf, what: &'static str },
    #[error("certificate {number} of {} cannot be trusted: {source}", path.display())]
    Root {
        path: PathBuf,
        number: usize,
        source: rustls::Error,
    },
    #[error("a client certificate needs both files, that of the certificate and that of its key")]
    Half,
    #[error("{} and {} are no certificate and its key: {source}", certificate.display(), key.display())]
    Pair {
        certificate: PathBuf,
        key: PathBuf,
        source: rustls::Error,
    },
    #[error("set up TLS: {0}")]
    Setup(#[from] rustls::Error),
}

/// What connections over https are made with.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    roots: usize,
}

impl TlsClient {
    /// Reads the system's certification authorities and the files; waits for the disk. What of the
    /// system cannot be read is left out: [`Self::roots`] says how many are trusted.
    ///
    /// # Errors
    /// A file cannot be read, or is not what it should be.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = &files.ca {
            for (number, certificate) in certificates(path)?.into_iter().enumerate() {
                roots.add(certificate).map_err(|source| TlsError::Root {
                    path: path.clone(),
                    number: number + 1,
                    source,
                })?;
            }
        }
        let own = match (&files.certificate, &files.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (Some(_), None) | (None, Some(_)) => return Err(TlsError::Half),
        };
        Self::build(roots, own)
    }

    /// Trusts nobody: enough where no URL is https.
    ///
    /// # Errors
    /// TLS itself cannot be set up.
    pub fn without_roots() -> Result<Self, TlsError> {
        Self::build(RootCertStore::empty(), None)
    }

    fn build(roots: RootCertStore, own: Option<(&PathBuf, &PathBuf)>) -> Result<Self, TlsError> {
        let count = roots.len();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
                .map_err(|source| TlsError::Pair {
                    certificate: certificate.clone(),
                    key: key.clone(),
                    source,
                })?,
        };
        Ok(Self {
            config: Arc::new(config),
            roots: count,
        })
    }

    /// How many certification authorities are trusted.
    pub fn roots(&self) -> usize {
        self.roots
    }

    /// The connector for http and https URLs over `http`, whose resolver and time-outs stay.
    pub fn connector<R>(&self, mut http: HttpConnector<R>) -> Connector<R> {
        http.enforce_http(false);
        HttpsConnectorBuilder::new()
            .with_tls_config(ClientConfig::clone(&self.config))
            .https_or_http()
            .enable_http1()
            .wrap_connector(http)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        source,
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    let found = found.map_err(|source| TlsError::Form {
        path: path.to_owned(),
        source,
    })?;
    if found.is_empty() {
        return Err(TlsError::Missing {
            path: path.to_owned(),
            what: "certificate",
        });
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::Missing {
            path: path.to_owned(),
            what: "private key",
        },
        source => TlsError::Form {
            path: path.to_owned(),
            source,
        },
    })
}

/// What went wrong with TLS, if an error is about TLS, in words that say what to do.
pub fn explain(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(words(tls));
        }
        next = match error.downcast_ref::<io::Error>() {
            // What an error of I/O holds is not its source: its source is the source of that.
            Some(io) => match io.get_ref() {
                Some(inner) => Some(inner),
                None => return None,
            },
            None => error.source(),
        };
        if let Some(inner) = next
            && inner.to_string() == HANDSHAKE_CUT
        {
            return Some(
                "the connection was closed during the TLS handshake: is that port one of plain http?"
                    .to_owned(),
            );
        }
    }
    None
}

/// The text with which tokio-rustls reports the end of the connection; it has no type of its own.
const HANDSHAKE_CUT: &str = "tls handshake eof";

fn words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(why) => of_certificate(why),
        rustls::Error::InvalidMessage(_) => {
            "what answers is not TLS: is that port one of plain http?".to_owned()
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "it wants a client certificate, and none is configured".to_owned()
        }
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied),
        ) => format!("it refuses the client certificate ({alert:?})"),
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure),
        ) => format!("it and this node have no version or cipher of TLS in common ({alert:?})"),
        other => format!("TLS failed: {other}"),
    }
}

fn of_certificate(why: &CertificateError) -> String {
    match why {
        // A bad signature: an authority of that name is trusted, but with another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is signed by an authority that is not trusted here: \
             name the file with that authority's certificate"
                .to_owned()
        }
        CertificateError::Expired => "its certificate has expired".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            let ago = time.as_secs().saturating_sub(not_after.as_secs());
            format!("its certificate has expired, {ago} s ago")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet: compare the clocks".to_owned()
        }
        CertificateError::NotValidForName => {
            "its certificate is for another name than that of the URL".to_owned()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => format!(
            "its certificate is not for {}, but for {}",
            expected.to_str(),
            if presented.is_empty() {
                "no name at all".to_owned()
            } else {
                presented.join(", ")
            }
        ),
        CertificateError::Revoked => "its certificate has been revoked".to_owned(),
        other => {
            let text = other.to_string();
            // webpki's own errors come without a type.
            if text.contains("CaUsedAsEndEntity") {
                return "its certificate is that of an authority (CA:TRUE), which no server may show: \
                        make one for the server, signed by that authority"
                    .to_owned();
            }
            format!("its certificate cannot be used: {text}")
        }
    }
}
