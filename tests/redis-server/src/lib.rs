//! Redis servers of their own for tests and benches, on free loopback ports, with their data in temporary folders. They end
//! with the process that has started them, also if that is killed.

mod cluster;
mod find;

pub use cluster::Cluster;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Why there is no server, or it does not do as it should.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A server. It keeps nothing on the disk, unless its arguments say so.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    args: Vec<String>,
    folder: TempDir,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    server: Child,
    /// Ends the server when its input is closed: when this process has ended, however.
    guard: Child,
}

/// How long a server may take to start, and to do what it is told.
const PATIENCE: Duration = Duration::from_secs(30);

impl Server {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// There is no `redis-server` and it cannot be installed, or it does not start.
    pub fn start() -> Result<Self, Failure> {
        Server::start_with(&[])
    }

    /// Starts a server with arguments of its own, such as `["--appendonly", "yes"]`.
    ///
    /// # Errors
    ///
    /// As [`start`](Server::start).
    pub fn start_with(args: &[&str]) -> Result<Self, Failure> {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut server =
            Server { address: free_address()?, args, folder: tempfile::tempdir()?, running: None };
        // Somebody else may have taken the address that was free.
        while let Err(error) = server.restart() {
            if !error.to_string().contains("Address already in use") {
                return Err(error);
            }
            server.address = free_address()?;
        }
        Ok(server)
    }

    /// Returns where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its address as clients take it: `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Kills it, as a crash does: SIGKILL.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn kill(&mut self) -> io::Result<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        // The guard first: it must not kill whoever has the number of the server afterwards.
        running.guard.kill()?;
        running.guard.wait()?;
        running.server.kill()?;
        running.server.wait().map(drop)
    }

    /// Starts it again, at its old address and with what it has on the disk; kills it before if it runs. It returns when the
    /// server has loaded all and answers.
    ///
    /// # Errors
    ///
    /// As [`start`](Server::start).
    pub fn restart(&mut self) -> Result<(), Failure> {
        self.kill()?;
        let log = self.folder.path().join("log");
        let complaints = File::options().append(true).create(true).open(&log)?;
        let mut server = Command::new(find::server()?)
            .args(["--bind", &self.address.ip().to_string(), "--port", &self.address.port().to_string()])
            .args(["--save", "", "--loglevel", "warning"])
            .arg("--dir")
            .arg(self.folder.path())
            .arg("--logfile")
            .arg(&log)
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(complaints)
            .spawn()?;
        let guard = Command::new("sh")
            .args(["-c", "read -r _; kill -KILL \"$1\"", "guard", &server.id().to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .inspect_err(|_| _ = server.kill())?;
        let running = self.running.insert(Running { server, guard });
        let until = Instant::now() + PATIENCE;
        while ask(self.address, "PING").ok().as_deref() != Some("PONG") {
            if running.server.try_wait()?.is_some() || Instant::now() > until {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("redis-server on {} does not start: {log}", self.address).into());
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Stops it from running, as a machine does that has no time for it: SIGSTOP. Its connections stay.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn stop(&self) -> io::Result<()> {
        self.signal("-STOP")
    }

    /// Lets it run on: SIGCONT.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn cont(&self) -> io::Result<()> {
        self.signal("-CONT")
    }

    fn signal(&self, signal: &str) -> io::Result<()> {
        let Some(running) = &self.running else { return Err(io::ErrorKind::NotFound.into()) };
        Command::new("kill").args([signal, &running.server.id().to_string()]).status().map(drop)
    }

    /// Sends a command of one line and returns its answer.
    ///
    /// # Errors
    ///
    /// There is no answer, or it is an error.
    pub fn ask(&self, command: &str) -> Result<String, Failure> {
        ask(self.address, command)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nobody is there to be told.
        let _ = self.kill();
    }
}

/// An address at which nobody listens now.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

fn ask(address: SocketAddr, command: &str) -> Result<String, Failure> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let line = line.trim_end();
    match line.split_at_checked(1) {
        Some(("+" | ":", answer)) => Ok(answer.to_owned()),
        Some(("$", length)) => {
            let mut answer = vec![0; length.parse()?];
            stream.read_exact(&mut answer)?;
            Ok(String::from_utf8(answer)?)
        }
        _ => Err(format!("{command} to {address} is answered with {line:?}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_the_disk_outlives_a_kill_and_what_is_not_does_not() -> Result<(), Failure> {
        let mut servers = [Server::start()?, Server::start_with(&["--appendonly", "yes"])?];
        let values = servers.each_mut().map(|server| {
            server.ask("SET key value")?;
            server.restart()?;
            server.ask("EXISTS key")
        });
        let values = values.into_iter().collect::<Result<Vec<_>, _>>()?;
        assert_eq!(values, ["0", "1"]);
        Ok(())
    }

    #[test]
    fn a_killed_server_hears_nothing_and_one_with_wrong_arguments_says_why() -> Result<(), Failure> {
        let mut server = Server::start()?;
        server.kill()?;
        assert!(server.ask("PING").is_err());
        let error = Server::start_with(&["--appendfsync", "never"]).unwrap_err().to_string();
        assert!(error.contains("does not start") && error.contains("appendfsync"), "{error}");
        Ok(())
    }

    #[test]
    fn a_cluster_has_a_node_for_every_slot() -> Result<(), Failure> {
        let cluster = Cluster::start(3)?;
        assert_eq!(cluster.urls().len(), 3);
        for node in cluster.nodes() {
            assert!(node.ask("CLUSTER INFO")?.contains("cluster_slots_ok:16384"));
        }
        assert!(cluster.nodes().iter().filter(|node| node.ask("SET key value").is_ok()).count() == 1);
        Ok(())
    }
}
