//! What `onedraw presets` prints.

use serde_json::json;

use crate::support::onedraw;

#[test]
fn a_table_by_default() {
    let expected = "\
name           temperature  top_p  top_k  repetition_penalty
creative               1.2   0.95    100                 1.1
precise                0.3    0.9     20                1.05
balanced               0.7    0.9     50                   1
deterministic            0      1      0                   1
";
    for arguments in [&["presets"][..], &["presets", "--format", "table"]] {
        let run = onedraw(arguments);
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, expected, ""));
    }
}

#[test]
fn json_of_what_each_changes() {
    let run = onedraw(&["presets", "--format", "json"]);
    assert_eq!(
        run.lines(),
        [json!({
            "creative": {"temperature": 1.2, "top_p": 0.95, "top_k": 100, "repetition_penalty": 1.1},
            "precise": {"temperature": 0.3, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.05},
            "balanced": {"temperature": 0.7, "top_p": 0.9, "top_k": 50},
            "deterministic": {"temperature": 0.0},
        })]
    );
    let places: Vec<_> =
        ["creative", "precise", "balanced", "deterministic"].map(|name| run.stdout.find(name)).to_vec();
    assert!(places.is_sorted());
}
