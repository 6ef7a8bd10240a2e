use super::*;

const LEAST: &str = r#"brokers = "127.0.0.1:9092"
group = "orders-relay"
topics = ["orders.retry"]
dead_letter_topic = "orders.dead"
"#;

fn parse(more: &str) -> Result<Config, Wrong> {
    Config::parse(&format!("{LEAST}{more}"))
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = parse("").unwrap();
    assert_eq!(config.max_in_flight, 10_000);
    assert_eq!(config.progress_interval, Duration::from_secs(10));
    assert_eq!((config.http, &config.kafka), (None, &Vec::new()));
    let rules = &config.rules;
    assert_eq!((rules.max_attempts, rules.max_age, &rules.target), (9, None, &None));
    assert_eq!(rules.names, Names::default());
    let standard = Backoff::standard();
    assert!((0..20).all(|attempt| rules.backoff.delay(attempt) == standard.delay(attempt)));
}

#[test]
fn all_of_it_is_read() {
    let config = parse(
        r#"
        target = "orders"
        max_in_flight = 7
        http = "127.0.0.1:9464"
        progress_interval_ms = 500
        [backoff]
        delays_ms = [1, 2]
        jitter = "full"
        max_attempts = 3
        max_age_ms = 5000
        [headers]
        attempt = "x-attempt"
        [kafka]
        "session.timeout.ms" = "6000"
        "fetch.min.bytes" = 5
        "socket.keepalive.enable" = true
        "#,
    )
    .unwrap();
    let rules = &config.rules;
    assert_eq!(rules.target.as_deref(), Some("orders"));
    assert_eq!((config.max_in_flight, config.progress_interval), (7, Duration::from_millis(500)));
    assert_eq!(config.http, "127.0.0.1:9464".parse().ok());
    assert_eq!((rules.max_attempts, rules.max_age), (3, Some(Duration::from_secs(5))));
    assert_eq!(rules.backoff.delay(9), Duration::from_millis(2));
    assert_eq!((&*rules.names.attempt, &*rules.names.due), ("x-attempt", "retry-due"));
    let settings: Vec<_> = config.kafka.iter().map(|setting| (&*setting.key, &*setting.value)).collect();
    let expected =
        [("session.timeout.ms", "6000"), ("fetch.min.bytes", "5"), ("socket.keepalive.enable", "true")];
    assert_eq!(settings, expected);
}

#[test]
fn the_effective_configuration_is_one_that_says_the_same() {
    let config =
        parse("[backoff]\ndelays_ms = [5]\n[kafka]\n\"client.id\" = \"a \\\"quoted\\\" one\"\n").unwrap();
    let text = config.effective([]);
    let again = Config::parse(&text).unwrap_or_else(|wrong| panic!("{wrong}: {text}"));
    assert_eq!(again.effective([]), text);
    assert_eq!(again.kafka[0].value, "a \"quoted\" one");
    let text = config.effective([("client.id", "ixion-relay"), ("acks", "all")]);
    assert!(text.contains("\"acks\" = \"all\"") && !text.contains("ixion-relay"), "{text}");
}

