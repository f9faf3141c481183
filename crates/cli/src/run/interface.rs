//! Where nodes of several hosts are to meet, in the user's words.

use std::net::IpAddr;
use std::str::FromStr;

/// The option `--interface`: what the addresses of a job have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    /// An interface of this name.
    Name(String),
    /// A network: an address, and how many of its first bits count.
    Network(IpAddr, u8),
}

/// The wish in a user's words: `eth0`, `10.1.0.0/16`, `fd00::/8`.
pub(crate) fn parse_wish(text: &str) -> Result<Wish, String> {
    let wrong = || {
        format!(
            "'{text}' is neither an interface, such as eth0, nor a network, such as 10.1.0.0/16"
        )
    };
    let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
    match (IpAddr::from_str(address), prefix) {
        (Ok(address), prefix) => {
            let whole = bits(address);
            let prefix = prefix.map_or(Ok(whole), |prefix| prefix.parse().map_err(|_| wrong()))?;
            if prefix > whole { Err(wrong()) } else { Ok(Wish::Network(address, prefix)) }
        }
        (Err(_), None) if !text.is_empty() => Ok(Wish::Name(text.to_owned())),
        (Err(_), _) => Err(wrong()),
    }
}

/// Bits of an address of its kind.
pub(super) fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_a_name_or_a_network() {
        assert_eq!(parse_wish("eth0"), Ok(Wish::Name("eth0".to_owned())));
        let six = Wish::Network("fd77::".parse().unwrap(), 64);
        assert_eq!(parse_wish("fd77::/64"), Ok(six));
        let one = Wish::Network("10.0.0.1".parse().unwrap(), 32);
        assert_eq!(parse_wish("10.0.0.1"), Ok(one));
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/x", "eth0/8"] {
            assert!(parse_wish(wrong).is_err(), "{wrong}");
        }
    }
}
