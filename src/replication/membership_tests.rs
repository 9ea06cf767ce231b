//! Who the peers are, from given answers and in made-up time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;

/// Answers by question: `a host`, `srv name` or `txt name`.
#[derive(Clone, Debug, Default)]
struct Answers {
    given: Arc<Mutex<BTreeMap<String, Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone, Debug)]
enum Answer {
    /// Words and a time to live in seconds.
    Is(Vec<String>, Option<u64>),
    Fails,
    Never,
}

impl Answers {
    fn set(&self, question: &str, words: &[&str], ttl: Option<u64>) {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        self.put(question, Answer::Is(words, ttl));
    }

    fn put(&self, question: &str, answer: Answer) {
        self.given
            .lock()
            .unwrap()
            .insert(question.to_owned(), answer);
    }

    fn forget(&self, question: &str) {
        self.given.lock().unwrap().remove(question);
    }

    /// The questions since the last time.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    async fn ask<T>(
        &self,
        question: String,
        read: impl Fn(&str) -> T,
    ) -> Result<Found<T>, LookUpError> {
        let answer = self.given.lock().unwrap().get(&question).cloned();
        self.asked.lock().unwrap().push(question);
        match answer {
            Some(Answer::Is(words, ttl)) => Ok(Found {
                records: words.iter().map(|word| read(word)).collect(),
                ttl: ttl.map(Duration::from_secs),
            }),
            Some(Answer::Fails) => Err(LookUpError::Failed("out of order".into())),
            Some(Answer::Never) => std::future::pending().await,
            None => Err(LookUpError::Nobody),
        }
    }
}

impl Names for Answers {
    async fn addresses(&self, host: &str) -> Result<Found<IpAddr>, LookUpError> {
        let read = |word: &str| word.parse().unwrap();
        self.ask(format!("a {host}"), read).await
    }

    async fn targets(&self, name: &str) -> Result<Found<Target>, LookUpError> {
        let read = |word: &str| {
            let (priority, rest) = word.split_once('/').unwrap();
            let (host, port) = rest.split_once(':').unwrap();
            Target {
                priority: priority.parse().unwrap(),
                host: host.to_owned(),
                port: port.parse().unwrap(),
            }
        };
        self.ask(format!("srv {name}"), read).await
    }

    async fn texts(&self, name: &str) -> Result<Found<String>, LookUpError> {
        self.ask(format!("txt {name}"), str::to_owned).await
    }
}

fn config(urls: &[&str]) -> PeersConfig {
    let urls = urls.iter().map(|url| ServiceUrl::parse(url).unwrap());
    PeersConfig {
        service_urls: [("defaultZone".to_owned(), urls.collect())].into(),
        own_hosts: vec!["node-1".into(), "10.0.0.1".into()],
        own_ports: vec![8761],
        ..PeersConfig::default()
    }
}

fn membership(config: &PeersConfig) -> (Answers, Membership<Answers>) {
    let answers = Answers::default();
    (answers.clone(), Membership::new(config, answers))
}

fn shown(membership: &Membership<Answers>) -> Vec<String> {
    let urls = membership.urls();
    urls.iter().map(ToString::to_string).collect()
}

/// Waits for the next look-up and does it; how long that took, in seconds.
async fn next(membership: &mut Membership<Answers>) -> f32 {
    let before = Instant::now();
    membership.due().await;
    membership.refresh().await;
    before.elapsed().as_secs_f32().round()
}

const HEADLESS: &str = "http://u:p@eureka:8761/eureka/";
const BY_SRV: &str = "srv+http://_e._tcp.x/eureka/";

#[tokio::test(start_paused = true)]
async fn urls_with_addresses_and_localhost_are_never_looked_up() {
    let config = config(&[
        "http://10.0.0.2:8761/eureka/",
        "http://[::2]:8761/eureka/",
        "http://localhost:8762/eureka/",
        "http://10.0.0.1:8761/eureka/",
    ]);
    let (answers, mut membership) = membership(&config);
    membership.refresh().await;
    assert_eq!(answers.asked(), [""; 0]);
    assert_eq!(
        shown(&membership),
        [
            "http://10.0.0.2:8761/eureka/",
            "http://[::2]:8761/eureka/",
            "http://localhost:8762/eureka/"
        ]
    );
    assert!(membership.is_settled());
    let day = Duration::from_hours(24);
    let waited = tokio::time::timeout(day, membership.due()).await;
    assert!(waited.is_err(), "there is nothing to look up");
}

