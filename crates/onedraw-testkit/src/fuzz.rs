//! The bodies of the fuzz targets, as plain functions over bytes.
//!
//! Any input is allowed; a body panics where a promise is broken and returns otherwise. The targets in `fuzz/` run them
//! on mutated inputs, and tests run them on the committed corpus, so that a fault once found stays found.

use std::collections::BTreeSet;

use half::{bf16, f16};
use onedraw::noise::Noise;
use onedraw::reference::{self, Left};
use onedraw::stop::{Finish, StopConditions, StopMatcher, Utf8Stream};
use onedraw::{
    Batch, Distribution, Kernel, LogprobsMode, Order, ParamError, PenaltyScope, Plan, Row, RowError, Sampled,
    Sampler, SamplingParams, Shards, Stage, Step,
};

use crate::rows;

/// Takes an input apart. Past its end everything is 0, so every prefix of an input is an input too.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let taken = N.min(self.0.len());
        let mut array = [0; N];
        array[..taken].copy_from_slice(&self.0[..taken]);
        self.0 = &self.0[taken..];
        array
    }

    fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// In 0..`bound`, by one byte; `bound` is 1 to 256.
    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.u8()) % bound
    }

    /// Up to `most` values.
    fn list<T>(&mut self, most: usize, mut value: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| value(self)).collect()
    }
}

/// A message is one line and begins with the name of a parameter, or with a name among those `given` that is none.
fn check_message(error: &ParamError, given: &BTreeSet<String>) {
    let text = error.to_string();
    assert!(!text.contains(['\n', '\r']), "an error of more than one line: {text:?}");
    assert!(text.starts_with(error.field()) && !error.message().is_empty(), "{text:?}");
    // `logit_bias.17` and `stop[0]` name their field first.
    let name = error.field().split(['.', '[']).next().unwrap_or_default();
    let known = field_names();
    assert!(name == "params" || known.contains(name) || !given.is_subset(&known), "{text:?}");
}

/// Every parameter, by its JSON form.
fn field_names() -> BTreeSet<String> {
    let params = SamplingParams { order: Some(Order::vllm()), ..SamplingParams::default() };
    names(&serde_json::to_value(params).expect("parameters are JSON"))
}

fn names(value: &serde_json::Value) -> BTreeSet<String> {
    value.as_object().into_iter().flat_map(|object| object.keys().cloned()).collect()
}

/// Parameters from JSON: what is read is valid, survives being written, and makes a plan; what is not read is an error
/// of one line that names its field. Orders in their short form too, and parameters made of the bytes without any JSON.
pub fn params(data: &[u8]) {
    let made = parameters(&mut Bytes(data), 300);
    if made.validate().is_ok() {
        let json = serde_json::to_string(&made).expect("valid parameters can be written");
        assert_eq!(SamplingParams::from_json(&json), Ok(made), "{json}");
    }
    let Ok(text) = str::from_utf8(data) else { return };
    match SamplingParams::from_json(text) {
        Ok(params) => {
            assert_eq!(params.validate(), Ok(()));
            let json = serde_json::to_string(&params).expect("valid parameters can be written");
            assert_eq!(SamplingParams::from_json(&json).as_ref(), Ok(&params), "{json}");
            let plan = Plan::new(&params).expect("valid parameters make a plan");
            for vocabulary in [0, 1, 300, 1 << 20, (1 << 20) + 1] {
                let _ = plan.check_vocabulary(vocabulary);
            }
            assert!(StopConditions::new(&params).is_ok());
        }
        Err(error) => {
            let value = serde_json::from_str(text).unwrap_or_default();
            check_message(&error, &names(&value));
        }
    }
    match text.parse::<Order>() {
        Ok(order) => assert_eq!(order.to_string().parse(), Ok(order)),
        Err(error) => check_message(&error, &BTreeSet::new()),
    }
}

