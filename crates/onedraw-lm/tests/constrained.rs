//! Texts under a constraint, on a model whose tokens are bytes: a pattern of places, each with the bytes it
//! allows.

use onedraw::{Constraint, ConstraintError, ConstraintKind, ConstraintText, FinishReason, SamplingParams};
use onedraw_lm::{Beams, GenerateError, Generated, Generator};

use crate::parrot::{Parrot, tokenizer};

/// The token that ends a text.
const END: u32 = 256;

/// A pattern: `a` is any lower-case letter, `0` any digit, everything else itself.
#[derive(Clone)]
pub struct Pattern {
    pub places: &'static [u8],
    pub written: usize,
    pub forces: bool,
    pub mask: Vec<u32>,
    /// Whether it tells its text.
    pub has_text: bool,
    /// After so many tokens it gives up.
    pub gives_up: usize,
}

impl Pattern {
    pub fn new(places: &'static str, forces: bool) -> Self {
        let (has_text, gives_up) = (false, usize::MAX);
        Self { places: places.as_bytes(), written: 0, forces, mask: vec![0; 9], has_text, gives_up }
    }

    fn allowed(&self, place: usize) -> Vec<u32> {
        match self.places.get(place) {
            None => vec![END],
            Some(b'a') => (97..123).collect(),
            Some(b'0') => (48..58).collect(),
            Some(&byte) => vec![byte.into()],
        }
    }
}

impl Constraint for Pattern {
    fn mask(&mut self) -> Result<&[u32], ConstraintError> {
        self.mask.fill(0);
        for token in self.allowed(self.written) {
            self.mask[token as usize / 32] |= 1 << (token % 32);
        }
        Ok(&self.mask)
    }

    fn forced(&mut self) -> Result<Vec<u32>, ConstraintError> {
        let single = |place| self.allowed(place).try_into().ok().map(|[token]: [u32; 1]| token);
        let places = self.written..self.places.len();
        Ok(if self.forces { places.map_while(single).collect() } else { Vec::new() })
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        if !self.allowed(self.written).contains(&token) {
            return Err(ConstraintError::new(format!("token {token} is not allowed")));
        }
        self.written += 1;
        match self.written == self.gives_up {
            true => Err(ConstraintError::new("it is too much")),
            false => Ok(()),
        }
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), ConstraintError> {
        self.written =
            self.written.checked_sub(tokens).ok_or_else(|| ConstraintError::new("too far back"))?;
        Ok(())
    }

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }

    fn source(&self) -> Option<ConstraintText> {
        self.has_text.then(|| ConstraintText {
            kind: ConstraintKind::Grammar,
            text: String::from_utf8_lossy(self.places).into_owned(),
            eos_token_ids: vec![END],
        })
    }
}

pub fn params(json: &str) -> SamplingParams {
    SamplingParams { eos_token_id: vec![END], ..SamplingParams::from_json(json).expect(json) }
}

