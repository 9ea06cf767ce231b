//! What a peer may answer, and how long it may take for it.

use std::time::Duration;

use hyper::header::{DATE, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::discovery_tests::{PATIENCE, system_dns};
use super::packing;
use super::sender::Failure;
use super::transport::{Answer, Call, Identity, Transport, Wait};
use crate::config::ServiceUrl;
use crate::tls::TlsClient;
use crate::types::Millis;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
/// Longest answer of these tests.
const MOST: usize = 100_000;

fn call(packs: bool, body: Vec<u8>) -> Call<'static> {
    Call {
        packs,
        body,
        content_type: "application/json",
        answer_max: MOST,
        ..Call::get("some", Wait::of(PATIENCE))
    }
}

/// Makes one request of a server that answers by `answer`, after it has read a piece of the request.
async fn ask<A, F>(call: Call<'_>, answer: A) -> Result<Answer, Failure>
where
    A: FnOnce(TcpStream, Vec<u8>) -> F + Send + 'static,
    F: Future<Output = std::io::Result<()>> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/eureka/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 64 << 10];
        let length = stream.read(&mut request).await.unwrap();
        request.truncate(length);
        // Who asked may not want to hear the end of it.
        let _ = answer(stream, request).await;
    });
    let identity = Identity {
        node_id: "test".to_owned(),
        boot: "1".to_owned(),
    };
    let tls = TlsClient::without_roots().unwrap();
    let client = Transport::new(&identity, "test", PATIENCE, PATIENCE, system_dns(), &tls);
    let sent = client.send(&ServiceUrl::parse(&url).unwrap(), call).await;
    server.abort();
    sent
}

/// An answer as these bytes, and then silence.
async fn answered(bytes: Vec<u8>) -> Result<Answer, Failure> {
    let answer = async move |mut stream: TcpStream, _| {
        stream.write_all(&bytes).await?;
        std::future::pending().await
    };
    ask(call(false, Vec::new()), answer).await
}

