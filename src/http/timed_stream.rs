//! A connection that must get on: a head that has begun must be complete soon, and a client must
//! take what it asked for.
//!
//! hyper has one time-out for both waiting for a request and reading its head, and clients that
//! renew every 30 s need the first to be long. Here the head's clock starts with the first byte
//! that arrives while no request is under way, and stops when the handler is called. The clock of a
//! write starts when the client takes nothing more, and stops when it takes something.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How far the requests of a connection have come; the handler says so.
#[derive(Debug, Default)]
pub(super) struct Requests {
    begun: AtomicU64,
    answered: AtomicU64,
    is_endless: AtomicBool,
}

impl Requests {
    /// The head of a request is complete.
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn answer(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// The answer to the last request goes on and on. The request stays under way: whatever the
    /// client sends meanwhile begins none.
    pub(super) fn stream(&self) {
        self.is_endless.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_endless(&self) -> bool {
        self.is_endless.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(super) struct TimedStream {
    stream: TcpStream,
    requests: Arc<Requests>,
    /// Requests that had begun when the stream was read last.
    seen: u64,
    head: Stopwatch,
    write: Stopwatch,
}

impl TimedStream {
    pub(super) fn new(
        stream: TcpStream,
        requests: Arc<Requests>,
        head_timeout: Duration,
        write_timeout: Duration,
    ) -> Self {
        Self {
            stream,
            requests,
            seen: 0,
            head: Stopwatch::new(head_timeout),
            write: Stopwatch::new(write_timeout),
        }
    }

    /// What a write that made no progress comes to.
    fn write_outcome<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write.stop();
            return written;
        }
        self.write.start();
        ready!(self.write.poll_over(context));
        Poll::Ready(Err(timed_out("the client takes nothing of the answer")))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let begun = self.requests.begun.load(Ordering::Relaxed);
        if begun != self.seen {
            self.seen = begun;
            self.head.stop();
        }
        let is_busy = begun != self.requests.answered.load(Ordering::Relaxed);
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            if buffer.filled().len() > before && !is_busy {
                self.head.start();
            }
            return Poll::Ready(read);
        }
        ready!(self.head.poll_over(context));
        Poll::Ready(Err(timed_out("the head of the request took too long")))
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.write_outcome(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.write_outcome(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A time-out that is armed only while something is awaited.
#[derive(Debug)]
struct Stopwatch {
    timeout: Duration,
    running: Option<Pin<Box<Sleep>>>,
}

impl Stopwatch {
    fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            running: None,
        }
    }

    /// Starts, unless it runs already.
    fn start(&mut self) {
        let timeout = self.timeout;
        self.running.get_or_insert_with(|| Box::pin(sleep(timeout)));
    }

    fn stop(&mut self) {
        self.running = None;
    }

    /// Ready when it has run and its time is over.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.running {
            Some(running) => running.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

fn timed_out(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}
