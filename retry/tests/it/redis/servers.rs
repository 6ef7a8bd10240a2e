//! Servers that cannot keep a queue, or are none: each is an error that says so, and soon.

use super::{connect, new_name, server};
use ixion::Tick;
use ixion_redis_server::Server;
use ixion_retry::{New, RedisStore, Settlement, Store};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

const NOW: Tick = Tick::new(5);

/// What opening a queue there comes to, with the address left out.
fn refused(url: &str) -> String {
    let begun = Instant::now();
    let error = RedisStore::open(url, "q").map(drop).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(!error.is_unanswered(), "no step was sent");
    let (said, debug) = (error.to_string(), format!("{error:?}"));
    assert!(!said.contains("secret") && !debug.contains("secret"), "{said} {debug}");
    said
}

/// Something that says the same to whatever it hears.
fn parrot(says: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::Builder::new()
        .spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 4096]).and_then(|_| stream.write_all(&says));
                // Silence, but no end, until the other end goes.
                let _ = stream.read(&mut [0; 4096]);
            }
        })
        .unwrap();
    address
}

#[test]
fn an_address_where_nobody_listens_is_named() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = refused(&format!("redis://:secret@{address}"));
    assert!(said.contains(&address.to_string()) && said.contains("refused"), "{said}");
}

#[test]
fn what_is_no_address_is_refused() {
    for url in
        ["", "secret", "http://:secret@127.0.0.1", "rediss://:secret@127.0.0.1", "redis://:secret@host/x"]
    {
        assert!(refused(url).starts_with("redis: not a URL as redis://HOST:PORT or unix:PATH: "), "{url}");
    }
    let none: [&str; 0] = [];
    assert!(RedisStore::open_cluster(none, "q").is_err());
}

#[test]
fn what_is_no_redis_server_is_told_apart_from_one_that_is_silent_or_loading() {
    let said = |says: &[u8]| refused(&format!("redis://{}", parrot(says.to_vec())));
    let web = said(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    assert!(web.contains("no Redis server"), "{web}");
    let silent = said(b"");
    assert!(silent.contains("no answer in time"), "{silent}");
    // To a dozen commands.
    let loading = said(&b"-LOADING Redis is loading the dataset in memory\r\n".repeat(12));
    assert!(loading.contains("loading the dataset"), "{loading}");
}

#[test]
fn a_password_that_is_wrong_or_missing_is_not_told() {
    let server = Server::start().unwrap();
    server.ask("CONFIG SET requirepass right").unwrap();
    let address = server.address();
    let wrong = refused(&format!("redis://:secret@{address}"));
    assert!(wrong.contains("authentication failed"), "{wrong}");
    let missing = refused(&format!("redis://{address}"));
    assert!(missing.contains("NOAUTH"), "{missing}");
    let store = RedisStore::open(&format!("redis://:right@{address}/3"), "q").unwrap();
    store.push(b"x", New::at(NOW)).unwrap();
    assert_eq!(store.counts().unwrap().waiting, 1);
}

#[test]
fn a_server_is_reached_by_a_socket_of_the_system_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis").to_str().unwrap().to_owned();
    let _server = Server::start_with(&["--unixsocket", &path]).unwrap();
    let store = RedisStore::open(&format!("unix:{path}"), "q").unwrap();
    store.push(b"x", New::at(NOW)).unwrap();
    assert_eq!(store.counts().unwrap().waiting, 1);
    let said = refused(&format!("unix:{path}.none"));
    assert!(said.contains(".none"), "{said}");
}

#[test]
fn one_that_may_not_publish_is_refused() {
    let server = Server::start().unwrap();
    server.ask("ACL SETUSER silent on >right ~* +@all resetchannels").unwrap();
    let said = refused(&format!("redis://silent:right@{}", server.address()));
    assert!(said.contains("no permissions"), "{said}");
}

