//! The broker over real sockets. Times are bounded widely: what is exact is tested on hand-set clocks in the library.

mod admin;
mod client;
mod gotchas;
mod groups;
mod http;
mod limits;
mod load;
mod processes;
mod replication;
mod waiting;
