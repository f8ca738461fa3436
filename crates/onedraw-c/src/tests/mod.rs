//! What C cannot see of this crate. The functions themselves are tested from C, in `tests/c`.

mod allocations;

use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

use crate::call::call;
use crate::error::{Failure, ONEDRAW_INTERNAL, ONEDRAW_NOTHING, ONEDRAW_OK, onedraw_error, onedraw_status};
use crate::params::{onedraw_params, onedraw_params_check, onedraw_params_free, onedraw_params_new};
use crate::table::{Handle, free, give, with};

/// An error, before anything was written to it.
fn no_error() -> onedraw_error {
    onedraw_error { status: -1, length: 7, ..onedraw_error::NONE }
}

fn text(bytes: &[std::ffi::c_char]) -> String {
    let bytes = bytes.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn a_panic_is_an_error_and_spoils_its_handle_alone() {
    struct Fragile;
    impl Handle for Fragile {
        type Pointee = u8;
        const NAME: &'static str = "fragile";
    }
    let (mut error, mut handle, mut other) = (no_error(), std::ptr::null_mut(), std::ptr::null_mut());
    for place in [&mut handle, &mut other] {
        let place: *mut *mut u8 = place;
        assert_eq!(call(&mut error, |memory| give(memory, place, || Ok(Fragile))), ONEDRAW_OK);
    }
    let breaks = |_: &mut Fragile| -> crate::error::Result<()> { panic!("broken at {}", 5) };
    assert_eq!(call(&mut error, |_| with(handle, breaks)), ONEDRAW_INTERNAL);
    assert_eq!((text(&error.kind), text(&error.message)), ("internal".into(), "broken at 5".into()));
    let uses = |handle, error: &mut onedraw_error| -> onedraw_status {
        call(error, |_| with(handle, |_: &mut Fragile| Ok(())))
    };
    assert_eq!(uses(handle, &mut error), ONEDRAW_INTERNAL);
    assert_eq!(text(&error.message), "fragile: an earlier call failed inside of it; free it");
    assert_eq!(uses(other, &mut error), ONEDRAW_OK);
    assert_eq!((error.status, error.length, text(&error.message)), (ONEDRAW_OK, 0, String::new()));
    for handle in [handle, other] {
        assert_eq!(call(&mut error, |_| free::<Fragile>(handle)), ONEDRAW_OK);
    }
}

#[test]
fn words_are_cut_after_a_whole_character() {
    // 455 bytes fit: 227 characters of 2 bytes, and 1 that is not used.
    let failure = Failure::new(ONEDRAW_NOTHING, &"k".repeat(60), "é".repeat(300));
    let error = onedraw_error::from(&failure);
    assert_eq!((error.status, error.length), (ONEDRAW_NOTHING, 600));
    assert_eq!((text(&error.kind), text(&error.message)), ("k".repeat(47), "é".repeat(227)));
    // A zero in it does not end it.
    let error = onedraw_error::from(&Failure::argument("name", "a\0b"));
    assert_eq!((error.length, text(&error.message)), (9, "name: a b".to_owned()));
}

/// The numbers are in `tests/c/layout.c`, which holds the header to them.
#[test]
fn the_layout_of_structs_is_pinned() {
    use crate::batch::report::onedraw_runner;
    use crate::beam::{onedraw_branch, onedraw_hypothesis};
    use crate::error::onedraw_error;
    use crate::records::onedraw_records;
    use crate::rows::{onedraw_row, onedraw_rows};
    use crate::sampled::{onedraw_kept, onedraw_probability, onedraw_sampled, onedraw_token_logprob};
    use crate::stop::onedraw_progress;
    use crate::verify::onedraw_draft;
    let mut lines = Vec::new();
    macro_rules! layout {
        ($($type:ident { $($member:ident),* })*) => {$(
            lines.push(format!("SIZE({}, {});", stringify!($type), size_of::<$type>()));
            $(lines.push(format!(
                "AT({}, {}, {});", stringify!($type), stringify!($member), std::mem::offset_of!($type, $member)
            ));)*
            // Names every member, or it does not compile.
            #[expect(dead_code, reason = "only its pattern matters")]
            fn $type($type { $($member: _),* }: $type) {}
        )*};
    }
    layout! {
        onedraw_error { status, length, kind, message }
        onedraw_row { logits, vocabulary, dtype, mask_words, mask }
        onedraw_rows { logits, count, vocabulary, stride, dtype, mask_words, masks, pointers }
        onedraw_records { ids, logits, count, stride }
        onedraw_sampled {
            status, token, position, sequence, seed, probability, logprob, mirostat_mu, rank, logprobs
        }
        onedraw_token_logprob { token, rank, logprob }
        onedraw_probability { token, probability, logprob }
        onedraw_kept { count, is_prefix, last_token, last_logit, ln_mass }
        onedraw_runner { token, behind }
        onedraw_draft { tokens, parents, count }
        onedraw_progress { shown, finish, by, rewinds, rewind_token, rewind_length }
        onedraw_branch { beam, token }
        onedraw_hypothesis { score, logprob, inclusion, length, finish, by }
    }
    let layout = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/layout.c");
    let text = std::fs::read_to_string(layout).expect("the test of layouts");
    let pinned: Vec<&str> =
        text.lines().filter(|line| line.starts_with("SIZE(") || line.starts_with("AT(")).collect();
    // Those of the numbers, which are no structs.
    let types = ["SIZE(onedraw_status, 4);", "SIZE(onedraw_sequence, 8);", "SIZE(onedraw_finish, 4);"];
    assert_eq!(pinned, [types.map(String::from).to_vec(), lines].concat());
}

#[test]
fn an_error_may_be_written_to_memory_without_a_value() {
    let mut error = MaybeUninit::<onedraw_error>::uninit();
    let mut params: *mut onedraw_params = std::ptr::null_mut();
    assert_eq!(onedraw_params_new(&mut params, error.as_mut_ptr()), ONEDRAW_OK);
    assert_eq!(onedraw_params_check(params, std::ptr::null_mut()), ONEDRAW_OK);
    assert_eq!(onedraw_params_free(params, error.as_mut_ptr()), ONEDRAW_OK);
}

/// The crate allows unsafe code, because the names of C's functions are unsafe attributes. Blocks of it are in one
/// file alone.
#[test]
fn one_file_follows_pointers() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut with_blocks = Vec::new();
    for path in files(&sources) {
        let text = std::fs::read_to_string(&path).expect("a source");
        let path = path.strip_prefix(&sources).expect("a path in it");
        if text.contains("unsafe {") || text.contains("unsafe fn") || text.contains("unsafe impl") {
            with_blocks.push(path.to_str().expect("UTF-8").to_owned());
        }
    }
    // What these two lines search for is here; the other test counts allocations.
    with_blocks.retain(|path| !path.starts_with("tests"));
    assert_eq!(with_blocks, ["memory.rs"]);
}

/// All files in a folder and the folders in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
