//! The options of a command and their values. What is wrong with one is said with its name, and what is wanted instead.

use std::collections::HashSet;
use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::time::Duration;

use lexopt::{Arg, Error, Parser};

/// The longest time that an option takes: what the protocol has room for, 24 days.
const MAX_MS: u64 = i32::MAX as u64;
/// The option that may be given more than once.
const REPEATED: &str = "follower";

/// The options on a line, one after the other.
pub(crate) struct Options<'a> {
    parser: &'a mut Parser,
    /// The one whose value comes next, without its dashes.
    name: String,
    given: HashSet<String>,
}

impl<'a> Options<'a> {
    pub(crate) fn new(parser: &'a mut Parser) -> Self {
        Options { parser, name: String::new(), given: HashSet::new() }
    }

    /// The name of the next one.
    pub(crate) fn next(&mut self) -> Result<Option<String>, Error> {
        self.name = match self.parser.next()? {
            None => return Ok(None),
            Some(Arg::Short('h')) => "help".to_owned(),
            Some(Arg::Short('V')) => "version".to_owned(),
            Some(Arg::Long(name)) => name.to_owned(),
            Some(other) => return Err(other.unexpected()),
        };
        if self.name != REPEATED && !self.given.insert(self.name.clone()) {
            return Err(format!("--{} is given twice", self.name).into());
        }
        Ok(Some(self.name.clone()))
    }

    /// Whether the line has had it so far.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    /// The command has no such option.
    pub(crate) fn unknown(&self) -> Error {
        format!("unknown option --{}", self.name).into()
    }

    /// A whole number in a range.
    pub(crate) fn number<T>(&mut self, range: RangeInclusive<T>) -> Result<T, Error>
    where
        T: Copy + PartialOrd + TryFrom<u64> + std::fmt::Display,
    {
        let given = self.text()?;
        let number = given.parse::<u64>().ok().and_then(|number| T::try_from(number).ok());
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            let (name, least, most) = (&self.name, range.start(), range.end());
            format!("--{name} takes a whole number from {least} to {most}, not {given:?}").into()
        })
    }

    /// A number of milliseconds, at least so many.
    pub(crate) fn milliseconds(&mut self, least: u64) -> Result<Duration, Error> {
        self.number(least..=MAX_MS).map(Duration::from_millis)
    }

    /// An IP address or the name of a host, and a port. Of several addresses of a host an IPv4 one is taken: clients are
    /// told it, and not all of them speak IPv6.
    pub(crate) fn address(&mut self) -> Result<SocketAddr, Error> {
        let given = self.text()?;
        let name = &self.name;
        let form = || Error::from(format!("--{name} takes HOST:PORT, such as 127.0.0.1:9092, not {given:?}"));
        let (host, port) = given.rsplit_once(':').ok_or_else(form)?;
        port.parse::<u16>().map_err(|_| form())?;
        // An IPv6 address has colons of its own, so it stands in brackets.
        if host.is_empty() || (host.contains(':') && !host.starts_with('[')) {
            return Err(form());
        }
        let found = given.to_socket_addrs().map_err(|error| format!("--{name} {given}: {error}"))?;
        let addresses: Vec<SocketAddr> = found.collect();
        let first = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
        first.copied().ok_or_else(|| format!("--{name} {given}: the host has no address").into())
    }

    /// The address of another process: one to which others can connect.
    pub(crate) fn remote_address(&mut self) -> Result<SocketAddr, Error> {
        let address = self.address()?;
        if address.port() == 0 || address.ip().is_unspecified() {
            let name = &self.name;
            return Err(
                format!("--{name} {address}: nobody can connect to that; where does it listen?").into()
            );
        }
        Ok(address)
    }

    fn text(&mut self) -> Result<String, Error> {
        let name = &self.name;
        let not_text = |given: OsString| Error::from(format!("--{name}: {given:?} is no text"));
        self.parser.value()?.into_string().map_err(not_text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads one option, `--it VALUE`.
    fn read<T>(value: &str, take: impl Fn(&mut Options<'_>) -> Result<T, Error>) -> Result<T, String> {
        let mut parser = Parser::from_args(["--it", value]);
        let mut options = Options::new(&mut parser);
        assert_eq!(options.next().expect("an option").as_deref(), Some("it"));
        take(&mut options).map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_is_an_ip_or_a_host_and_a_port() {
        let address = |value| read(value, |options| options.address());
        assert_eq!(address("127.0.0.1:9092"), Ok(SocketAddr::from(([127, 0, 0, 1], 9092))));
        assert_eq!(address("[::1]:0"), Ok("[::1]:0".parse().expect("it is one")));
        let local = address("localhost:9092").expect("every machine has one");
        assert!(local.ip().is_loopback() && local.port() == 9092, "{local}");
        for wrong in
            ["", "localhost", "9092", ":9092", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "::1:80"]
        {
            let error = address(wrong).expect_err(wrong);
            assert!(error.starts_with("--it takes HOST:PORT, such as 127.0.0.1:9092"), "{wrong:?}: {error}");
        }
        let error = address("[no host]:80").expect_err("there is no such host");
        assert!(error.starts_with("--it [no host]:80: "), "{error}");
    }

    #[test]
    fn another_process_is_where_one_can_connect() {
        for (value, is_right) in [("127.0.0.1:1", true), ("127.0.0.1:0", false), ("0.0.0.0:1", false)] {
            assert_eq!(read(value, |options| options.remote_address()).is_ok(), is_right, "{value}");
        }
    }

    #[test]
    fn a_number_is_whole_and_in_its_range() {
        let number = |value| read(value, |options| options.number::<u16>(2..=500));
        assert_eq!((number("2"), number("500")), (Ok(2), Ok(500)));
        for wrong in ["", "1", "501", "65538", "99999999999999999999", "-3", "2.5", "two"] {
            let error = number(wrong).expect_err(wrong);
            assert_eq!(error, format!("--it takes a whole number from 2 to 500, not {wrong:?}"));
        }
        assert!(read("0", |options| options.milliseconds(1)).is_err());
        assert_eq!(read("7", |options| options.milliseconds(1)), Ok(Duration::from_millis(7)));
    }

    #[test]
    fn an_option_that_is_given_twice_is_refused() {
        let mut parser = Parser::from_args(["--one", "--follower", "--follower", "-h", "--one"]);
        let mut options = Options::new(&mut parser);
        for name in ["one", "follower", "follower", "help"] {
            assert_eq!(options.next().expect("an option").as_deref(), Some(name));
        }
        let error = options.next().expect_err("it is there twice").to_string();
        assert!(error.contains("--one"), "{error}");
    }
}
