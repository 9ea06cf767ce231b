//! The load of `watch.py`: many streams of `/watch`, and changes at a rate; how long each change took
//! from its acknowledgement to each watcher.
//!
//! usage: `watch_load PORT APP/INSTANCE WATCHERS CHANGES RATE`

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement reads the clock and prints"
)]

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, instance, watchers, changes, rate] = &arguments[..] else {
        bail!("usage: watch_load PORT APP/INSTANCE WATCHERS CHANGES RATE");
    };
    let (port, watchers): (u16, usize) = (port.parse()?, watchers.parse()?);
    let (changes, rate): (usize, f64) = (changes.parse()?, rate.parse()?);
    let mut watching = JoinSet::new();
    for _ in 0..watchers {
        let stream = open(port).await?;
        watching.spawn(watch(stream, changes));
    }
    let acknowledged = change(port, instance, changes, rate).await?;
    let mut late: Vec<Duration> = Vec::with_capacity(watchers * changes);
    while let Some(received) = watching.join_next().await {
        let received = received.context("a watcher panicked")??;
        let pairs = received.iter().zip(&acknowledged);
        late.extend(pairs.map(|(received, told)| received.saturating_duration_since(*told)));
    }
    late.sort_unstable();
    let at = |share: usize| {
        let place = (late.len() * share / 1000).min(late.len().saturating_sub(1));
        late.get(place).copied().unwrap_or_default().as_secs_f64() * 1000.0
    };
    println!(
        "{} events; from the acknowledgement to the watcher: p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms, max {:.1} ms",
        late.len(),
        at(500),
        at(990),
        at(999),
        at(1000)
    );
    Ok(())
}

/// A stream that has said its first word.
async fn open(port: u16) -> Result<BufReader<TcpStream>> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await?;
    socket
        .write_all(b"GET /watch HTTP/1.1\r\nHost: bench\r\n\r\n")
        .await?;
    let mut stream = BufReader::new(socket);
    let mut line = String::new();
    while !line.starts_with(": heartbeat") {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            bail!("a stream was refused");
        }
    }
    Ok(stream)
}

/// When each change came.
async fn watch(mut stream: BufReader<TcpStream>, changes: usize) -> Result<Vec<Instant>> {
    let mut received = Vec::with_capacity(changes);
    let mut line = Vec::new();
    while received.len() < changes {
        line.clear();
        if stream.read_until(b'\n', &mut line).await? == 0 {
            bail!("a stream ended after {} changes", received.len());
        }
        if line.starts_with(b"data: ") {
            received.push(Instant::now());
        }
    }
    Ok(received)
}

/// When each change was acknowledged.
async fn change(port: u16, instance: &str, changes: usize, rate: f64) -> Result<Vec<Instant>> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await?;
    socket.set_nodelay(true)?;
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    let mut acknowledged = Vec::with_capacity(changes);
    let mut answer = vec![0; 4096];
    for number in 0..changes {
        ticks.tick().await;
        let request = format!(
            "PUT /eureka/apps/{instance}/metadata?number={number} HTTP/1.1\r\nHost: bench\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).await?;
        // The answer is small and has no body.
        let length = socket.read(&mut answer).await?;
        if !answer[..length].starts_with(b"HTTP/1.1 200 ") {
            bail!("{}", String::from_utf8_lossy(&answer[..length]));
        }
        acknowledged.push(Instant::now());
    }
    Ok(acknowledged)
}
