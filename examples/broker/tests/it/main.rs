//! The broker over real sockets. Times are bounded widely: what is exact is tested on hand-set clocks in the library.

mod client;
mod gotchas;
mod replication;
mod waiting;
