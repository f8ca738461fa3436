//! Where the weights lie changes no number.

use onedraw_lm::Llama;

use super::folders::{all, assert_same, line};
use crate::checkpoint::Checkpoint;

#[test]
fn weights_that_do_not_lie_well_are_copied() {
    for folder in all().into_iter().filter(|folder| folder.path.join("model.safetensors").exists()) {
        let whole = line(&folder.model(), &folder.prompt);
        let checkpoint = Checkpoint::read(&folder.path.join("model.safetensors"));
        // By one byte no type lies well, by two those of two bytes do.
        for spaces in [1, 2] {
            let moved = tempfile::tempdir().unwrap();
            std::fs::copy(folder.path.join("config.json"), moved.path().join("config.json")).unwrap();
            checkpoint.write(&moved.path().join("model.safetensors"), spaces);
            let found = line(&Llama::open(moved.path()).unwrap(), &folder.prompt);
            assert_same(format!("{} moved by {spaces}", folder.name), &found, &whole);
        }
    }
}

#[test]
fn a_model_can_be_part_of_the_program() {
    for folder in all().into_iter().filter(|folder| folder.path.join("model.safetensors").exists()) {
        let config = std::fs::read_to_string(folder.path.join("config.json")).unwrap();
        let weights = std::fs::read(folder.path.join("model.safetensors")).unwrap();
        let model = Llama::embedded(&folder.name, &config, &*weights.leak()).unwrap();
        assert_same(&folder.name, &line(&model, &folder.prompt), &line(&folder.model(), &folder.prompt));
        assert!(model.weights().eq(folder.model().weights()), "{}", folder.name);
    }
}
