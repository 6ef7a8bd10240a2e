//! What it costs to have one timer that is due in a minute.

use ixion_bench::rivals::home_made::HomeMade;
use ixion_bench::rivals::purgatories::{Place, Plain, Request};
use ixion_bench::support::process::other_threads;
use ixion_bench::support::{Table, pick};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio_util::time::DelayQueue;

const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn run() {
    let mut table = Table::new(["place", "wake-ups/s", "CPU us/s"]);
    in_a_place::<Plain>(&mut table);
    in_a_place::<HomeMade<Request>>(&mut table);
    on_tokio(&mut table, "tokio sleep", |stop| Box::pin(not_due(tokio::time::sleep(MINUTE), stop)));
    on_tokio(&mut table, "DelayQueue", |stop| {
        let mut queue = DelayQueue::new();
        queue.insert((), MINUTE);
        Box::pin(not_due(poll_fn(move |context| queue.poll_expired(context)), stop))
    });
    println!("\n### Idle, one timer a minute away\n\n{table}");
}

/// Lets the thread settle, and looks at what all others do meanwhile.
fn row(table: &mut Table, name: &str) {
    thread::sleep(Duration::from_millis(100));
    let (wake_ups, cpu) = other_threads();
    let wait = pick(Duration::from_millis(100), Duration::from_millis(500), Duration::from_secs(10));
    thread::sleep(wait);
    let (more, longer) = other_threads();
    let per_second = |of: f64| format!("{:.1}", of / wait.as_secs_f64());
    table.row([
        name.to_owned(),
        per_second(more.saturating_sub(wake_ups) as f64),
        per_second(longer.saturating_sub(cpu).as_nanos() as f64 / 1e3),
    ]);
}

fn in_a_place<P: Place>(table: &mut Table) {
    let place = Arc::new(P::new());
    let driver = place.drive();
    let (_, request) = Request::new(0);
    let id = place.register(request, MINUTE, [(1, 1)]).expect("it waits");
    row(table, P::NAME);
    assert!(place.cancel(id).is_some());
    drop(driver);
    assert_eq!(place.count(1), 0);
}

type Waits = Pin<Box<dyn Future<Output = ()>>>;

/// Polls a future, which does not end, until it is told to stop.
async fn not_due<R>(future: impl Future<Output = R>, mut stop: oneshot::Receiver<()>) {
    let mut future = pin!(future);
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending(), "it is not due");
        Pin::new(&mut stop).poll(context).map(drop)
    })
    .await;
}

fn on_tokio(table: &mut Table, name: &str, wait: fn(oneshot::Receiver<()>) -> Waits) {
    let (stop, stopped) = oneshot::channel();
    let thread = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async { wait(stopped).await });
    });
    row(table, name);
    stop.send(()).expect("it listens");
    thread.join().expect("it does not panic");
}
