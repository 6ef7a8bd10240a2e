//! A consumer group: three members join, one is killed, one leaves.

use std::time::{Duration, Instant};

use super::super::load::Verdict;
use super::super::member::{End, Group, Member};
use super::super::seen::Asked;
use super::{SHARED, SHARED_PARTITIONS, Tour};

/// How long members may take to find together on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

impl Tour {
    pub(super) async fn group(&self) -> Verdict {
        self.begin("three members join a group").await;
        let group = Group {
            address: self.shared.address,
            name: "tourists",
            topic: SHARED,
            partitions: SHARED_PARTITIONS,
            session: self.session,
            interval: self.session / 20,
        };
        let joins = Instant::now();
        let mut members: Vec<Member> = (0..3).map(|_| Member::start(group)).collect();
        let shared = is_shared(&mut members).await?;
        // The first rebalance of a group waits for those who come late, and again if somebody has come.
        let what = "three members join, and the group waits for more";
        self.seen(what, Asked::AtLeast(self.beat), joins, shared, Ok(()));

        self.begin("a member is killed, and its session goes on").await;
        let last_sign = members.remove(0).end(End::Killed).await?;
        let told = is_told(&mut members, last_sign).await?;
        self.seen(
            "a killed member is evicted after its session",
            Asked::After(self.session),
            last_sign,
            told,
            Ok(()),
        );
        let shared = is_shared(&mut members).await?;
        self.seen("the other two take its partitions over", Asked::AtOnce, told, shared, Ok(()));

        self.begin("a member leaves").await;
        let left = members.remove(0).end(End::Leaves).await?;
        let shared = is_shared(&mut members).await?;
        self.seen("a member leaves: the last one has all partitions", Asked::AtOnce, left, shared, Ok(()));
        for member in members {
            member.end(End::Leaves).await?;
        }
        Ok(())
    }
}

/// Waits until each member has some partitions, and all together have all, none of them twice.
async fn is_shared(members: &mut [Member]) -> Result<Instant, String> {
    reached(members, "they share the partitions", |members| {
        let mut owned: Vec<Vec<i32>> = members.iter().map(|member| member.knowledge().partitions).collect();
        let each_has_some = owned.iter().all(|partitions| !partitions.is_empty());
        let mut all = owned.drain(..).flatten().collect::<Vec<i32>>();
        all.sort_unstable();
        (each_has_some && all.iter().copied().eq(0..SHARED_PARTITIONS)).then(Instant::now)
    })
    .await
}

/// Waits until one of them has been told of a rebalance after that.
async fn is_told(members: &mut [Member], after: Instant) -> Result<Instant, String> {
    reached(members, "they are told of a rebalance", |members| {
        members.iter().filter_map(|member| member.knowledge().rebalanced.filter(|told| *told > after)).min()
    })
    .await
}

async fn reached(
    members: &mut [Member],
    what: &str,
    is_reached: impl Fn(&[Member]) -> Option<Instant>,
) -> Result<Instant, String> {
    let begun = Instant::now();
    loop {
        if let Some(at) = is_reached(members) {
            return Ok(at);
        }
        for member in members.iter_mut() {
            if let Some(failure) = member.failure() {
                return Err(failure);
            }
        }
        if begun.elapsed() > PATIENCE {
            let known: Vec<_> = members.iter().map(Member::knowledge).collect();
            return Err(format!("it takes more than {PATIENCE:?} until {what}: {known:?}"));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
