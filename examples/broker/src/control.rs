//! The control port: one command a line, one line for an answer.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::net::becomes;

/// The longest line that is read.
const MAX_LINE: u64 = 1024;

/// Serves one client of the control port. Whoever does not take an answer is cut off.
pub(crate) async fn serve(mut stream: TcpStream, cluster: Arc<Cluster>, mut closing: watch::Receiver<bool>) {
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut reader).take(MAX_LINE);
        let read = tokio::select! {
            read = limited.read_until(b'\n', &mut line) => read,
            _ = becomes(&mut closing, true) => return,
        };
        if !matches!(read, Ok(1..)) || (line.len() as u64 == MAX_LINE && !line.ends_with(b"\n")) {
            return;
        }
        let mut answer = obey(&cluster, &String::from_utf8_lossy(&line));
        answer.push('\n');
        let taken = timeout(cluster.config.transfer_timeout, writer.write_all(answer.as_bytes())).await;
        if !matches!(taken, Ok(Ok(()))) {
            return;
        }
    }
}

/// Does what a line says.
pub(crate) fn obey(cluster: &Cluster, line: &str) -> String {
    let mut words = line.split_whitespace();
    let (command, node, rest) = (words.next(), words.next(), words.next());
    let set_paused = |paused| {
        let node = match node.map(str::parse::<u16>) {
            None => None,
            Some(Ok(node)) => Some(node),
            Some(Err(_)) => return "error a node is a number".to_owned(),
        };
        match cluster.set_paused(node, paused) {
            true => "ok".to_owned(),
            false => "error no such follower".to_owned(),
        }
    };
    match (command, node, rest) {
        (Some("pause"), _, None) => set_paused(true),
        (Some("resume"), _, None) => set_paused(false),
        (Some("stats"), None, None) => cluster.stats().to_json(),
        (None, _, _) => "error an empty line is no command".to_owned(),
        _ => "error the commands are: pause [node], resume [node], stats".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn commands_are_obeyed_and_nonsense_is_an_error() {
        let config = Config::default();
        let nodes = vec![config.listen; 3];
        let cluster = Cluster::start(config, nodes).expect("a thread can be started");
        assert_eq!(obey(&cluster, "pause 2\n"), "ok");
        assert!(obey(&cluster, "stats").contains("\"paused\":[2]"));
        assert_eq!(obey(&cluster, "pause"), "ok");
        assert!(obey(&cluster, "stats\r\n").contains("\"paused\":[2,3]"));
        assert_eq!(obey(&cluster, "resume"), "ok");
        assert!(obey(&cluster, "stats").contains("\"paused\":[]"));
        for nonsense in
            ["", "halt", "pause 1", "pause 4", "pause 0", "pause x", "pause 99999", "stats 1", "pause 2 3"]
        {
            assert!(obey(&cluster, nonsense).starts_with("error "), "{nonsense:?}");
        }
    }
}