/// Where numbers change what they mean: borders of ranges, of rounding and of f32.
const NUMBERS: [f64; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    5e-324,
    1e-300,
    -1e-40,
    1e-12,
    9e-6,
    1e-5,
    1e-3,
    0.5,
    0.9,
    0.999,
    1.0 - f64::EPSILON / 2.0,
    1.0 + f64::EPSILON,
    100.0,
    1e6,
    3e38,
    -3e38,
    3.5e38,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

/// The default more often than not; else a plain number, a border, or any bits.
fn number(bytes: &mut Bytes<'_>, default: f64) -> f64 {
    match bytes.u8() {
        0..=63 => default,
        byte @ 64..=191 => f64::from(byte - 64) / 64.0,
        byte @ 192..=239 => NUMBERS[usize::from(byte) % NUMBERS.len()],
        _ => f64::from_bits(bytes.u64()),
    }
}

/// A token of the vocabulary, or once in a while any id.
fn token(bytes: &mut Bytes<'_>, vocabulary: usize) -> u32 {
    match bytes.u16() {
        0xff00.. => bytes.u32(),
        id => u32::from(id) % vocabulary as u32,
    }
}

fn order(bytes: &mut Bytes<'_>) -> Option<Order> {
    let stage = |bytes: &mut Bytes<'_>| Stage::ALL[bytes.below(Stage::ALL.len())];
    let mut stages = match bytes.below(8) {
        0..=2 => return None,
        3 => return Some([Order::vllm(), Order::huggingface(), Order::llama_cpp()][bytes.below(3)].clone()),
        4 | 5 => bytes.list(20, stage),
        _ => bytes.list(5, stage).repeat(1 + bytes.below(60)),
    };
    if bytes.below(2) == 1 {
        // A parameter that is set needs its stage.
        stages.extend(Stage::ALL.into_iter().filter(|stage| !stages.contains(stage)).collect::<Vec<_>>());
    }
    Some(Order::of(stages))
}

/// Parameters that need not be valid, nor fit the vocabulary.
fn parameters(bytes: &mut Bytes<'_>, vocabulary: usize) -> SamplingParams {
    let id = |bytes: &mut Bytes<'_>| token(bytes, vocabulary);
    let min_tokens = bytes.below(16) as u32;
    SamplingParams {
        seed: Some(u64::from(bytes.u16())),
        order: order(bytes),
        temperature: number(bytes, 1.0),
        top_k: match bytes.u8() {
            byte @ 0..=249 => i64::from(byte.saturating_sub(64)),
            _ => bytes.u64() as i64,
        },
        top_p: number(bytes, 1.0),
        min_p: number(bytes, 0.0),
        repetition_penalty: number(bytes, 1.0),
        frequency_penalty: number(bytes, 0.0),
        presence_penalty: number(bytes, 0.0),
        penalty_window: bytes.below(16) as u32,
        penalty_scope: [PenaltyScope::Output, PenaltyScope::All][bytes.below(2)],
        logit_bias: bytes.list(6, |bytes| (id(bytes), number(bytes, 1.5))).into_iter().collect(),
        allowed_token_ids: (bytes.below(4) == 3).then(|| bytes.list(40, id)),
        bad_words_ids: bytes.list(3, |bytes| bytes.list(3, id)),
        min_tokens,
        max_tokens: min_tokens + 1 + bytes.below(16) as u32,
        stop_token_ids: bytes.list(3, id),
        eos_token_id: bytes.list(3, id),
        logprobs: Some(i64::from(bytes.u8()) - 128).filter(|&count| count >= -1),
        logprobs_mode: [
            LogprobsMode::RawLogprobs,
            LogprobsMode::RawLogits,
            LogprobsMode::ProcessedLogprobs,
            LogprobsMode::ProcessedLogits,
        ][bytes.below(4)],
        prompt_token_ids: bytes.list(12, id),
        output_token_ids: bytes.list(12, id),
        ..SamplingParams::default()
    }
}

/// Any bits; a few values over and over; or a model's row with any bits at a few places.
fn logits(bytes: &mut Bytes<'_>, vocabulary: usize) -> Vec<f32> {
    let any = |bytes: &mut Bytes<'_>| f32::from_bits(bytes.u32());
    match bytes.below(4) {
        0 => (0..vocabulary).map(|_| any(bytes)).collect(),
        1 => {
            let values: Vec<_> = (0..=bytes.below(16)).map(|_| any(bytes)).collect();
            (0..vocabulary).map(|_| values[bytes.below(values.len())]).collect()
        }
        kind => {
            let seed = u64::from(bytes.u8());
            let mut row =
                if kind == 2 { rows::peaked(seed, vocabulary) } else { rows::extreme(seed, vocabulary) };
            for (place, value) in bytes.list(8, |bytes| (usize::from(bytes.u16()), any(bytes))) {
                row[place % vocabulary] = value;
            }
            row
        }
    }
}

enum Logits {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Logits {
    fn row(&self) -> Row<'_> {
        match self {
            Logits::F32(values) => values.into(),
            Logits::F16(values) => values.into(),
            Logits::Bf16(values) => values.into(),
        }
    }
}

/// Everything a draw depends on, and everything it must not depend on.
struct Case {
    logits: Logits,
    params: SamplingParams,
    mask: Option<Vec<u32>>,
    shards: Shards,
    kernel: Kernel,
    ahead: u32,
    uniform: f64,
}

impl Case {
    fn read(bytes: &mut Bytes<'_>) -> Self {
        let vocabulary = 1 + usize::from(bytes.u16()) % 300;
        let params = parameters(bytes, vocabulary);
        let mask = match bytes.below(4) {
            0 | 1 => None,
            2 => Some((0..vocabulary.div_ceil(32)).map(|_| bytes.u32()).collect()),
            // Too short, or words after the end, which are not read.
            _ => Some(bytes.list(12, Bytes::u32)),
        };
        let shards = match bytes.below(2) {
            0 => Shards::even(bytes.below(20)),
            _ => Shards::at(bytes.list(6, |bytes| match bytes.u16() {
                u16::MAX => usize::MAX,
                point => usize::from(point) % 320,
            })),
        };
        let kernel = Kernel::ALL[bytes.below(Kernel::ALL.len())];
        let (ahead, uniform) = (bytes.u32(), number(bytes, 0.25));
        let dtype = bytes.below(3);
        let row = logits(bytes, vocabulary);
        let logits = match dtype {
            0 => Logits::F32(row),
            1 => Logits::F16(rows::to_f16(&row)),
            _ => Logits::Bf16(rows::to_bf16(&row)),
        };
        Self { logits, params, mask, shards, kernel, ahead, uniform }
    }
}

/// The lists whose ids must be tokens.
fn ids(params: &SamplingParams) -> [(&'static str, Vec<u32>); 7] {
    [
        ("logit_bias", params.logit_bias.keys().copied().collect()),
        ("allowed_token_ids", params.allowed_token_ids.clone().unwrap_or_default()),
        ("bad_words_ids", params.bad_words_ids.concat()),
        ("stop_token_ids", params.stop_token_ids.clone()),
        ("eos_token_id", params.eos_token_id.clone()),
        ("prompt_token_ids", params.prompt_token_ids.clone()),
        ("output_token_ids", params.output_token_ids.clone()),
    ]
}

/// What the chain leaves, by the reference, after the checks that come before any row is read.
fn expected(
    row: Row<'_>,
    mask: Option<&[u32]>,
    params: &SamplingParams,
    found: &RowError,
) -> Result<Left, RowError> {
    let vocabulary = row.len();
    let is_outside = |id: &u32| *id as usize >= vocabulary;
    let lists = ids(params);
    if lists.iter().any(|(_, ids)| ids.iter().any(is_outside)) {
        // Which of several is named is the engine's choice, but it must be one of them.
        let is_named = |(field, ids): &(&'static str, Vec<u32>)| {
            ids.iter().any(|&token| {
                is_outside(&token) && *found == RowError::OutsideVocabulary { field, token, vocabulary }
            })
        };
        assert!(lists.iter().any(is_named), "{found:?} for {params:?}");
        return Err(found.clone());
    }
    let needed = vocabulary.div_ceil(32);
    if let Some(words) = mask.map(<[u32]>::len).filter(|&words| words < needed) {
        return Err(RowError::MaskTooShort { words, needed });
    }
    if mask.is_some() && params.order.as_ref().is_some_and(|order| !order.names(Stage::Allowed)) {
        return Err(RowError::MaskWithoutStage);
    }
    reference::left(row, mask, params)
}

/// The token that `left` gives so many positions after the history's end.
fn token_at(left: &Left, params: &SamplingParams, ahead: u32) -> u32 {
    let position = (params.output_token_ids.len() as u32).wrapping_add(ahead);
    left.draw(&Noise { seed: params.seed.unwrap_or(0), position, sequence: 0, round: 0 })
}

fn only_token(result: &Result<Sampled, RowError>) -> Result<u32, RowError> {
    result.as_ref().map(|sampled| sampled.token).map_err(Clone::clone)
}

/// Roughly a distribution at all; that it is the right one, the reference says.
fn check_sane(distribution: &Distribution) {
    let sum: f64 = distribution.probabilities.iter().sum();
    assert!((sum - 1.0).abs() < 1e-4, "probabilities sum to {sum}: {distribution:?}");
    assert!(distribution.logprobs.iter().all(|logprob| !logprob.is_nan()), "{distribution:?}");
}

/// One row through the engine: whole, in shards, by any kernel, alone or in a batch, with and without a mask. Tokens,
/// probabilities and errors are those of the scalar reference.
pub fn chain(data: &[u8]) {
    let case = Case::read(&mut Bytes(data));
    if let Err(error) = case.params.validate() {
        check_message(&error, &BTreeSet::new());
        assert_eq!(Sampler::new(case.params).err(), Some(error));
        return;
    }
    check_case(&case, None);
    if let Some(mask) = &case.mask {
        check_case(&case, Some(mask));
    }
}

fn check_case(case: &Case, mask: Option<&[u32]>) {
    let (params, row) = (&case.params, case.logits.row());
    let mut sampler = Sampler::new(params.clone()).expect("valid parameters").shards(case.shards.clone());
    let mut batch = Batch::new().split(case.shards.clone()).kernel(case.kernel);
    let sequence = batch.add(params.clone()).expect("valid parameters");
    let steps = [Step { sequence, row, mask }];
    let distribution = match mask {
        None => sampler.distribution(row),
        Some(mask) => sampler.distribution_masked(row, mask),
    };
    let found = distribution.as_ref().err().unwrap_or(&RowError::UnknownSequence);
    let left = expected(row, mask, params, found);
    let defined = left.as_ref().map(Left::distribution).map_err(Clone::clone);
    assert_eq!(distribution, defined, "{params:?}");
    assert_eq!(batch.distributions(&steps), std::slice::from_ref(&distribution), "in a batch");
    let _ = distribution.as_ref().map(check_sane);

    for ahead in [0, case.ahead] {
        let drawn = batch.peek(&steps, ahead).remove(0);
        let defined = left.as_ref().map(|left| token_at(left, params, ahead)).map_err(Clone::clone);
        assert_eq!(only_token(&drawn), defined, "{ahead} ahead: {params:?}");
        if mask.is_none() {
            assert_eq!(sampler.peek(row, ahead), drawn, "alone and in a batch");
        }
        if let (Ok(drawn), Ok(distribution)) = (&drawn, &distribution) {
            check_logprobs(params, drawn, distribution);
        }
    }
    if mask.is_none() {
        let drawn = only_token(&sampler.clone().sample_uniform(row, case.uniform));
        match &left {
            Ok(left) if (0.0..1.0).contains(&case.uniform) => assert_eq!(drawn, Ok(left.at(case.uniform))),
            Ok(_) => assert!(matches!(drawn, Err(RowError::UniformOutOfRange { .. })), "{drawn:?}"),
            Err(error) => assert_eq!(drawn.as_ref(), Err(error)),
        }
    }
    check_history(&mut sampler, row, mask, params);
}

/// What is reported of the drawn token, where it is taken from the distribution that is drawn from.
fn check_logprobs(params: &SamplingParams, drawn: &Sampled, distribution: &Distribution) {
    assert_eq!(drawn.logprob.is_some(), params.logprobs.is_some());
    assert_eq!(drawn.logprobs.is_empty(), params.logprobs.is_none());
    if params.logprobs.is_none() || params.logprobs_mode != LogprobsMode::ProcessedLogprobs {
        return;
    }
    let place =
        distribution.tokens.iter().position(|&token| token == drawn.token).expect("a drawn token is kept");
    assert_eq!(drawn.rank, Some(place as u32 + 1));
    assert_eq!(drawn.logprob, Some(distribution.logprobs[place]));
    assert_eq!(drawn.probability, Some(distribution.probabilities[place]));
}

/// A token that was drawn and kept is history like one that came with the parameters, and can be taken back.
fn check_history(sampler: &mut Sampler, row: Row<'_>, mask: Option<&[u32]>, params: &SamplingParams) {
    let sample = |sampler: &mut Sampler| match mask {
        None => sampler.sample(row),
        Some(mask) => sampler.sample_masked(row, mask),
    };
    let first = sample(sampler);
    let Ok(drawn) = &first else {
        assert_eq!(sampler.output(), params.output_token_ids);
        return;
    };
    let mut longer = params.clone();
    longer.output_token_ids.push(drawn.token);
    let defined = reference::left(row, mask, &longer).map(|left| token_at(&left, &longer, 0));
    assert_eq!(only_token(&sample(sampler)), defined, "after one token: {params:?}");
    sampler.rewind(params.output_token_ids.len());
    assert_eq!(sample(sampler), first, "after a rewind");
}

/// Characters of one to four bytes, the first ones often enough to meet.
const CHARACTERS: [char; 8] = ['a', 'a', 'b', 'c', '\n', 'é', '€', '😀'];
/// The bytes of these, and one that is in no character.
const PIECES: [u8; 14] =
    [b'a', b'a', b'b', b'c', b'\n', 0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0xff];

/// Stop ids, stop strings and lengths over tokens of any bytes, against a search of the whole text after every token.
pub fn stop(data: &[u8]) {
    let mut bytes = Bytes(data);
    let flags = bytes.u8();
    let min_tokens = bytes.below(8) as u32;
    let params = SamplingParams {
        min_tokens,
        max_tokens: (min_tokens + bytes.below(24) as u32).max(1),
        ignore_eos: flags & 1 == 1,
        include_stop_str_in_output: flags & 2 == 2,
        eos_token_id: vec![6, 7],
        stop_token_ids: vec![7, 8],
        output_token_ids: vec![0; usize::from(flags >> 6)],
        stop: bytes.list(5, |bytes| {
            (0..=bytes.below(7)).map(|_| CHARACTERS[bytes.below(CHARACTERS.len())]).collect()
        }),
        ..SamplingParams::default()
    };
    let mut matcher = StopMatcher::new(StopConditions::new(&params).expect("valid parameters"));
    let (mut text, mut shown, mut free) = (Vec::new(), Vec::<u8>::new(), 0);
    let mut stream = Utf8Stream::default();
    let mut read = String::new();
    let mut written = params.output_token_ids.len() as u32;
    while !bytes.0.is_empty() {
        let token = bytes.below(16) as u32;
        let piece = bytes.list(8, |bytes| match bytes.u8() {
            byte @ 0..=223 => PIECES[usize::from(byte) % PIECES.len()],
            byte => byte,
        });
        written += 1;
        let finish = finish(&params, token, &piece, written, &mut text, &mut free);
        let progress = matcher.push(token, &piece);
        shown.extend(progress.text);
        read.push_str(stream.push(progress.text));
        assert_eq!(progress.finish, finish, "{params:?}");
        let held =
            if finish.is_some() || params.include_stop_str_in_output { 0 } else { open(&params.stop, &text) };
        assert_eq!(shown, text[..text.len() - held], "{params:?}");
        assert_eq!(matcher.held_back(), &text[text.len() - held..], "{params:?}");
        if finish.is_some() {
            let again = matcher.push(token, &piece);
            assert_eq!((again.text, again.finish), (&b""[..], finish), "after the end");
            break;
        }
    }
    let rest = matcher.finish();
    shown.extend(rest);
    read.push_str(stream.push(rest));
    read.push_str(stream.finish());
    assert_eq!(shown, text);
    assert_eq!(read, String::from_utf8_lossy(&text));
}

/// Every rule in its plainest form. Adds to `text` what of the token belongs there, and cuts it where it ends. A stop
/// string counts if it ends after the first `free` bytes.
fn finish(
    params: &SamplingParams,
    token: u32,
    piece: &[u8],
    number: u32,
    text: &mut Vec<u8>,
    free: &mut usize,
) -> Option<Finish> {
    let include = params.include_stop_str_in_output;
    if number > params.min_tokens {
        let is_eos = !params.ignore_eos && params.eos_token_id.contains(&token);
        if is_eos || params.stop_token_ids.contains(&token) {
            text.extend(piece.iter().filter(|_| include));
            return Some(if is_eos { Finish::Eos { token } } else { Finish::StopToken { token } });
        }
    }
    text.extend(piece);
    if number <= params.min_tokens {
        *free = text.len();
    }
    for end in *free + 1..=text.len() {
        if let Some(index) = params.stop.iter().position(|stop| text[..end].ends_with(stop.as_bytes())) {
            text.truncate(if include { end } else { end - params.stop[index].len() });
            return Some(Finish::StopString { index });
        }
    }
    (number >= params.max_tokens).then_some(Finish::Length)
}

/// The length of the longest suffix of `text` that is a proper prefix of a stop string.
fn open(stop: &[String], text: &[u8]) -> usize {
    let is_open = |&length: &usize| {
        let suffix = &text[text.len() - length..];
        stop.iter().any(|stop| stop.len() > length && stop.as_bytes().starts_with(suffix))
    };
    (0..=text.len()).rev().find(is_open).unwrap_or(0)
}
