//! Options that are right each for itself, and wrong together.

use std::net::SocketAddr;

use ixion_broker::Config;

use super::MAX_NODES;

/// What contradicts in the settings of a leader. `replicas`: if the line has it.
pub(super) fn check_serve(config: &Config, replicas: Option<u16>) -> Result<(), String> {
    let nodes = match (config.followers.len(), replicas) {
        (0, _) => usize::from(config.replicas),
        (followers, Some(replicas)) if usize::from(replicas) != 1 + followers => {
            let all = 1 + followers;
            return Err(format!(
                "--replicas {replicas} and --follower contradict each other: there are {all} nodes, the leader and one for \
                 each --follower; leave --replicas out"
            ));
        }
        (followers, _) => 1 + followers,
    };
    let own = [("--listen", Some(config.listen)), ("--control", config.control), ("--http", config.http)];
    let own = own.into_iter().filter_map(|(option, address)| Some((option, address?)));
    all_differ(own.chain(config.followers.iter().map(|follower| ("--follower", *follower))))?;
    if nodes > usize::from(MAX_NODES) {
        return Err(format!("with so many --follower there are {nodes} nodes, and {MAX_NODES} are the most"));
    }
    if usize::from(config.min_insync_replicas) > nodes {
        let least = config.min_insync_replicas;
        return Err(format!("--min-insync-replicas {least} is more than the {nodes} nodes that there are"));
    }
    let (least, most) = (config.group_min_session_timeout, config.group_max_session_timeout);
    if least > most {
        let (least, most) = (least.as_millis(), most.as_millis());
        return Err(format!(
            "--group-min-session-timeout-ms {least} is above --group-max-session-timeout-ms {most}: no session fits"
        ));
    }
    let (batch, request) = (config.max_message_bytes, config.max_request_bytes);
    if batch > request {
        return Err(format!("--max-message-bytes {batch} does not fit into --max-request-bytes {request}"));
    }
    let followers = nodes - 1;
    if config.max_connections <= followers {
        let connections = config.max_connections;
        return Err(format!(
            "--max-connections {connections} leaves none for clients: each of the {followers} followers takes one"
        ));
    }
    check_buffers(config)
}

/// What contradicts in the settings of a follower.
pub(super) fn check_follow(leader: SocketAddr, config: &Config) -> Result<(), String> {
    let listen = config.listen;
    if listen.port() == 0 {
        return Err("--listen of a follower takes the port that the leader was told with --follower, not 0"
            .to_owned());
    }
    all_differ([("--leader", leader), ("--listen", listen)])?;
    check_buffers(config)
}

/// A request that finds no room would wait for it in vain.
fn check_buffers(config: &Config) -> Result<(), String> {
    let (request, all) = (config.max_request_bytes, config.buffer_total_bytes);
    match request as u64 > all {
        true => Err(format!("--max-request-bytes {request} does not fit into --buffer-total-bytes {all}")),
        false => Ok(()),
    }
}

/// Port 0 is any free one, so it is never the same.
fn all_differ(addresses: impl IntoIterator<Item = (&'static str, SocketAddr)>) -> Result<(), String> {
    let mut taken: Vec<(&str, SocketAddr)> = Vec::new();
    for (option, address) in addresses.into_iter().filter(|(_, address)| address.port() != 0) {
        if let Some((other, _)) = taken.iter().find(|(_, other)| *other == address) {
            return Err(format!("{other} and {option} have the same address, {address}"));
        }
        taken.push((option, address));
    }
    Ok(())
}
