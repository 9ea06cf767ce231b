//! A node whose peer answers everything with a page.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::discovery_tests::{PATIENCE, node_with, register, system_dns};
use super::task::End;
use super::transport::{Call, Identity, Transport, Wait};
use super::until_it_ends;
use crate::config::ServiceUrl;
use crate::node::Node;
use crate::tls::TlsClient;

const PAGE: &str = "<!doctype html><html><body><h1>It works!</h1></body></html>";

/// Answers whatever is asked with 200 and a page, one request a connection.
async fn page_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/eureka/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = vec![0; 64 << 10];
                let length = PAGE.len();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{PAGE}"
                );
                // Requests are small and come in one piece or two; who asks may be gone.
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
                let _ = stream.read(&mut request).await;
            });
        }
    });
    url
}

/// A figure of a node's peer.
async fn figure(node: &Node, name: &str) -> u64 {
    let identity = Identity {
        node_id: "test".to_owned(),
        boot: "1".to_owned(),
    };
    let tls = TlsClient::without_roots().unwrap();
    let client = Transport::new(&identity, "test", PATIENCE, PATIENCE, system_dns(), &tls);
    let url = ServiceUrl::parse(&format!("http://{}/", node.address())).unwrap();
    let sent = client.send(&url, Call::get("metrics", Wait::of(PATIENCE)));
    let text = String::from_utf8_lossy(&sent.await.unwrap().body).into_owned();
    let is_it = |line: &&str| line.split(' ').next() == Some(name);
    let line = text.lines().find(is_it);
    let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_no_answers_are_counted_as_broken_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let url = page_server().await;
    let peers = format!("--eureka.client.service-url.defaultZone={url}");
    let copy = "--eureka.client.fetch-registry=false".to_owned();
    let node = node_with("a.test", dir.path(), &[peers, copy]).await;
    register(&node, "untold").await;
    let of = |class: &str| format!("eurekad_peer_errors_total{{peer=\"{url}\",class=\"{class}\"}}");
    let broken = async {
        while figure(&node, &of("broken")).await < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, broken).await.unwrap();
    assert_eq!(figure(&node, &of("status")).await, 0);
    let answered = format!("eurekad_peer_answered_total{{peer=\"{url}\"}}");
    assert_eq!(figure(&node, &answered).await, 0, "no page is an answer");
    node.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_that_panics_is_run_anew_and_one_that_is_stopped_is_not() {
    let stop = CancellationToken::new();
    let (runs, falls) = (AtomicU32::new(0), AtomicU32::new(0));
    let run = || {
        let place = runs.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            assert_eq!(place, 1, "a defect");
            End::Ourselves
        })
    };
    let fell = |why: &str| {
        assert!(why.contains("panicked"), "{why}");
        falls.fetch_add(1, Ordering::Relaxed);
    };
    tokio::time::pause();
    assert_eq!(until_it_ends(run, fell, &stop).await, End::Ourselves);
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(falls.load(Ordering::Relaxed), 1);
    stop.cancel();
    assert_eq!(until_it_ends(run, fell, &stop).await, End::Stopped);
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    assert_eq!(falls.load(Ordering::Relaxed), 1);
}
