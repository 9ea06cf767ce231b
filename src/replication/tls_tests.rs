//! Peers over https: whom a node trusts, what it says when it does not, and two nodes that replicate
//! through TLS.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::discovery_tests::{PATIENCE, arrives, node_with, register, system_dns};
use super::sender::Failure;
use super::transport::{Answer, Call, Identity, Transport, Wait};
use crate::config::ServiceUrl;
use crate::node::Node;
use crate::tls::{TlsClient, TlsError, TlsFiles};

/// A certification authority of a test.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
struct Pair {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn certificate(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Pair {
            certificate: params.signed_by(&key, &self.0).unwrap().der().clone(),
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        }
    }
}

fn pem(path: PathBuf, label: &str, der: &[u8]) -> PathBuf {
    let text = BASE64.encode(der);
    std::fs::write(
        &path,
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n"),
    )
    .unwrap();
    path
}

fn ca_file(dir: &TempDir, authority: &Authority) -> PathBuf {
    let path = dir.path().join("ca.pem");
    pem(path, "CERTIFICATE", &authority.certificate())
}

/// What a node trusts that is given a file with this authority.
fn trusting(authority: &Authority) -> TlsClient {
    let dir = tempfile::tempdir().unwrap();
    let ca = Some(ca_file(&dir, authority));
    let files = TlsFiles {
        ca,
        ..TlsFiles::default()
    };
    TlsClient::load(&files).unwrap()
}

/// A server with this certificate. Clients have to show one of `clients`, if there is such.
fn acceptor(own: Pair, clients: Option<&Authority>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.certificate()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let config = builder.with_single_cert(vec![own.certificate], own.key);
    TlsAcceptor::from(Arc::new(config.unwrap()))
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Answers each connection in TLS with the head of the request.
async fn echo(acceptor: TlsAcceptor) -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.unwrap() > 0
                {
                }
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", head.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.write_all(&head).await.unwrap();
                stream.shutdown().await.unwrap();
            }
        }
    });
    address
}

/// Passes what comes in TLS on to a node.
async fn terminator(acceptor: TlsAcceptor, node: SocketAddr) -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut inside = TcpStream::connect(node).await.unwrap();
                if let Ok(mut outside) = acceptor.accept(stream).await {
                    // Ends when either side is done; how does not matter.
                    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                }
            });
        }
    });
    address
}

async fn ask(url: &str, tls: &TlsClient) -> Result<Answer, Failure> {
    let identity = Identity {
        node_id: "test".to_owned(),
        boot: "1".to_owned(),
    };
    let client = Transport::new(&identity, "test", PATIENCE, PATIENCE, system_dns(), tls);
    let url = ServiceUrl::parse(url).unwrap();
    client
        .send(&url, Call::get("status", Wait::of(PATIENCE)))
        .await
}

/// Why there is no answer.
async fn refusal(url: &str, tls: &TlsClient) -> String {
    match ask(url, tls).await {
        Err(Failure::Connect(why)) => why,
        other => panic!("not a failure to connect: {other:?}"),
    }
}

#[tokio::test]
async fn a_server_of_a_trusted_authority_is_asked_with_the_credentials_of_the_url() {
    let authority = Authority::new("one");
    let address = echo(acceptor(authority.sign("localhost", |_| {}), None)).await;
    let url = format!("https://user:word@localhost:{}/eureka/", address.port());
    let answer = ask(&url, &trusting(&authority)).await.unwrap();
    assert_eq!(answer.status, 200);
    let head = String::from_utf8_lossy(&answer.body).to_lowercase();
    assert!(
        head.starts_with("get /eureka/status http/1.1\r\n"),
        "{head}"
    );
    let credentials = BASE64.encode("user:word").to_lowercase();
    assert!(
        head.contains(&format!("authorization: basic {credentials}")),
        "{head}"
    );
    assert!(
        head.contains(&format!("host: localhost:{}", address.port())),
        "{head}"
    );

    let own = authority.sign("127.0.0.1", |_| {});
    let address = echo(acceptor(own, None)).await;
    let answer = ask(&format!("https://{address}/eureka/"), &trusting(&authority)).await;
    assert_eq!(answer.unwrap().status, 200);
}

