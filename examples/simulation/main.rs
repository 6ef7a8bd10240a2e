//! A service under simulation: ten thousand random steps on a clock moved by hand, through the code that ships.
//!
//! Races of a service show once in a month, on somebody else's machine. Here the service (`leases.rs`) is held against what its
//! clients believe: no two may believe that they have the same name, nobody waits for a name that is free, and every
//! answer comes in time. All chance comes from one seed, so what fails once fails again.
//!
//! `cargo run --example simulation -- [SEED] [--bug]`
//!
//! You will see hours pass in milliseconds. With `--bug` a release forgets the timer of its lease, and you will see at
//! which step two clients have one name, and what came before.

mod leases;

use ixion::{Clock, ManualClock};
use leases::{LEASE, Leases, Name, Token};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const STEPS: u64 = 10_000;

/// What a client knows.
struct Client {
    name: Name,
    token: Token,
    answer: mpsc::Receiver<bool>,
    has_it: bool,
    /// Until when it waits; once it has the name, until when.
    until: Duration,
}

struct Simulation {
    random: fastrand::Rng,
    clock: ManualClock,
    leases: Arc<Leases>,
    clients: Vec<Client>,
    granted: u64,
    trace: Vec<String>,
}

impl Simulation {
    fn new(seed: u64, has_bug: bool) -> Self {
        let (clock, random) = (ManualClock::new(), fastrand::Rng::with_seed(seed));
        let leases = Leases::new(clock.clone(), seed, has_bug);
        Simulation { random, clock, leases, clients: Vec::new(), granted: 0, trace: Vec::new() }
    }

    fn run(&mut self) -> Result<(), String> {
        for step in 1..=STEPS {
            let what = self.act(step);
            self.trace.push(format!("{step:6}: {:7.3} s  {what}", self.clock.elapsed().as_secs_f64()));
            self.hear()?;
            self.check()?;
        }
        Ok(())
    }

    /// One thing that a client or the time does.
    fn act(&mut self, step: u64) -> String {
        let now = self.clock.elapsed();
        let holders: Vec<usize> = (0..self.clients.len()).filter(|at| self.clients[*at].has_it).collect();
        match (self.random.u32(..8), self.random.choice(holders)) {
            (0 | 1, _) => {
                let (name, wait) = (self.random.u32(..4), Duration::from_millis(self.random.u64(1..30_000)));
                let answer = self.leases.acquire(name, step, wait);
                self.clients.push(Client { name, token: step, answer, has_it: false, until: now + wait });
                format!("name {name}: client {step} asks for it")
            }
            (2 | 3, Some(at)) => {
                let client = &mut self.clients[at];
                assert!(self.leases.renew(client.token), "client {} has its lease", client.token);
                client.until = now + LEASE;
                format!("name {}: client {} renews it", client.name, client.token)
            }
            (4, Some(at)) => {
                let client = self.clients.swap_remove(at);
                self.leases.release(client.name, client.token);
                format!("name {}: client {} releases it", client.name, client.token)
            }
            _ => {
                self.clock.advance(Duration::from_millis(self.random.u64(..4_000)));
                self.leases.drive();
                "time passes".to_owned()
            }
        }
    }

    /// Clients take their answers, and note what is over.
    fn hear(&mut self) -> Result<(), String> {
        let now = self.clock.elapsed();
        for client in self.clients.iter_mut().filter(|client| !client.has_it) {
            match (client.answer.try_recv(), now < client.until) {
                (Ok(true), _) => (client.has_it, client.until) = (true, now + LEASE),
                (Err(mpsc::TryRecvError::Empty), true) | (Ok(false), false) => {}
                (answer, _) => {
                    return Err(format!("name {}: client {} was told {answer:?}", client.name, client.token));
                }
            }
            self.granted += u64::from(client.has_it);
        }
        self.clients.retain(|client| now < client.until);
        Ok(())
    }

    /// What must be true of the service, whatever has happened.
    fn check(&self) -> Result<(), String> {
        for client in &self.clients {
            let holder = self.clients.iter().find(|other| other.has_it && other.name == client.name);
            let Client { name, token, .. } = client;
            match holder {
                None => return Err(format!("name {name}: client {token} waits for it, and nobody has it")),
                Some(holder) if client.has_it && holder.token != *token => {
                    return Err(format!("name {name}: clients {} and {token} both have it", holder.token));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seed = arguments.iter().find_map(|it| it.parse().ok()).unwrap_or_else(|| fastrand::u64(..1_000_000));
    let start = Instant::now();
    let mut simulation = Simulation::new(seed, arguments.iter().any(|it| it == "--bug"));
    let result = simulation.run();
    let (took, hours) = (start.elapsed().as_millis(), simulation.clock.elapsed().as_secs() / 3600);
    if let Err(what) = result {
        let name = what.split(':').next().unwrap_or_default();
        let trace: Vec<_> = simulation.trace.into_iter().filter(|line| line.contains(name)).collect();
        println!("{}\nseed {seed}: {what}", trace[trace.len().saturating_sub(10)..].join("\n"));
        return ExitCode::FAILURE;
    }
    let granted = simulation.granted;
    println!("seed {seed}: {STEPS} steps, {granted} leases granted, {hours} hours, in {took} ms");
    ExitCode::SUCCESS
}

#[test]
fn nothing_goes_wrong_from_many_seeds() {
    (0..3).for_each(|seed| assert_eq!(Simulation::new(seed, false).run(), Ok(()), "seed {seed}"));
}

#[test]
fn the_planted_bug_is_found_from_every_seed() {
    (0..20).for_each(|seed| assert!(Simulation::new(seed, true).run().is_err(), "seed {seed}"));
}
