//! The Python package `onedraw`, as far as it is compiled: `onedraw._onedraw`. What is written in Python is beside it, in `python/onedraw`.
//!
//! A class here holds one of the library and says what it says: parameters come as keyword arguments (`params`, read by `value`), logits where they lie
//! (`tensor`; on a CUDA device `cuda`), errors go out as exceptions (`error`), and the interpreter is released while anything is computed (`guarded`).

mod batch;
mod beam;
mod contrast;
mod cuda;
mod display;
mod error;
mod explanation;
mod generator;
mod grammar;
mod guarded;
mod mask;
mod once;
mod params;
mod result;
mod sampler;
mod sequence;
mod speculate;
mod stage;
mod stop;
mod tensor;
mod text;
mod tokenizer;
mod value;

use pyo3::prelude::*;

/// From logits to a token: the compiled part of onedraw.
#[pymodule]
fn _onedraw(module: &Bound<'_, PyModule>) -> PyResult<()> {
    use error::exceptions;
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PRESETS", onedraw::presets::NAMES)?;
    module.add_function(wrap_pyfunction!(once::sample, module)?)?;
    module.add_function(wrap_pyfunction!(once::distribution, module)?)?;
    module.add_function(wrap_pyfunction!(once::explain, module)?)?;
    module.add_function(wrap_pyfunction!(stage::order, module)?)?;
    module.add_class::<params::SamplingParams>()?;
    module.add_class::<sampler::Sampler>()?;
    module.add_class::<sampler::Report>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<batch::SequenceId>()?;
    module.add_class::<result::Sampled>()?;
    module.add_class::<result::Samples>()?;
    module.add_class::<result::TokenLogprob>()?;
    module.add_class::<result::Distribution>()?;
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
    module.add_class::<generator::Stream>()?;
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
