//! A client for HTTP/1.1 that does what it is told: requests are bytes, so that a test can send what
//! no library would, and answers are read by their framing alone.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long an answer may take.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An answer, whole.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The first value of a header; `name` in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(&self.body)))
    }
}

/// The bytes of a request. A body gets its length and is JSON.
pub(crate) fn request(method: &str, target: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: eureka\r\n");
    for header in headers {
        let _ = write!(head, "{header}\r\n");
    }
    if !body.is_empty() {
        let _ = write!(
            head,
            "Content-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// A connection that is kept alive.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn open(port: u16) -> io::Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(READ_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Says that nothing more will be sent.
    pub(crate) fn close_sending(&mut self) -> io::Result<()> {
        self.stream.get_mut().shutdown(std::net::Shutdown::Write)
    }

    /// Sends a request and reads its answer.
    pub(crate) fn exchange(&mut self, bytes: &[u8]) -> io::Result<Answer> {
        self.send(bytes)?;
        self.receive()
    }

    /// The next answer; informational ones are passed over.
    pub(crate) fn receive(&mut self) -> io::Result<Answer> {
        loop {
            let answer = self.receive_any()?;
            if answer.status >= 200 {
                return Ok(answer);
            }
        }
    }

    /// The next answer, informational or not.
    pub(crate) fn receive_any(&mut self) -> io::Result<Answer> {
        let line = self.line()?;
        let status = line
            .strip_prefix("HTTP/1.1 ")
            .or_else(|| line.strip_prefix("HTTP/1.0 "))
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .ok_or_else(|| malformed(&line))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| malformed(&line))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Answer {
            status,
            headers,
            body: Vec::new(),
        };
        if status >= 200 && status != 204 {
            answer.body = self.body(&answer)?;
        }
        Ok(answer)
    }

    /// Whether the server has closed the connection without another word; waits for it.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(0) => true,
            Ok(_) => false,
            // What was still unread when the other side closed makes a reset of it.
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Whether the other side has taken all that was sent. What is sent to this machine lies in the
    /// queue of the other socket as soon as it is sent.
    pub(crate) fn is_all_taken(&self) -> bool {
        let socket = self.stream.get_ref();
        let (Ok(ours), Ok(theirs)) = (socket.local_addr(), socket.peer_addr()) else {
            return false;
        };
        let table = std::fs::read_to_string("/proc/net/tcp").expect("the sockets of the system");
        let place = |address: SocketAddr| format!(":{:04X}", address.port());
        table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .any(|fields| {
                fields.len() > 4
                    && fields[1].ends_with(&place(theirs))
                    && fields[2].ends_with(&place(ours))
                    && fields[4].ends_with(":00000000")
            })
    }

    fn body(&mut self, answer: &Answer) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if let Some(length) = answer.header("content-length") {
            let length = length.parse().map_err(|_| malformed(length))?;
            body.resize(length, 0);
            self.stream.read_exact(&mut body)?;
        } else if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let line = self.line()?;
                let size = usize::from_str_radix(&line, 16).map_err(|_| malformed(&line))?;
                let start = body.len();
                body.resize(start + size, 0);
                self.stream.read_exact(&mut body[start..])?;
                self.line()?;
                if size == 0 {
                    break;
                }
            }
        } else {
            self.stream.read_to_end(&mut body)?;
        }
        Ok(body)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP: {what}"))
}

/// A document of the server, over a connection of its own.
pub(crate) fn get_json(port: u16, target: &str) -> Value {
    let bytes = request(
        "GET",
        target,
        &["Accept: application/json", "Connection: close"],
        b"",
    );
    let answer = Connection::open(port)
        .and_then(|mut connection| connection.exchange(&bytes))
        .unwrap_or_else(|error| panic!("GET {target}: {error}"));
    assert_eq!(answer.status, 200, "GET {target}");
    answer.json()
}
