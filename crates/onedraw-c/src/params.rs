//! Sampling parameters: from JSON, by name, from a preset, or from the settings of another system.

use std::ffi::c_char;

use library::import::{Source, import};
use library::{ParamError, SamplingParams, presets};
use serde_json::{Number, Value};

use crate::call::call;
use crate::error::{Result, onedraw_error, onedraw_status};
use crate::json::{json_of, value_of};
use crate::table::{Handle, free, give, with};

/// Sampling parameters. Their names are those of the book's page "Parameters". Any number of threads may use
/// one; what is made of it is independent of it.
pub enum onedraw_params {}

pub(crate) struct Params(SamplingParams);

impl Handle for Params {
    type Pointee = onedraw_params;
    const NAME: &'static str = "params";
    const WAITS: bool = true;
}

/// A copy of the parameters of a handle.
pub(crate) fn params_of(handle: *const onedraw_params) -> Result<SamplingParams> {
    with(handle, |params: &mut Params| Ok(params.0.clone()))
}

/// Writes parameters that have their defaults to `*params`. Free them with `onedraw_params_free`. Any thread may
/// call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_new(
    params: *mut *mut onedraw_params,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| give(memory, params, || Ok(Params(SamplingParams::default()))))
}

/// Reads parameters from one JSON object, such as {"temperature": 0.8, "top_p": 0.9, "seed": 42}, and checks them.
/// An unknown name is an error. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_from_json(
    json: *const c_char,
    params: *mut *mut onedraw_params,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        give(memory, params, || Ok(Params(SamplingParams::from_json(memory.text(json, "json")?)?)))
    })
}

/// Makes the parameters of a preset: `creative`, `precise`, `balanced` or `deterministic`. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_preset(
    name: *const c_char,
    params: *mut *mut onedraw_params,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        give(memory, params, || {
            let name = memory.text(name, "name")?;
            let preset = presets::by_name(name).ok_or_else(|| {
                let names = presets::NAMES.join(", ");
                ParamError::new("preset", format!("{name:?} is not a preset; the presets are {names}"))
            })?;
            Ok(Params(preset))
        })
    })
}

/// Reads the settings of another system from one JSON object. `source` is `openai`, `vllm`, `llama.cpp` or
/// `huggingface`; NULL: it is recognised by the fields. `notes` receives a line for each setting that was lost or
/// changed, with a zero at the end, and `*length` its bytes without the zero. If `notes` is too small,
/// `*params` is NULL. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_import(
    json: *const c_char,
    source: *const c_char,
    params: *mut *mut onedraw_params,
    notes: *mut c_char,
    capacity: usize,
    length: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut notes = memory.buffer(notes, capacity, length, "notes")?;
        give(memory, params, || {
            let source = match source.is_null() {
                true => None,
                false => Some(memory.text(source, "source")?.parse::<Source>()?),
            };
            let imported = import(memory.text(json, "json")?, source)?;
            let lines: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
            notes.fill_text(&lines.join("\n"))?;
            Ok(Params(imported.params))
        })
    })
}

/// Sets a parameter that is a number, such as `temperature` or `top_p`. Whether it is in its range is checked
/// when something is made of the parameters, or by `onedraw_params_check`. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_set_number(
    params: *mut onedraw_params,
    name: *const c_char,
    value: f64,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let name = memory.text(name, "name")?;
        let number = Number::from_f64(value);
        let number = number.ok_or_else(|| ParamError::new(name, format!("must be finite, not {value}")))?;
        set(params, name, number.into())
    })
}

/// Sets a parameter that is a whole number, such as `top_k`, `max_tokens` or `n`. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_set_integer(
    params: *mut onedraw_params,
    name: *const c_char,
    value: i64,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| set(params, memory.text(name, "name")?, value.into()))
}

/// Sets the seed, any number of 64 bits. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_set_seed(
    params: *mut onedraw_params,
    seed: u64,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |_| {
        with(params, |params: &mut Params| {
            params.0.seed = Some(seed);
            Ok(())
        })
    })
}

/// Sets a parameter that is true (not 0) or false (0), such as `ignore_eos`. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_set_flag(
    params: *mut onedraw_params,
    name: *const c_char,
    value: i32,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| set(params, memory.text(name, "name")?, (value != 0).into()))
}

/// Sets a parameter that is a list of token ids, such as `prompt_token_ids` or `stop_token_ids`. Any thread may
/// call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_set_ids(
    params: *mut onedraw_params,
    name: *const c_char,
    ids: *const u32,
    count: usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let ids = memory.array(ids, count, "ids")?;
        set(params, memory.text(name, "name")?, ids.iter().copied().collect())
    })
}

/// Sets a parameter that is a word, such as `logprobs_mode` or `order`. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_set_text(
    params: *mut onedraw_params,
    name: *const c_char,
    value: *const c_char,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let value = memory.text(value, "value")?;
        set(params, memory.text(name, "name")?, value.into())
    })
}

/// Sets a parameter that is a list of strings, such as `stop` or `banned_strings`. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_set_texts(
    params: *mut onedraw_params,
    name: *const c_char,
    values: *const *const c_char,
    count: usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let values = memory.array(values, count, "values")?;
        let texts: Result<Vec<&str>> = values.iter().map(|&text| memory.text(text, "values")).collect();
        set(params, memory.text(name, "name")?, texts?.into())
    })
}

/// Sets any parameter from JSON, such as `logit_bias` from {"5": 1.5}. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_set_json(
    params: *mut onedraw_params,
    name: *const c_char,
    json: *const c_char,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let value = library::json::parse(memory.text(json, "json")?)?;
        set(params, memory.text(name, "name")?, value)
    })
}

/// Checks every parameter, as whatever is made of the parameters does. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_check(
    params: *const onedraw_params,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |_| Ok(params_of(params)?.validate()?))
}

/// Writes all parameters as JSON, with a zero at the end; `*length` is the number of bytes without it. Any thread
/// may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_to_json(
    params: *const onedraw_params,
    json: *mut c_char,
    capacity: usize,
    length: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(json, capacity, length, "json")?;
        buffer.fill_text(&json_of(&params_of(params)?)?)
    })
}

/// Frees parameters; NULL is nothing. What was made of them stays. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_params_free(
    params: *mut onedraw_params,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |_| free::<Params>(params))
}

/// Sets one parameter by its name.
fn set(params: *mut onedraw_params, name: &str, value: Value) -> Result<()> {
    with(params, |params: &mut Params| {
        let mut fields = value_of(&params.0)?;
        // An unknown name stays in the object, so that the reader finds it.
        fields[name] = value;
        params.0 = SamplingParams::from_deserializer(fields)?;
        Ok(())
    })
}