#[tokio::test]
async fn what_is_wrong_with_a_certificate_is_said() {
    let (authority, other) = (Authority::new("one"), Authority::new("other"));
    let address = echo(acceptor(authority.sign("localhost", |_| {}), None)).await;
    let url = format!("https://localhost:{}/", address.port());
    for tls in [
        trusting(&other),
        trusting(&Authority::new("one")),
        TlsClient::without_roots().unwrap(),
    ] {
        let why = refusal(&url, &tls).await;
        assert!(
            why.contains("an authority that is not trusted here"),
            "{why}"
        );
    }

    let url = format!("https://{address}/");
    let why = refusal(&url, &trusting(&authority)).await;
    assert!(why.contains("is not for 127.0.0.1, but for"), "{why}");
    assert!(why.contains("localhost"), "{why}");

    let expired = authority.sign("localhost", |params| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
    });
    let address = echo(acceptor(expired, None)).await;
    let url = format!("https://localhost:{}/", address.port());
    let why = refusal(&url, &trusting(&authority)).await;
    assert!(why.contains("its certificate has expired"), "{why}");

    let early = authority.sign("localhost", |params| {
        params.not_before = date_time_ymd(3001, 1, 1);
        params.not_after = date_time_ymd(3002, 1, 1);
    });
    let address = echo(acceptor(early, None)).await;
    let url = format!("https://localhost:{}/", address.port());
    let why = refusal(&url, &trusting(&authority)).await;
    assert!(why.contains("is not valid yet"), "{why}");

    let is_authority = authority.sign("localhost", |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    let address = echo(acceptor(is_authority, None)).await;
    let url = format!("https://localhost:{}/", address.port());
    let why = refusal(&url, &trusting(&authority)).await;
    assert!(why.contains("CA:TRUE"), "{why}");
}

#[tokio::test]
async fn a_port_of_plain_http_is_recognised() {
    for answer in ["HTTP/1.1 400 Bad Request\r\n\r\n", ""] {
        let (listener, address) = listen().await;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // The whole greeting, so that closing sends no reset.
            let mut greeting = vec![0; 64 << 10];
            let _ = stream.read(&mut greeting).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let url = format!("https://{address}/");
        let why = refusal(&url, &trusting(&Authority::new("one"))).await;
        assert!(why.contains("is that port one of plain http?"), "{why}");
    }
}

#[tokio::test]
async fn a_server_that_wants_a_client_certificate_gets_the_one_configured() {
    let (servers, clients) = (Authority::new("one"), Authority::new("other"));
    let own = servers.sign("localhost", |_| {});
    let address = echo(acceptor(own, Some(&clients))).await;
    let url = format!("https://localhost:{}/", address.port());
    let why = refusal(&url, &trusting(&servers)).await;
    assert!(why.contains("wants a client certificate"), "{why}");

    let dir = tempfile::tempdir().unwrap();
    let client = |authority: &Authority, name: &str| {
        let pair = authority.sign(name, |_| {});
        let at = |end: &str| dir.path().join(format!("{name}{end}"));
        TlsFiles {
            ca: Some(ca_file(&dir, &servers)),
            certificate: Some(pem(at(".crt"), "CERTIFICATE", &pair.certificate)),
            key: Some(pem(at(".key"), "PRIVATE KEY", pair.key.secret_der())),
        }
    };
    let good = client(&clients, "good");
    let answer = ask(&url, &TlsClient::load(&good).unwrap()).await;
    assert_eq!(answer.unwrap().status, 200);

    let stranger = client(&servers, "stranger");
    let why = refusal(&url, &TlsClient::load(&stranger).unwrap()).await;
    assert!(why.contains("it refuses the client certificate"), "{why}");

    let mixed = TlsFiles {
        key: stranger.key,
        ..good
    };
    let error = TlsClient::load(&mixed).unwrap_err();
    assert!(matches!(error, TlsError::Pair { .. }), "{error}");
}

