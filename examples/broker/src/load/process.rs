//! Nodes of a broker in processes of their own: started, watched from outside, stopped and killed.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use crate::demo::Verdict;
use crate::demo::client::{self, Client};
use crate::demo::usage::Usage;

/// How long what must come soon may take on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// How long its memory and its timers may take to come to rest.
const REST: Duration = Duration::from_millis(300);
/// Descriptors that a process needs besides those of its clients.
const OTHER_FILES: u64 = 200;

/// A process of this very program. It ends with this.
pub(super) struct Process {
    child: Child,
    /// Open, so that it can say what it has to say.
    _out: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it, and reads the first lines of what it says.
    pub(super) fn start(args: &[String], lines: usize) -> Result<(Process, String), String> {
        let program = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("starting a broker: {error}"))?;
        let mut out = BufReader::new(child.stdout.take().ok_or("a broker has no output")?);
        let mut said = String::new();
        for _ in 0..lines {
            out.read_line(&mut said).map_err(|error| format!("reading what a broker says: {error}"))?;
        }
        Ok((Process { child, _out: out }, said))
    }

    /// Stops it, or lets it go on, like a shell's job.
    pub(super) fn signal(&self, signal: Signal) -> Verdict {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).ok_or("a process has an id")?;
        kill_process(pid, signal).map_err(|error| format!("sending {signal:?}: {error}"))
    }

    pub(super) fn usage(&self) -> Result<Usage, String> {
        Usage::of(&self.child.id().to_string()).ok_or_else(|| "the broker has ended".to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It keeps everything in memory, so there is nothing to save. A stopped one is killed like any other.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A leader.
pub(super) struct Served {
    process: Process,
    pub(super) address: SocketAddr,
    control: SocketAddr,
}

/// What its control port says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) connections: u64,
    /// Requests that wait.
    pub(super) parked: u64,
    /// Entries in the watch lists of the purgatory of fetches.
    pub(super) watched: u64,
    pub(super) groups: u64,
    pub(super) members: u64,
    /// What waits for the sake of groups, and the entries in its watch lists.
    pub(super) held_for_groups: u64,
    /// The smallest in-sync set.
    pub(super) isr: u64,
    /// Partitions of which the in-sync set lacks something.
    pub(super) behind: u64,
}

impl Served {
    pub(super) fn start(options: &str) -> Result<Served, String> {
        let line = format!("serve --listen 127.0.0.1:0 --control 127.0.0.1:0 {options}");
        // The warning, and the two addresses.
        let (process, said) = Process::start(&words(&line), 3)?;
        let addresses = after(&said, "serving on ").zip(after(&said, "control port on "));
        let Some((address, control)) = addresses else {
            return Err(format!("the broker did not start: {said}"));
        };
        Ok(Served { process, address, control })
    }

    pub(super) async fn connect(&self) -> Result<Client, String> {
        Client::connect(self.address).await.map_err(|error| format!("connecting: {error}"))
    }

    /// Connects so many clients, and waits until the broker serves all.
    pub(super) async fn connect_all(&self, many: usize) -> Result<Vec<Client>, String> {
        let mut clients = Vec::new();
        for _ in 0..many {
            clients.push(self.connect().await?);
        }
        self.reach(|standing| standing.connections >= many as u64, "all are connected").await?;
        Ok(clients)
    }

    pub(super) async fn standing(&self) -> Result<Standing, String> {
        let stats = client::control(self.control, "stats").await;
        let stats = stats.map_err(|error| format!("asking the control port: {error}"))?;
        read(&stats).ok_or_else(|| format!("not what a broker says: {stats}"))
    }

    /// Waits until it stands as it should.
    pub(super) async fn reach(
        &self,
        is_reached: impl Fn(&Standing) -> bool,
        what: &str,
    ) -> Result<Standing, String> {
        let begun = Instant::now();
        loop {
            let standing = self.standing().await?;
            if is_reached(&standing) {
                return Ok(standing);
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("it takes more than {PATIENCE:?} until {what}: {standing:?}"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Its memory, after a rest.
    pub(super) async fn resident_at_rest(&self) -> Result<u64, String> {
        tokio::time::sleep(REST).await;
        self.resident()
    }

    /// Its memory as it is.
    pub(super) fn resident(&self) -> Result<u64, String> {
        Ok(self.process.usage()?.resident)
    }

    /// The CPU time it has used so far.
    pub(super) fn cpu(&self) -> Result<Duration, String> {
        Ok(self.process.usage()?.cpu)
    }
}

pub(super) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// An address that is free now, for a process that is told it before it is there.
pub(super) fn free_address() -> Result<SocketAddr, String> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound.map_err(|error| format!("finding a free port: {error}"))
}

/// This process, and the broker's that it starts, need a descriptor for each client. Takes them, if the system lets it.
pub(super) fn need_files(clients: usize) -> Verdict {
    let needed = clients as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(most) = limit.maximum.filter(|most| *most < needed) {
        return Err(format!(
            "{clients} connections take {needed} open files, and {most} are allowed (ulimit -Hn): \
             allow more, or ask for less"
        ));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .map_err(|error| format!("{needed} files must be open at once; ulimit -n {needed}: {error}"))
}

/// The address that stands after these words.
fn after(said: &str, words: &str) -> Option<SocketAddr> {
    said.lines().find_map(|line| line.strip_prefix(words))?.split_whitespace().next()?.parse().ok()
}

/// Reads the line of the command `stats`.
fn read(stats: &str) -> Option<Standing> {
    let books = |name: &str| stats.split_once(&format!("\"{name}\":{{")).map(|(_, books)| books);
    let (fetch, rebalance, heartbeat) = (books("fetch")?, books("rebalance")?, books("heartbeat")?);
    let held = |books: &str| Some(number(books, "pending")? + number(books, "watched")?);
    let (_, partitions) = stats.split_once("\"partitions\":")?;
    let lacks_something =
        |partition: &&str| number(partition, "log_end") != number(partition, "high_watermark");
    Some(Standing {
        connections: number(stats, "connections")?,
        parked: number(stats, "parked")?,
        watched: number(fetch, "watched")?,
        groups: number(stats, "groups")?,
        members: number(stats, "members")?,
        held_for_groups: held(rebalance)? + held(heartbeat)?,
        isr: number(stats, "isr")?,
        behind: partitions.split("\"topic\":").skip(1).filter(lacks_something).count() as u64,
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
    use ixion_broker::{PartitionStats, PurgatoryStats, Stats};

    #[test]
    fn what_a_broker_says_is_read() {
        let books = |pending, watched| PurgatoryStats { pending, watched, ..Default::default() };
        let partition = |log_end, high_watermark| PartitionStats {
            topic: "t".into(),
            log_end,
            high_watermark,
            isr: vec![1, 2],
            ..Default::default()
        };
        let stats = Stats {
            produce: books(1, 1),
            fetch: books(9, 23),
            rebalance: books(100, 200),
            heartbeat: books(1000, 2000),
            connections: 4,
            parked: 56,
            groups: 7,
            members: 8,
            isr: 2,
            partitions: vec![partition(5, 5), partition(5, 4), partition(6, 0)],
            ..Default::default()
        };
        let standing = Standing {
            connections: 4,
            parked: 56,
            watched: 23,
            groups: 7,
            members: 8,
            held_for_groups: 3300,
            isr: 2,
            behind: 2,
        };
        assert_eq!(read(&stats.to_json()), Some(standing));
        assert_eq!(read("error"), None);
        let said = "warning\nserving on 127.0.0.1:5 with 3 nodes\ncontrol port on 127.0.0.1:6\n";
        assert_eq!(after(said, "serving on "), Some(SocketAddr::from(([127, 0, 0, 1], 5))));
        assert_eq!(after(said, "control port on "), Some(SocketAddr::from(([127, 0, 0, 1], 6))));
    }

    #[test]
    fn more_files_than_are_allowed_are_an_error_that_says_how_many() {
        need_files(1).expect("few are allowed everywhere");
        if let Some(most) = getrlimit(Resource::Nofile).maximum {
            let error = need_files(usize::try_from(most).expect("a number")).expect_err("too many");
            assert!(error.contains(&most.to_string()), "{error}");
        }
    }
}
