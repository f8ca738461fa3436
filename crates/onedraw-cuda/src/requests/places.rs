//! Where an engine keeps its texts, and where it wants the results. All addresses are memory that the device
//! can read or write.

/// The texts of all slots: prompt and output of each request, one row for each slot.
#[derive(Clone, Copy, Debug)]
pub struct Texts {
    /// The address of the first text: 32-bit ids.
    pub tokens: u64,
    /// From one text to the next, in ids.
    pub stride: u64,
    /// The address of their lengths: for each slot a 32-bit number, without the tokens of the step.
    pub lengths: u64,
}

impl Texts {
    /// The address of the text in a slot; `None` if there is no such address.
    pub(super) fn of(&self, slot: u32) -> Option<u64> {
        let bytes = (size_of::<u32>() as u64).checked_mul(self.stride)?.checked_mul(slot.into())?;
        self.tokens.checked_add(bytes)
    }
}

/// A request's part of a step: its rows of the logits, one turn after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTurn {
    /// The slot of the request.
    pub slot: u32,
    /// How many rows it has: the first right after its text, one more for each guess.
    pub rows: u32,
    /// The address of its guesses, one 32-bit number for each row but the first; an id that is no token is
    /// never right. 0 if there is one row.
    pub guesses: u64,
    /// How many tokens of its text the model must have read before anything is drawn for it. When the request is
    /// new, its text has no more tokens than these, or than a row of the texts has room for.
    pub needed: u32,
}

/// Where results go.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// For each turn, how many tokens the model has read of it with this step: 32-bit numbers. 0: every turn
    /// has read what it needs.
    pub read_lengths: u64,
    /// For each row a byte that is not 0 if the guess that leads to it must not be taken. 0: every guess may
    /// be.
    pub refused: u64,
    /// For each turn its tokens, 64 bits each, `width` of them; zeros follow.
    pub tokens: u64,
    /// The most rows of a turn.
    pub width: u32,
    /// For each turn how many tokens it has, as a 32-bit number; 0 if the model has not read enough. A turn
    /// whose first row could not be drawn has one token, which is 0.
    pub counts: u64,
    /// For each turn how many of its rows have no token, as a 32-bit number; 0 if the model has not read
    /// enough.
    pub rejected: u64,
    /// For each turn a 32-bit number that is not 0 if a row could not be drawn: 65,536 times the reason (1: a
    /// NaN, 2: an infinite logit, 3: no token was left), plus the number of tokens that were drawn before.
    pub failures: u64,
    /// Where logprobs go, if they are wanted.
    pub listed: Option<Listed>,
    /// Where the sets of kept tokens go, if they are wanted.
    pub sets: Option<Sets>,
}

/// Where logprobs go. Only rows that have a token, and whose request asks for logprobs, are written.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// How many of the best tokens a row lists after its own token.
    pub best: u32,
    /// For each row `best` + 1 ids of 32 bits: its token, then the best ones in order. If there are not so
    /// many, other ids follow, with a logprob of −inf.
    pub tokens: u64,
    /// As many logprobs, f32.
    pub logprobs: u64,
    /// For each row the rank of its token, 64 bits.
    pub ranks: u64,
}

/// Where the sets go that tokens were drawn from. There is one place for each token of `tokens`, `width` for each
/// turn.
#[derive(Clone, Copy, Debug)]
pub struct Sets {
    /// For each place how many tokens were kept, as a 32-bit number; 0 where there is no token, or where the request
    /// does not ask for the ids that were kept ([`KeptMode::Ids`](onedraw::KeptMode)).
    pub counts: u64,
    /// For each place one bit for each token of the vocabulary, the lowest bit of the first byte first. The bits are
    /// padded with zeros to a multiple of 128, and begin at a multiple of 16 bytes. They are not written where the
    /// count is 0.
    pub bits: u64,
    /// For each place the first `most` of the ids, in their order, 32 bits each. What follows them is not written.
    pub ids: u64,
    /// How many ids there is room for in each place.
    pub most: u32,
}
