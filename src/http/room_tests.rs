//! Who gets room and who gives way, with bodies that come at all speeds. The clock is tokio's, and stands
//! while anybody has something to do.

use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;

use super::*;
use crate::http::body::tests::{
    BATCH, Piece, REGISTRATION, Reading, begin, chunked, free, gzip, length, open, reader, unzipped,
};
use crate::http::body::{BodyReader, BodyRefused};
use bytes::Bytes;
use hyper::StatusCode;

const SMALL: [usize; 3] = [1 << 10, 2 << 10, 4 << 10];

/// Bodies of which so much has come, and then a byte every second.
async fn trickling(reader: &BodyReader, count: usize, bytes: usize, limit: usize) -> Vec<Trickle> {
    let mut trickling = Vec::new();
    for _ in 0..count {
        let (sender, body) = open(bytes, Some(limit));
        let reading = begin(reader, body, limit).await;
        let drip = tokio::spawn(flow(sender, 1, Duration::from_secs(1)));
        trickling.push(Trickle { reading, drip });
    }
    trickling
}

struct Trickle {
    reading: Reading,
    drip: JoinHandle<()>,
}

/// So many bytes each time, for as long as they are taken.
async fn flow(sender: Sender<Piece>, bytes: usize, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let piece = Bytes::from(vec![b' '; bytes]);
        if sender.send(Ok(piece)).await.is_err() {
            return;
        }
    }
}

fn refused_with(reading: Result<crate::http::body::ReadBody, BodyRefused>) -> StatusCode {
    reading.map(|read| read.bytes.len()).unwrap_err().0
}

#[tokio::test(start_paused = true)]
async fn large_bodies_that_trickle_do_not_hold_up_what_is_tiny() {
    let reader = reader(SMALL);
    // More than fits, both in what they hold and in what they wait for.
    for (bytes, limit) in [(150_000, BATCH), (700_000, BATCH), (150_000, REGISTRATION)] {
        let held = trickling(&reader, 40, bytes, limit).await;
        let before = Instant::now();
        for _ in 0..20 {
            let tiny = length(&reader, chunked(1500), REGISTRATION).await;
            assert_eq!(tiny, Ok(1500));
            let packed = gzip(&[b' '; 1500]);
            assert!(unzipped(&reader, packed, REGISTRATION).await.is_ok());
        }
        assert_eq!(Instant::now(), before, "they waited");
        for body in held {
            body.drip.abort();
            body.reading.abort();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_trickles_gives_way_to_what_comes_at_once() {
    for (kib, count, bytes, wanted, limit) in [
        (SMALL, 700, 3_000, 1500, REGISTRATION),
        (SMALL, 120, 150_000, 300_000, BATCH),
        (SMALL, 100, 700_000, 900_000, REGISTRATION),
        (
            [8 << 10, 8 << 10, 16 << 10],
            20,
            2_500_000,
            3_000_000,
            BATCH,
        ),
    ] {
        let reader = reader(kib);
        let all = free(&reader);
        let held = trickling(&reader, count, bytes, BATCH).await;
        let before = Instant::now();
        let mut longest = Duration::ZERO;
        for _ in 0..10 {
            let begun = Instant::now();
            let read = length(&reader, chunked(wanted), limit).await;
            assert_eq!(read, Ok(wanted), "beside {bytes}");
            longest = longest.max(begun.elapsed());
        }
        assert!(
            longest < Duration::from_secs(8),
            "{longest:?} beside {bytes}"
        );
        assert!(
            before.elapsed() < Duration::from_secs(12),
            "ten took {:?} beside {bytes}",
            before.elapsed()
        );
        let mut refused = 0;
        for body in held {
            if body.reading.is_finished() {
                let status = refused_with(body.reading.await.unwrap());
                assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
                refused += 1;
            } else {
                body.reading.abort();
            }
            body.drip.abort();
        }
        assert!(refused > 0, "beside {bytes}");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(free(&reader), all);
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_slowly_is_left_alone_while_there_is_room() {
    let reader = reader(SMALL);
    let held = trickling(&reader, 8, 150_000, BATCH).await;
    for _ in 0..20 {
        assert_eq!(length(&reader, chunked(1500), BATCH).await, Ok(1500));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(held.iter().all(|body| !body.reading.is_finished()));
    for body in held {
        let status = refused_with(body.reading.await.unwrap());
        assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
    }
}

#[tokio::test(start_paused = true)]
async fn the_slowest_give_way_first_and_what_is_whole_does_not() {
    let reader = reader(SMALL);
    let whole = begin(&reader, chunked(300_000), BATCH).await;
    let whole = whole.await.unwrap().unwrap();
    let mut flowing = Vec::new();
    for bytes in [2_000, 40_000] {
        let (sender, body) = open(200_000, Some(500_000));
        let reading = begin(&reader, body, BATCH).await;
        tokio::spawn(flow(sender, bytes, Duration::from_millis(500)));
        flowing.push(reading);
    }
    // 512 KiB for each of the three, and 512 KiB that come and go.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let read = length(&reader, chunked(1_000_000), BATCH).await;
    assert_eq!(read, Ok(1_000_000));
    let fast = flowing.pop().unwrap();
    let slow = flowing.pop().unwrap();
    assert_eq!(
        refused_with(slow.await.unwrap()),
        StatusCode::SERVICE_UNAVAILABLE
    );
    assert!(!fast.is_finished());
    assert_eq!(whole.bytes.len(), 300_000);
}

#[tokio::test(start_paused = true)]
async fn who_waits_long_enough_gets_room_of_bodies_that_come_well() {
    let reader = reader(SMALL);
    let mut flowing = Vec::new();
    for _ in 0..4 {
        let (sender, body) = open(300_000, Some(REGISTRATION));
        flowing.push(begin(&reader, body, REGISTRATION).await);
        tokio::spawn(flow(sender, 2_000, Duration::from_millis(100)));
    }
    let before = Instant::now();
    let read = length(&reader, chunked(300_000), BATCH).await;
    assert_eq!(read, Ok(300_000));
    let waited = before.elapsed();
    assert!(waited >= PATIENCE, "they were not given their time");
    assert!(waited < 2 * PATIENCE + LOOK_EVERY, "{waited:?}");
    let refused = flowing.iter().filter(|reading| reading.is_finished());
    assert!((1..4).contains(&refused.count()));
}

#[tokio::test(start_paused = true)]
async fn room_that_whole_bodies_have_is_waited_for_and_refused_in_the_end() {
    let reader = reader(SMALL);
    let mut whole = Vec::new();
    for _ in 0..4 {
        let reading = begin(&reader, chunked(500_000), BATCH).await;
        whole.push(reading.await.unwrap().unwrap());
    }
    let before = Instant::now();
    let read = length(&reader, chunked(300_000), BATCH).await;
    assert_eq!(read, Err(StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!(before.elapsed(), reader.timeout);
    let waiting = begin(&reader, chunked(300_000), BATCH).await;
    whole.pop();
    assert!(waiting.await.unwrap().is_ok());
}
