//! Operations that wait, under load: tables in Markdown.
//!
//! * *Closed loop*: each thread keeps a thousand operations, each on three keys for a second. A step makes the oldest one's
//!   condition true and signals its first key, and registers a new one; one in a hundred (or ten) is never made true and
//!   expires. *Own keys*: the first key is the operation's own, and nobody signals the two others, so that nothing but the
//!   place itself takes anything off their lists.
//! * *Open loop*: what Kafka's `TestPurgatoryPerformance` means: arrivals at random, a latency that is log-normal with a
//!   median of 20 ms and three quarters below 60, after which another thread completes the operation by force; three keys
//!   of a hundred, which nobody signals. The time of the processor is what comes on top of the same without a purgatory.
//! * *Lateness*: ten thousand timers in two seconds, due at whole milliseconds: from the instant to the callback. *Idle*: one
//!   timer a minute away.
//! * *Single calls*: how long one call takes, most of them and the slowest. Each includes a reading of the clock.
//!
//! `--short` takes less of everything (and 200 ms for the second that operations wait), `--test` shows that it works. A
//! word picks the parts with it in their name. That each operation ends once, that nothing is kept and that the books balance
//! is asserted.

mod calls;
mod closed;
mod idle;
mod lateness;
mod open;

use ixion_bench::support::is_wanted;

fn main() {
    let parts: [(&str, fn()); 5] = [
        ("closed loop", closed::run),
        ("open loop", open::run),
        ("lateness", lateness::run),
        ("idle", idle::run),
        ("single calls", calls::run),
    ];
    for (name, run) in parts {
        if is_wanted(name) {
            run();
        }
    }
}
