//! The compiled part of the Python package `onedraw`: the module `onedraw._onedraw`. The part that is written
//! in Python is in `python/onedraw`.
//!
//! A class here holds an object of the library and has its methods. These are the modules; each group uses
//! only those above it:
//!
//! - Borders: `value` reads Python objects as serde does, `raised` keeps exceptions of stages, `exceptions`
//!   and `error` turn errors into exceptions, `guarded` releases the interpreter while anything is computed,
//!   `display` shows objects.
//! - Logits, read in place: `tensor`.
//! - Results: `kept`, `result`, `explanation`, `rows` (results of several rows, and their errors).
//! - Arguments: `mask`, `stage` (stages written in Python), `params`.
//! - Decode loops: `stop`, `grammar`, `beam`, `speculate`, `contrast`.
//! - Drawing: `sequence` (names of sequences), `cuda` (on a device), `once` (single calls), `audit`, `sampler` (one
//!   sequence), `batch` (many).
//! - Texts of a model: `tokenizer`, `text`, `decoder` (the decode loop), `generator`.

mod audit;
mod batch;
mod beam;
mod contrast;
mod cuda;
mod decoder;
mod display;
mod error;
mod exceptions;
mod explanation;
mod generator;
mod grammar;
mod guarded;
mod kept;
mod mask;
mod once;
mod params;
mod raised;
mod result;
mod rows;
mod sampler;
mod sequence;
mod speculate;
mod stage;
mod stop;
mod table;
mod tensor;
mod text;
mod tokenizer;
mod value;

use pyo3::prelude::*;

/// From logits to a token: the compiled part of onedraw.
#[pymodule]
fn _onedraw(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PRESETS", onedraw::presets::NAMES)?;
    module.add("STREAM_VERSION", onedraw::STREAM_VERSION)?;
    module.add("MAX_TOKENS", onedraw_lm::settings::MAX_TOKENS)?;
    module.add_function(wrap_pyfunction!(once::sample, module)?)?;
    module.add_function(wrap_pyfunction!(once::distribution, module)?)?;
    module.add_function(wrap_pyfunction!(once::explain, module)?)?;
    module.add_function(wrap_pyfunction!(audit::audit, module)?)?;
    module.add_function(wrap_pyfunction!(stage::order, module)?)?;
    module.add_function(wrap_pyfunction!(stage::headline_field, module)?)?;
    module.add_class::<params::SamplingParams>()?;
    module.add_class::<sampler::Sampler>()?;
    module.add_class::<sampler::Report>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<batch::SequenceId>()?;
    module.add_class::<result::Sampled>()?;
    module.add_class::<result::Samples>()?;
    module.add_class::<result::TokenLogprob>()?;
    module.add_class::<result::Distribution>()?;
    module.add_class::<kept::Kept>()?;
    module.add_class::<kept::EditedRow>()?;
    module.add_class::<audit::Audit>()?;
    module.add_class::<audit::Audits>()?;
    module.add_class::<audit::Judgement>()?;
    module.add_class::<explanation::Explanation>()?;
    module.add_class::<explanation::StageEffect>()?;
    module.add_class::<explanation::Candidate>()?;
    module.add_class::<stage::Edit>()?;
    module.add_class::<stage::Truncation>()?;
    module.add_class::<stage::View>()?;
    module.add_class::<stop::StopMatcher>()?;
    module.add_class::<stop::Progress>()?;
    module.add_class::<stop::Rewind>()?;
    module.add_class::<stop::Utf8Stream>()?;
    module.add_class::<beam::BeamSearch>()?;
    module.add_class::<beam::Beam>()?;
    module.add_class::<beam::Expansion>()?;
    module.add_class::<beam::Hypothesis>()?;
    module.add_class::<speculate::Draft>()?;
    module.add_class::<speculate::Guess>()?;
    module.add_class::<speculate::Runner>()?;
    module.add_class::<speculate::Verdict>()?;
    module.add_class::<grammar::Vocabulary>()?;
    module.add_class::<grammar::Grammar>()?;
    module.add_class::<grammar::Matcher>()?;
    module.add_class::<contrast::Contrast>()?;
    module.add_class::<tokenizer::Tokenizer>()?;
    module.add_class::<generator::Generator>()?;
    module.add_class::<decoder::Stream>()?;
    module.add_class::<text::Generated>()?;
    module.add_class::<text::Event>()?;
    module.add_class::<text::RequestId>()?;
    cuda::add_to(module)?;
    module.add("OnedrawError", py.get_type::<exceptions::OnedrawError>())?;
    module.add("ParamError", py.get_type::<exceptions::ParamError>())?;
    module.add("TensorError", py.get_type::<exceptions::TensorError>())?;
    module.add("RowError", py.get_type::<exceptions::RowError>())?;
    module.add("RowsError", py.get_type::<exceptions::RowsError>())?;
    module.add("GrammarError", py.get_type::<exceptions::GrammarError>())?;
    module.add("ConstraintError", py.get_type::<exceptions::ConstraintError>())?;
    module.add("ModelError", py.get_type::<exceptions::ModelError>())?;
    module.add("CudaError", py.get_type::<exceptions::CudaError>())?;
    Ok(())
}
