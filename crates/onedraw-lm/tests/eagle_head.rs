//! EAGLE heads of several layers, and those that no model can use.

use std::fs;
use std::path::Path;

use onedraw_lm::speculate::{Eagle, Speculation};
use onedraw_lm::{EagleHead, Generator, Llama, ModelError, stories};
use serde_json::{Value, json};

use crate::checkpoint::Checkpoint;

fn story_head() -> (Checkpoint, Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/stories-drafters/eagle");
    let config = fs::read(folder.join("config.json")).unwrap();
    (Checkpoint::read(&folder.join("model.safetensors")), serde_json::from_slice(&config).unwrap())
}

fn opened(checkpoint: &Checkpoint, config: &Value, target: &Llama) -> Result<EagleHead, ModelError> {
    let folder = tempfile::tempdir().unwrap();
    checkpoint.write(&folder.path().join("model.safetensors"), 0);
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    EagleHead::open(folder.path(), target)
}

/// The head with a second layer like the first, whose output is `share` times that of its weights.
fn with_a_second_layer(share: f32) -> (Checkpoint, Value) {
    let (mut head, mut config) = story_head();
    config["num_hidden_layers"] = json!(2);
    for (name, place) in std::mem::take(&mut head.header) {
        let Some(part) = name.strip_prefix("layer.") else {
            head.header.insert(name, place);
            continue;
        };
        let range = |i: usize| place["data_offsets"][i].as_u64().unwrap() as usize;
        let mut second = head.data[range(0)..range(1)].to_vec();
        if part.ends_with("o_proj.weight") || part.ends_with("down_proj.weight") {
            for weight in second.as_chunks_mut::<2>().0 {
                let value = f32::from_bits(u32::from(u16::from_le_bytes(*weight)) << 16) * share;
                *weight = ((value.to_bits() >> 16) as u16).to_le_bytes();
            }
        }
        let mut second_place = place.clone();
        second_place["data_offsets"] = json!([head.data.len(), head.data.len() + second.len()]);
        head.data.extend(second);
        head.header.insert(format!("layers.0.{part}"), place);
        head.header.insert(format!("layers.1.{part}"), second_place);
    }
    (head, config)
}

/// A story, and at each depth how many guesses were judged and how many of them held.
fn story(target: &Llama, head: &EagleHead) -> (String, Vec<(usize, usize)>) {
    let tokenizer = stories::tokenizer().unwrap();
    let fixed = Speculation { width: 2, depth: 3, adapts: false, ..Speculation::default() };
    let mut generator =
        Generator::new(target, &tokenizer).speculate(Eagle::new(head, target), fixed).unwrap();
    let mut params = onedraw::presets::balanced();
    (params.seed, params.max_tokens) = (Some(5), 80);
    generator.add(&tokenizer.encode("Once upon a time").unwrap(), params).unwrap();
    let text = generator.finish().unwrap().remove(0).text;
    (text, generator.guessed().unwrap().depths.clone())
}

#[test]
fn a_second_layer_that_adds_nothing_guesses_the_same_and_one_that_adds_something_does_not() {
    let target = stories::model().unwrap();
    let (text, one) = story(&target, &stories::eagle(&target).unwrap());
    let of_two = |share: f32| {
        let (checkpoint, config) = with_a_second_layer(share);
        story(&target, &opened(&checkpoint, &config, &target).unwrap())
    };
    assert!(one.iter().all(|&(_, held)| held > 10), "{one:?}");
    assert_eq!(of_two(0.0), (text.clone(), one.clone()));
    let (same_text, two) = of_two(1.0);
    assert_eq!(same_text, text);
    assert_ne!(two, one);
}

#[test]
fn layers_that_are_missing_are_errors() {
    let target = stories::model().unwrap();
    let (head, mut config) = story_head();
    let message = |config: &Value| opened(&head, config, &target).err().expect("an error").to_string();
    config["num_hidden_layers"] = json!(0);
    assert!(message(&config).contains("`num_hidden_layers` is 0"), "{}", message(&config));
    config["num_hidden_layers"] = json!(u64::MAX);
    assert!(message(&config).contains("num_hidden_layers"), "{}", message(&config));
    config["num_hidden_layers"] = json!(2);
    assert!(message(&config).contains("layers.0.input_layernorm.weight"), "{}", message(&config));
    config.as_object_mut().unwrap().remove("num_hidden_layers");
    assert!(message(&config).contains("num_hidden_layers"), "{}", message(&config));
}
