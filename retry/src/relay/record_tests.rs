use super::*;
use proptest::prelude::*;

fn rules() -> Rules {
    Rules {
        topics: vec!["orders.retry".into(), "late.retry".into()],
        dead_letter_topic: "orders.dead".into(),
        target: Some("orders".into()),
        backoff: Backoff::table([10, 30].map(Duration::from_secs)).max_attempts(4),
        max_attempts: 4,
        max_age: Some(Duration::from_secs(100)),
        names: Names::default(),
    }
}

fn record(headers: &[(&str, &str)]) -> Record {
    let header = |(name, value): &(&str, &str)| Header {
        name: (*name).to_owned(),
        value: Some(value.as_bytes().to_vec()),
    };
    Record {
        place: TopicPartition { topic: "orders.retry".into(), partition: 2 },
        offset: 17,
        timestamp: Some(1_000_000),
        key: None,
        value: None,
        headers: Headers::Read(headers.iter().map(header).collect()),
    }
}

const NOW: Millis = 1_003_000;

/// When it is due, where it goes, and what it will be.
fn again(rules: &Rules, headers: &[(&str, &str)]) -> (Millis, String, u32) {
    let plan = rules.plan(&record(headers), NOW);
    let Purpose::Again(attempt) = plan.purpose else { panic!("it is dead: {plan:?}") };
    (plan.due, plan.to.to_string(), attempt)
}

fn dead(rules: &Rules, record: &Record) -> (Cause, String) {
    let plan = rules.plan(record, NOW);
    let Purpose::Dead(cause, reason) = plan.purpose else { panic!("it is not dead: {plan:?}") };
    assert_eq!((&*plan.to, plan.due), ("orders.dead", NOW), "at once");
    (cause, reason)
}

/// What a record is sent with.
fn sent(rules: &Rules, record: &Record) -> Vec<(String, Option<String>)> {
    let (without, with) = rules.changes(record, &rules.plan(record, NOW));
    let Headers::Read(headers) = &record.headers else { panic!("they are not read") };
    let kept = headers.iter().filter(|header| !without.contains(&header.name.as_str()));
    let text = |value: &Vec<u8>| String::from_utf8_lossy(value).into_owned();
    kept.chain(&with).map(|header| (header.name.clone(), header.value.as_ref().map(text))).collect()
}

#[test]
fn a_delay_follows_the_attempt_and_counts_from_the_timestamp() {
    let rules = rules();
    assert_eq!(again(&rules, &[]), (1_010_000, "orders".to_owned(), 2), "no header: the first has failed");
    assert_eq!(again(&rules, &[("retry-attempt", "0")]).0, 1_010_000, "none has failed yet");
    assert_eq!(again(&rules, &[("retry-attempt", "2")]), (1_030_000, "orders".to_owned(), 3));
    assert_eq!(again(&rules, &[("retry-attempt", "003")]), (1_030_000, "orders".to_owned(), 4));
    let mut ahead = record(&[]);
    for timestamp in [None, Some(NOW + 1), Some(Millis::MAX)] {
        ahead.timestamp = timestamp;
        assert_eq!(rules.plan(&ahead, NOW).due, NOW + 10_000, "{timestamp:?}: from when it is read");
    }
}

#[test]
fn a_due_time_of_its_own_beats_the_table() {
    let due = |due| again(&rules(), &[("retry-attempt", "2"), ("retry-due", due)]).0;
    assert_eq!(due("1090000"), 1_090_000);
    assert_eq!(due("5"), 1_000_000, "long ago: since it was written");
}

#[test]
fn a_target_of_its_own_beats_the_configured_one_and_the_last_of_two_headers_counts() {
    let to = |headers: &[_]| again(&rules(), headers).1;
    assert_eq!(to(&[("retry-target", "payments")]), "payments");
    assert_eq!(to(&[("retry-target", "orders.retry"), ("retry-target", "orders")]), "orders");
    assert_eq!(again(&rules(), &[("retry-attempt", "x"), ("retry-attempt", "2")]).2, 3);
}

