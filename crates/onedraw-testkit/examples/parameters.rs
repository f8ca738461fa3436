//! Prints valid parameters, one JSON object in each line, for tests in other languages: `parameters COUNT VOCABULARY`.
//! Any stage may be set, in any order; the same arguments print the same lines.

use onedraw_testkit::parameters::any_params;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

fn main() {
    let numbers: Vec<usize> =
        std::env::args().skip(1).map(|argument| argument.parse().expect("a number")).collect();
    let [count, vocabulary] = numbers[..] else { panic!("usage: parameters COUNT VOCABULARY") };
    let mut runner = TestRunner::deterministic();
    let params = any_params(vocabulary);
    for _ in 0..count {
        let params = params.new_tree(&mut runner).expect("no parameters are rejected").current();
        println!("{}", serde_json::to_string(&params).expect("parameters can be written"));
    }
}