#[test]
fn files_that_are_not_what_they_should_be_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let files = |ca: &Path| TlsFiles {
        ca: Some(ca.to_owned()),
        ..TlsFiles::default()
    };
    let told = |ca: &Path| TlsClient::load(&files(ca)).unwrap_err().to_string();

    let missing = dir.path().join("missing.pem");
    let text = told(&missing);
    assert!(
        text.contains("missing.pem") && text.contains("No such file"),
        "{text}"
    );

    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "not a certificate").unwrap();
    let text = told(&empty);
    assert!(
        text.contains("no certificate in PEM form") && text.contains("empty.pem"),
        "{text}"
    );

    let cut = dir.path().join("cut.pem");
    std::fs::write(&cut, "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
    let text = told(&cut);
    assert!(text.contains("cut.pem is not in PEM form"), "{text}");

    let text = told(&pem(dir.path().join("junk.pem"), "CERTIFICATE", b"junk"));
    assert!(
        text.contains("certificate 1 of") && text.contains("junk.pem"),
        "{text}"
    );

    let half = TlsFiles {
        key: Some(missing),
        ..TlsFiles::default()
    };
    assert!(matches!(TlsClient::load(&half), Err(TlsError::Half)));
}

/// A node with one peer at an https port.
async fn node_of(host: &str, dir: &TempDir, port: u16, ca: &Path, copies: bool) -> Node {
    let settings = [
        format!("--eureka.client.fetch-registry={copies}"),
        format!("--eureka.client.service-url.defaultZone=https://localhost:{port}/eureka/"),
        format!("--eurekad.peer-ca-file={}", ca.display()),
        "--management.endpoint.health.show-details=always".to_owned(),
    ];
    node_with(host, dir.path(), &settings).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_replicate_through_tls_and_say_why_they_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("one");
    let ca = ca_file(&dir, &authority);
    let old = node_with("old", dir.path(), &[]).await;
    register(&old, "early").await;
    let acceptor = acceptor(authority.sign("localhost", |_| {}), None);
    let to_old = terminator(acceptor.clone(), old.address()).await;

    // The first copy, and then changes, go through TLS.
    let new = node_of("new", &dir, to_old.port(), &ca, true).await;
    arrives(&new, "early").await;
    register(&new, "late").await;
    arrives(&old, "late").await;

    let strange = tempfile::tempdir().unwrap();
    let ca = ca_file(&strange, &Authority::new("other"));
    let lost = node_of("lost", &dir, to_old.port(), &ca, false).await;
    let url = format!("http://{}/", lost.address());
    let plain = TlsClient::without_roots().unwrap();
    let mut every = tokio::time::interval(Duration::from_millis(20));
    let look = async {
        loop {
            every.tick().await;
            let health = ask_health(&url, &plain).await;
            if health.contains("an authority that is not trusted here") {
                return;
            }
        }
    };
    let ended = tokio::time::timeout(PATIENCE, look).await;
    assert!(ended.is_ok(), "{}", ask_health(&url, &plain).await);

    for node in [new, old, lost] {
        node.stop().await.unwrap();
    }
}

async fn ask_health(url: &str, tls: &TlsClient) -> String {
    let url = format!("{url}actuator/health/");
    let identity = Identity {
        node_id: "test".to_owned(),
        boot: "1".to_owned(),
    };
    let client = Transport::new(&identity, "test", PATIENCE, PATIENCE, system_dns(), tls);
    let url = ServiceUrl::parse(url.trim_end_matches("health/")).unwrap();
    let sent = client.send(&url, Call::get("health", Wait::of(PATIENCE)));
    String::from_utf8_lossy(&sent.await.unwrap().body).into_owned()
}
