//! Fetch requests that wait, over partitions that change, held against a second reading of the rules.
//!
//! 1. A look decides as the reference does, with the same reason and the same sum, and asks the same partitions.
//! 2. In a purgatory the request ends at the first signal that finds it answerable, or else when its time is up, once.
//! 3. The answer to a first read, and the bytes that are asked for, are the reference's.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use ixion::kafka::ErrorCode;
use ixion::kafka::fetch::{
    Access, Decision, DelayedFetch, EpochEnd, FetchLimits, FetchPartition, FirstRead, Isolation, OffsetPlace,
    Offsets, PartitionFetch, cap_bytes, decide,
};
use ixion::{ManualClock, Outcome, Purgatory};

use crate::fetch_reference::{Hosting, Replica, Request, Spot, Wanted, at_once, capped, decision};

const MAX_PARTITIONS: usize = 4;
const MAX_CHANGES: usize = 60;
const WAIT: Duration = Duration::from_millis(500);

/// Has a request wait while the changes happen that `bytes` stand for.
///
/// # Panics
///
/// If the library differs from the reference.
pub fn kafka_fetch(bytes: &[u8]) {
    let mut bytes = Unstructured::new(bytes);
    if first_read(&mut bytes).is_ok() {
        // Too few bytes for a request are no request.
        let _ = waiting(&mut bytes);
    }
}

fn first_read(bytes: &mut Unstructured<'_>) -> Result<()> {
    let read = FirstRead {
        partitions: bytes.int_in_range(0..=2)?,
        bytes_readable: size(bytes)?,
        any_error: bytes.ratio(1, 8)?,
        any_diverging_epoch: bytes.ratio(1, 8)?,
        any_preferred_replica: bytes.ratio(1, 8)?,
    };
    let max_wait_ms = if bytes.arbitrary()? { bytes.int_in_range(-2..=2)? } else { bytes.arbitrary()? };
    let (min_bytes, max_bytes, quota) = (bytes.arbitrary()?, bytes.arbitrary()?, size(bytes)?);
    assert_eq!(cap_bytes(min_bytes, max_bytes, quota), capped(min_bytes, max_bytes, quota));
    let least = size(bytes)?;
    assert_eq!(
        read.answers_at_once(max_wait_ms, least),
        at_once(&read, max_wait_ms, least),
        "{read:?}, {max_wait_ms} ms, {least} bytes"
    );
    Ok(())
}

/// The partitions, as the request sees them and as the changes change them; and which were asked.
#[derive(Default)]
struct World {
    replicas: RefCell<Vec<Replica>>,
    asked: RefCell<Vec<usize>>,
}

/// A partition of the world.
#[derive(Clone)]
struct Partition {
    number: usize,
    world: Rc<World>,
}

impl FetchPartition for Partition {
    fn offsets(&self, access: Access) -> std::result::Result<Offsets, ErrorCode> {
        self.world.asked.borrow_mut().push(self.number);
        let replica = &self.world.replicas.borrow()[self.number];
        match replica.refuses(access.leader_only, access.current_leader_epoch) {
            Some(error) => Err(error),
            None => Ok(Offsets {
                log_end: place(replica.log_end),
                high_watermark: place(replica.high_watermark),
                last_stable: place(replica.last_stable),
            }),
        }
    }

    fn end_of_epoch(&self, access: Access, epoch: i32) -> std::result::Result<Option<EpochEnd>, ErrorCode> {
        let replica = &self.world.replicas.borrow()[self.number];
        if let Some(error) = replica.refuses(access.leader_only, access.current_leader_epoch) {
            return Err(error);
        }
        if replica.epochs_lost {
            return Err(ErrorCode::KAFKA_STORAGE_ERROR);
        }
        let found = replica.epochs.range(..=epoch).next_back();
        Ok(found.map(|(&epoch, &end_offset)| EpochEnd { epoch, end_offset }))
    }

    fn is_throttled(&self) -> bool {
        self.world.replicas.borrow()[self.number].throttled
    }
}

fn place(spot: Spot) -> OffsetPlace {
    match spot.place {
        Some((segment, position)) => OffsetPlace::new(spot.offset, segment, position),
        None => OffsetPlace::of_offset(spot.offset),
    }
}

fn limits(request: &Request) -> FetchLimits {
    FetchLimits {
        min_bytes: request.min_bytes,
        isolation: request.isolation,
        leader_only: request.leader_only,
    }
}

fn fetches(request: &Request, world: &Rc<World>) -> Vec<PartitionFetch<Partition>> {
    let fetch = |wanted: &Wanted| PartitionFetch {
        partition: Partition { number: wanted.replica, world: Rc::clone(world) },
        fetch_offset: wanted.fetch_offset,
        start: place(wanted.start),
        max_bytes: wanted.max_bytes,
        current_leader_epoch: wanted.leader_epoch,
        last_fetched_epoch: wanted.last_fetched_epoch,
    };
    request.wanted.iter().map(fetch).collect()
}

/// What a look decides, after both have been found to agree.
fn look(request: &Request, world: &Rc<World>) -> Decision {
    world.asked.borrow_mut().clear();
    let decided = decide(&limits(request), &fetches(request, world));
    let (expected, asked) = decision(request, &world.replicas.borrow());
    assert_eq!(decided, expected, "{request:?} on {:?}", world.replicas.borrow());
    assert_eq!(*world.asked.borrow(), asked, "{request:?} on {:?}", world.replicas.borrow());
    decided
}

