//! Addresses that are reached from inside only: this machine, the local network, the services of a provider.
//! A host that a value names must not have one. What counts is the address that the connection goes to,
//! however the host is written.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Looks names up, and refuses those with a private address.
#[derive(Debug, Default)]
pub(super) struct PublicResolver;

/// Why a host is refused.
#[derive(Debug)]
pub(super) struct PrivateAddress(IpAddr);

impl fmt::Display for PrivateAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is a private address", self.0)
    }
}

impl std::error::Error for PrivateAddress {}

impl Resolver for PublicResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = DefaultResolver::default().resolve(uri, config, timeout)?;
        // A name with both sorts of addresses could be looked up again until the private one comes first.
        match found.iter().map(std::net::SocketAddr::ip).find(is_private) {
            Some(address) => Err(ureq::Error::Other(Box::new(PrivateAddress(address)))),
            None => Ok(found),
        }
    }
}

fn is_private(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(*address),
        IpAddr::V6(address) => is_private_v6(*address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        // This network, reserved ones, and broadcast.
        || first == 0
        || first >= 240
        // Of providers, of protocols, and for measurements.
        || (first == 100 && (64..128).contains(&second))
        || (first == 192 && second == 0 && third == 0)
        || (first == 198 && matches!(second, 18 | 19))
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_private_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // An address of IPv4: mapped, compatible (with loopback and unspecified), translated, or of 6to4.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => embedded(high, low),
        [0x64, 0xff9b, 1, ..] => true,
        _ => address.is_unique_local() || address.is_unicast_link_local() || address.is_multicast(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known_in_every_form() {
        for private in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd12:3456::1",
            "ff02::1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
        ] {
            assert!(is_private(&private.parse().unwrap()), "{private}");
        }
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "192.0.2.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "2002:808:808::",
            "64:ff9b::808:808",
        ] {
            assert!(!is_private(&public.parse().unwrap()), "{public}");
        }
    }
}