#[tokio::test(start_paused = true)]
async fn a_name_with_one_address_of_each_family_is_one_peer() {
    let (answers, mut membership) = membership(&config(&[HEADLESS]));
    assert_eq!(shown(&membership), [""; 0], "not before the first answer");
    answers.set("a eureka", &["2001:db8::2", "10.0.0.2"], Some(30));
    membership.refresh().await;
    assert_eq!(shown(&membership), ["http://eureka:8761/eureka/"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_with_several_addresses_is_several_peers_without_this_node() {
    let (answers, mut membership) = membership(&config(&[HEADLESS]));
    let addresses = [
        "10.0.0.3",
        "2001:db8::2",
        "10.0.0.1",
        "::ffff:10.0.0.2",
        "10.0.0.2",
        "0.0.0.0",
    ];
    answers.set("a eureka", &addresses, Some(30));
    membership.refresh().await;
    let expected = [
        "http://10.0.0.2:8761/eureka/",
        "http://10.0.0.3:8761/eureka/",
    ];
    assert_eq!(shown(&membership), expected);
    let urls = membership.urls();
    assert!(urls.iter().all(|url| url.credentials.is_some()));
    // In another order it is the same set.
    answers.set("a eureka", &["10.0.0.2", "10.0.0.3", "10.0.0.1"], Some(30));
    next(&mut membership).await;
    assert_eq!(shown(&membership), expected);
}

#[tokio::test(start_paused = true)]
async fn names_without_ipv4_stand_for_their_addresses_of_ipv6() {
    let (answers, mut membership) = membership(&config(&[HEADLESS]));
    answers.set("a eureka", &["2001:db8::3", "2001:db8::2"], None);
    membership.refresh().await;
    assert_eq!(
        shown(&membership),
        [
            "http://[2001:db8::2]:8761/eureka/",
            "http://[2001:db8::3]:8761/eureka/"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_several_peers_stays_by_address_when_one_is_left() {
    let (answers, mut membership) = membership(&config(&[HEADLESS]));
    answers.set("a eureka", &["10.0.0.2"], Some(5));
    membership.refresh().await;
    assert_eq!(shown(&membership), ["http://eureka:8761/eureka/"]);
    answers.set("a eureka", &["10.0.0.2", "10.0.0.3"], Some(5));
    next(&mut membership).await;
    assert_eq!(shown(&membership).len(), 2);
    answers.set("a eureka", &["10.0.0.3"], Some(5));
    next(&mut membership).await;
    assert_eq!(shown(&membership), ["http://10.0.0.3:8761/eureka/"]);
    // Only this node is left: an answer, and so believed.
    answers.set("a eureka", &["10.0.0.1"], Some(5));
    next(&mut membership).await;
    assert_eq!(shown(&membership), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn by_address_can_be_asked_for_and_forbidden() {
    for (by_address, one, two) in [
        (
            PeersByAddress::Always,
            vec!["http://10.0.0.2:8761/eureka/"],
            2,
        ),
        (PeersByAddress::Auto, vec!["http://eureka:8761/eureka/"], 2),
        (PeersByAddress::Never, vec!["http://eureka:8761/eureka/"], 1),
    ] {
        let config = PeersConfig {
            by_address,
            ..config(&[HEADLESS])
        };
        let (answers, mut membership) = membership(&config);
        answers.set("a eureka", &["10.0.0.2"], Some(1));
        membership.refresh().await;
        assert_eq!(shown(&membership), one, "{by_address:?}");
        answers.set("a eureka", &["10.0.0.2", "10.0.0.3"], Some(1));
        tokio::time::advance(Duration::from_secs(6)).await;
        membership.refresh().await;
        assert_eq!(shown(&membership).len(), two, "{by_address:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn https_needs_the_name_unless_addresses_are_asked_for() {
    let mut config = config(&["https://eureka:8761/eureka/"]);
    let (_, fixed) = membership(&config);
    assert_eq!(shown(&fixed), ["https://eureka:8761/eureka/"]);
    config.by_address = PeersByAddress::Always;
    let (answers, mut membership) = membership(&config);
    answers.set("a eureka", &["10.0.0.2"], None);
    membership.refresh().await;
    assert_eq!(shown(&membership), ["https://10.0.0.2:8761/eureka/"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_nobody_has_known_yet_stands_for_itself() {
    let (answers, mut membership) = membership(&config(&[HEADLESS]));
    answers.put("a eureka", Answer::Fails);
    membership.refresh().await;
    assert_eq!(shown(&membership), ["http://eureka:8761/eureka/"]);
    assert!(membership.is_settled());
    answers.set("a eureka", &["10.0.0.2", "10.0.0.3"], Some(30));
    next(&mut membership).await;
    assert_eq!(shown(&membership).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn srv_targets_are_peers_by_priority_each_once_without_this_node() {
    let config = config(&["http://b:1/eureka/", BY_SRV]);
    let (answers, mut membership) = membership(&config);
    let targets = [
        "9/a:1",
        "1/c:1",
        "1/b:1",
        "2/b:1",
        "1/NODE-1:8761",
        "0/not a host:1",
        "1/node-1:8762",
    ];
    answers.set("srv _e._tcp.x", &targets, Some(60));
    answers.set("a b", &["10.0.0.2"], Some(60));
    membership.refresh().await;
    assert_eq!(
        shown(&membership),
        [
            "http://b:1/eureka/",
            "http://c:1/eureka/",
            "http://node-1:8762/eureka/",
            "http://a:1/eureka/"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn peers_appear_and_vanish_when_the_time_to_live_is_over() {
    let (answers, mut membership) = membership(&config(&[BY_SRV]));
    answers.set("srv _e._tcp.x", &["0/a:1", "0/b:1"], Some(60));
    membership.refresh().await;
    answers.set("srv _e._tcp.x", &["0/b:1", "0/c:1"], Some(60));
    membership.refresh().await;
    assert_eq!(
        shown(&membership),
        ["http://a:1/eureka/", "http://b:1/eureka/"]
    );
    assert!((next(&mut membership).await - 60.0).abs() < 0.5);
    assert_eq!(
        shown(&membership),
        ["http://b:1/eureka/", "http://c:1/eureka/"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_time_to_live_counts_between_five_seconds_and_the_interval() {
    for (ttl, interval, expected) in [
        (Some(0), 600, 5.0),
        (Some(20), 600, 20.0),
        (Some(4_000_000_000), 600, 600.0),
        (None, 600, 30.0),
        (Some(60), 2, 2.0),
        (Some(0), 2, 2.0),
    ] {
        let config = PeersConfig {
            update_interval: Duration::from_secs(interval),
            ..config(&[BY_SRV])
        };
        let (answers, mut membership) = membership(&config);
        answers.set("srv _e._tcp.x", &["0/a:1"], ttl);
        membership.refresh().await;
        let waited = next(&mut membership).await;
        assert!(
            (waited - expected).abs() < 0.5,
            "{ttl:?} {interval}: {waited}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn failed_and_empty_answers_leave_the_last_good_set_and_back_off() {
    let (answers, mut membership) = membership(&config(&[BY_SRV]));
    answers.set("srv _e._tcp.x", &["0/a:1"], Some(300));
    membership.refresh().await;
    let good = shown(&membership);
    answers.put("srv _e._tcp.x", Answer::Fails);
    let mut waits = Vec::new();
    for _ in 0..4 {
        waits.push(next(&mut membership).await);
        assert_eq!(shown(&membership), good);
    }
    // The empty answer, and no answer at all.
    answers.forget("srv _e._tcp.x");
    waits.push(next(&mut membership).await);
    assert_eq!(shown(&membership), good);
    answers.put("srv _e._tcp.x", Answer::Never);
    waits.push(next(&mut membership).await);
    assert_eq!(shown(&membership), good);
    assert_eq!(waits, [300.0, 5.0, 10.0, 20.0, 40.0, 85.0]);
    assert!(membership.is_settled());
    // Back to normal at once.
    answers.set("srv _e._tcp.x", &["0/b:1"], Some(300));
    next(&mut membership).await;
    assert_eq!(shown(&membership), ["http://b:1/eureka/"]);
    assert!((next(&mut membership).await - 300.0).abs() < 0.5);
}

#[test]
fn a_change_of_condition_is_told_once() {
    let mut known = Known::default();
    let failed = LookUpError::Failed("x".into());
    let url = ServiceUrl::parse("http://a/").unwrap();
    let told: Vec<bool> = [
        Err(&failed),
        Err(&failed),
        Err(&LookUpError::TimedOut(LOOK_UP_MAX)),
        Err(&LookUpError::Nobody),
        Err(&LookUpError::Nobody),
        Ok(vec![url.clone()]),
        Ok(vec![url.clone()]),
        Err(&failed),
    ]
    .into_iter()
    .map(|result| known.take(result))
    .collect();
    assert_eq!(told, [true, false, false, true, false, true, false, true]);
    assert_eq!(known.urls, [url]);
}

#[tokio::test(start_paused = true)]
async fn before_dns_has_answered_the_set_is_not_settled() {
    let (answers, mut membership) = membership(&config(&[BY_SRV]));
    assert!(!membership.is_settled());
    answers.put("srv _e._tcp.x", Answer::Never);
    membership.refresh().await;
    assert!(!membership.is_settled());
    answers.forget("srv _e._tcp.x");
    next(&mut membership).await;
    assert!(membership.is_settled() && membership.urls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_slow_look_up_holds_up_the_others_for_five_seconds_at_most() {
    let (answers, mut membership) = membership(&config(&[BY_SRV, "srv+http://_f/"]));
    answers.put("srv _e._tcp.x", Answer::Never);
    answers.set("srv _f", &["0/a:1"], Some(30));
    let before = Instant::now();
    membership.refresh().await;
    assert_eq!(before.elapsed(), LOOK_UP_MAX);
    assert_eq!(shown(&membership), ["http://a:1/"]);
}

#[tokio::test(start_paused = true)]
async fn each_source_is_looked_up_in_its_own_time() {
    let (answers, mut membership) = membership(&config(&[BY_SRV, "srv+http://_f/"]));
    answers.set("srv _e._tcp.x", &["0/a:1"], Some(10));
    answers.set("srv _f", &["0/b:1"], Some(25));
    membership.refresh().await;
    assert_eq!(answers.asked().len(), 2);
    for expected in ["srv _e._tcp.x", "srv _e._tcp.x", "srv _f"] {
        next(&mut membership).await;
        assert_eq!(answers.asked(), [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn no_answer_makes_more_peers_than_the_bound() {
    let (answers, mut membership) = membership(&config(&[BY_SRV]));
    let many: Vec<String> = (0..2000).map(|n| format!("0/h{n}:1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    answers.set("srv _e._tcp.x", &many, Some(10));
    membership.refresh().await;
    assert_eq!(membership.urls().len(), PEERS_MAX);
}

fn by_txt() -> PeersConfig {
    PeersConfig {
        dns: Some(DnsPeers {
            name: "x.org".into(),
            port: 8761,
            context: "eureka/v2".into(),
        }),
        region: "eu".into(),
        availability_zones: [("eu".to_owned(), vec!["eu-b".to_owned()])].into(),
        ..config(&["http://unused/"])
    }
}

#[tokio::test(start_paused = true)]
async fn txt_records_list_zones_and_zones_list_servers() {
    let (answers, mut membership) = membership(&by_txt());
    answers.set(
        "txt txt.eu.x.org.",
        &["eu-a, EU-B.x.org", "\"eu-c\""],
        Some(90),
    );
    answers.set("txt txt.eu-a.x.org.", &["h2 h1,10.0.0.1"], Some(40));
    answers.set(
        "txt txt.eu-b.x.org.",
        &["h3.x.org. h4:7001", "h/4 u:p@h5"],
        Some(50),
    );
    membership.refresh().await;
    assert_eq!(
        shown(&membership),
        [
            "http://h3.x.org:8761/eureka/v2/",
            "http://h4:7001/eureka/v2/",
            "http://h1:8761/eureka/v2/",
            "http://h2:8761/eureka/v2/"
        ]
    );
    assert!((next(&mut membership).await - 40.0).abs() < 0.5);
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_cannot_be_looked_up_keeps_all_and_an_empty_one_goes() {
    let (answers, mut membership) = membership(&by_txt());
    answers.set("txt txt.eu.x.org.", &["eu-a eu-b"], Some(30));
    answers.set("txt txt.eu-a.x.org.", &["h1"], Some(30));
    answers.set("txt txt.eu-b.x.org.", &["h2"], Some(30));
    membership.refresh().await;
    let both = shown(&membership);
    assert_eq!(both.len(), 2);
    answers.set("txt txt.eu-a.x.org.", &["h3"], Some(30));
    answers.put("txt txt.eu-b.x.org.", Answer::Fails);
    next(&mut membership).await;
    assert_eq!(shown(&membership), both);
    answers.forget("txt txt.eu-b.x.org.");
    next(&mut membership).await;
    assert_eq!(shown(&membership), ["http://h3:8761/eureka/v2/"]);
    // Nobody in any zone: an empty answer, which is not believed.
    answers.forget("txt txt.eu-a.x.org.");
    next(&mut membership).await;
    assert_eq!(shown(&membership), ["http://h3:8761/eureka/v2/"]);
}
