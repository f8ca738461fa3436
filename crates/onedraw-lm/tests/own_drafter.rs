//! The drafter in a model's own folder.

use std::fs;
use std::path::Path;

use onedraw::Kernel;
use onedraw_lm::speculate::Guesser;
use onedraw_lm::{Llama, Tokenizer};

#[test]
fn a_tokenizer_of_its_own_must_be_the_models() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let folder = tempfile::tempdir().unwrap();
    let drafter = folder.path().join("drafter");
    fs::create_dir(&drafter).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(models.join("stories").join(file), folder.path().join(file)).unwrap();
    }
    for file in ["config.json", "model.safetensors"] {
        fs::copy(models.join("stories-drafters/drafter").join(file), drafter.join(file)).unwrap();
    }
    let target = Llama::open(folder.path()).unwrap();
    let tokenizer = Tokenizer::open(folder.path()).unwrap();
    let own = || Guesser::own(Some(folder.path()), &target, &tokenizer, Kernel::Auto, 1).map(|_| ());
    assert_eq!(own().map_err(|error| error.to_string()), Ok(()));

    let words = fs::read_to_string(models.join("stories/tokenizer.json")).unwrap();
    fs::write(drafter.join("tokenizer.json"), &words).unwrap();
    assert_eq!(own().map_err(|error| error.to_string()), Ok(()));

    // Two tokens have changed places.
    let mut other: serde_json::Value = serde_json::from_str(&words).unwrap();
    let vocabulary = other["model"]["vocab"].as_object_mut().unwrap();
    let [lily, tom] = ["Lily", "Tom"].map(|word| vocabulary[word].clone());
    vocabulary.extend([("Lily".to_owned(), tom), ("Tom".to_owned(), lily)]);
    fs::write(drafter.join("tokenizer.json"), other.to_string()).unwrap();
    let error = own().unwrap_err().to_string();
    assert!(error.contains("Lily") || error.contains("Tom"), "{error}");
}
