//! A name server for tests, on 127.0.0.1 over UDP and TCP: it answers what it is told to, packets made
//! by hand, wrong ones included.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

pub(super) const A: u16 = 1;
pub(super) const CNAME: u16 = 5;
pub(super) const TXT: u16 = 16;
pub(super) const AAAA: u16 = 28;
pub(super) const SRV: u16 = 33;

const SERV_FAIL: u8 = 2;
const NX_DOMAIN: u8 = 3;

/// What is said to one question.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// Records: type, time to live in seconds, data.
    Records(Vec<(u16, u32, Vec<u8>)>),
    /// As records, but over UDP only that they do not fit.
    OverTcp(Vec<(u16, u32, Vec<u8>)>),
    /// The name is there, without such records.
    NoData,
    ServFail,
    Silence,
    /// Bytes that are no answer.
    Garbage(Vec<u8>),
}

pub(super) fn a(address: [u8; 4]) -> Vec<u8> {
    Ipv4Addr::from(address).octets().to_vec()
}

pub(super) fn aaaa(address: &str) -> Vec<u8> {
    address.parse::<Ipv6Addr>().unwrap().octets().to_vec()
}

pub(super) fn srv(priority: u16, port: u16, target: &str) -> Vec<u8> {
    let mut data = Vec::new();
    for number in [priority, 0, port] {
        data.extend(number.to_be_bytes());
    }
    data.extend(name(target));
    data
}

pub(super) fn txt(texts: &[&str]) -> Vec<u8> {
    let text = |text: &&str| {
        let length = u8::try_from(text.len()).unwrap();
        [&[length], text.as_bytes()].concat()
    };
    texts.iter().flat_map(text).collect()
}

/// A name as labels, the root at its end.
pub(super) fn name(text: &str) -> Vec<u8> {
    let mut labels = Vec::new();
    for label in text.split('.').filter(|label| !label.is_empty()) {
        labels.push(u8::try_from(label.len()).unwrap());
        labels.extend(label.as_bytes());
    }
    labels.push(0);
    labels
}

type Zone = BTreeMap<(String, u16), Reply>;

#[derive(Clone, Debug)]
pub(super) struct Server {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    _tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Server {
    /// Knows nothing yet: every name is unknown.
    pub(super) async fn start() -> Self {
        let (udp, tcp) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
            // The same port, unless somebody has it already.
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
                break (udp, tcp);
            }
        };
        let address = tcp.local_addr().unwrap();
        let zone = Arc::new(Mutex::new(Zone::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_udp(udp, zone.clone()));
        tasks.spawn(serve_tcp(tcp, zone.clone()));
        Self {
            address,
            zone,
            _tasks: Arc::new(Mutex::new(tasks)),
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn set(&self, name: &str, kind: u16, reply: Reply) {
        let mut zone = self.zone.lock().unwrap();
        zone.insert((name.to_owned(), kind), reply);
    }

    /// Records of one type.
    pub(super) fn records(&self, name: &str, kind: u16, ttl: u32, data: &[Vec<u8>]) {
        let records = data.iter().map(|data| (kind, ttl, data.clone())).collect();
        self.set(name, kind, Reply::Records(records));
    }
}

async fn serve_udp(socket: UdpSocket, zone: Arc<Mutex<Zone>>) {
    let mut packet = [0; 4096];
    loop {
        let (length, from) = socket.recv_from(&mut packet).await.unwrap();
        if let Some(answer) = answer(&packet[..length], &zone, true) {
            // Whoever asked may be gone.
            let _ = socket.send_to(&answer, from).await;
        }
    }
}

async fn serve_tcp(listener: TcpListener, zone: Arc<Mutex<Zone>>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        // One question a connection is all that is asked here.
        let _ = serve_stream(&mut stream, &zone).await;
    }
}

async fn serve_stream(stream: &mut TcpStream, zone: &Mutex<Zone>) -> std::io::Result<()> {
    let length = stream.read_u16().await?;
    let mut packet = vec![0; length.into()];
    stream.read_exact(&mut packet).await?;
    if let Some(answer) = answer(&packet, zone, false) {
        stream
            .write_u16(u16::try_from(answer.len()).unwrap())
            .await?;
        stream.write_all(&answer).await?;
    }
    Ok(())
}

fn answer(question: &[u8], zone: &Mutex<Zone>, is_udp: bool) -> Option<Vec<u8>> {
    let mut at = 12;
    let mut labels = Vec::new();
    while question[at] != 0 {
        let length = usize::from(question[at]);
        let label = &question[at + 1..=at + length];
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        at += length + 1;
    }
    let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
    let asked = &question[12..at + 5];

    let key = (labels.join("."), kind);
    let reply = zone.lock().unwrap().get(&key).cloned();
    let none = Vec::new();
    let (code, is_cut, records) = match &reply {
        Some(Reply::Records(records)) => (0, false, records),
        Some(Reply::OverTcp(_)) if is_udp => (0, true, &none),
        Some(Reply::OverTcp(records)) => (0, false, records),
        Some(Reply::NoData) => (0, false, &none),
        Some(Reply::ServFail) => (SERV_FAIL, false, &none),
        Some(Reply::Silence) => return None,
        Some(Reply::Garbage(bytes)) => return Some(bytes.clone()),
        None => (NX_DOMAIN, false, &none),
    };
    let mut answer = question[..2].to_vec();
    answer.extend([0x81 | (u8::from(is_cut) << 1), 0x80 | code]);
    answer.extend([0, 1]);
    answer.extend(u16::try_from(records.len()).unwrap().to_be_bytes());
    answer.extend([0; 4]);
    answer.extend(asked);
    for (kind, ttl, data) in records {
        // The name asked for, which stands at the twelfth byte.
        answer.extend([0xC0, 12]);
        answer.extend(kind.to_be_bytes());
        answer.extend([0, 1]);
        answer.extend(ttl.to_be_bytes());
        answer.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        answer.extend(data);
    }
    Some(answer)
}
