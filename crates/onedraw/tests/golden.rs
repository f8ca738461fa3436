//! Contract C5: a drawn token never changes. A failure here is a breaking change, not a test to update.

use onedraw_testkit::golden;
use serde_json::Value;

fn stored(name: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn draws_are_those_of_the_golden_file() {
    let (stored, today) = (stored("draws.json"), golden::draws());
    let (stored, today) = (stored.as_array().expect("a list"), today.as_array().expect("a list"));
    assert_eq!((stored.len(), today.len()), (216, 216));
    for (stored, today) in stored.iter().zip(today) {
        assert_eq!(stored, today);
    }
}

#[test]
fn numbers_are_those_of_the_golden_file() {
    let (stored, today) = (stored("numbers.json"), golden::numbers());
    assert_eq!(stored["weight"].as_array().map(Vec::len), Some(48));
    assert_eq!(stored, today);
}

#[test]
fn verdicts_are_those_of_the_golden_file() {
    let (stored, today) = (stored("speculation.json"), golden::speculation());
    let (stored, today) = (stored.as_array().expect("a list"), today.as_array().expect("a list"));
    assert_eq!((stored.len(), today.len()), (42, 42));
    for (stored, today) in stored.iter().zip(today) {
        assert_eq!(stored, today);
    }
    // In every mode some guesses are accepted and some are not.
    for mode in ["exact", "rejection", "block"] {
        let own = stored.iter().filter(|case| case["verify"] == mode && case["params"]["temperature"] != 0);
        let lengths: Vec<usize> = own.filter_map(|case| Some(case["path"].as_array()?.len())).collect();
        assert!(lengths.contains(&0) && lengths.iter().any(|&length| length > 0), "{mode}: {lengths:?}");
    }
}
