//! Answers of a name server, right and wrong, over the loopback.

use super::super::dns_server::{A, AAAA, CNAME, Reply, SRV, Server, TXT, a, aaaa, name, srv, txt};
use super::*;
use crate::clock::{ManualClock, SystemClock};

async fn server() -> (Server, Dns) {
    let server = Server::start().await;
    let dns = Dns::new(&[server.address()], Arc::new(ManualClock::at(0)));
    (server, dns)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[tokio::test]
async fn addresses_come_with_the_shortest_time_to_live() {
    let (server, dns) = server().await;
    let records = vec![(A, 30, a([10, 0, 0, 2])), (A, 7, a([10, 0, 0, 1]))];
    server.set("eureka.test", A, Reply::Records(records));
    server.records("eureka.test", AAAA, 3, &[aaaa("2001:db8::1")]);
    let found = dns.addresses("eureka.test").await.unwrap();
    assert_eq!(found.records, [ip("10.0.0.2"), ip("10.0.0.1")]);
    assert_eq!(found.ttl, Some(seconds(7)));
}

#[tokio::test]
async fn a_host_without_ipv4_has_its_addresses_of_ipv6() {
    let (server, dns) = server().await;
    server.set("six.test", A, Reply::NoData);
    server.records("six.test", AAAA, 30, &[aaaa("2001:db8::1")]);
    let found = dns.addresses("six.test").await.unwrap();
    assert_eq!(found.records, [ip("2001:db8::1")]);
}

#[tokio::test]
async fn an_alias_is_followed_and_its_time_to_live_counts() {
    let (server, dns) = server().await;
    server.set(
        "alias.test",
        A,
        Reply::Records(vec![(CNAME, 4, name("real.test"))]),
    );
    server.records("real.test", A, 60, &[a([10, 0, 0, 9])]);
    let found = dns.addresses("alias.test").await.unwrap();
    assert_eq!(found.records, [ip("10.0.0.9")]);
    assert_eq!(found.ttl, Some(seconds(4)));
}

#[tokio::test]
async fn targets_have_host_port_and_priority() {
    let (server, dns) = server().await;
    let targets = [
        srv(10, 8762, "B.Test"),
        srv(0, 8761, "a.test"),
        srv(0, 0, "portless.test"),
        srv(0, 8761, ""),
    ];
    server.records("_eureka._tcp.test", SRV, 20, &targets);
    let found = dns.targets("_eureka._tcp.test").await.unwrap();
    let target = |priority, host: &str, port| Target {
        priority,
        host: host.to_owned(),
        port,
    };
    assert_eq!(
        found.records,
        [target(10, "b.test", 8762), target(0, "a.test", 8761)]
    );
    assert_eq!(found.ttl, Some(seconds(20)));
    // "." alone: the service is not to be had.
    server.records("_none._tcp.test", SRV, 20, &[srv(0, 0, "")]);
    assert_eq!(
        dns.targets("_none._tcp.test").await,
        Err(LookUpError::Nobody)
    );
}

#[tokio::test]
async fn texts_are_told_apart_within_a_record_and_need_be_no_utf8() {
    let (server, dns) = server().await;
    let texts = [txt(&["one two", "three"]), vec![2, 0xFF, b'x']];
    server.records("txt.eu.test", TXT, 90, &texts);
    let found = dns.texts("txt.eu.test").await.unwrap();
    assert_eq!(found.records, ["one two", "three", "\u{FFFD}x"]);
}

#[tokio::test]
async fn an_unknown_name_and_one_without_records_are_nobody() {
    let (server, dns) = server().await;
    server.set("empty.test", SRV, Reply::NoData);
    for name in ["empty.test", "unknown.test"] {
        assert_eq!(dns.targets(name).await, Err(LookUpError::Nobody), "{name}");
        assert_eq!(
            dns.addresses(name).await,
            Err(LookUpError::Nobody),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_failing_server_is_a_failure_and_not_nobody() {
    let (server, dns) = server().await;
    server.set("a.test", TXT, Reply::ServFail);
    let error = dns.texts("a.test").await.unwrap_err();
    assert!(matches!(error, LookUpError::Failed(_)), "{error:?}");
    // Nor does the other family of addresses hide it.
    server.set("a.test", A, Reply::ServFail);
    server.records("a.test", AAAA, 3, &[aaaa("2001:db8::1")]);
    let error = dns.addresses("a.test").await.unwrap_err();
    assert!(matches!(error, LookUpError::Failed(_)), "{error:?}");
}

#[tokio::test]
async fn silence_and_garbage_end_within_the_bound() {
    let (server, dns) = server().await;
    let dns = dns.within(Duration::from_millis(300));
    server.set("silent.test", SRV, Reply::Silence);
    server.set("short.test", SRV, Reply::Garbage(vec![1, 2, 3]));
    server.set("long.test", SRV, Reply::Garbage(vec![0xC0; 600]));
    for name in ["silent.test", "short.test", "long.test"] {
        let error = dns.targets(name).await.unwrap_err();
        let is_failure = matches!(error, LookUpError::TimedOut(_) | LookUpError::Failed(_));
        assert!(is_failure, "{name}: {error:?}");
    }
}

#[tokio::test]
async fn data_that_does_not_fit_its_type_is_no_answer() {
    let (server, dns) = server().await;
    let dns = dns.within(Duration::from_millis(300));
    server.records("cut.test", SRV, 5, &[vec![0, 0, 0]]);
    server.records("loop.test", SRV, 5, &[vec![0, 0, 0, 0, 0, 1, 0xC0, 12]]);
    assert!(dns.targets("cut.test").await.is_err());
    // A pointer back to the question is a name like any other.
    let found = dns.targets("loop.test").await.unwrap();
    assert_eq!(found.records[0].host, "loop.test");
}

#[tokio::test]
async fn what_does_not_fit_udp_is_asked_for_over_tcp_and_read_up_to_a_bound() {
    let (server, dns) = server().await;
    let records = (0..3000_u16)
        .map(|n| {
            let [high, low] = n.to_be_bytes();
            (A, 5, a([10, 1, high, low]))
        })
        .collect();
    server.set("many.test", A, Reply::OverTcp(records));
    let found = dns.addresses("many.test").await.unwrap();
    assert_eq!(found.records.len(), RECORDS_MAX);
}

#[tokio::test]
async fn a_second_server_answers_where_the_first_is_gone() {
    let (server, _) = server().await;
    server.records("a.test", A, 5, &[a([10, 0, 0, 1])]);
    let gone = {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.local_addr().unwrap()
    };
    let dns = Dns::new(&[gone, server.address()], Arc::new(SystemClock::new()));
    assert!(dns.addresses("a.test").await.is_ok());
}

#[tokio::test]
async fn names_that_are_none_fail_at_once() {
    let (_server, dns) = server().await;
    for name in [&"x".repeat(64), &"x.".repeat(200), "a..test"] {
        let error = dns.targets(name).await.unwrap_err();
        assert!(matches!(error, LookUpError::Failed(_)), "{name}: {error:?}");
    }
}

#[tokio::test]
async fn the_systems_configuration_is_read_again_when_it_changes() {
    let (server, _) = server().await;
    server.records("a.test", TXT, 5, &[txt(&["x"])]);
    let dir = tempfile::tempdir().unwrap();
    let mut dns = Dns::new(&[], Arc::new(SystemClock::new())).within(Duration::from_millis(300));
    dns.system = Arc::new(SystemServers::of(dir.path().join("resolv.conf")));
    let error = dns.texts("a.test").await.unwrap_err();
    assert!(error.to_string().contains("resolv.conf"), "{error}");
    std::fs::write(&dns.system.path, "# nobody\n").unwrap();
    let error = dns.texts("a.test").await.unwrap_err();
    assert!(error.to_string().contains("nameserver"), "{error}");
    std::fs::write(&dns.system.path, "nameserver 192.0.2.1\nsearch x.test\n").unwrap();
    let (config, _) = dns.system.read().unwrap();
    assert_eq!(config.name_servers()[0].ip, ip("192.0.2.1"));
    std::fs::write(&dns.system.path, "nameserver 192.0.2.2\n").unwrap();
    let (config, _) = dns.system.read().unwrap();
    assert_eq!(config.name_servers()[0].ip, ip("192.0.2.2"));
    assert!(config.search().is_empty());
}

#[tokio::test]
async fn without_servers_addresses_are_the_systems() {
    let found = Dns::new(&[], Arc::new(SystemClock::new()))
        .addresses("localhost")
        .await
        .unwrap();
    assert!(found.records.iter().all(IpAddr::is_loopback), "{found:?}");
    assert_eq!(found.ttl, None);
}

/// Where a new connection would go.
async fn ways(dns: &Dns) -> Result<Vec<IpAddr>, LookUpError> {
    dns.ways_to("eureka.test".to_owned()).await
}

#[tokio::test]
async fn connections_go_where_they_went_while_dns_does_not_answer() {
    let (server, dns) = server().await;
    let dns = dns.within(seconds(60));
    assert_eq!(ways(&dns).await, Err(LookUpError::Nobody));
    server.records("eureka.test", A, 1, &[a([10, 0, 0, 1])]);
    let first = [ip("10.0.0.1")];
    assert_eq!(ways(&dns).await.unwrap(), first);
    for outage in [
        Reply::ServFail,
        Reply::NoData,
        Reply::Garbage(vec![1, 2, 3]),
        Reply::Silence,
    ] {
        server.set("eureka.test", A, outage.clone());
        for _ in 0..3 {
            assert_eq!(ways(&dns).await.unwrap(), first, "{outage:?}");
        }
    }
    // The next answer counts; a look-up that is still on its way may have to end first.
    server.records("eureka.test", A, 1, &[a([10, 0, 0, 2])]);
    let later = async {
        while ways(&dns).await.unwrap() != [ip("10.0.0.2")] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(seconds(60), later).await.unwrap();
}

#[tokio::test]
async fn a_name_that_is_gone_loses_its_addresses_after_a_minute() {
    let server = Server::start().await;
    let clock = Arc::new(ManualClock::at(0));
    let dns = Dns::new(&[server.address()], clock.clone()).within(seconds(60));
    let first = [ip("10.0.0.1")];
    server.records("eureka.test", A, 1, &[a([10, 0, 0, 1])]);
    assert_eq!(ways(&dns).await.unwrap(), first);
    // As long as an outage may take.
    server.set("eureka.test", A, Reply::ServFail);
    for _ in 0..2 {
        assert_eq!(ways(&dns).await.unwrap(), first);
        clock.advance(3_600_000);
    }
    server.set("eureka.test", A, Reply::NoData);
    assert_eq!(ways(&dns).await.unwrap(), first);
    // A step of the wall clock is not time.
    clock.step_wall(1 << 40);
    assert_eq!(ways(&dns).await.unwrap(), first);
    // An answer that takes long, on a machine with much else to do, counts from the next time on.
    let forgotten = async {
        while ways(&dns).await.is_ok() {
            clock.advance(60_000);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(seconds(60), forgotten).await.unwrap();
    assert_eq!(ways(&dns).await, Err(LookUpError::Nobody));
    server.records("eureka.test", A, 1, &[a([10, 0, 0, 1])]);
    assert_eq!(ways(&dns).await.unwrap(), first);
}

#[tokio::test]
async fn a_failure_of_the_systems_resolver_is_nobody_only_if_its_servers_say_so() {
    let server = Server::start().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("resolv.conf");
    std::fs::write(&path, "as it was").unwrap();
    let mut dns = Dns::new(&[], Arc::new(SystemClock::new()));
    // The file has no word for the port of a server.
    let config = ResolverConfig::from_name_servers(vec![name_server(&server.address())]);
    let read = (b"as it was".to_vec(), config, ResolverOpts::default());
    dns.system = Arc::new(SystemServers {
        path,
        last: Mutex::new(Some(read)),
    });
    server.set("broken.test", A, Reply::ServFail);
    server.records("known.test", A, 1, &[a([10, 0, 0, 1])]);
    let failure = LookUpError::Failed("of the system".to_owned());
    for (name, meaning) in [
        ("gone.test", LookUpError::Nobody),
        ("broken.test", failure.clone()),
        ("known.test", failure.clone()),
    ] {
        assert_eq!(
            dns.explained(name, failure.clone()).await,
            meaning,
            "{name}"
        );
    }
}
