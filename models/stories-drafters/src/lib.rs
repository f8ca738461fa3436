//! The files of two small models that guess ahead for the story model of `onedraw-stories`, as they lie in this
//! crate: a drafter and an EAGLE head. The crate has no code. `onedraw_lm::stories` makes models of the files.
//!
//! ```
//! // A file of the form safetensors begins with the length of its header.
//! let header = u64::from_le_bytes(onedraw_stories_drafters::DRAFTER[..8].try_into()?);
//! assert_eq!(header, 2104);
//! # Ok::<(), std::array::TryFromSliceError>(())
//! ```

/// Weights are used in place, so they must be aligned as their type needs; at a cache line, reading them is
/// fastest.
#[repr(C, align(64))]
struct Aligned<B: ?Sized>(B);

static ALIGNED_DRAFTER: &Aligned<[u8]> = &Aligned(*include_bytes!("../drafter/model.safetensors"));
static ALIGNED_EAGLE: &Aligned<[u8]> = &Aligned(*include_bytes!("../eagle/model.safetensors"));

/// `drafter/model.safetensors`: the drafter's weights in bf16. The first byte is aligned to 64 bytes.
pub static DRAFTER: &[u8] = &ALIGNED_DRAFTER.0;

/// `drafter/config.json`: the shape of the drafter.
pub static DRAFTER_CONFIG: &str = include_str!("../drafter/config.json");

/// `eagle/model.safetensors`: the EAGLE head's weights in bf16. The first byte is aligned to 64 bytes.
pub static EAGLE: &[u8] = &ALIGNED_EAGLE.0;

/// `eagle/config.json`: the shape of the EAGLE head.
pub static EAGLE_CONFIG: &str = include_str!("../eagle/config.json");

#[cfg(test)]
mod tests {
    #[test]
    fn weights_are_aligned() {
        for (file, length) in [(super::DRAFTER, 1_268_736), (super::EAGLE, 1_845_824)] {
            assert_eq!((file.as_ptr() as usize % 64, file.len()), (0, length));
        }
    }
}