#[test]
fn what_cannot_go_on_is_dead_at_once_and_says_why() {
    let rules = rules();
    let cases: [(&[(&str, &str)], Cause, &str); 16] = [
        (&[("retry-attempt", "4")], Cause::Attempts, "attempt 4 has failed, of at most 4"),
        (&[("retry-attempt", "4294967295")], Cause::Attempts, "attempt 4294967295"),
        (&[("retry-attempt", "4294967296")], Cause::Header, "too great a number"),
        (&[("retry-attempt", "99999999999999999999999")], Cause::Header, "too great a number"),
        (&[("retry-attempt", "two")], Cause::Header, "retry-attempt is no decimal number: \"two\""),
        (&[("retry-attempt", "")], Cause::Header, "no decimal number: \"\""),
        (&[("retry-attempt", "-1")], Cause::Header, "no decimal number"),
        (&[("retry-attempt", "+1")], Cause::Header, "no decimal number"),
        (&[("retry-attempt", " 1")], Cause::Header, "no decimal number"),
        (&[("retry-attempt", "\0\0\0\u{2}")], Cause::Header, r#""\x00\x00\x00\x02""#),
        (&[("retry-due", "soon")], Cause::Header, "retry-due is no decimal number"),
        (&[("retry-due", "1700000000000000")], Cause::Header, "too great a number"),
        (&[("retry-first", "1.5")], Cause::Header, "retry-first is no decimal number"),
        (&[("retry-target", "late.retry")], Cause::Target, "is a retry topic"),
        (&[("retry-target", "no topic")], Cause::Target, "is no name of a topic: \"no topic\""),
        (&[("retry-first", "900000")], Cause::Age, "it would be 110000 ms old, of at most 100000"),
    ];
    for (headers, cause, reason) in cases {
        let (found, text) = dead(&rules, &record(headers));
        assert_eq!(found, cause, "{headers:?}: {text}");
        assert!(text.contains(reason), "{headers:?}: {text}");
    }
    let none = Rules { target: None, ..rules.clone() };
    let (cause, reason) = dead(&none, &record(&[]));
    assert_eq!(cause, Cause::Target);
    assert_eq!(reason, "there is no retry-target, and the configuration names no target");
    let mut null = record(&[("retry-target", "")]);
    let Headers::Read(headers) = &mut null.headers else { panic!("they are read") };
    headers[0].value = None;
    assert_eq!(dead(&rules, &null), (Cause::Target, "retry-target is no name of a topic: null".to_owned()));
    let unreadable = Record { headers: Headers::Unreadable(Box::new(())), ..record(&[]) };
    assert_eq!(dead(&rules, &unreadable).0, Cause::Header);
    assert_eq!(
        rules.changes(&unreadable, &rules.plan(&unreadable, NOW)).1.len(),
        4,
        "nothing that may be there"
    );
}

#[test]
fn the_age_is_that_of_the_delivery_however_late_the_record_is_read() {
    let rules = rules();
    let plan = |first: &str, now| rules.plan(&record(&[("retry-first", first)]), now).purpose;
    assert!(matches!(plan("910000", NOW), Purpose::Again(2)), "due at the very end of its age");
    assert!(matches!(plan("909999", NOW), Purpose::Dead(Cause::Age, _)));
    assert!(matches!(plan("1000000", 1_100_000), Purpose::Again(2)), "read late, at the very end of its age");
    assert!(matches!(plan("1000000", 1_100_001), Purpose::Dead(Cause::Age, _)));
    let ageless = Rules { max_age: None, ..rules };
    assert!(matches!(ageless.plan(&record(&[("retry-first", "0")]), NOW).purpose, Purpose::Again(2)));
}

#[test]
fn a_record_goes_back_with_all_its_headers_and_the_next_attempt_and_without_its_due_time() {
    let headers =
        [("a", "1"), ("retry-due", "5"), ("retry-attempt", "1"), ("a", "2"), ("retry-target", "orders")];
    let text = |value: &str| Some(value.to_owned());
    let expected = [
        ("a", "1"),
        ("a", "2"),
        ("retry-target", "orders"),
        ("retry-attempt", "2"),
        ("retry-first", "1000000"),
    ];
    assert_eq!(
        sent(&rules(), &record(&headers)),
        expected.map(|(name, value)| (name.to_owned(), text(value)))
    );
    let second = [("retry-first", "950000"), ("retry-attempt", "1"), ("retry-attempt", "2")];
    let expected = [("retry-first", "950000"), ("retry-attempt", "3")];
    assert_eq!(
        sent(&rules(), &record(&second)),
        expected.map(|(name, value)| (name.to_owned(), text(value)))
    );
}

#[test]
fn a_dead_record_keeps_its_headers_and_says_why_and_where_it_was() {
    let headers = [("retry-attempt", "4"), ("retry-due", "5"), ("retry-reason", "an earlier one")];
    let names = |headers: &[_]| {
        sent(&rules(), &record(headers))
            .into_iter()
            .map(|(name, value)| (name, value.unwrap()))
            .collect::<Vec<_>>()
    };
    let expected = [
        ("retry-attempt", "4"),
        ("retry-due", "5"),
        ("retry-reason", "attempt 4 has failed, of at most 4"),
        ("retry-topic", "orders.retry"),
        ("retry-partition", "2"),
        ("retry-offset", "17"),
        ("retry-first", "1000000"),
    ];
    assert_eq!(names(&headers), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn what_the_target_refuses_is_dead_with_the_error() {
    let rules = rules();
    let mut plan = rules.plan(&record(&[]), NOW);
    plan.refused(&rules, "Message size too large");
    let reason = "orders does not take it: Message size too large".to_owned();
    assert_eq!(plan.purpose, Purpose::Dead(Cause::Refused, reason));
    assert_eq!(&*plan.to, "orders.dead");
}

#[test]
fn topics_have_kafkas_names() {
    for name in ["a", "orders.retry-1_x", &"x".repeat(249), "..."] {
        assert!(is_topic(name), "{name}");
    }
    for name in ["", ".", "..", "a b", "^a", "ä", "a/b", "a\0", &"x".repeat(250)] {
        assert!(!is_topic(name), "{name}");
    }
}

#[test]
fn a_spread_delay_is_the_same_after_a_restart_and_another_for_another_record() {
    let spread = |offset, partition| {
        let backoff = Backoff::fixed(Duration::from_secs(50)).jitter(ixion_retry::Jitter::Full);
        let rules = Rules { backoff, ..rules() };
        let place = TopicPartition { topic: "orders.retry".into(), partition };
        rules.plan(&Record { offset, place, ..record(&[]) }, NOW).due
    };
    assert_eq!(spread(17, 2), spread(17, 2));
    assert_ne!(spread(17, 2), spread(18, 2));
    assert_ne!(spread(17, 2), spread(17, 3));
}

proptest! {
    #[test]
    fn any_headers_have_a_plan_and_what_it_changes(
        headers in prop::collection::vec(
            (
                prop_oneof!["retry-(attempt|due|target|first|reason)", ".{0,8}"],
                prop::option::of(prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..80),
                    "[0-9]{1,22}".prop_map(String::into_bytes),
                ]),
            ),
            0..8,
        ),
        timestamp: Option<u64>,
        now: u64,
    ) {
        let headers = headers.into_iter().map(|(name, value)| Header { name, value }).collect();
        let record = Record { timestamp, headers: Headers::Read(headers), ..record(&[]) };
        let rules = rules();
        let plan = rules.plan(&record, now);
        let (without, with) = rules.changes(&record, &plan);
        prop_assert!(rules.topics.iter().all(|topic| *topic != plan.to), "it goes round");
        match &plan.purpose {
            Purpose::Again(_) => prop_assert!(without.contains(&"retry-due")),
            Purpose::Dead(_, reason) => {
                prop_assert!(plan.to == rules.dead_letter_topic && reason.len() < 1000);
                prop_assert!(!without.contains(&"retry-attempt"));
            }
        }
        prop_assert!(with.iter().all(|header| header.value.is_some()));
    }
}
