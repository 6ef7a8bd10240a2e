//! The page and the figures for Prometheus, asked for over plain sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ixion_broker::{Broker, Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::client::{Client, PATIENCE, start};

/// A broker with the page; nobody polls it.
async fn with_page() -> (Broker, SocketAddr) {
    let http = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let broker = start(Config { http, replicas: 1, ..Config::default() }).await;
    let address = broker.http_addr().expect("it has one");
    (broker, address)
}

/// Sends one request. Returns the status, the head and the body of the answer.
async fn ask(address: SocketAddr, line: &str, headers: &str, body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.expect("it takes the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("the head has an end");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("there is a status");
    (status, head.to_ascii_lowercase(), body.to_owned())
}

async fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    ask(address, &format!("GET {path}"), "", "").await
}

#[tokio::test]
async fn the_page_loads_nothing_that_is_not_here() {
    let (_broker, address) = with_page().await;
    let (status, head, page) = get(address, "/").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/html") && head.contains("default-src 'none'"), "{head}");
    let mut texts = vec![page];
    let mut loaded = BTreeSet::new();
    while let Some(text) = texts.pop() {
        assert!(!text.contains("https:") && !text.contains("//cdn"), "{text}");
        let quoted = text.split(['"', '\'']).map(|word| word.trim_start_matches("./"));
        for name in quoted.filter(|word| word.ends_with(".css") || word.ends_with(".js")) {
            if loaded.insert(name.to_owned()) {
                let (status, head, text) = get(address, &format!("/{name}")).await;
                let kind = if name.ends_with("css") { "text/css" } else { "text/javascript" };
                assert!(status == 200 && head.contains(kind), "{name}: {head}");
                texts.push(text);
            }
        }
    }
    assert!(loaded.len() >= 4, "{loaded:?}");
}

#[tokio::test]
async fn the_figures_of_the_page_are_the_stats() {
    let (broker, address) = with_page().await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    let (status, head, text) = get(address, "/stats.json").await;
    assert!(status == 200 && head.contains("application/json"), "{head}");
    let picture: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let stats: serde_json::Value = serde_json::from_str(&broker.stats().to_json()).expect("it is JSON");
    assert_eq!(picture["stats"]["partitions"], stats["partitions"]);
    // Nobody but the client is there, so nothing ends; how often the expirer looks is its own affair.
    for purgatory in
        ["produce", "fetch", "delete_records", "topic", "rebalance", "heartbeat", "idle", "chores"]
    {
        for count in ["registered", "satisfied", "pending", "watched"] {
            let (shown, counted) = (&picture["stats"][purgatory][count], &stats[purgatory][count]);
            assert!(shown.is_u64() && shown == counted, "{purgatory} {count}: {shown}, not {counted}");
        }
    }
    let on_wheel = |purgatory: &str| -> u64 {
        let levels = picture["engines"][purgatory]["levels"].as_array().expect("there are levels");
        levels
            .iter()
            .flat_map(|slots| slots.as_array().expect("buckets"))
            .filter_map(|count| count.as_u64())
            .sum()
    };
    assert_eq!((on_wheel("idle"), on_wheel("chores"), on_wheel("fetch")), (1, 1, 0), "{text}");
    assert!(picture["uptime_ms"].is_u64(), "{text}");
}

#[tokio::test]
async fn the_figures_for_prometheus_are_well_formed_and_those_of_the_stats() {
    let (broker, address) = with_page().await;
    let mut client = Client::of(&broker).await;
    client.create("t", &[]).await;
    let (status, head, text) = get(address, "/metrics").await;
    assert!(status == 200 && head.contains("text/plain; version=0.0.4"), "{head}");

    let mut kinds = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a kind");
            assert!(kinds.insert(name, kind).is_none(), "{name} is there twice");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            let name = series.split('{').next().expect("a name");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
            let is_typed = |suffix| name.strip_suffix(suffix).is_some_and(|name| kinds.contains_key(name));
            assert!(["", "_bucket", "_sum", "_count"].into_iter().any(is_typed), "no type: {line}");
            assert_eq!(kinds.get(name) == Some(&"counter"), name.ends_with("_total"), "{line}");
            let value: f64 = value.parse().expect("a number");
            assert!(samples.insert(series, value).is_none(), "{series} is there twice");
        }
    }
    let stats = broker.stats();
    for (series, value) in [
        ("ixion_purgatory_pending{purgatory=\"idle\"}", stats.idle.pending),
        ("ixion_purgatory_pending{purgatory=\"chores\"}", 1),
        ("ixion_purgatory_registered_total{purgatory=\"idle\"}", stats.idle.registered),
        ("ixion_purgatory_ended_total{purgatory=\"idle\",outcome=\"cancelled\"}", stats.idle.cancelled),
        ("ixion_purgatory_ended_total{purgatory=\"heartbeat\",outcome=\"shut_down\"}", 0),
        ("ixion_broker_connections", 1),
        ("ixion_broker_requests_total", stats.requests),
        ("ixion_partition_replicas{topic=\"t\",partition=\"0\"}", 1),
        ("ixion_partition_in_sync_replicas{topic=\"t\",partition=\"0\"}", 1),
        ("ixion_partition_high_watermark{topic=\"t\",partition=\"0\"}", 0),
    ] {
        assert_eq!(samples.get(series), Some(&(value as f64)), "{series} of {text}");
    }
}

