//! What the machine says of itself: the defaults that no file can hold. Handed to the loader, so
//! that a test gives its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// Facts of this machine and process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub host_name: String,
    pub ip_address: String,
    /// Where `${random.*}` starts from; different for every process.
    pub seed: u64,
}

impl Machine {
    /// Asks the system; what it does not know becomes `localhost` and 127.0.0.1.
    pub fn detect() -> Self {
        let host_name = gethostname::gethostname()
            .to_string_lossy()
            .trim()
            .to_owned();
        Self {
            host_name: if host_name.is_empty() {
                "localhost".to_owned()
            } else {
                host_name
            },
            ip_address: outgoing_address().to_string(),
            seed: seed(),
        }
    }
}

/// The address from which packets to the world would leave. Connecting a UDP socket asks the
/// routing table and sends nothing; 192.0.2.1 is an address for documentation.
fn outgoing_address() -> IpAddr {
    let ask = || {
        let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).ok()?;
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    ask()
        .filter(|ip| !ip.is_unspecified())
        .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// The standard library's hash maps are seeded by the system; an empty hash is that seed.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