fn write(pattern: &Pattern, params: SamplingParams) -> (Vec<Generated>, usize) {
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    let mut generator = Generator::new(&model, &tokenizer).chunk(3);
    // Another text in the same passes, with no constraint.
    generator.add(&[70, 71], self::params(r#"{"seed": 9, "max_tokens": 20}"#)).expect("a request");
    let request = generator.add_constrained(&[65, 66, 67, 68], params, pattern).expect("a request");
    let mut texts = onedraw_lm::generate::Texts::default();
    let mut passes = 0;
    while !generator.is_done() {
        passes += 1;
        generator.step().expect("a pass").into_iter().for_each(|event| texts.push(event));
    }
    (texts.into_generated().into_iter().filter(|text| text.request == request).collect(), passes)
}

fn matches(pattern: &Pattern, text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == pattern.places.len()
        && (0..bytes.len()).all(|place| pattern.allowed(place).contains(&bytes[place].into()))
}

#[test]
fn a_text_is_what_its_constraint_allows() {
    let pattern = Pattern::new("NAME: aaa, AGE: 00.", true);
    let asked = params(r#"{"seed": 1, "max_tokens": 50, "n": 3, "temperature": 3, "logprobs": 0}"#);
    let (texts, _) = write(&pattern, asked.clone());
    assert_eq!(texts.len(), 3);
    for text in &texts {
        assert!(matches(&pattern, &text.text), "{}", text.text);
        assert_eq!((text.finish, &text.error), (Some(FinishReason::Eos), &None));
        // What is forced is not drawn, so it has no logprob.
        let drawn: String =
            text.tokens.iter().map(|token| if token.logprob.is_some() { 'd' } else { 'f' }).collect();
        assert_eq!(drawn, "ffffffdddfffffffddfd");
    }
    assert_ne!(texts[0].text, texts[1].text);
    // Drawing what is forced gives the same text.
    let (drawn, _) = write(&Pattern::new("NAME: aaa, AGE: 00.", false), asked);
    let words = |texts: &[Generated]| texts.iter().map(|text| text.text.clone()).collect::<Vec<_>>();
    assert_eq!(words(&texts), words(&drawn));
}

#[test]
fn what_is_forced_takes_no_pass_of_its_own() {
    let asked = params(r#"{"seed": 1, "max_tokens": 50}"#);
    let (_, forced) =
        write(&Pattern::new("THE NUMBER OF THE HOUSE IS 00 IN THIS STREET.", true), asked.clone());
    let (_, drawn) = write(&Pattern::new("THE NUMBER OF THE HOUSE IS 00 IN THIS STREET.", false), asked);
    assert!(forced < 25 && drawn > 45, "{forced} {drawn}");
}

/// Text is taken back, with the constraint; where the constraint forces what is banned, there is nothing
/// left.
#[test]
fn a_banned_phrase_takes_the_constraint_back() {
    let pattern = Pattern::new("aaaaaaaaaa.", true);
    let (free, _) = write(&pattern, params(r#"{"seed": 5, "max_tokens": 50, "temperature": 4}"#));
    let banned = free[0].text[3..5].to_owned();
    let asked = SamplingParams {
        banned_strings: vec![banned.clone()],
        ..params(r#"{"seed": 5, "max_tokens": 50, "temperature": 4}"#)
    };
    let (texts, _) = write(&pattern, asked);
    assert!(matches(&pattern, &texts[0].text) && !texts[0].text.contains(&banned), "{}", texts[0].text);
    assert_eq!(texts[0].text[..3], free[0].text[..3]);
    let stuck = params(r#"{"seed": 5, "max_tokens": 50, "banned_strings": ["xyz"]}"#);
    let (texts, _) = write(&Pattern::new("a xyz", true), stuck);
    assert_eq!(texts[0].error.as_ref().map(|error| error.kind()), Some("nothing_left"));
}

#[test]
fn lengths_end_what_is_forced() {
    let (texts, _) = write(&Pattern::new("ABCDEFGH", true), params(r#"{"seed": 1, "max_tokens": 3}"#));
    assert_eq!((texts[0].tokens.len(), texts[0].finish), (3, Some(FinishReason::Length)));
    let stop = params(r#"{"seed": 1, "max_tokens": 30, "stop": ["CD"]}"#);
    let (texts, _) = write(&Pattern::new("XBCDEFGH", true), stop);
    assert_eq!((texts[0].text.as_str(), texts[0].finish), ("XB", Some(FinishReason::Stop)));
}

#[test]
fn beams_are_constrained_too() {
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    let pattern = Pattern::new("a0, a0", true);
    let beams = onedraw::beam::BeamParams { width: 5, ..Default::default() };
    let search = |constraint| {
        let asked = params(r#"{"max_tokens": 20, "n": 5}"#);
        Beams::new(&model, &tokenizer).constrained(constraint).search(&[65, 66], asked, beams.clone())
    };
    let found = search(&pattern).expect("texts");
    assert_eq!(found.len(), 5);
    for text in &found {
        assert!(matches(&pattern, &text.text), "{}", text.text);
    }
    assert!(found.windows(2).all(|pair| pair[0].hypothesis.score >= pair[1].hypothesis.score));
    // Narrower than the beams: there is one text.
    assert_eq!(search(&Pattern::new("ONLY", true)).expect("texts").len(), 1);
    let drawn = Beams::new(&model, &tokenizer).constrained(&pattern);
    let (drawn, _) = drawn.draw(&[65, 66], params(r#"{"max_tokens": 20, "seed": 4}"#), 4).expect("texts");
    assert!(drawn.len() == 4 && drawn.iter().all(|text| matches(&pattern, &text.text)));
    /// One that cannot go on.
    #[derive(Clone)]
    struct Broken;
    impl Constraint for Broken {
        fn mask(&mut self) -> Result<&[u32], ConstraintError> {
            Err(ConstraintError::new("broken"))
        }
        fn accept(&mut self, _: u32) -> Result<(), ConstraintError> {
            Ok(())
        }
        fn rollback(&mut self, _: usize) -> Result<(), ConstraintError> {
            Ok(())
        }
        fn fork(&self) -> Box<dyn Constraint> {
            Box::new(Broken)
        }
    }
    let error = search_error(Beams::new(&model, &tokenizer).constrained(&Broken).search(
        &[65],
        params("{}"),
        beams.clone(),
    ));
    assert_eq!(error, "constraint: broken");
    let mut generator = Generator::new(&model, &tokenizer);
    generator.add_constrained(&[65], params("{}"), &Broken).expect("a request");
    let text = generator.finish().expect("texts").remove(0);
    assert_eq!(text.error.map(|error| error.to_string()), Some("constraint: broken".to_owned()));
}

fn search_error<T>(result: Result<T, GenerateError>) -> String {
    result.err().expect("an error").to_string()
}
