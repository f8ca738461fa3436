//! What host and kernels must agree on, read from the one list of it, `kernels/record/shared.def`, while this
//! compiles.
//!
//! The kernels include the list as C macros. Here it is text: constants get their values from it, and
//! [`shared_struct`] asserts the offset and the size of every field of a struct. What does not agree, or is
//! missing on one side, does not compile.

use onedraw::noise::{BLOCK, Purpose};
use onedraw::query::Open;
use onedraw::{Exchange, FirstQuestion};

const LIST: &[u8] = include_bytes!("../../kernels/record/shared.def");

/// Whether the text at `place` begins with `start`.
const fn is_at(place: usize, start: &[u8]) -> bool {
    let mut i = 0;
    while i < start.len() {
        if place + i >= LIST.len() || LIST[place + i] != start[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Where the line after the one at `place` begins.
const fn next_line(mut place: usize) -> usize {
    while place < LIST.len() && LIST[place] != b'\n' {
        place += 1;
    }
    place + 1
}

/// Where `start`, the beginning of a line up to a comma, ends in the list.
const fn end_of(start: &str) -> usize {
    let mut place = 0;
    while place < LIST.len() {
        if is_at(place, start.as_bytes()) && is_at(place + start.len(), b", ") {
            return place + start.len();
        }
        place = next_line(place);
    }
    panic!("{}", start)
}

/// Reads `, NUMBER` at `place`: the number, and where it ends.
const fn number(place: usize) -> (usize, usize) {
    assert!(is_at(place, b", "), "a comma and a number");
    let (mut place, mut number) = (place + 2, 0);
    assert!(LIST[place].is_ascii_digit(), "a number");
    while LIST[place].is_ascii_digit() {
        number = 10 * number + (LIST[place] - b'0') as usize;
        place += 1;
    }
    (number, place)
}

/// The value of the line that begins with `start`: `value("CONSTANT(BLOCK")` is 64.
pub(crate) const fn value(start: &str) -> u32 {
    let (value, end) = number(end_of(start));
    assert!(is_at(end, b")\n"), "one number");
    value as u32
}

/// How many lines begin with `start`.
pub(crate) const fn count(start: &str) -> usize {
    let (mut place, mut count) = (0, 0);
    while place < LIST.len() {
        if is_at(place, start.as_bytes()) {
            count += 1;
        }
        place = next_line(place);
    }
    count
}

/// Asserts that a struct has the size and the fields, each with its offset and size, that the list has for
/// `name`: all of them, in their order.
pub(crate) const fn assert_layout(name: &str, size: usize, fields: &[(&str, usize, usize)]) {
    let mut place = 0;
    let (before, between) = ("STRUCT(".len(), ", ".len());
    while !(is_at(place, b"STRUCT(")
        && is_at(place + before, name.as_bytes())
        && is_at(place + before + name.len(), b", "))
    {
        assert!(place < LIST.len(), "kernels/record/shared.def has no such struct");
        place = next_line(place);
    }
    assert!(
        number(place + before + name.len()).0 == size,
        "kernels/record/shared.def has another size of it"
    );
    let before = "FIELD(".len();
    let mut i = 0;
    while i < fields.len() {
        let (field, offset, size) = fields[i];
        place = next_line(place);
        let after = place + before + name.len() + between;
        let is_listed = is_at(place, b"FIELD(")
            && is_at(place + before, name.as_bytes())
            && is_at(place + before + name.len(), b", ")
            && is_at(after, field.as_bytes())
            && is_at(after + field.len(), b", ");
        if !is_listed {
            panic!("{}", field);
        }
        let (listed_offset, end) = number(after + field.len());
        if listed_offset != offset || number(end).0 != size {
            panic!("{}", field);
        }
        i += 1;
    }
    assert!(!is_at(next_line(place), b"FIELD("), "kernels/record/shared.def has more fields");
}

/// Defines a struct that the kernels have too, under the name that stands first, and asserts its layout.
macro_rules! shared_struct {
    ($name:literal: $(#[$attribute:meta])* $visible:vis struct $type:ident {
        $($(#[$field_attribute:meta])* $field_visible:vis $field:ident: $field_type:ty,)*
    }) => {
        $(#[$attribute])*
        #[repr(C)]
        $visible struct $type {
            $($(#[$field_attribute])* $field_visible $field: $field_type,)*
        }

        const _: () = $crate::record::shared::assert_layout(
            $name,
            size_of::<$type>(),
            &[$((stringify!($field), core::mem::offset_of!($type, $field), size_of::<$field_type>())),*],
        );
    };
}

pub(crate) use shared_struct;

/// The most operations of a plain chain: min-p, top-k and top-p, each once.
pub(crate) const MAX_STAGES: usize = value("CONSTANT(MAX_STAGES") as usize;
/// The edits of a chain that its record holds.
pub(crate) const NEAR_EDITS: usize = value("CONSTANT(NEAR_EDITS") as usize;
pub(crate) const MAX_LISTED: usize = value("CONSTANT(MAX_LISTED") as usize;
/// Tokens that an edit may change, as many as a sequence lists.
pub(crate) const EDIT_LIST_CAPACITY: usize = value("CONSTANT(EDIT_LIST_CAPACITY") as usize;
/// Listed tokens whose edits one thread of the first pass computes.
pub(crate) const EDITS_PER_THREAD: usize = value("CONSTANT(EDITS_PER_THREAD") as usize;
/// Summits of neighbouring rows lie this many words apart.
pub(crate) const SUMMIT_PITCH: usize = value("CONSTANT(SUMMIT_PITCH") as usize;
/// Blocks of tokens whose numbers are read as one vector.
pub(crate) const BLOCKS_PER_VECTOR: usize = value("CONSTANT(BLOCKS_PER_VECTOR") as usize;
/// Dynamic shared memory of a draw for each block of tokens.
pub(crate) const DRAW_BYTES_PER_BLOCK: usize = value("CONSTANT(DRAW_BYTES_PER_BLOCK") as usize;
/// A draw has shared memory for a multiple of so many blocks of tokens.
pub(crate) const BLOCKS_ROUNDED_TO: usize = value("CONSTANT(BLOCKS_ROUNDED_TO") as usize;
/// The most blocks of tokens of a row.
pub(crate) const MAX_BLOCKS: usize = value("CONSTANT(MAX_BLOCKS") as usize;
/// Threads of a thread block of the first pass.
pub(crate) const SKYLINE_THREADS: u32 = value("CONSTANT(SKYLINE_THREADS");
/// Threads of a thread block that draws a row, or judges a draft.
pub(crate) const DRAW_THREADS: u32 = value("CONSTANT(DRAW_THREADS");
/// Threads of a thread block that sums a row.
pub(crate) const REPORT_THREADS: u32 = value("CONSTANT(REPORT_THREADS");
/// Threads of a thread block that answers a question.
pub(crate) const ASK_THREADS: u32 = value("CONSTANT(ASK_THREADS");
pub(crate) const FOLLOW_THREADS: u32 = value("CONSTANT(FOLLOW_THREADS");
pub(crate) const SETTLE_THREADS: u32 = value("CONSTANT(SETTLE_THREADS");
pub(crate) const REPEAT_THREADS: u32 = value("CONSTANT(REPEAT_THREADS");
pub(crate) const SORT_THREADS: u32 = value("CONSTANT(SORT_THREADS");
pub(crate) const REVISE_THREADS: u32 = value("CONSTANT(REVISE_THREADS");
/// Tokens that one thread block of `report` sums.
pub(crate) const REPORT_TOKENS: usize = value("CONSTANT(REPORT_TOKENS") as usize;
/// Tokens that one thread block of `weigh` takes at a time.
pub(crate) const WEIGH_TOKENS: usize = value("CONSTANT(WEIGH_TOKENS") as usize;
/// The most bins of a histogram.
pub(crate) const MAX_BINS: usize = value("CONSTANT(MAX_BINS") as usize;
/// Words that a thread block answers a question with.
pub(crate) const ANSWER_WORDS: usize = value("CONSTANT(ANSWER_WORDS") as usize;

/// Threads of a thread block that makes a rank's first message about a row.
pub(crate) const OPEN_THREADS: u32 = value("CONSTANT(OPEN_THREADS");
/// Bytes of that message.
pub(crate) const OPEN_SLOT: usize = value("CONSTANT(OPEN_SLOT") as usize;
/// Bytes of it that the host gives.
pub(crate) const OPEN_HEAD: usize = value("CONSTANT(OPEN_HEAD") as usize;
/// Dynamic shared memory of such a thread block for each block of tokens.
pub(crate) const OPEN_BYTES_PER_BLOCK: usize = value("CONSTANT(OPEN_BYTES_PER_BLOCK") as usize;

// Blocks of tokens, the purposes of noise and the messages of ranks are the library's.
const _: () = {
    assert!(OPEN_SLOT == Exchange::SLOT && OPEN_HEAD == FirstQuestion::HEAD);
    assert!(value("CONSTANT(OPEN_BEST") == Open::MAX_BEST);
    assert!(value("CONSTANT(OPEN_FINISHERS") as usize == Open::FINISHERS);
    assert!(value("CONSTANT(OPEN_POINTS") as usize == Open::POINTS);
    assert!(value("CONSTANT(OPEN_STEPS") as usize == Open::STEPS);
    assert!(value("CONSTANT(OPEN_STEPS_PER_OCTAVE") as f32 == Open::STEPS_PER_OCTAVE);
    assert!(value("CONSTANT(OPEN_FOCUS") as u64 == Open::FOCUS);
    assert!(value("CONSTANT(BLOCK") as usize == BLOCK);
    assert!(value("PURPOSE(BLOCK_MINIMUM") == Purpose::BlockMinimum as u32);
    assert!(value("PURPOSE(BLOCK_LANE") == Purpose::BlockLane as u32);
    assert!(value("PURPOSE(TOKEN") == Purpose::Token as u32);
    assert!(value("PURPOSE(COIN") == Purpose::Xtc as u32);
    assert!(value("PURPOSE(ACCEPT") == Purpose::Accept as u32);
    assert!(value("PURPOSE(RESIDUAL") == Purpose::Residual as u32);
    assert!(count("PURPOSE(") == 6);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_whole_names() {
        assert_eq!((value("CONSTANT(BLOCK"), value("CONSTANT(MAX_BLOCKS")), (64, 14_336));
        assert_eq!(count("STAGE_KIND("), 13);
        assert_layout("Outcome", 8, &[("token", 0, 4), ("status", 4, 4)]);
    }

    #[test]
    #[should_panic(expected = "status")]
    fn a_field_that_moved_is_named() {
        assert_layout("Outcome", 8, &[("token", 0, 4), ("status", 0, 4)]);
    }

    #[test]
    #[should_panic(expected = "status")]
    fn a_field_of_another_size_is_named() {
        assert_layout("Outcome", 8, &[("token", 0, 4), ("status", 4, 2)]);
    }

    #[test]
    #[should_panic(expected = "tokens")]
    fn a_field_of_another_name_is_named() {
        assert_layout("Outcome", 8, &[("tokens", 0, 4), ("status", 4, 4)]);
    }

    #[test]
    #[should_panic(expected = "more fields")]
    fn a_field_too_few_is_an_error() {
        assert_layout("Outcome", 8, &[("token", 0, 4)]);
    }

    #[test]
    #[should_panic(expected = "CONSTANT(BLOC")]
    fn a_part_of_a_name_is_no_name() {
        value("CONSTANT(BLOC");
    }
}
