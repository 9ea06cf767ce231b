//! The listener: connections with bounds on their number and on how long they may dawdle, and a stop
//! that lets requests finish.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use super::Api;
use super::answer::Endless;
use super::gathered::Gathered;
use super::timed_stream::{Requests, TimedStream};
use crate::stopping;

/// Least room for a request's head. Twice what is allowed, so that what is somewhat too long gets an
/// answer and not just a closed connection.
const HEAD_BYTES_MIN: usize = 16 * 1024;
/// How long to wait after the system could not accept a connection, such as with too many files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a stream may take to end after a stop: its client comes back to where it was.
const STREAM_GRACE: Duration = Duration::from_secs(1);

/// Bounds of the listener.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    pub max_connections: usize,
    /// From the first byte of a head to its end.
    pub header_timeout: Duration,
    /// From the end of the last request to the end of the next one's head.
    pub idle_timeout: Duration,
    pub max_header_bytes: usize,
    /// How long open connections may take to finish after a stop.
    pub grace: Duration,
}

/// Serves until `stop`, then lets what is under way finish within the grace, unless somebody cancels
/// `hurry`. Returns when no connection is left, or those that are have to be cut.
pub async fn serve(
    listener: TcpListener,
    api: Arc<Api>,
    settings: ServerSettings,
    stop: CancellationToken,
    hurry: CancellationToken,
) {
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(settings.max_connections));
    loop {
        // A place first: what does not fit waits in the listener's backlog.
        let place = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            place = places.clone().acquire_owned() => match place {
                Ok(place) => place,
                Err(_) => break,
            },
        };
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let connection =
                    connection(stream, address, api.clone(), settings.clone(), stop.clone());
                let counted = api.traffic.accept();
                connections.spawn(async move {
                    connection.await;
                    drop((place, counted));
                });
            }
            Err(error) => {
                warn!(%error, "accepting a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    let tell = || {
        let (left, most) = (connections.len(), settings.grace.as_secs());
        info!(
            connections = left,
            "waiting for the requests of {left} connections, for up to {most} s; a second signal cuts them"
        );
    };
    if !stopping::wait(connections.wait(), settings.grace, &hurry, tell).await {
        let left = connections.len();
        warn!(
            connections = left,
            "{left} connections did not finish in time and are cut"
        );
    }
}

async fn connection(
    stream: TcpStream,
    address: SocketAddr,
    api: Arc<Api>,
    settings: ServerSettings,
    stop: CancellationToken,
) {
    // Small answers must not wait for an acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "setting TCP_NODELAY: {error}");
    }
    let requests = Arc::new(Requests::default());
    let stream = TimedStream::new(
        stream,
        requests.clone(),
        settings.header_timeout,
        settings.idle_timeout,
    );
    let progress = requests.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (api, requests) = (api.clone(), requests.clone());
        requests.begin();
        async move {
            let answer = api.answer(request.map(Body::new), address.ip()).await;
            if answer.extensions().get::<Endless>().is_some() {
                requests.stream();
            } else {
                requests.answer();
            }
            Ok::<_, Infallible>(Gathered::of(answer))
        }
    });
    let http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.idle_timeout)
        .max_buf_size((2 * settings.max_header_bytes).max(HEAD_BYTES_MIN))
        .keep_alive(true)
        // Who has said all it wants to say still gets its answer.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut http = std::pin::pin!(http);
    tokio::select! {
        biased;
        ended = http.as_mut() => {
            if let Err(error) = ended {
                debug!(address = %address, %error, "connection of {address}: {error}");
            }
        }
        () = stop.cancelled() => {
            http.as_mut().graceful_shutdown();
            let ended = if progress.is_endless() {
                match tokio::time::timeout(STREAM_GRACE, http).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            } else {
                http.await
            };
            if let Err(error) = ended {
                debug!(address = %address, %error, "connection of {address}: {error}");
            }
        }
    }
}
