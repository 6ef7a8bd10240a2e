//! Connections that break, and servers that come and go, under a store that is open.

use super::new_name;
use super::server;
use ixion::Tick;
use ixion_redis_server::{Cluster, Server};
use ixion_retry::{New, RedisError, RedisStore, Settlement, Store};
use parking_lot::Mutex;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const NOW: Tick = Tick::new(5);

/// Stands before a server, and lets it hear everything. While `cuts` is set, whatever it answers is lost, with the connection; while
/// `lie` is, that is said instead.
struct Proxy {
    address: SocketAddr,
    cuts: Arc<AtomicBool>,
    lie: Lie,
}

type Lie = Arc<Mutex<Option<&'static [u8]>>>;

impl Proxy {
    fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, cuts) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let lie = Lie::default();
        let proxy = Proxy { address, cuts: Arc::clone(&cuts), lie: Arc::clone(&lie) };
        let serve = move || {
            for client in listener.incoming().flatten() {
                let _ = pass_on(client, server, &cuts, &lie);
            }
        };
        thread::Builder::new().spawn(serve).unwrap();
        proxy
    }

    fn open(&self) -> RedisStore {
        RedisStore::open(&format!("redis://{}", self.address), &new_name()).unwrap()
    }
}

fn pass_on(mut client: TcpStream, server: SocketAddr, cuts: &Arc<AtomicBool>, lie: &Lie) -> io::Result<()> {
    let mut upstream = TcpStream::connect(server)?;
    let (mut from, mut to) = (client.try_clone()?, upstream.try_clone()?);
    thread::Builder::new().spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    })?;
    let (cuts, lie) = (Arc::clone(cuts), Arc::clone(lie));
    thread::Builder::new().spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = upstream.read(&mut bytes)
            && !cuts.load(Ordering::Relaxed)
            && client.write_all(lie.lock().unwrap_or(&bytes[..n])).is_ok()
        {}
        let _ = client.shutdown(Shutdown::Both);
        let _ = upstream.shutdown(Shutdown::Both);
    })?;
    Ok(())
}

#[test]
fn a_step_whose_answer_is_lost_is_an_error_and_was_made_once() {
    let proxy = Proxy::start(server().address());
    let store = proxy.open();
    // So that the server has the scripts: or the answer that is lost is that it has not.
    store.push(b"first", New::at(NOW)).unwrap();
    let first = store.take(NOW, 9, 9, Tick::new(9)).unwrap()[0].receipt;
    assert!(store.settle(&first, NOW, Settlement::Done).unwrap());
    let cut = |step: &dyn Fn() -> RedisError| {
        proxy.cuts.store(true, Ordering::Relaxed);
        let error = step();
        proxy.cuts.store(false, Ordering::Relaxed);
        error
    };

    // The server knows the scripts: a step that finds them missing is not made before they are sent.
    store.push(b"x", New::at(NOW)).unwrap();
    let taken = store.take(NOW, 9, 9, Tick::new(9)).unwrap();
    assert!(store.settle(&taken[0].receipt, NOW, Settlement::Done).unwrap());

    let error = cut(&|| store.push(b"x", New::at(NOW)).unwrap_err());
    assert!(error.is_unanswered() && error.to_string().contains("may have been made"), "{error}");
    assert_eq!(store.counts().unwrap().waiting, 1);

    let receipt = store.take(NOW, 9, 9, Tick::new(9)).unwrap()[0].receipt;
    assert!(cut(&|| store.settle(&receipt, NOW, Settlement::Done).unwrap_err()).is_unanswered());
    assert_eq!(store.counts().unwrap().in_flight, 0);
    assert!(!store.settle(&receipt, NOW, Settlement::Done).unwrap(), "it was done");
}

