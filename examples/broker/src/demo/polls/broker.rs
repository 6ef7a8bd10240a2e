//! A broker in a process of its own: started, watched from outside, and ended.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::client;
use super::super::usage::Usage;
use super::PATIENCE;

/// How long its memory and its timers may take to come to rest.
const REST: Duration = Duration::from_millis(300);

/// The process. It ends with this.
pub(super) struct Served {
    child: Child,
    /// Open, so that it can say what it has to say.
    _out: BufReader<ChildStdout>,
    pub(super) address: SocketAddr,
    control: SocketAddr,
}

/// What its control port says of what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) connections: u64,
    /// Requests.
    pub(super) parked: u64,
    /// Entries in the watch lists of the purgatory of fetches.
    pub(super) watched: u64,
}

impl Served {
    /// Starts this very program once more, to serve.
    pub(super) fn start(replicas: u16) -> Result<Served, String> {
        let program = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--replicas"])
            .arg(replicas.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("starting the broker: {error}"))?;
        let mut out = BufReader::new(child.stdout.take().ok_or("the broker has no output")?);
        let mut said = String::new();
        // The warning, and the two addresses.
        for _ in 0..3 {
            out.read_line(&mut said).map_err(|error| format!("reading what the broker says: {error}"))?;
        }
        let addresses = after(&said, "serving on ").zip(after(&said, "control port on "));
        let Some((address, control)) = addresses else {
            drop(child.kill());
            return Err(format!("the broker did not start: {said}"));
        };
        Ok(Served { child, _out: out, address, control })
    }

    /// Waits until what waits is as it should be.
    pub(super) async fn reach(
        &self,
        is_reached: impl Fn(&Waiting) -> bool,
        what: &str,
    ) -> Result<Waiting, String> {
        let begun = Instant::now();
        loop {
            let stats = client::control(self.control, "stats").await;
            let stats = stats.map_err(|error| format!("asking the control port: {error}"))?;
            let waiting = read(&stats).ok_or_else(|| format!("not what a broker says: {stats}"))?;
            if is_reached(&waiting) {
                return Ok(waiting);
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("it takes more than {PATIENCE:?} until {what}: {waiting:?}"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Its memory, after a rest.
    pub(super) async fn resident(&self) -> Result<u64, String> {
        tokio::time::sleep(REST).await;
        Ok(self.usage()?.resident)
    }

    /// The CPU time it has used so far.
    pub(super) fn cpu(&self) -> Result<Duration, String> {
        Ok(self.usage()?.cpu)
    }

    fn usage(&self) -> Result<Usage, String> {
        Usage::of(&self.child.id().to_string()).ok_or_else(|| "the broker has ended".to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It keeps everything in memory, so there is nothing to save.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The address that stands after these words.
fn after(said: &str, words: &str) -> Option<SocketAddr> {
    said.lines().find_map(|line| line.strip_prefix(words))?.split_whitespace().next()?.parse().ok()
}

/// Reads the line of the command `stats`.
fn read(stats: &str) -> Option<Waiting> {
    let (_, fetch) = stats.split_once("\"fetch\":{")?;
    Some(Waiting {
        connections: number(stats, "connections")?,
        parked: number(stats, "parked")?,
        watched: number(fetch, "watched")?,
    })
}

/// The first number of this name.
fn number(json: &str, name: &str) -> Option<u64> {
    let (_, rest) = json.split_once(&format!("\"{name}\":"))?;
    rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ixion_broker::{PurgatoryStats, Stats};

    #[test]
    fn what_a_broker_says_is_read() {
        let produce = PurgatoryStats { watched: 1, ..Default::default() };
        let fetch = PurgatoryStats { watched: 23, ..Default::default() };
        let stats = Stats { produce, fetch, connections: 4, parked: 56, ..Default::default() };
        assert_eq!(read(&stats.to_json()), Some(Waiting { connections: 4, parked: 56, watched: 23 }));
        assert_eq!(read("error"), None);
        let said = "warning\nserving on 127.0.0.1:5 with 3 nodes\ncontrol port on 127.0.0.1:6\n";
        assert_eq!(after(said, "serving on "), Some(SocketAddr::from(([127, 0, 0, 1], 5))));
        assert_eq!(after(said, "control port on "), Some(SocketAddr::from(([127, 0, 0, 1], 6))));
    }
}