#[test]
fn each_wrong_thing_is_named_with_its_line_and_its_key() {
    let cases = [
        ("", "dead_letter_topic = \"orders.retry\"", "line 4: dead_letter_topic: it is one of the topics"),
        ("", "dead_letter_topic = \"\"", "line 4: dead_letter_topic: no name of a topic: \"\""),
        ("", "topics = []", "line 3: topics: there is none"),
        ("", "topics = [\"a\",\n\"b\", \"a\"]", "line 4: topics: a is there twice"),
        ("", "topics = [\"^a\"]", "line 3: topics: no name of a topic: \"^a\""),
        ("", "topics = \"orders.retry\"", "line 3: topics: invalid type: string"),
        ("", "group = \" \"", "line 2: group: it is empty"),
        ("", "brokers = 9092", "line 1: brokers: invalid type: integer"),
        ("", "brokers =", "line 1: brokers: "),
        ("target = \"orders.retry\"", "", "line 5: target: it is one of the topics"),
        ("target = \"orders.dead\"", "", "line 5: target: it is the dead letter topic"),
        ("target = \"no topic\"", "", "line 5: target: no name of a topic"),
        ("max_in_flight = 0", "", "line 5: max_in_flight: it must be at least 1"),
        ("max_in_flight = -1", "", "line 5: max_in_flight: invalid value: integer `-1`"),
        ("http = \"9464\"", "", "line 5: http: no address of the form HOST:PORT: \"9464\""),
        ("progress_interval_ms = 0", "", "line 5: progress_interval_ms: it must be at least 1"),
        ("max_inflight = 5", "", "line 5: max_inflight: unknown field `max_inflight`"),
        ("[backof]\na = 1", "", "line 5: backof: unknown field `backof`"),
        ("[backoff]\ndelays_ms = []", "", "line 6: backoff.delays_ms: there is none"),
        ("[backoff]\ndelays_ms = [10,\n\"20\"]", "", "line 7: backoff.delays_ms: invalid type: string"),
        ("[backoff]\n\njitter = \"some\"", "", "line 7: backoff.jitter: \"some\" is none of none, full"),
        ("[backoff]\nmax_attempts = 0", "", "line 6: backoff.max_attempts: it must be at least 1"),
        ("[backoff]\nmax_attempts = 4294967296", "", "line 6: backoff.max_attempts: invalid value"),
        ("[backoff]\nmax_age_ms = \"1 h\"", "", "line 6: backoff.max_age_ms: invalid type"),
        ("[headers]\nattempts = \"a\"", "", "line 6: headers.attempts: unknown key: there are attempt, due"),
        ("[headers]\nattempt = \"\"", "", "line 6: headers.attempt: it is empty"),
        ("[headers]\nattempt = \"retry-due\"", "", "line 6: headers.attempt: another header is called"),
        (
            "[kafka]\n\"group.id\" = \"a\"",
            "",
            "line 6: kafka.\"group.id\": it is not to be set: it is what `group`",
        ),
        (
            "[kafka]\n\"bootstrap.servers\" = \"a\"",
            "",
            "line 6: kafka.\"bootstrap.servers\": it is not to be set",
        ),
        (
            "[kafka]\n\"enable.auto.commit\" = true",
            "",
            "line 6: kafka.\"enable.auto.commit\": it is not to be set",
        ),
        (
            "[kafka]\n\"enable.auto.offset.store\" = 1",
            "",
            "line 6: kafka.\"enable.auto.offset.store\": it is not",
        ),
        ("[kafka]\n\"acks\" = 1", "", "line 6: kafka.\"acks\": it is not to be set: it is all"),
        ("[kafka]\n\"a\" = [1]", "", "line 6: kafka.\"a\": it must be a string, a number"),
        ("[kafka]\nsession.timeout.ms = 1", "", "line 6: kafka.\"session\": it must be a string, a number"),
    ];
    for (more, instead, expected) in cases {
        // What stands instead of a line of the least has its key.
        let key = instead.split(' ').next().unwrap_or_default();
        let line = |line: &str| match !key.is_empty() && line.starts_with(key) {
            true => format!("{instead}\n"),
            false => format!("{line}\n"),
        };
        let text = LEAST.lines().map(line).collect::<String>() + more;
        let wrong = Config::parse(&text).expect_err(&text).to_string();
        assert!(wrong.starts_with(expected), "{wrong:?} instead of {expected:?} for\n{text}");
    }
}

#[test]
fn what_is_missing_is_named() {
    for key in ["brokers", "group", "topics", "dead_letter_topic"] {
        let rest: String =
            LEAST.lines().filter(|line| !line.starts_with(key)).map(|line| format!("{line}\n")).collect();
        let wrong = Config::parse(&rest).unwrap_err();
        assert_eq!(wrong, Wrong { line: None, what: format!("missing field `{key}`") });
    }
}
