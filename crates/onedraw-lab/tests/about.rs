//! `about`: what can be set.

use onedraw::{PARAMETERS, SamplingParams};
use serde_json::json;

use crate::support::{Counting, lab, one};

#[test]
fn the_model_its_parameters_and_its_drafters_are_told() {
    let model = Counting::new();
    let subject = model.subject();
    let about = one(&mut lab(&model, &subject), "about", &json!({}));
    assert_eq!((&about["model"]["id"], &about["model"]["context"]), (&json!("stories"), &json!(512)));
    assert_eq!(about["model"]["vocabulary"], 4096);
    assert_eq!(about["model"]["hash"].as_str().map(str::len), Some(64));
    assert_eq!(
        (&about["stream"], &about["version"]),
        (&json!(onedraw::STREAM_VERSION), &json!(env!("CARGO_PKG_VERSION")))
    );
    let parameters = about["parameters"].as_array().expect("parameters");
    assert_eq!(parameters.len(), PARAMETERS.len() - 8);
    let of = |name: &str| parameters.iter().find(|parameter| parameter["name"] == name).expect(name).clone();
    let min_p = of("min_p");
    let sentence = "Keeps tokens at least this many times as likely as the best; 0 to 1; 0 turns it off";
    assert_eq!(
        min_p,
        json!({
            "name": "min_p", "group": "Truncations: which tokens are kept", "stage": "min_p", "sentence": sentence,
            "kind": "number", "default": 0.0, "least": 0.0, "most": 1.0, "step": 0.005,
        })
    );
    // The defaults are those that hold for this model, not the library's.
    assert_eq!((&of("temperature")["default"], &of("top_k")["default"]), (&json!(0.7), &json!(50)));
    assert_eq!(of("max_tokens")["default"], 256);
    assert_eq!(
        (&of("mirostat")["choices"], &of("penalty_scope")["choices"]),
        (&json!([0, 1, 2]), &json!(["output", "all"]))
    );
    assert_eq!(of("seed")["stage"], json!(null));
    assert_eq!(about["orders"]["vllm"].as_array().map(Vec::len), Some(19));
    // The model names Hugging Face's order.
    assert_eq!(about["order"], about["orders"]["huggingface"]);
    assert_eq!(
        about["presets"]["creative"],
        json!({"temperature": 1.2, "top_p": 0.95, "top_k": 100, "repetition_penalty": 1.1})
    );
    let names: Vec<_> =
        about["drafters"].as_array().expect("drafters").iter().map(|drafter| &drafter["name"]).collect();
    assert_eq!(names, ["ngram", "draft"]);
    // A default is a value that the parameter takes.
    for parameter in parameters {
        let name = parameter["name"].as_str().expect("a name");
        let params = json!({name: parameter["default"], "order": "vllm", "max_tokens": 256});
        if name != "order" && name != "max_tokens" {
            assert!(SamplingParams::from_value(params.clone()).is_ok(), "{params}");
        }
    }
}
