//! Connections on which the head of an answer has an end. hyper bounds one head, but not how many of
//! them with a status of 1xx come before the answer, nor the work that goes into looking at each of them.
//!
//! What is read counts from the request on until the client says that the head is complete; the little
//! that was read of the body by then counts too.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use hyper::Uri;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

/// Bytes that a connection reads ahead at most.
pub(super) const READ_AHEAD: usize = 64 << 10;
/// Bytes of heads before an answer's body.
pub(super) const HEADS_MAX: usize = 256 << 10;

/// How much may still come before the head is complete. In the extensions of an answer.
#[derive(Clone, Debug)]
pub(super) struct Heads(Arc<AtomicUsize>);

impl Heads {
    const UNBOUNDED: usize = usize::MAX;

    fn begin(&self) {
        self.0.store(HEADS_MAX, Ordering::Relaxed);
    }

    /// The head of the answer is complete.
    pub(super) fn complete(&self) {
        self.0.store(Self::UNBOUNDED, Ordering::Relaxed);
    }

    fn read(&self, bytes: usize) -> io::Result<()> {
        let less = |left: usize| {
            if left == Self::UNBOUNDED {
                Some(left)
            } else {
                left.checked_sub(bytes)
            }
        };
        let counted = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        counted.map(|_| ()).map_err(|_| {
            let why = format!("more than {HEADS_MAX} bytes come before its body");
            io::Error::new(io::ErrorKind::InvalidData, why)
        })
    }
}

/// Makes connections by `C`, and meters them.
#[derive(Clone, Debug)]
pub(super) struct Metered<C>(pub(super) C);

impl<C> Service<Uri> for Metered<C>
where
    C: Service<Uri>,
    C::Response: Read + Write + Connection + Unpin + Send + 'static,
    C::Future: Send + 'static,
{
    type Response = TokioIo<MeteredStream<C::Response>>;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, C::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move {
            Ok(TokioIo::new(MeteredStream {
                stream: TokioIo::new(connecting.await?),
                heads: Heads(Arc::new(AtomicUsize::new(HEADS_MAX))),
            }))
        })
    }
}

#[derive(Debug)]
pub(super) struct MeteredStream<S> {
    stream: TokioIo<S>,
    heads: Heads,
}

impl<S: Connection> Connection for MeteredStream<S> {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(self.heads.clone())
    }
}

impl<S: Read + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.heads.read(buffer.filled().len() - before))
    }
}

impl<S: Write + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.heads.begin();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.heads.begin();
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
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
