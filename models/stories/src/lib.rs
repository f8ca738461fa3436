//! The files of the story model, as they lie in this crate: a Llama of 5.8 million parameters that writes short
//! children's stories in simple English. The crate has no code. `onedraw_lm::stories` makes a model of the files.
//!
//! The folder of this crate is also a Hugging Face folder, and its README is the model's card.
//!
//! ```
//! // A file of the form safetensors begins with the length of its header.
//! let header = u64::from_le_bytes(onedraw_stories::MODEL[..8].try_into()?);
//! assert_eq!(header, 6072);
//! # Ok::<(), std::array::TryFromSliceError>(())
//! ```

/// Weights are used in place, so they must be aligned as their type needs; at a cache line, reading them is
/// fastest.
#[repr(C, align(64))]
struct Aligned<B: ?Sized>(B);

static ALIGNED_MODEL: &Aligned<[u8]> = &Aligned(*include_bytes!("../model.safetensors"));

/// `model.safetensors`: the weights in bf16. The first byte is aligned to 64 bytes.
pub static MODEL: &[u8] = &ALIGNED_MODEL.0;

/// `config.json`: the shape of the model.
pub static CONFIG: &str = include_str!("../config.json");

/// `generation_config.json`: the token that ends a story, and settings to draw with.
pub static GENERATION_CONFIG: &str = include_str!("../generation_config.json");

/// `shortlist.json`: the 2,048 most frequent tokens.
pub static SHORTLIST: &str = include_str!("../shortlist.json");

/// `tokenizer.json`: a byte-level BPE of 4,096 tokens.
pub static TOKENIZER: &[u8] = include_bytes!("../tokenizer.json");

#[cfg(test)]
mod tests {
    #[test]
    fn weights_are_aligned() {
        assert_eq!((super::MODEL.as_ptr() as usize % 64, super::MODEL.len()), (0, 11_596_224));
    }
}
