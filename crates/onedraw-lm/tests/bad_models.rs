//! Damaged folders: an error that names the file or the tensor, in one line, and never a panic.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use onedraw::Kernel;
use onedraw_lm::{Llama, ModelError};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::checkpoint::Checkpoint;

/// A copy of one of the small models, to be damaged.
struct Copy(TempDir);

impl Copy {
    fn of(name: &str) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transformers").join(name);
        let to = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
        }
        Self(to)
    }

    /// f32, in one file.
    fn small() -> Self {
        Self::of("llama-biases")
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// Rewrites config.json.
    fn configure(&self, edit: impl FnOnce(&mut Map<String, Value>)) {
        let path = self.path("config.json");
        let mut config = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        edit(&mut config);
        fs::write(path, serde_json::to_vec(&config).unwrap()).unwrap();
    }

    /// What opening it says, which is an error of one line.
    #[track_caller]
    fn error(&self) -> ModelError {
        let error = Llama::open(self.0.path()).err().expect("it opens");
        let message = error.to_string();
        assert!(!message.is_empty() && message.lines().count() == 1, "{message}");
        error
    }

    #[track_caller]
    fn assert_malformed(&self, file: &str, words: &str) {
        match self.error() {
            ModelError::Malformed { path, message } => {
                assert_eq!(path, self.path(file));
                assert!(message.contains(words), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn assert_unsupported(&self, words: &str) {
        match self.error() {
            ModelError::Unsupported(message) => {
                assert!(message.starts_with(self.path("config.json").to_str().unwrap()), "{message}");
                assert!(message.contains(words), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn assert_file(&self, file: &str) {
        match self.error() {
            ModelError::File { path, cause } => {
                assert_eq!((path, cause.kind()), (self.path(file), ErrorKind::NotFound));
            }
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn assert_tensor(&self, tensor: &str, words: &str) {
        match self.error() {
            ModelError::Tensor { name, message } => {
                assert_eq!(name, tensor);
                assert!(message.contains(words), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn files_that_are_not_there() {
    for file in ["config.json", "model.safetensors"] {
        let copy = Copy::small();
        fs::remove_file(copy.path(file)).unwrap();
        copy.assert_file(file);
        let message = copy.error().to_string();
        assert!(message.contains(file), "{message}");
    }
}

#[test]
fn a_configuration_that_is_none() {
    for text in ["", "{", "[]", "{\"model_type\": \"llama\"", "\u{0}", "null"] {
        let copy = Copy::small();
        fs::write(copy.path("config.json"), text).unwrap();
        match copy.error() {
            ModelError::Malformed { path, .. } => assert_eq!(path, copy.path("config.json")),
            // JSON, but of no model.
            ModelError::Unsupported(message) => assert!(message.contains("`model_type` is ``"), "{message}"),
            other => panic!("{other:?}"),
        }
    }
    let copy = Copy::small();
    fs::write(copy.path("config.json"), [0xff, 0xfe, 0x00]).unwrap();
    assert!(matches!(copy.error(), ModelError::File { .. }));
    for name in ["vocab_size", "hidden_size", "num_hidden_layers", "rms_norm_eps", "max_position_embeddings"]
    {
        let copy = Copy::small();
        copy.configure(|config| drop(config.remove(name)));
        copy.assert_malformed("config.json", name);
        for value in [json!(-1), json!("x"), json!([1]), json!(null)] {
            if name != "rms_norm_eps" || !value.is_number() {
                copy.configure(|config| drop(config.insert(name.to_owned(), value)));
                copy.assert_malformed("config.json", "invalid");
            }
        }
    }
}

#[test]
fn models_of_other_kinds() {
    for kind in ["gpt2", "", "Llama", "two\nlines"] {
        let copy = Copy::small();
        copy.configure(|config| config["model_type"] = kind.into());
        copy.assert_unsupported("those that can be run are llama, mistral, qwen2, qwen3");
    }
    let copy = Copy::small();
    copy.configure(|config| config["hidden_act"] = "gelu".into());
    copy.assert_unsupported("`hidden_act` is `gelu`");
    let copy = Copy::of("qwen3-window");
    copy.configure(|config| config["layer_types"][1] = "chunked_attention".into());
    copy.assert_unsupported("`chunked_attention`");
}

#[test]
fn rotary_scalings() {
    for kind in ["rope_type", "type"] {
        let copy = Copy::of("llama-linear");
        copy.configure(|config| config["rope_scaling"] = json!({ kind: "yarn", "factor": 2.0 }));
        copy.assert_unsupported("`yarn`");
        copy.configure(|config| {
            drop(config.insert("rope_parameters".to_owned(), config["rope_scaling"].clone()));
            drop(config.remove("rope_scaling"));
        });
        copy.assert_unsupported("`yarn`");
    }
    for factor in [json!(null), json!(0.0), json!(-2.0)] {
        let copy = Copy::of("llama-linear");
        copy.configure(|config| config["rope_scaling"]["factor"] = factor);
        copy.assert_malformed("config.json", "factor");
    }
    for name in ["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"] {
        let copy = Copy::of("llama-llama3");
        copy.configure(|config| drop(config["rope_scaling"].as_object_mut().unwrap().remove(name)));
        copy.assert_malformed("config.json", &format!("has no `{name}`"));
    }
    for theta in [0.0, -1.0] {
        let copy = Copy::small();
        copy.configure(|config| config["rope_theta"] = theta.into());
        copy.assert_malformed("config.json", "rope_theta");
    }
}

#[test]
fn shapes_that_cannot_be() {
    let sizes = [
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "intermediate_size",
        "max_position_embeddings",
    ];
    for name in sizes {
        for size in [0u64, (1 << 24) + 1, 1 << 50, u64::MAX] {
            let copy = Copy::small();
            copy.configure(|config| drop(config.insert(name.to_owned(), size.into())));
            copy.assert_malformed("config.json", "");
            let message = copy.error().to_string();
            // Zero heads are zero heads of keys too, which may be said first.
            assert!(message.contains(name) || message.contains("head"), "{message}");
        }
    }
    let wrong = [
        ("num_key_value_heads", json!(2), "5 heads cannot share 2 heads of keys"),
        ("head_dim", json!(7), "`head_dim` is 7"),
        ("vocab_size", json!((1 << 20) + 1), "`vocab_size`"),
        ("rms_norm_eps", json!(-1e-5), "`rms_norm_eps`"),
    ];
    for (name, value, words) in wrong {
        let copy = Copy::small();
        copy.configure(|config| drop(config.insert(name.to_owned(), value)));
        copy.assert_malformed("config.json", words);
    }
    let copy = Copy::of("mistral-window");
    copy.configure(|config| config["sliding_window"] = 0.into());
    copy.assert_malformed("config.json", "`sliding_window` is 0");
    let copy = Copy::of("qwen3-window");
    copy.configure(|config| drop(config["layer_types"].as_array_mut().unwrap().pop()));
    copy.assert_malformed("config.json", "`layer_types` names 3 layers of 4");
}

#[test]
fn tensors_that_are_not_as_the_configuration_says() {
    let copy = Copy::small();
    let path = copy.path("model.safetensors");
    let names: Vec<String> = Checkpoint::read(&path).header.keys().cloned().collect();
    // Each of two layers has nine weights and seven biases; then there are the embedding, the norm and the
    // head.
    let names: Vec<String> = names.into_iter().filter(|name| name != "__metadata__").collect();
    assert_eq!(names.len(), 2 * (9 + 7) + 3);
    let damaged = |name: &str, edit: &dyn Fn(&mut Map<String, Value>)| {
        let copy = Copy::small();
        let mut checkpoint = Checkpoint::read(&path);
        edit(checkpoint.header[name].as_object_mut().unwrap());
        checkpoint.write(&copy.path("model.safetensors"), 0);
        copy
    };
    for name in &names {
        // Taken away, its bytes would be missed first: so another name.
        let missing = Copy::small();
        let mut checkpoint = Checkpoint::read(&path);
        let tensor = checkpoint.header.remove(name).unwrap();
        checkpoint.header.insert(format!("{name}.old"), tensor);
        checkpoint.write(&missing.path("model.safetensors"), 0);
        missing.assert_tensor(name, "is missing");

        let reshaped = damaged(name, &|tensor| {
            let shape = tensor["shape"].as_array().unwrap();
            let flat = shape.iter().map(|size| size.as_u64().unwrap()).product::<u64>();
            tensor["shape"] = if shape.len() == 1 { json!([flat, 1]) } else { json!([flat]) };
        });
        reshaped.assert_tensor(name, "has the shape");

        damaged(name, &|tensor| tensor["dtype"] = "I32".into()).assert_tensor(name, "is of type I32");
    }
}

#[test]
fn files_that_are_cut_short() {
    let copy = Copy::small();
    let path = copy.path("model.safetensors");
    let whole = fs::read(&path).unwrap();
    let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let lengths = (0..40).chain((40..header).step_by(97)).chain(header - 3..header + 3);
    let ends = (header..whole.len()).step_by(5003).chain(whole.len() - 5..whole.len());
    for length in lengths.chain(ends) {
        fs::write(&path, &whole[..length]).unwrap();
        copy.assert_malformed("model.safetensors", "");
    }
    // Nor may anything follow.
    fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    copy.assert_malformed("model.safetensors", "");
}

#[test]
fn headers_that_are_none() {
    let copy = Copy::small();
    let path = copy.path("model.safetensors");
    let whole = fs::read(&path).unwrap();
    for length in [0, 1, 1 << 20, 1 << 27, 1 << 40, u64::MAX - 7, u64::MAX] {
        let mut bytes = whole.clone();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        copy.assert_malformed("model.safetensors", "");
    }
    for header in
        ["[]", "{\"a\":1}", "\u{0}\u{0}", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}"]
    {
        let length = (header.len() as u64).to_le_bytes();
        fs::write(&path, [&length[..], header.as_bytes()].concat()).unwrap();
        copy.assert_malformed("model.safetensors", "");
    }
}

#[test]
fn any_byte_may_be_wrong() {
    let copy = Copy::small();
    // Headers are where a wrong byte can lead anywhere; weights are numbers, whatever they are.
    for (file, from, to) in [("config.json", 0, 700), ("model.safetensors", 0, 900)] {
        let whole = fs::read(copy.path(file)).unwrap();
        for place in from..to.min(whole.len()) {
            let mut bytes = whole.clone();
            bytes[place] ^= 1 << (place % 8);
            fs::write(copy.path(file), bytes).unwrap();
            if Llama::open(copy.0.path()).is_err() {
                copy.error();
            }
        }
        fs::write(copy.path(file), whole).unwrap();
    }
    assert!(Llama::open(copy.0.path()).is_ok());
}

#[test]
fn parts_of_an_index() {
    const INDEX: &str = "model.safetensors.index.json";
    let rewrite = |copy: &Copy, tensor: &str, part: &str| {
        let path = copy.path(INDEX);
        let mut index: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        index["weight_map"][tensor] = part.into();
        fs::write(path, index.to_string()).unwrap();
    };
    let copy = Copy::of("mistral-window");
    rewrite(&copy, "model.norm.weight", "model-00003-of-00002.safetensors");
    copy.assert_file("model-00003-of-00002.safetensors");
    for part in ["../x", "..", "/x", "a/b.safetensors", "", "a/../x"] {
        let copy = Copy::of("mistral-window");
        rewrite(&copy, "model.norm.weight", part);
        copy.assert_malformed(INDEX, &format!("`{part}` is not the name of a file"));
    }
    let copy = Copy::of("mistral-window");
    fs::write(copy.path("model-00002-of-00002.safetensors"), b"").unwrap();
    copy.assert_malformed("model-00002-of-00002.safetensors", "");
    for text in ["", "{}", "{\"weight_map\": 3}", "{\"weight_map\": {\"a\": 1}}"] {
        fs::write(copy.path(INDEX), text).unwrap();
        copy.assert_malformed(INDEX, "");
    }
    fs::write(copy.path(INDEX), "{\"weight_map\": {}}").unwrap();
    copy.assert_tensor("model.layers.0.input_layernorm.weight", "is missing");
}

#[test]
fn kernels_that_this_machine_lacks() {
    let lacking = if cfg!(target_arch = "x86_64") { Kernel::Neon } else { Kernel::Avx2 };
    match Llama::open(Copy::small().0.path()).unwrap().on(lacking, 1).err() {
        Some(ModelError::Request(message)) => {
            assert_eq!(message, format!("this machine has no kernel `{lacking}`"))
        }
        other => panic!("{other:?}"),
    }
}
