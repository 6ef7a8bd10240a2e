//! What the relay says of itself to Prometheus, over HTTP.

use super::desk::Standing;
use super::record::Cause;
use crate::Failure;
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const COUNTERS: [(&str, &str); 7] = [
    ("ixion_relay_read_total", "records read from the retry topics"),
    ("ixion_relay_passed_over_total", "of these, republished before the last start, and passed over"),
    ("ixion_relay_republished_total", "records acknowledged by their target"),
    ("ixion_relay_dead_total", "records acknowledged by the dead letter topic, by reason"),
    ("ixion_relay_send_failures_total", "sends that failed; each is made again"),
    ("ixion_relay_commits_total", "offsets committed"),
    ("ixion_relay_commit_failures_total", "commits that failed; each is made again"),
];
const GAUGES: [(&str, Unit, &str); 4] = [
    ("ixion_relay_held", Unit::Count, "records read and not finished: they wait, or are being sent"),
    ("ixion_relay_sending", Unit::Count, "records that are being sent"),
    ("ixion_relay_partitions", Unit::Count, "partitions of the retry topics that this relay reads"),
    ("ixion_relay_next_due_seconds", Unit::Seconds, "time until the next record is due; -1 with none"),
];
const LAG: &str = "ixion_relay_lag_seconds";
const BOUNDS: [f64; 15] =
    [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0];
/// How long a client may take to ask and to take its answer. Clients are served one after the other: a crowd of slow ones
/// must not use up the files that the relay may have open, which it needs for its brokers.
const PATIENCE: Duration = Duration::from_secs(1);
const LONGEST_REQUEST: usize = 16 * 1024;
/// Between the attempts to accept a client, if that fails.
const PAUSE: Duration = Duration::from_millis(100);
/// So often what the histograms have taken in is summed up.
const UPKEEP: Duration = Duration::from_secs(5);

/// Serves the metrics. Returns where: a port of 0 becomes a free one.
pub(crate) fn serve(address: SocketAddr) -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    let lag = Matcher::Full(LAG.to_owned());
    let metrics = PrometheusBuilder::new().set_buckets_for_metric(lag, &BOUNDS)?.install_recorder()?;
    for (name, what) in COUNTERS {
        describe_counter!(name, Unit::Count, what);
    }
    for (name, unit, what) in GAUGES {
        describe_gauge!(name, unit, what);
    }
    describe_histogram!(
        LAG,
        Unit::Seconds,
        "from when a record was due until its target had acknowledged it"
    );
    ixion::telemetry::describe();
    let kept_up = metrics.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(UPKEEP);
            kept_up.run_upkeep();
        }
    });
    thread::spawn(move || {
        for client in listener.incoming() {
            match client {
                // A client that gives up, or is too slow, is nobody's trouble.
                Ok(client) => drop(answer(client, &metrics)),
                Err(_) => thread::sleep(PAUSE),
            }
        }
    });
    Ok(address)
}

/// Reads a request and answers it.
fn answer(mut client: TcpStream, metrics: &PrometheusHandle) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let left = || match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(Some(left)),
    };
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    while !request.ends_with(b"\r\n\r\n") {
        client.set_read_timeout(left()?)?;
        match client.read(&mut part)? {
            read if read > 0 && request.len() < LONGEST_REQUEST => request.extend(&part[..read]),
            _ => return Ok(()),
        }
    }
    let (status, body) = match request.starts_with(b"GET /metrics") {
        true => ("200 OK", metrics.render()),
        false => ("404 Not Found", String::new()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let mut rest = answer.as_bytes();
    while !rest.is_empty() {
        client.set_write_timeout(left()?)?;
        rest = &rest[client.write(rest)?..];
    }
    Ok(())
}

/// A record was republished so long after it was due.
pub(crate) fn late(late: Duration) {
    histogram!(LAG).record(late);
}

/// Sets the metrics to how things stand.
pub(crate) fn publish(standing: &Standing) {
    let counts = &standing.counts;
    for (name, value) in [
        ("ixion_relay_read_total", counts.read),
        ("ixion_relay_passed_over_total", counts.passed_over),
        ("ixion_relay_republished_total", counts.republished),
        ("ixion_relay_send_failures_total", counts.failed),
        ("ixion_relay_commits_total", standing.commits),
        ("ixion_relay_commit_failures_total", standing.failed_commits),
    ] {
        counter!(name).absolute(value);
    }
    for cause in Cause::ALL {
        counter!("ixion_relay_dead_total", "reason" => cause.as_str()).absolute(counts.dead[cause as usize]);
    }
    for (place, held) in &standing.held {
        let (topic, partition) = (place.topic.to_string(), place.partition.to_string());
        gauge!("ixion_relay_held", "topic" => topic, "partition" => partition).set(*held as f64);
    }
    gauge!("ixion_relay_sending").set(standing.sending as f64);
    gauge!("ixion_relay_partitions").set(standing.partitions as f64);
    let next_due = standing.next_due.map_or(-1.0, |time| time.as_secs_f64());
    gauge!("ixion_relay_next_due_seconds").set(next_due);
}
