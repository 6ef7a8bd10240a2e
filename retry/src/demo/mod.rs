//! The demo: a queue whose workers are killed again and again, and a ledger that forgets nothing.
//!
//! A worker says each thing on its standard output *after* the queue has promised it. So what stands in the ledger of the
//! process that reads it was promised, whatever became of the worker then.

mod ledger;
mod place;
mod work;

use crate::{Failure, say};
use ledger::{Audit, Ledger};
pub(crate) use place::Place;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};
use work::TAKERS;
pub(crate) use work::{Work, work};

/// What the demo does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) items: u64,
    pub(crate) kills: u32,
    pub(crate) seed: u64,
    /// A file of its own, if nothing is said.
    pub(crate) store: Option<Place>,
    /// As many as the store is good for, if nothing is said.
    pub(crate) workers: Option<usize>,
    pub(crate) lies: bool,
}

/// The workers, and what they say.
struct Workers<'a> {
    plan: &'a Plan,
    place: &'a Place,
    ledger: &'a mut Ledger,
    random: fastrand::Rng,
    running: Vec<Option<Worker>>,
    /// How many were started to be killed.
    doomed: u32,
    sender: Sender<(usize, Option<String>)>,
    said: Receiver<(usize, Option<String>)>,
}

/// A worker in a process of its own. It ends with its owner.
struct Worker {
    child: Child,
    /// When its time is over.
    end: Instant,
    is_doomed: bool,
    is_killed: bool,
}

/// A worker that is not killed and not done by then has lost something.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long the others live at most, in milliseconds, if there is one at a time: some not until they have opened the store.
const LIVES: [u64; 8] = [5, 20, 50, 100, 200, 400, 800, 1600];
/// A life is not much longer than its items need, a millisecond each, but long enough for some steps.
const SHORT_LIFE: u64 = 30;
/// What a taker takes at once, at most.
const BATCH: u64 = 16;
const PROGRESS: Duration = Duration::from_secs(1);

impl Default for Plan {
    fn default() -> Self {
        Plan { items: 100_000, kills: 20, seed: 1, store: None, workers: None, lies: false }
    }
}

impl Plan {
    /// Says what cannot be done.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (_, most) = self.store.as_ref().map_or((1, 1), Place::workers);
        match self.workers {
            Some(0) => Err("without workers nothing is done".to_owned()),
            Some(workers) if workers > most => Err(format!("--workers {workers}: this store is for {most}")),
            _ => Ok(()),
        }
    }
}

/// Runs the demo.
pub(crate) fn run(plan: &Plan) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let place = plan.store.clone().unwrap_or_else(|| Place::File(folder.path().join("queue.redb")));
    let workers = plan.workers.unwrap_or(place.workers().0);
    place.check()?;
    say(&format!("{} items, {workers} at work, {} kills\nqueue: {place}\n", plan.items, plan.kills))?;
    let start = Instant::now();
    let mut ledger = Ledger::new(plan.items, plan.seed);
    let end = Workers::new(plan, &place, workers, &mut ledger)
        .run()
        .and_then(|()| place.open(place.patience(), Audit(&mut ledger)));
    place.tidy_up();
    end?;
    say(&ledger.table(start.elapsed()))?;
    ledger.verdict()?;
    say("nothing was lost, and nothing was delivered after its acknowledgement\n")
}

impl<'a> Workers<'a> {
    fn new(plan: &'a Plan, place: &'a Place, workers: usize, ledger: &'a mut Ledger) -> Self {
        let (sender, said) = mpsc::channel();
        let random = fastrand::Rng::with_seed(plan.seed);
        let running = (0..workers).map(|_| None).collect();
        Workers { plan, place, ledger, random, running, doomed: 0, sender, said }
    }

    /// Lets them work, and kills them, until all is done.
    fn run(&mut self) -> Result<(), Failure> {
        for number in 0..self.running.len() {
            self.start(number)?;
        }
        let mut progress = Instant::now() + PROGRESS;
        while self.running.iter().any(Option::is_some) {
            let now = Instant::now();
            let mut next = progress;
            for worker in self.running.iter_mut().flatten().filter(|worker| !worker.is_killed) {
                if worker.end <= now {
                    worker.child.kill()?;
                    worker.is_killed = true;
                } else {
                    next = next.min(worker.end);
                }
            }
            if progress <= now {
                say(&format!("{}\n", self.ledger.progress()))?;
                progress = now + PROGRESS;
            }
            match self.said.recv_timeout(next.saturating_duration_since(now)) {
                Ok((_, Some(line))) => self.ledger.enter(&line)?,
                Ok((number, None)) => self.has_ended(number)?,
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn start(&mut self, number: usize) -> io::Result<()> {
        let Plan { items, kills, seed, lies, .. } = *self.plan;
        let is_doomed = self.doomed < kills;
        // So there is something to do as long as there are kills.
        let share = items / u64::from(kills + 1);
        let until = if is_doomed { items * u64::from(self.doomed + 1) / u64::from(kills + 1) } else { items };
        // With more in its hands than it can do in its life, a worker does nothing but take.
        let batch = (share / TAKERS as u64).clamp(1, BATCH);
        let workers = self.running.len() as u64;
        let longest = self.random.choice(LIVES).unwrap_or(1).min(share.max(SHORT_LIFE)) * workers;
        let life = if is_doomed { Duration::from_millis(self.random.u64(..longest)) } else { PATIENCE };
        self.doomed += u32::from(is_doomed);

        let mut command = Command::new(std::env::current_exe()?);
        command.arg("demo-worker").args(self.place.args()).args(["--seed", &seed.to_string()]);
        command.args(["--items", &until.to_string(), "--workers", &self.running.len().to_string()]);
        command.args(["--batch", &batch.to_string()]);
        command.args(is_doomed.then_some("--stay")).args(lies.then_some("--lie"));
        for from in self.ledger.missing_from(number, self.running.len()) {
            command.args(["--from", &from.to_string()]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        if let Some(out) = child.stdout.take() {
            let sender = self.sender.clone();
            thread::spawn(move || {
                let lines = BufReader::new(out).lines().map_while(Result::ok).map(Some);
                lines.chain([None]).try_for_each(|line| sender.send((number, line)))
            });
        }
        self.running[number] =
            Some(Worker { child, end: Instant::now() + life, is_doomed, is_killed: false });
        Ok(())
    }

    fn has_ended(&mut self, number: usize) -> Result<(), Failure> {
        let Some(mut worker) = self.running[number].take() else { return Ok(()) };
        let status = worker.child.wait()?;
        // One that was killed has no code.
        if !status.success() && (status.code().is_some() || !worker.is_killed) {
            return Err(format!("a worker has failed, {status}").into());
        }
        if !worker.is_killed {
            return Ok(());
        }
        if !worker.is_doomed {
            return Err(format!("not done after {PATIENCE:?}: {}", self.ledger.progress()).into());
        }
        self.ledger.kills += 1;
        Ok(self.start(number)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // One that has ended is not there to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