#[test]
fn what_no_script_answers_is_an_error() {
    let proxy = Proxy::start(server().address());
    let store = proxy.open();
    store.push(b"x", New::at(NOW)).unwrap();
    let receipt = store.take(NOW, 1, 9, Tick::new(9)).unwrap()[0].receipt;
    let told = |lie, step: &dyn Fn() -> Result<usize, RedisError>| {
        store.counts().unwrap(); // it is connected
        *proxy.lie.lock() = Some(lie);
        let answer = step();
        *proxy.lie.lock() = None;
        answer
    };
    let refused = |lie, step: &dyn Fn() -> Result<usize, RedisError>| {
        let error = told(lie, step).unwrap_err();
        assert!(error.is_unanswered(), "{error}");
    };
    let two = [(&b"a"[..], New::at(NOW)), (b"b", New::at(NOW))];
    for fewer_or_more in [&b"*0\r\n"[..], b"$-1\r\n", b"*3\r\n:1\r\n:1\r\n:1\r\n"] {
        refused(fewer_or_more, &|| store.push(b"x", New::at(NOW)).map(|_| 1));
        refused(fewer_or_more, &|| store.push_all(&two).map(|ids| ids.len()));
        refused(fewer_or_more, &|| store.settle(&receipt, NOW, Settlement::Done).map(usize::from));
    }
    // There is more, and it was nothing: one could ask for ever.
    let take = || store.take(NOW, 9, 9, NOW).map(|taken| taken.len());
    let dead = || store.dead_letters(None, 9).map(|letters| letters.len());
    assert_eq!(told(b"*3\r\n$0\r\n\r\n:1\r\n*0\r\n", &take).unwrap(), 0);
    assert_eq!(told(b"*2\r\n:1\r\n*0\r\n", &dead).unwrap(), 0);
}

#[test]
fn a_restart_costs_an_error_to_those_that_are_under_way_alone() {
    let mut server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
    let store = RedisStore::open(&server.url(), "q").unwrap();
    // Many connections.
    let push = || store.push(b"x", New::at(NOW));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20).for_each(|_| _ = push().unwrap()));
        }
    });
    server.restart().unwrap();
    let errors = (0..20).filter(|_| push().is_err()).count();
    assert!(errors <= 1, "{errors} for all connections");
    assert!(store.counts().unwrap().waiting >= 160 + 19);
}

#[test]
fn a_step_waits_for_a_server_that_comes_back_at_once() {
    let mut server = Server::start_with(&["--appendonly", "yes"]).unwrap();
    let store = RedisStore::open(&server.url(), "q").unwrap();
    server.kill().unwrap();
    let refused = store.push(b"x", New::at(NOW)).unwrap_err();
    assert!(refused.to_string().contains(&server.address().to_string()), "{refused}");
    thread::scope(|scope| {
        let pushed = scope.spawn(|| store.push(b"x", New::at(NOW)));
        server.restart().unwrap();
        // It may have come back too late for that one.
        assert!(pushed.join().unwrap().is_ok() || store.push(b"x", New::at(NOW)).is_ok());
    });
    assert_eq!(store.counts().unwrap().waiting, 1);
}

#[test]
fn a_queue_whose_slot_moves_to_another_node_is_found_there() {
    let cluster = Cluster::start(2).unwrap();
    let [from, to] = cluster.nodes() else { panic!("two were started") };
    // The slot of this name is one of the first node's.
    let name = (0..).map(|n| format!("q{n}")).find(|name| slot(from, name) < 8192).unwrap();
    let slot = slot(from, &name);
    let store = RedisStore::open_cluster(cluster.urls(), &name).unwrap();
    let ids = store.push_all(&[(&b"a"[..], New::at(NOW)), (b"b", New::at(NOW))]).unwrap();
    assert_eq!(store.take(NOW, 1, 9, Tick::new(9)).unwrap().len(), 1);

    let id = |node: &Server| node.ask("CLUSTER MYID").unwrap();
    to.ask(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(from))).unwrap();
    from.ask(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(to))).unwrap();
    let tables = ["id", "items", "payloads", "waiting", "leased"];
    let keys: Vec<_> = tables.iter().map(|table| format!("{{{name}}}:{table}")).collect();
    let address = to.address();
    let migrate = |keys: &[String]| {
        let (host, port, keys) = (address.ip(), address.port(), keys.join(" "));
        from.ask(&format!("MIGRATE {host} {port} \"\" 0 5000 KEYS {keys}")).unwrap();
    };
    migrate(&keys[..2]);
    let error = store.push(b"c", New::at(NOW)).unwrap_err();
    assert!(!error.is_unanswered(), "half of the queue is here, half there: {error}");
    migrate(&keys[2..]);
    for node in [to, from] {
        node.ask(&format!("CLUSTER SETSLOT {slot} NODE {}", id(to))).unwrap();
    }
    let third = store.push(b"c", New::at(NOW)).unwrap();
    let rest = store.take(NOW, 9, 9, Tick::new(9)).unwrap();
    assert!(rest.iter().map(|delivery| delivery.receipt.id()).eq([ids[1], third]));
}

fn slot(node: &Server, name: &str) -> u16 {
    node.ask(&format!("CLUSTER KEYSLOT {{{name}}}")).unwrap().parse().unwrap()
}