/// What an answer that repeats these bytes for ever is called.
async fn endless(first: &str, again: Vec<u8>) -> String {
    let first = first.as_bytes().to_vec();
    let answer = async move |mut stream: TcpStream, _| {
        stream.write_all(&first).await?;
        loop {
            stream.write_all(&again).await?;
        }
    };
    match ask(call(false, Vec::new()), answer).await {
        Err(Failure::Broken(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn gzip(head: &str, body: &[u8]) -> Vec<u8> {
    let packed = packing::pack(body).expect("shorter");
    let length = packed.len();
    let mut answer =
        format!("{head}Content-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    answer.extend(packed);
    answer
}

#[tokio::test]
async fn an_answer_without_an_end_is_read_up_to_its_bound() {
    let chunk = [b"1000\r\n".as_slice(), &[b' '; 0x1000], b"\r\n"].concat();
    let head = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n");
    let why = endless(&head, chunk).await;
    assert_eq!(why, "it is longer than 100000 bytes");
    let why = answered(format!("{HEAD}Content-Length: 100001\r\n\r\n").into_bytes()).await;
    let Err(Failure::Broken(why)) = why else {
        panic!("{why:?}");
    };
    assert_eq!(why, "it is longer than 100000 bytes");
}

#[tokio::test]
async fn an_answer_that_never_gets_to_its_body_is_given_up() {
    let why = endless("", b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100)).await;
    assert!(why.contains("come before its body"), "{why}");
    let why = endless("HTTP/1.1 200 OK\r\nX-A: ", vec![b'a'; 1000]).await;
    assert!(!why.is_empty());
    let why = endless("HTTP/1.1 200 OK\r\n", b"X-A: a\r\n".to_vec()).await;
    assert!(!why.is_empty());
}

#[tokio::test]
async fn the_page_of_an_error_may_be_as_long_as_it_likes() {
    let answer = async move |mut stream: TcpStream, _| {
        stream
            .write_all(b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n")
            .await?;
        loop {
            stream.write_all(b"5\r\nwords\r\n").await?;
        }
    };
    let answer = ask(call(false, Vec::new()), answer).await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (500, 0));
}

#[tokio::test]
async fn an_answer_in_gzip_is_unpacked_up_to_its_bound() {
    let text = vec![b' '; MOST];
    let answer = answered(gzip(HEAD, &text)).await.unwrap();
    assert_eq!(answer.body, text);
    let too_long = answered(gzip(HEAD, &vec![b' '; MOST + 1])).await;
    let too_long = too_long.unwrap_err();
    let wanted = Failure::Broken("it is longer than 100000 bytes".into());
    assert_eq!(too_long, wanted);
    let garbage = format!("{HEAD}Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc");
    let garbage = answered(garbage.into_bytes()).await;
    assert!(matches!(garbage, Err(Failure::Broken(_))), "{garbage:?}");
}

#[tokio::test]
async fn what_is_long_goes_out_in_gzip_to_whom_it_may_and_all_may_answer_in_gzip() {
    for (packs, length, is_packed) in [
        (true, 20_000, true),
        (true, 1000, false),
        (false, 20_000, false),
    ] {
        let answer = async move |mut stream: TcpStream, request: Vec<u8>| {
            let request = String::from_utf8_lossy(&request).to_ascii_lowercase();
            let head = request.split("\r\n\r\n").next().unwrap_or_default();
            let length = head.len();
            stream
                .write_all(format!("{HEAD}Content-Length: {length}\r\n\r\n{head}").as_bytes())
                .await?;
            std::future::pending().await
        };
        let call = call(packs, vec![b' '; length]);
        let answer = ask(call, answer).await.unwrap();
        let head = String::from_utf8_lossy(&answer.body);
        assert_eq!(head.contains("content-encoding: gzip"), is_packed, "{head}");
        assert!(head.contains("accept-encoding: gzip"), "{head}");
    }
}

#[tokio::test]
async fn what_moves_on_goes_on_and_what_stands_still_is_late() {
    let wait = Wait {
        head: PATIENCE,
        next: Duration::from_secs(2),
        whole: 4 * PATIENCE,
    };
    for is_complete in [true, false] {
        let drip = async move |mut stream: TcpStream, _| {
            stream
                .write_all(format!("{HEAD}Content-Length: 25\r\n\r\n").as_bytes())
                .await?;
            for _ in 0..if is_complete { 25 } else { 24 } {
                tokio::time::sleep(Duration::from_millis(100)).await;
                stream.write_all(b" ").await?;
            }
            std::future::pending().await
        };
        let call = Call {
            wait,
            ..call(false, Vec::new())
        };
        let sent = ask(call, drip).await;
        if is_complete {
            assert_eq!(sent.unwrap().body.len(), 25);
        } else {
            assert_eq!(sent.unwrap_err(), Failure::TimedOut);
        }
    }
}

#[test]
fn the_date_of_an_answer_tells_how_far_the_clock_there_is_ahead() {
    let dated = |date: Option<&'static str>| {
        let date = date.map(|date| (DATE, HeaderValue::from_static(date)));
        Answer {
            status: 200,
            headers: date.into_iter().collect(),
            body: bytes::Bytes::new(),
        }
    };
    let answer = dated(Some("Tue, 01 Dec 2026 12:55:30 GMT"));
    let (asked, answered) = (Millis(1_796_129_430_100), Millis(1_796_129_430_200));
    let skew = answer.skew(asked, answered).expect("it has a date");
    // Five minutes ahead, and up to 899 ms; behind by 200 ms at most.
    assert_eq!(
        skew.earliest(1_796_129_800_899),
        1_796_129_800_899 - 300_899
    );
    for date in [None, Some("soon"), Some("Tue, 01 Dec 1026 12:55:30 GMT")] {
        assert_eq!(dated(date).skew(asked, answered), None, "{date:?}");
    }
}
