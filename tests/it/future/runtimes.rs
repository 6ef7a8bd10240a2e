//! The same tasks on every runtime. Time is moved by hand.

use super::*;
use ixion::WaitError;
use std::sync::Mutex;
use std::thread;

/// A queue on which consumers wait.
struct Queue {
    clock: ManualClock,
    purgatory: Purgatory<&'static str>,
    items: Mutex<Vec<u32>>,
}

const CONSUMERS: usize = 8;
const ITEMS: u32 = 400;

impl Queue {
    fn new() -> Arc<Queue> {
        let clock = ManualClock::new();
        let purgatory = Purgatory::builder("queue").clock(clock.clone()).build();
        Arc::new(Queue { clock, purgatory, items: Mutex::default() })
    }

    fn push(&self, item: u32) {
        self.items.lock().unwrap().push(item);
        self.purgatory.check_and_complete("items");
    }

    async fn pop(&self) -> Result<u32, WaitError> {
        self.purgatory.wait(SECOND, ["items"], || self.items.lock().unwrap().pop()).await
    }

    /// Pops until the time is up. Returns the sum of what it has got.
    async fn consume(self: Arc<Self>) -> u32 {
        let mut sum = 0;
        while let Ok(item) = self.pop().await {
            sum += item;
        }
        sum
    }

    /// From a thread that is not the runtime's: items, and the time that is up when all have been taken.
    fn produce(&self) {
        for item in 1..=ITEMS {
            self.push(item);
        }
        while !self.items.lock().unwrap().is_empty() || self.purgatory.len() < CONSUMERS {
            thread::yield_now();
        }
        self.clock.advance(SECOND);
        while self.purgatory.expire().more {}
    }

    fn assert_over(&self, sums: Vec<u32>) {
        assert_eq!(sums.len(), CONSUMERS);
        assert_eq!(sums.iter().sum::<u32>(), ITEMS * (ITEMS + 1) / 2, "every item once");
        let stats = self.purgatory.stats();
        assert!(stats.balances() && stats.pending == 0 && stats.watched == 0, "{stats:?}");
        assert_eq!(stats.panics, 0);
    }
}

/// Runs consumers on a runtime, which is given them, and a producer beside it.
fn run(on: impl FnOnce(Vec<Pin<Box<dyn Future<Output = u32> + Send>>>) -> Vec<u32>) {
    let queue = Queue::new();
    let consumers = (0..CONSUMERS).map(|_| Box::pin(Arc::clone(&queue).consume()) as _).collect();
    let sums = thread::scope(|scope| {
        scope.spawn(|| queue.produce());
        on(consumers)
    });
    queue.assert_over(sums);
}

fn on_tokio(runtime: tokio::runtime::Runtime) {
    run(|consumers| {
        runtime.block_on(async {
            let tasks: Vec<_> = consumers.into_iter().map(tokio::spawn).collect();
            let mut sums = Vec::new();
            for task in tasks {
                sums.push(task.await.unwrap());
            }
            sums
        })
    });
}

#[test]
fn consumers_on_tokio_with_one_thread() {
    on_tokio(tokio::runtime::Builder::new_current_thread().build().unwrap());
}

#[test]
fn consumers_on_tokio_with_several_threads() {
    on_tokio(tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap());
}

#[test]
fn consumers_on_smols_executor() {
    run(|consumers| {
        let executor = async_executor::Executor::new();
        let tasks: Vec<_> = consumers.into_iter().map(|consumer| executor.spawn(consumer)).collect();
        futures_lite::future::block_on(executor.run(async {
            let mut sums = Vec::new();
            for task in tasks {
                sums.push(task.await);
            }
            sums
        }))
    });
}

/// Wakes a thread that is parked.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn consumers_on_threads_that_park() {
    run(|consumers| {
        let threads = consumers.into_iter().map(|mut consumer| {
            thread::spawn(move || {
                let waker = Waker::from(Arc::new(Unpark(thread::current())));
                loop {
                    match poll_with(&waker, &mut consumer) {
                        Poll::Ready(sum) => return sum,
                        Poll::Pending => thread::park(),
                    }
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
}

#[test]
fn a_wait_of_its_own_is_a_task() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let purgatory: Arc<Purgatory<u32>> = Arc::new(Purgatory::builder("owned").build());
    let count = Arc::new(AtomicUsize::new(0));
    let of_task = Arc::clone(&count);
    let reached = move || (of_task.load(Ordering::SeqCst) == 3).then_some("three");
    let task = runtime.spawn(Arc::clone(&purgatory).wait_owned(NEVER, [1], reached));
    for _ in 0..3 {
        count.fetch_add(1, Ordering::SeqCst);
        purgatory.check_and_complete(&1);
    }
    assert_eq!(runtime.block_on(task).unwrap(), Ok("three"));
    assert!(purgatory.is_empty());
}

#[test]
fn a_task_that_is_aborted_takes_its_wait_with_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let queue = Queue::new();
    runtime.block_on(async {
        let task = tokio::spawn(Arc::clone(&queue).consume());
        while queue.purgatory.is_empty() {
            tokio::task::yield_now().await;
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    });
    assert_eq!((queue.purgatory.len(), queue.purgatory.watched(), queue.purgatory.key_count()), (0, 0, 0));
    assert_eq!(queue.purgatory.stats().cancelled, 1);
}

#[test]
fn a_branch_that_loses_a_select_loses_no_item() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let queue = Queue::new();
    let ticks = AtomicUsize::new(0);
    let tick = |wanted| (ticks.load(Ordering::SeqCst) >= wanted).then_some(());
    let taken = runtime.block_on(async {
        let producer = {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move {
                for item in 1..=ITEMS {
                    queue.push(item);
                    if item % 3 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        };
        let (mut taken, mut rounds) = (Vec::new(), 0);
        while taken.len() < ITEMS as usize {
            rounds += 1;
            if rounds % 2 == 0 {
                ticks.fetch_add(1, Ordering::SeqCst);
                queue.purgatory.check_and_complete("tick");
            }
            let next = ticks.load(Ordering::SeqCst) + usize::from(rounds % 5 != 0);
            tokio::select! {
                item = queue.pop() => taken.push(item.unwrap()),
                end = queue.purgatory.wait(SECOND, ["tick"], || tick(next)) => end.unwrap(),
            }
        }
        producer.await.unwrap();
        taken
    });
    let mut taken = taken;
    taken.sort_unstable();
    assert!(taken.into_iter().eq(1..=ITEMS));
    assert!(queue.purgatory.is_empty() && queue.purgatory.watched() == 0);
}

#[test]
fn a_wait_that_is_polled_by_reference_in_a_loop_keeps_its_deadline() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let queue = Queue::new();
    let rounds = runtime.block_on(async {
        let mut deadline = queue.purgatory.wait(SECOND, [], || None::<()>);
        let mut rounds = 0;
        loop {
            rounds += 1;
            let moved = Cell::new(false);
            let step = queue.purgatory.wait(NEVER, ["step"], || moved.get().then_some(()));
            // Another task of the thread, in effect: time passes, and the step is made.
            let time = async {
                queue.clock.advance(SECOND / 4);
                moved.set(queue.purgatory.expire().expired == 0);
                queue.purgatory.check_and_complete("step");
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                end = &mut deadline => break assert_eq!(end, Err(WaitError::Elapsed)),
                _ = step => {}
                () = time => unreachable!(),
            }
        }
        rounds
    });
    assert_eq!(rounds, 4);
}