#[test]
fn a_server_that_may_evict_keys_and_a_replica_are_refused() {
    let server = Server::start().unwrap();
    server.ask("CONFIG SET maxmemory-policy allkeys-lru").unwrap();
    let said = refused(&server.url());
    assert!(said.contains("maxmemory-policy") && said.contains("allkeys-lru"), "{said}");
    server.ask("CONFIG SET maxmemory-policy volatile-lru").unwrap();
    RedisStore::open(&server.url(), "q").unwrap();

    let master = super::server().address();
    server.ask(&format!("REPLICAOF {} {}", master.ip(), master.port())).unwrap();
    let said = refused(&server.url());
    assert!(said.contains("replica") || said.contains("MASTERDOWN"), "{said}");
}

#[test]
fn a_server_that_becomes_a_replica_makes_no_step() {
    let server = Server::start().unwrap();
    let store = RedisStore::open(&server.url(), "q").unwrap();
    let master = super::server().address();
    server.ask(&format!("REPLICAOF {} {}", master.ip(), master.port())).unwrap();
    let error = store.push(b"x", New::at(NOW)).unwrap_err();
    assert!(!error.is_unanswered(), "{error}");
    server.ask("REPLICAOF NO ONE").unwrap();
    store.push(b"x", New::at(NOW)).unwrap();
}

#[test]
fn keys_of_another_program_are_left_alone() {
    let name = new_name();
    for table in ["id", "items", "payloads", "histories", "waiting", "leased", "dead"] {
        let (key, mut connection) = (format!("{{{name}}}:{table}"), connect(server()));
        ::redis::cmd("RPUSH").arg(&key).arg("a diary").exec(&mut connection).unwrap();
        let said = RedisStore::open(&server().url(), &name).unwrap_err().to_string();
        assert!(said.contains(&key) && said.contains("list"), "{said}");
        ::redis::cmd("DEL").arg(&key).exec(&mut connection).unwrap();
    }
    RedisStore::open(&server().url(), &name).unwrap();
}

#[test]
fn a_server_that_is_full_refuses_pushes_and_lets_everything_leave() {
    let server = Server::start().unwrap();
    let store = RedisStore::open(&server.url(), "q").unwrap();
    let dead = store.push(b"dead", New { due: None, ..New::at(NOW) }).unwrap();
    store.push_all(&[(&b"a"[..], New::at(NOW)), (b"b", New::at(NOW))]).unwrap();
    server.ask("CONFIG SET maxmemory 1").unwrap();
    let before = store.counts().unwrap();
    let error = store.push(b"no", New::at(NOW)).unwrap_err();
    assert!(error.to_string().contains("OOM") && !error.is_unanswered(), "{error}");
    assert_eq!(store.counts().unwrap(), before, "no part of it was made");

    let taken = store.take(NOW, 2, 9, Tick::new(9)).unwrap();
    assert!(store.settle(&taken[0].receipt, NOW, Settlement::Done).unwrap());
    assert!(store.settle(&taken[1].receipt, NOW, Settlement::Extend(NOW)).unwrap());
    assert_eq!(store.overdue(NOW, 9).unwrap().len(), 1);
    assert_eq!(store.reap(vec![(taken[1].receipt, Settlement::Done)], NOW).unwrap(), [true]);
    assert!(store.redrive(dead, NOW).unwrap());
    assert_eq!(store.take(NOW, 2, 9, Tick::new(9)).unwrap().len(), 1);
}

#[test]
fn a_payload_that_the_server_does_not_take_is_refused_before_it_is_sent() {
    let server = Server::start().unwrap();
    server.ask("CONFIG SET proto-max-bulk-len 1mb").unwrap();
    let store = RedisStore::open(&server.url(), "q").unwrap();
    let error = store.push(&vec![0; (1 << 20) + 1], New::at(NOW)).unwrap_err();
    assert!(error.to_string().contains("proto-max-bulk-len") && !error.is_unanswered(), "{error}");
    store.push(&vec![0; 1 << 20], New::at(NOW)).unwrap();
    assert_eq!(store.take(NOW, 9, 9, NOW).unwrap()[0].payload.len(), 1 << 20);
}