#[tokio::test]
async fn commands_are_taken_of_the_own_page_alone() {
    let http = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let broker = start(Config { http, ..Config::default() }).await;
    let address = broker.http_addr().expect("it has one");
    let own = format!("Origin: http://{address}\r\n");
    for (line, headers) in [
        ("POST /control", "Origin: http://example.com\r\n"),
        ("POST /control", "Origin: null\r\n"),
        ("GET /control", &own),
        ("PUT /control", &own),
    ] {
        let (status, ..) = ask(address, line, headers, "pause").await;
        assert!(matches!(status, 403 | 405), "{line} {headers}: {status}");
    }
    assert_eq!(broker.stats().paused, [] as [u16; 0]);
    assert_eq!(ask(address, "POST /control", &own, "pause 2").await.2, "ok\n");
    assert_eq!(broker.stats().paused, [2]);
    assert_eq!(ask(address, "POST /control", &own, "resume").await.2, "ok\n");
    assert_eq!(broker.stats().paused, [] as [u16; 0]);
    let (status, _, reply) = ask(address, "POST /control", &own, "pause 9").await;
    assert_eq!((status, reply.as_str()), (400, "error no such follower\n"));
    assert_eq!(ask(address, "POST /control", &own, &"x".repeat(2000)).await.0, 400);
}

#[tokio::test]
async fn what_is_not_there_or_not_to_be_done_is_refused() {
    let (_broker, address) = with_page().await;
    assert_eq!(get(address, "/nowhere").await.0, 404);
    assert_eq!(ask(address, "POST /metrics", "", "").await.0, 405);
    let (status, head, body) = ask(address, "HEAD /", "", "").await;
    assert_eq!((status, body.as_str()), (200, ""), "{head}");
}

#[tokio::test]
async fn an_address_that_others_reach_is_refused() {
    let config = Config { http: Some(SocketAddr::from(([0, 0, 0, 0], 0))), replicas: 1, ..Config::default() };
    let config = Config { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..config };
    let error = Broker::start(config).await.expect_err("it must not be open to all");
    assert!(error.to_string().contains("loopback"), "{error}");
}

#[tokio::test]
async fn who_does_not_take_what_it_has_asked_for_is_cut_off() {
    let http = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let transfer_timeout = Duration::from_millis(100);
    let broker = start(Config { http, transfer_timeout, replicas: 1, ..Config::default() }).await;
    let address = broker.http_addr().expect("it has one");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a socket can do that");
    let mut slow = socket.connect(address).await.expect("it listens");
    let request = format!("GET /tables.js HTTP/1.1\r\nHost: {address}\r\n\r\n").repeat(1000);
    let cut_off = async { while slow.write_all(request.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, cut_off).await.expect("it is cut off");
    assert_eq!(get(address, "/").await.0, 200);
}

#[tokio::test]
async fn who_asks_again_and_again_is_not_cut_off() {
    let http = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let transfer_timeout = Duration::from_secs(1);
    let broker = start(Config { http, transfer_timeout, replicas: 1, ..Config::default() }).await;
    let address = broker.http_addr().expect("it has one");
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET /nowhere HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let since = Instant::now();
    while since.elapsed() < transfer_timeout.mul_f64(3.2) {
        stream.write_all(request.as_bytes()).await.expect("it takes the request");
        let mut answer = [0; 4096];
        let read = stream.read(&mut answer).await.expect("it answers");
        assert!(answer[..read].starts_with(b"HTTP/1.1 404"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
