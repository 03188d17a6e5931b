//! Which part of the network an address belongs to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The internet.
    Public,
    /// A network of an organisation or a home.
    Private,
    /// This computer.
    Loopback,
    /// The local link. Cloud providers serve credentials there.
    LinkLocal,
    /// No server has such an address.
    Nowhere,
}

impl Place {
    /// How an error names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Place::Public => "public",
            Place::Private => "private",
            Place::Loopback => "loopback",
            Place::LinkLocal => "link-local",
            Place::Nowhere => "reserved",
        }
    }
}

/// Where this address leads. An IPv6 address that stands for an IPv4 one leads where that does.
pub(crate) fn place(address: IpAddr) -> Place {
    match address {
        IpAddr::V4(address) => place_v4(address),
        IpAddr::V6(address) => place_v6(address),
    }
}

fn place_v4(address: Ipv4Addr) -> Place {
    match address.octets() {
        [127, ..] => Place::Loopback,
        [169, 254, ..] => Place::LinkLocal,
        [10, ..] | [192, 168, ..] => Place::Private,
        [172, second, ..] if second & 0xf0 == 16 => Place::Private,
        // Carrier-grade NAT, and the range for benchmarks, which some VPNs use for all names.
        [100, second, ..] if second & 0xc0 == 64 => Place::Private,
        [198, 18 | 19, ..] => Place::Private,
        [0, ..] | [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Place::Nowhere
        }
        [224..=255, ..] => Place::Nowhere,
        _ => Place::Public,
    }
}

fn place_v6(address: Ipv6Addr) -> Place {
    if address == Ipv6Addr::LOCALHOST {
        return Place::Loopback;
    }
    let [.., a, b] = address.segments();
    let last = Ipv4Addr::from((u32::from(a) << 16) | u32::from(b));
    match address.segments() {
        // A public address has no reason to come in this form.
        [0, 0, 0, 0, 0, 0xffff, ..] => match place_v4(last) {
            Place::Public => Place::Nowhere,
            other => other,
        },
        // NAT64: how a network without IPv4 reaches servers that have nothing else.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => place_v4(last),
        [0x64, 0xff9b, 1, ..] => Place::Private,
        // Tunnels that carry an IPv4 address (6to4, Teredo), discard, and documentation.
        [0x2002, ..] | [0x2001, 0, ..] | [0x100, 0, 0, 0, ..] | [0x2001, 0xdb8, ..] => Place::Nowhere,
        [first, ..] if first & 0xffc0 == 0xfe80 => Place::LinkLocal,
        [first, ..] if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 => Place::Private,
        // What is assigned to the internet so far.
        [first, ..] if first & 0xe000 == 0x2000 => Place::Public,
        _ => Place::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_its_place() {
        let places = [
            (
                Place::Public,
                "8.8.8.8 1.1.1.1 172.32.0.1 100.128.0.1 192.0.1.1 2606:4700::1111 64:ff9b::808:808",
            ),
            (
                Place::Private,
                "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 198.18.0.1 fd00::1 fec0::1",
            ),
            (Place::Private, "::ffff:10.0.0.1 64:ff9b::a00:1 64:ff9b:1::1"),
            (Place::Loopback, "127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1"),
            (Place::LinkLocal, "169.254.169.254 fe80::1 febf::1 ::ffff:169.254.169.254"),
            (
                Place::Nowhere,
                "0.0.0.0 0.1.2.3 224.0.0.1 255.255.255.255 240.0.0.1 192.0.0.1 192.0.2.1 203.0.113.7",
            ),
            (
                Place::Nowhere,
                ":: ::127.0.0.1 ff02::1 2002:7f00:1::1 2001:0:1::1 2001:db8::1 100::1 ::ffff:8.8.8.8",
            ),
        ];
        for (expected, addresses) in places {
            for address in addresses.split(' ') {
                assert_eq!(place(address.parse().unwrap()), expected, "{address}");
            }
        }
    }
}
