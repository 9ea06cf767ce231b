//! Two whole nodes that know nothing of each other but a name in DNS.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::dns::Dns;
use super::dns_server::{A, Reply, SRV, Server, a, srv};
use super::transport::{Call, Identity, Transport, Wait};
use crate::changelog::Request;
use crate::clock::SystemClock;
use crate::config::{Config, FileSource, Machine, ServiceUrl};
use crate::node::Node;
use crate::registry::change::{Actor, Origin};
use crate::registry::command::Command;
use crate::tls::TlsClient;
use crate::types::AppName;

const SERVICE: &str = "_eureka._tcp.cluster.test";
/// Nothing here takes a tenth of it.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct NoFiles;

impl FileSource for NoFiles {
    fn read(&self, _: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

async fn node(host: &str, dns: &Server, data: &Path, port: u16) -> Node {
    let more = [
        format!("--server.port={port}"),
        format!("--eurekad.dns-servers={}", dns.address()),
        format!("--eureka.client.service-url.defaultZone=srv+http://{SERVICE}/eureka/"),
        "--eureka.server.peer-eureka-nodes-update-interval-ms=50".to_owned(),
    ];
    node_with(host, data, &more).await
}

/// A node at any port of its own, with further settings.
pub(super) async fn node_with(host: &str, data: &Path, more: &[String]) -> Node {
    let args = [
        "--server.port=0".to_owned(),
        "--server.address=127.0.0.1".to_owned(),
        format!("--eurekad.data-dir={}", data.join(host).display()),
        format!("--eureka.instance.hostname={host}"),
        "--eureka.client.register-with-eureka=false".to_owned(),
        "--eureka.server.peer-node-connect-timeout-ms=5000".to_owned(),
    ];
    let machine = Machine {
        host_name: host.to_owned(),
        ip_address: "192.0.2.1".to_owned(),
        seed: 1,
    };
    let args = args.iter().chain(more).map(OsString::from);
    let loaded = Config::load(args, std::iter::empty(), &NoFiles, &machine).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    Node::start(loaded.config, Arc::new(SystemClock::new()))
        .await
        .unwrap()
}

/// Puts the nodes behind the name, each at its port.
fn publish(dns: &Server, nodes: &[(&str, &Node)]) {
    let records: Vec<Vec<u8>> = nodes
        .iter()
        .map(|(host, node)| srv(0, node.address().port(), host))
        .collect();
    dns.records(SERVICE, SRV, 1, &records);
}

/// Registers what the node itself would be, under another name.
pub(super) async fn register(node: &Node, id: &str) {
    let own = crate::config::OwnInstance {
        instance_id: id.to_owned(),
        app_name: "DISCOVERED".to_owned(),
        ..Default::default()
    };
    let request = Request {
        commands: vec![Command::Register(
            crate::own_instance::describe(&own, 1).into(),
        )],
        origin: Origin::Client,
        actors: Actor::default().into(),
    };
    node.log().submit(request).await.unwrap();
}

/// Waits until a node has an instance.
pub(super) async fn arrives(node: &Node, id: &str) {
    let mut moved = node.log().subscribe();
    let app = AppName::new("DISCOVERED");
    let arrival = async {
        while !node
            .log()
            .published()
            .registry
            .leases()
            .any(|lease| lease.instance().app == app && lease.instance().id().as_str() == id)
        {
            moved.changed().await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, arrival)
        .await
        .unwrap_or_else(|_| panic!("{id} does not arrive"));
}

/// Names as the system knows them.
pub(super) fn system_dns() -> Dns {
    Dns::new(&[], Arc::new(SystemClock::new()))
}

/// The peers that a node's status names, once they are as wanted.
async fn has_peers(node: &Node, wanted: &[String]) {
    let identity = Identity {
        node_id: "test".to_owned(),
        boot: "1".to_owned(),
    };
    let tls = TlsClient::without_roots().unwrap();
    let client = Transport::new(&identity, "test", PATIENCE, PATIENCE, system_dns(), &tls);
    let url = format!("http://{}/eureka/", node.address());
    let url = ServiceUrl::parse(&url).unwrap();
    let mut every = tokio::time::interval(Duration::from_millis(20));
    let mut text = String::new();
    let look = async {
        loop {
            every.tick().await;
            let sent = client.send(&url, Call::get("status", Wait::of(PATIENCE)));
            text = String::from_utf8_lossy(&sent.await.unwrap().body).into_owned();
            let status: serde_json::Value = serde_json::from_str(&text).unwrap();
            let registered = status["applicationStats"]["registered-replicas"].as_str();
            let peers: Vec<&str> = registered
                .unwrap_or_default()
                .split(',')
                .map(str::trim)
                .filter(|peer| !peer.is_empty())
                .collect();
            if peers == wanted {
                return;
            }
        }
    };
    let ended = tokio::time::timeout(PATIENCE, look).await;
    assert!(ended.is_ok(), "{wanted:?} are not the peers of {text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_find_each_other_by_srv_records_and_lose_each_other_with_them() {
    let dns = Server::start().await;
    let dir = tempfile::tempdir().unwrap();
    let alone = node("a.test", &dns, dir.path(), 0).await;
    // DNS says that there is nobody, so nothing is to be waited for.
    register(&alone, "early").await;
    has_peers(&alone, &[]).await;

    let other = node("b.test", &dns, dir.path(), 0).await;
    for host in ["a.test", "b.test"] {
        dns.records(host, A, 1, &[a([127, 0, 0, 1])]);
    }
    publish(&dns, &[("a.test", &alone), ("b.test", &other)]);
    arrives(&other, "early").await;
    register(&other, "late").await;
    arrives(&alone, "late").await;
    let url = |host: &str, node: &Node| format!("http://{host}:{}/eureka/", node.address().port());
    has_peers(&alone, &[url("b.test", &other)]).await;
    has_peers(&other, &[url("a.test", &alone)]).await;

    // A name server that fails takes nobody away; an answer without the node does.
    dns.set(SERVICE, SRV, Reply::ServFail);
    register(&alone, "meanwhile").await;
    arrives(&other, "meanwhile").await;
    has_peers(&alone, &[url("b.test", &other)]).await;

    // Nor do hosts whose addresses cannot be looked up any more, also for new connections.
    for host in ["a.test", "b.test"] {
        dns.set(host, A, Reply::ServFail);
    }
    let port = other.address().port();
    other.stop().await.unwrap();
    let other = node("b.test", &dns, dir.path(), port).await;
    register(&alone, "reconnected").await;
    arrives(&other, "reconnected").await;
    for host in ["a.test", "b.test"] {
        dns.records(host, A, 1, &[a([127, 0, 0, 1])]);
    }

    publish(&dns, &[("a.test", &alone)]);
    has_peers(&alone, &[]).await;
    publish(&dns, &[("b.test", &other), ("a.test", &alone)]);
    register(&alone, "again").await;
    arrives(&other, "again").await;

    alone.stop().await.unwrap();
    other.stop().await.unwrap();
}

/// A port that nobody uses at this moment on either address.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_led_to_the_node_itself_is_followed_when_it_leads_to_another() {
    const PEER: &str = "peer.test";
    let dns = Server::start().await;
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let settings = |address: &str| {
        [
            format!("--server.port={port}"),
            format!("--server.address={address}"),
            format!("--eurekad.dns-servers={}", dns.address()),
            format!("--eureka.client.service-url.defaultZone=http://{PEER}:{port}/eureka/"),
            "--eureka.server.peer-eureka-nodes-update-interval-ms=50".to_owned(),
            "--eureka.server.peer-node-connection-idle-timeout-seconds=1".to_owned(),
        ]
    };
    dns.records(PEER, A, 1, &[a([127, 0, 0, 1])]);
    let first = node_with("a.test", dir.path(), &settings("127.0.0.1")).await;
    // Long enough for it to ask who is there.
    tokio::time::sleep(Duration::from_millis(500)).await;
    has_peers(&first, &[]).await;
    register(&first, "early").await;

    dns.records(PEER, A, 1, &[a([127, 0, 0, 2])]);
    let second = node_with("b.test", dir.path(), &settings("127.0.0.2")).await;
    arrives(&second, "early").await;
    has_peers(&first, &[format!("http://{PEER}:{port}/eureka/")]).await;

    first.stop().await.unwrap();
    second.stop().await.unwrap();
}
