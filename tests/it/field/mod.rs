//! Faults that timers and queues of others had in the field, as scenarios. The ids in the comments are those of
//! `tests/README.md`, which also says where the scenarios are that stand elsewhere.

mod can;
mod dbl;
mod leak;
mod met;
mod real_time;
mod sta;
mod support;
mod wak;