fn waiting(bytes: &mut Unstructured<'_>) -> Result<()> {
    let world = Rc::new(World::default());
    let count = bytes.int_in_range(1..=MAX_PARTITIONS)?;
    for _ in 0..count {
        let replica = replica(bytes)?;
        world.replicas.borrow_mut().push(replica);
    }
    let request = request(bytes, count)?;
    let clock = ManualClock::new();
    let purgatory = Purgatory::builder("fetch").clock(clock.clone()).shards(1).build();
    let answers = Rc::new(RefCell::new(Vec::new()));
    let answer = {
        let answers = Rc::clone(&answers);
        move |outcome, fetches: Vec<PartitionFetch<Partition>>| {
            answers.borrow_mut().push((outcome, fetches.len()))
        }
    };
    let operation = DelayedFetch::new(limits(&request), fetches(&request, &world), answer);
    let keys: Vec<usize> = request.wanted.iter().map(|wanted| wanted.replica).collect();

    let mut over = look(&request, &world).is_answer();
    let registration = purgatory.try_complete_else_watch(operation, WAIT, keys.iter().copied());
    assert_eq!(registration.is_ok_and(|registration| registration.is_completed()), over);
    for _ in 0..MAX_CHANGES {
        if bytes.is_empty() || over {
            break;
        }
        let number = bytes.int_in_range(0..=count - 1)?;
        change(bytes, &mut world.replicas.borrow_mut()[number])?;
        let is_answer = look(&request, &world).is_answer();
        if bytes.ratio(3, 4)? {
            over = is_answer && keys.contains(&number);
            assert_eq!(purgatory.check_and_complete(&number), usize::from(over));
        }
    }
    let outcome = if over { Outcome::Satisfied } else { Outcome::Expired };
    clock.advance(WAIT);
    assert_eq!(purgatory.expire().expired, usize::from(!over));
    assert_eq!(*answers.borrow(), [(outcome, request.wanted.len())]);
    assert!(purgatory.is_empty() && purgatory.watched() == 0);
    Ok(())
}

fn request(bytes: &mut Unstructured<'_>, replicas: usize) -> Result<Request> {
    let min_bytes = size(bytes)?;
    let isolation = *bytes.choose(&[Isolation::LogEnd, Isolation::HighWatermark, Isolation::LastStable])?;
    let leader_only = bytes.arbitrary()?;
    let count = bytes.int_in_range(0..=MAX_PARTITIONS)?;
    let wanted = (0..count).map(|_| wanted(bytes, replicas)).collect::<Result<_>>()?;
    Ok(Request { min_bytes, isolation, leader_only, wanted })
}

fn wanted(bytes: &mut Unstructured<'_>, replicas: usize) -> Result<Wanted> {
    let start = if bytes.ratio(1, 16)? { Spot { offset: -1, place: None } } else { spot(bytes)? };
    Ok(Wanted {
        replica: bytes.int_in_range(0..=replicas - 1)?,
        fetch_offset: if bytes.ratio(1, 8)? { offset(bytes)? } else { start.offset },
        start,
        max_bytes: size(bytes)?,
        leader_epoch: maybe_epoch(bytes)?,
        last_fetched_epoch: maybe_epoch(bytes)?,
    })
}

fn replica(bytes: &mut Unstructured<'_>) -> Result<Replica> {
    let mut replica = Replica {
        leads: true,
        log_end: spot(bytes)?,
        high_watermark: spot(bytes)?,
        last_stable: spot(bytes)?,
        ..Replica::default()
    };
    for _ in 0..bytes.int_in_range(0..=2)? {
        change(bytes, &mut replica)?;
    }
    Ok(replica)
}

fn change(bytes: &mut Unstructured<'_>, replica: &mut Replica) -> Result<()> {
    match bytes.int_in_range(0..=10)? {
        0 => replica.hosting = *bytes.choose(&[Hosting::Here, Hosting::Unknown, Hosting::Offline])?,
        1 => replica.leads = bytes.arbitrary()?,
        2 => replica.leader_epoch = epoch(bytes)?,
        3 | 4 => replica.log_end = spot(bytes)?,
        5 | 6 => replica.high_watermark = spot(bytes)?,
        7 => replica.last_stable = spot(bytes)?,
        8 => drop(replica.epochs.insert(epoch(bytes)?, offset(bytes)?)),
        9 => replica.epochs_lost = bytes.arbitrary()?,
        _ => replica.throttled = bytes.arbitrary()?,
    }
    Ok(())
}

/// An offset; mostly with a place, on one of a few segments.
fn spot(bytes: &mut Unstructured<'_>) -> Result<Spot> {
    let offset = offset(bytes)?;
    let place = if bytes.ratio(1, 8)? { None } else { Some((bytes.int_in_range(0..=2)?, size(bytes)?)) };
    Ok(Spot { offset, place })
}

fn offset(bytes: &mut Unstructured<'_>) -> Result<i64> {
    if bytes.ratio(1, 16)? { bytes.arbitrary() } else { bytes.int_in_range(-1..=8) }
}

/// A number of bytes: small, or any.
fn size(bytes: &mut Unstructured<'_>) -> Result<u64> {
    if bytes.ratio(1, 8)? { bytes.arbitrary() } else { bytes.int_in_range(0..=100) }
}

fn maybe_epoch(bytes: &mut Unstructured<'_>) -> Result<Option<i32>> {
    if bytes.arbitrary()? { Ok(None) } else { epoch(bytes).map(Some) }
}

fn epoch(bytes: &mut Unstructured<'_>) -> Result<i32> {
    if bytes.ratio(1, 16)? { bytes.arbitrary() } else { bytes.int_in_range(-1..=3) }
}
