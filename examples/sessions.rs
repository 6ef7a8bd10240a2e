//! Sessions: each request keeps its session alive, silence ends it, and so does logging out.
//!
//! The usual answer is a task or a sweep that looks at all sessions again and again. Here each session is an operation
//! with a deadline that a request moves, which costs the same with ten sessions as with a million; and however a
//! session ends, it ends once, at one place in the code.
//!
//! `cargo run --example sessions`
//!
//! You will see an hour pass on a clock moved by hand: a session that is kept alive and then logs out, one that falls
//! silent, a user who logs out everywhere, and one that is there when the server stops.

use ixion::{Clock, DelayedOperation, ManualClock, Outcome, Purgatory, RejectReason};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Token = u64;

/// A session can be named by its token, and all sessions of a user by the user's name.
#[derive(Hash, PartialEq, Eq)]
enum Key {
    Token(Token),
    User(String),
}

struct Session {
    user: String,
    requests: u32,
}

/// What a session does in the purgatory: it waits for its end.
struct End {
    token: Token,
    shared: Arc<Shared>,
}

impl DelayedOperation for End {
    fn try_complete(&mut self) -> bool {
        false // No state ends a session: only its time, or a call.
    }

    fn on_complete(self, outcome: Outcome) {
        let session = self.shared.live.lock().unwrap().remove(&self.token).expect("it ends once");
        (self.shared.on_end)(session, outcome);
    }
}

struct Shared {
    live: Mutex<HashMap<Token, Session>>,
    on_end: Box<dyn Fn(Session, Outcome) + Send + Sync>,
}

struct Sessions {
    timers: Purgatory<Key, End>,
    shared: Arc<Shared>,
    next: AtomicU64,
}

impl Sessions {
    const IDLE: Duration = Duration::from_secs(30 * 60);

    fn new(clock: impl Clock + 'static, on_end: impl Fn(Session, Outcome) + Send + Sync + 'static) -> Self {
        Sessions {
            timers: Purgatory::builder("sessions").clock(clock).build(),
            shared: Arc::new(Shared { live: Mutex::default(), on_end: Box::new(on_end) }),
            next: AtomicU64::new(1), // A real token is not to be guessed.
        }
    }

    fn log_in(&self, user: &str) -> Result<Token, RejectReason> {
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let session = Session { user: user.to_owned(), requests: 0 };
        self.shared.live.lock().unwrap().insert(token, session);
        let end = End { token, shared: Arc::clone(&self.shared) };
        let keys = [Key::Token(token), Key::User(user.to_owned())];
        let registration = self.timers.try_complete_else_watch(end, Self::IDLE, keys);
        if registration.is_err() {
            self.shared.live.lock().unwrap().remove(&token);
        }
        Ok(registration.map(|_| token)?)
    }

    /// Serves a request, which is the session's next; `None` if there is no such session any more.
    fn request(&self, token: Token) -> Option<u32> {
        // The engine decides: either the deadline has moved, or the session has ended.
        if self.timers.reset_timeout_for_key(&Key::Token(token), Self::IDLE) == 0 {
            return None;
        }
        let mut live = self.shared.live.lock().unwrap();
        let session = live.get_mut(&token)?; // Somebody may have logged out since.
        session.requests += 1;
        Some(session.requests)
    }

    fn log_out(&self, token: Token) -> bool {
        self.timers.force_complete_for_key(&Key::Token(token)) == 1
    }

    /// How long each session of a user has left.
    fn left(&self, user: &str) -> Vec<Duration> {
        let ends = self.timers.watchers(&Key::User(user.to_owned()));
        ends.iter().map(|end| self.timers.time_to(end.deadline)).collect()
    }

    fn log_out_everywhere(&self, user: &str) -> usize {
        self.timers.force_complete_for_key(&Key::User(user.to_owned()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const MINUTE: Duration = Duration::from_secs(60);
    let clock = ManualClock::new(); // In a server: SystemClock, and an Expirer that drives `timers`.
    let ended = Arc::new(Mutex::new(Vec::new()));
    let (log, watch) = (Arc::clone(&ended), clock.clone());
    let sessions = Sessions::new(clock.clone(), move |session, outcome| {
        let minute = watch.elapsed().as_secs() / 60;
        println!("minute {minute}: {}, after {} requests: {outcome}", session.user, session.requests);
        log.lock().unwrap().push(format!("{minute} {} {outcome:?}", session.user));
    });

    let (ann, bob) = (sessions.log_in("ann")?, sessions.log_in("bob")?);
    let carol = [sessions.log_in("carol")?, sessions.log_in("carol")?];
    for minute in 1..=60 {
        clock.advance(MINUTE);
        while sessions.timers.expire().more {}
        match minute {
            10 | 39 => assert!(sessions.request(ann).is_some()),
            15 => assert_eq!(sessions.left("carol"), [15 * MINUTE; 2]),
            20 => assert_eq!(sessions.log_out_everywhere("carol"), 2),
            25 => assert_eq!(sessions.request(carol[0]), None),
            30 => assert_eq!(sessions.request(bob), None),
            50 => assert!(sessions.log_out(ann) && !sessions.log_out(ann)),
            55 => _ = sessions.log_in("dave")?,
            _ => {}
        }
    }
    assert_eq!(sessions.timers.shutdown(), 1);
    let expected =
        ["20 carol Forced", "20 carol Forced", "30 bob Expired", "50 ann Forced", "60 dave Shutdown"];
    assert_eq!(*ended.lock().unwrap(), expected);
    assert!(sessions.timers.is_empty() && sessions.shared.live.lock().unwrap().is_empty());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
