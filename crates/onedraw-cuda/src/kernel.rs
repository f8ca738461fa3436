//! The kernels by name, as `kernels/onedraw.cu` has them.

use crate::dtype::Dtype;

/// A kernel of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    /// What texts repeat.
    Repeat,
    /// The first pass, with the place of its form in [`SKYLINES`].
    Skyline(Dtype, usize),
    /// Sums over whole rows before these are drawn; with whether rows are aligned.
    Gauge(Dtype, bool),
    /// The draw of any row.
    Draw(Dtype),
    /// The draw of rows without masks and edits, and with a plain chain.
    DrawBare(Dtype),
    /// The draw of rows without masks and edits, and with any chain of one segment.
    DrawStaged(Dtype),
    /// The draw of rows with masks or edits, and with a plain chain.
    DrawEdited(Dtype),
    /// The masses of unmodified rows, for raw logprobs; with whether rows are aligned.
    Weigh(Dtype, bool),
    /// Raw logprobs. The kernel is called `tell`.
    RawLogprobs(Dtype),
    /// Logprobs of what the chain leaves.
    Report(Dtype),
    /// Logprobs of whole rows.
    ListAll(Dtype),
    /// Sums over the rows of a prompt; with whether rows are aligned.
    SumPrompt(Dtype, bool),
    /// Logprobs of the rows of a prompt.
    TellPrompt(Dtype),
    /// Appends tokens to their sequences.
    Append,
    /// Judges drafts by laws.
    Judge,
}

/// A kernel for requests whose texts an engine keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestKernel {
    /// New requests follow their texts.
    Follow,
    /// Tokens go to the engine, and requests move on.
    Settle,
}

/// A form of the first pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SkylineForm {
    /// What the kernel's name ends with.
    pub name: &'static str,
    /// How often each thread reads sixteen bytes.
    pub steps: usize,
}

/// The forms of the first pass, for each type: by their steps; where there are masks, or masses to sum; both
/// with edits; and for rows that are not aligned.
pub(crate) const SKYLINES: [SkylineForm; 2 * SKYLINES_WITHOUT_EDITS + 1] = [
    SkylineForm { name: "1", steps: 1 },
    SkylineForm { name: "2", steps: 2 },
    SkylineForm { name: "4", steps: 4 },
    SkylineForm { name: "8", steps: 8 },
    SkylineForm { name: "summed_1", steps: 1 },
    SkylineForm { name: "summed_4", steps: 4 },
    SkylineForm { name: "summed_8", steps: 8 },
    SkylineForm { name: "edited_1", steps: 1 },
    SkylineForm { name: "edited_2", steps: 2 },
    SkylineForm { name: "edited_4", steps: 4 },
    SkylineForm { name: "edited_8", steps: 8 },
    SkylineForm { name: "edited_summed_1", steps: 1 },
    SkylineForm { name: "edited_summed_4", steps: 4 },
    SkylineForm { name: "edited_summed_8", steps: 8 },
    SkylineForm { name: "any", steps: 2 },
];

/// The forms without edits come first; as many with edits follow in the same order, and the last takes
/// everything.
pub(crate) const SKYLINES_WITHOUT_EDITS: usize = 7;
