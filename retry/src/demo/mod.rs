//! The demo: a queue in a file, whose worker is killed again and again, and a ledger that forgets nothing.
//!
//! The worker says each thing on its standard output *after* the queue has promised it. So what stands in the ledger of the
//! process that reads it was promised, whatever became of the worker then.

mod ledger;
mod work;

use ledger::Ledger;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
pub(crate) use work::{Work, work};

type Verdict = Result<(), Box<dyn Error + Send + Sync>>;

/// What the demo does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) items: u64,
    pub(crate) kills: u32,
    pub(crate) seed: u64,
}

/// A worker that is not killed and not done by then has lost something.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long the other workers live, in milliseconds: some not until they have opened the file.
const LIVES: [u64; 8] = [5, 20, 50, 100, 200, 400, 800, 1600];

impl Default for Plan {
    fn default() -> Self {
        Plan { items: 100_000, kills: 20, seed: 1 }
    }
}

/// Writes to the standard output.
pub(crate) fn say(text: &str) -> Verdict {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Runs the demo.
pub(crate) fn run(plan: Plan) -> Verdict {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("queue.redb");
    say(&format!(
        "{} items into {}, whose worker is killed {} times\n",
        plan.items,
        file.display(),
        plan.kills
    ))?;
    let start = Instant::now();
    let mut ledger = Ledger::new(plan);
    let mut random = fastrand::Rng::with_seed(plan.seed);
    for kills in 0.. {
        let longest = random.choice(LIVES).unwrap_or(1);
        let life = (kills < plan.kills).then(|| Duration::from_millis(random.u64(..longest)));
        let mut worker = Worker::start(plan, &file, &ledger)?;
        let ended = worker.read(&mut ledger, life);
        worker.end()?;
        if ended? {
            break;
        }
        say(&format!(
            "killed after {:>4} ms: {}\n",
            life.unwrap_or_default().as_millis(),
            ledger.progress()
        ))?;
    }
    say(&ledger.table(start.elapsed()))?;
    ledger.verdict().map_err(Into::into)
}

/// A worker in a process of its own.
struct Worker {
    child: Child,
    lines: Receiver<io::Result<String>>,
}

impl Worker {
    fn start(plan: Plan, file: &Path, ledger: &Ledger) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("demo-worker").arg("--file").arg(file);
        command.args(["--items", &plan.items.to_string(), "--seed", &plan.seed.to_string()]);
        for from in ledger.missing_from() {
            command.args(["--from", &from.to_string()]);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let (sender, lines) = mpsc::channel();
        if let Some(out) = child.stdout.take() {
            thread::spawn(move || BufReader::new(out).lines().try_for_each(|line| sender.send(line)));
        }
        Ok(Worker { child, lines })
    }

    /// Enters what the worker says, until its life is over or it has ended by itself: `true`.
    fn read(
        &mut self,
        ledger: &mut Ledger,
        life: Option<Duration>,
    ) -> Result<bool, Box<dyn Error + Send + Sync>> {
        let until = Instant::now() + life.unwrap_or(PATIENCE);
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    if ledger.enter(&line?)? {
                        return Ok(true);
                    }
                }
                Err(RecvTimeoutError::Timeout) if life.is_none() => {
                    return Err(format!("it is not done after {PATIENCE:?}: {}", ledger.progress()).into());
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Err("the worker has ended too early".into()),
            }
        }
        self.child.kill()?;
        // What it had said before.
        while let Ok(line) = self.lines.recv() {
            if ledger.enter(&line?)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn end(mut self) -> io::Result<()> {
        // One that has ended is not there to be killed.
        let _ = self.child.kill();
        self.child.wait().map(drop)
    }
}
