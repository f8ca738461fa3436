//! What the parts of a row said at once, and which questions that answers.
//!
//! Each part of a split row opens a draw by saying what it can say alone ([`Opened`]): its best tokens, the
//! first finishers of its race, and the masses of the rest by steps of the logit. All openings together
//! often decide the draw. The draw itself does not know of them: it asks its questions, and one whose
//! answer follows from the openings is answered here; any other is put to the parts. Nothing is guessed, so
//! a token is that of the whole row.
//!
//! - The best tokens of a part are all its tokens up to some place of the order. Up to the first of these
//!   places the whole row is known: counts, masses and lists are exact there.
//! - A race among all tokens is won by the first finisher of some part. Where only tokens before some place may
//!   win, the part's finishers before it are looked at in turn. They are scored here, as the race scores them:
//!   noise can be computed for any token alone. Tokens that a part did not send finish after the last that it
//!   sent.
//! - A mass beyond the known tokens is an interval: the points of a part's curve say at least and at most how
//!   much comes before a step of the logit (`logits/measure/curve.rs`). Most comparisons with p are decided by
//!   it.
//! - Where the chain has a min-p, parts leave out what it would drop of them alone. A part's largest logit is
//!   at most that of the row, so the row's min-p drops that too, and the draw never asks about it: it cuts
//!   before it races.
//!
//! A part weighs against its own logits, because it does not know the largest of the row. The factor
//! between the two scales is a power; [`Interval::around`] covers the rounding of weights on both scales
//! (see [`Opening::rest`]).

use std::sync::OnceLock;

use crate::kernels::passes::vectorized;
use crate::kernels::weight::powers;
use crate::logits::answer::{AnswerPart, Held, Lists, Opened, Summit, Winner};
use crate::logits::finalist::Finalist;
use crate::logits::measure::curve::{Targets, are_possible, step_of};
use crate::logits::questions::Open;
use crate::numeric::key::Key;
use crate::numeric::mass::{Interval, Softmax, UNIT};
use crate::numeric::math::exp;
use crate::numeric::noise::{BLOCK, Noise};
use crate::numeric::temperature::Temperature;

/// What one part said.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    held: Held,
    opened: Opened,
    /// The first tokens, in order.
    best: Vec<Key>,
    /// All tokens up to this place are among the best.
    complete: Key,
    /// Nothing after this place raced or was weighed.
    end: Key,
    /// The first tokens to finish, the earliest first.
    finishers: Vec<Key>,
    /// The mass of the best tokens, weighed as the part weighs.
    listed: u64,
    /// The points of the curve of the tokens after the best.
    points: Vec<u16>,
    /// The masses of the first best tokens, by the softmax that was asked for first: of one, of two, and so on.
    sums: OnceLock<(Softmax, Vec<u64>)>,
}

impl Opening {
    /// `None` where no part that holds these tokens can say this. The keys were checked one by one: they are
    /// tokens of the part.
    pub(crate) fn new(open: &Open, held: Held, opened: Opened, lists: &Lists) -> Option<Self> {
        let (best, finishers) = lists.keys.split_at_checked(opened.best as usize)?;
        let wanted = open.best as usize;
        let runs = if open.race.is_some() { Open::FINISHERS } else { 0 };
        let is_distinct = |keys: &[Key]| {
            let tokens: Vec<u32> = keys.iter().map(|key| key.token()).collect();
            (1..tokens.len()).all(|i| !tokens[..i].contains(&tokens[i]))
        };
        let end = opened.summit.top.map_or(Key::END, |top| open.end(top.logit()));
        // Of the best tokens, those that race.
        let racing = best.partition_point(|&key| key <= end);
        let is_all_racing = best.len() < wanted || racing < best.len();
        let most = u64::from(held.length.saturating_sub(opened.best)) * UNIT;
        let is_possible = best.len() <= wanted
            && best.is_sorted_by(|a, b| a < b)
            && is_distinct(best)
            && finishers.len() <= runs
            // If there are fewer than wanted, there are no others.
            && finishers.len() >= racing.min(runs)
            && (!is_all_racing || finishers.len() <= racing)
            && finishers.iter().all(|&key| key <= end)
            && is_distinct(finishers)
            && (wanted == 0 || opened.summit.top == best.first().copied())
            && !(opened.summit.top.is_some() && opened.summit.bad.is_some())
            && opened.rest <= if is_all_racing { 0 } else { most }
            && are_possible(&lists.points, open.focus);
        let complete = match best.last() {
            Some(&last) if best.len() == wanted => last,
            None if wanted == 0 => Key::from_number(0),
            _ => Key::END,
        };
        let listed = match (open.masses, best.first()) {
            (Some(temperature), Some(top)) if is_possible => {
                weights(best, temperature.softmax(top.logit())).iter().sum()
            }
            _ => 0,
        };
        let (best, finishers, points) = (best.to_vec(), finishers.to_vec(), lists.points.clone());
        is_possible.then_some(Self {
            held,
            opened,
            best,
            complete,
            end,
            finishers,
            listed,
            points,
            sums: OnceLock::new(),
        })
    }

    /// The listed tokens up to and including `last`.
    fn up_to(&self, last: Key) -> &[Key] {
        &self.best[..self.best.partition_point(|&key| key <= last)]
    }

    /// The mass of the listed tokens up to and including `last`.
    fn mass(&self, last: Key, softmax: Softmax) -> u64 {
        let keys = self.up_to(last);
        let (known, sums) = self.sums.get_or_init(|| {
            let mut sums = weights(&self.best, softmax);
            let mut sum = 0;
            for weight in &mut sums {
                sum += *weight;
                *weight = sum;
            }
            (softmax, sums)
        });
        match keys.len() {
            0 => 0,
            count if *known == softmax => sums[count - 1],
            _ => weights(keys, softmax).iter().sum(),
        }
    }

    /// The mass of the tokens after the best ones, up to and including `last`, which comes after them; `None`
    /// where it is not known. The softmax has the temperature at which the part weighed.
    ///
    /// Here a weight is `w = floor(2^t · 2^43)` with t from the part's largest logit; in the row it is `w' =
    /// floor(2^t' · 2^43)` with t' from the row's. Exactly, `t' = t + d`, the same d for every token. Both
    /// exponents are rounded twice to f32 and are at most 64 in size, which changes a power by less than
    /// 2^-16.5 in all, and both polynomials are within 2^-23. So `w'` lies within 2^-16 of `2^d · w`, but for
    /// the floors: w may be up to 1 short, and w' too.
    fn rest(&self, last: Key, softmax: Softmax, focus: u64) -> Option<Interval> {
        if last > self.end && self.end < Key::END {
            return None;
        }
        let x_max = self.best.first()?.logit();
        let own = Softmax { x_max, ..softmax };
        let rest = self.opened.rest;
        let (least, most) = if last >= self.end {
            (rest, rest)
        } else {
            Targets::new(rest, self.listed, focus).bounds(&self.points, step_of(last.logit(), own))
        };
        let tokens = u64::from(self.held.length) - self.best.len() as u64;
        let octaves = (f64::from(x_max) - f64::from(softmax.x_max)) * f64::from(softmax.scale);
        let factor = exp(octaves * std::f64::consts::LN_2);
        Some(Interval::around(least as f64 * factor, (most + tokens) as f64 * factor, tokens))
    }
}

/// What all parts of a row said.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    open: Open,
    noise: Noise,
    parts: Vec<Opening>,
}

impl Known {
    /// The answers to `open` of all parts, of a draw with this noise.
    pub(crate) fn new(open: Open, noise: Noise, parts: Vec<Opening>) -> Self {
        Self { open, noise, parts }
    }

    /// The first token of the order, and the lowest bad logit.
    pub(crate) fn summit(&self) -> Summit {
        let nothing = Summit { top: None, bad: None };
        self.parts.iter().fold(nothing, |all, part| all.merge(part.opened.summit))
    }

    /// Whether no edit changed the row.
    pub(crate) fn is_raw(&self) -> bool {
        self.parts.iter().all(|part| part.opened.is_raw)
    }

    /// Whether all tokens up to `last` are known.
    fn is_known(&self, last: Key) -> bool {
        self.parts.iter().all(|part| last <= part.complete)
    }

    /// The tokens up to `last`, in no particular order, if they are known.
    pub(crate) fn listed(&self, last: Key) -> Option<impl Iterator<Item = Key>> {
        self.is_known(last).then(|| self.parts.iter().flat_map(move |part| part.up_to(last)).copied())
    }

    /// How many tokens come before `key`; where there are `enough` or more, it may return `enough`.
    pub(crate) fn count_before(&self, key: Key, enough: u32) -> Option<u32> {
        let last = key.previous();
        let count = self.parts.iter().map(|part| part.up_to(last).len() as u32).sum();
        if count >= enough { Some(enough) } else { self.is_known(last).then_some(count) }
    }

    /// The mass of the tokens up to and including `last`.
    pub(crate) fn mass(&self, last: Key, softmax: Softmax) -> Option<u64> {
        self.is_known(last).then(|| self.parts.iter().map(|part| part.mass(last, softmax)).sum())
    }

    /// As [`Known::mass`], between two bounds.
    pub(crate) fn bounds(&self, last: Key, softmax: Softmax) -> Option<Interval> {
        let is_weighed =
            self.open.masses.is_some_and(|temperature| temperature.softmax(0.0).scale == softmax.scale);
        if !is_weighed && !self.is_known(last) {
            return None;
        }
        let mut all = Interval::default();
        for part in &self.parts {
            let listed = part.mass(last, softmax);
            all = all.and(Interval { least: listed, most: listed });
            if last > part.complete {
                all = all.and(part.rest(last, softmax, self.open.focus)?);
            }
        }
        Some(all)
    }

    /// Lists the first `count` tokens, if they are known.
    pub(crate) fn best(&self, count: usize, keys: &mut Vec<Key>) -> bool {
        keys.extend(self.parts.iter().flat_map(|part| &part.best));
        if keys.len() > count {
            keys.select_nth_unstable(count);
            keys.truncate(count);
        }
        let last = if keys.len() < count { Some(Key::END) } else { keys.iter().max().copied() };
        let is_known = last.is_none_or(|last| self.is_known(last));
        if !is_known {
            keys.clear();
        }
        is_known
    }

    /// The logit of a token, if some part named it.
    pub(crate) fn logit(&self, token: u32) -> Option<f32> {
        let part = self.parts.iter().find(|part| part.held.has(token))?;
        let named = part.best.iter().chain(&part.finishers).find(|key| key.token() == token);
        named.map(|key| key.logit())
    }

    /// The winner of the race among the tokens before `before`, if it is certain. Few tokens are scored: usually
    /// the first finisher of each part, and the second of one.
    pub(crate) fn race(&self, x_max: f32, temperature: Temperature, before: Option<Key>) -> Option<Winner> {
        let last = before.map_or(Key::END, Key::previous);
        let score = |key: Key| Finalist::new(key, self.noise.token(key.token()), x_max, temperature);
        let mut winner: Option<Finalist> = None;
        // A score that no token reaches which is not looked at, with room for rounding.
        let mut bar = f64::NEG_INFINITY;
        for part in &self.parts {
            let has_raced = self.open.race == Some(temperature) && last <= part.end;
            if !has_raced && last > part.complete {
                return None;
            }
            let mut is_open = true;
            if has_raced {
                // Those who finish later do not beat one who has lost by more than the rounding.
                for &key in part.finishers.iter().filter(|&&key| key <= last) {
                    let finalist = score(key);
                    let winner = *winner.insert(first_of(finalist, winner));
                    if latest(finalist.score) < winner.score {
                        is_open = false;
                        break;
                    }
                }
                is_open &= part.finishers.len() == Open::FINISHERS;
            }
            if is_open && last <= part.complete {
                winner =
                    part.up_to(last).iter().fold(winner, |winner, &key| Some(first_of(score(key), winner)));
            } else if is_open && let Some(&last_sent) = part.finishers.last() {
                bar = bar.max(latest(score(last_sent).score));
            }
        }
        let is_certain = winner.map_or(bar == f64::NEG_INFINITY, |winner| winner.score > bar);
        is_certain.then_some(Winner { finalist: winner })
    }
}

/// Whoever finishes first.
fn first_of(one: Finalist, other: Option<Finalist>) -> Finalist {
    other.filter(|other| !one.beats(other)).unwrap_or(one)
}

/// The weights of tokens, none of which is above the softmax's largest logit.
fn weights(keys: &[Key], softmax: Softmax) -> Vec<u64> {
    let mut weights = Vec::with_capacity(keys.len());
    vectorized!(Passes::default(), simd => for keys in keys.chunks(BLOCK) {
        let (mut lanes, mut found) = ([f32::NEG_INFINITY; BLOCK], [0.0; BLOCK]);
        lanes.iter_mut().zip(keys).for_each(|(lane, key)| *lane = key.logit());
        powers(simd, &lanes, softmax, &mut found);
        weights.extend(found[..keys.len()].iter().map(|&power| power as u64));
    });
    weights
}

/// The highest score that a token can have which a part did not send, if the last finisher that it sent has
/// `score`.
///
/// The part compared scores that it computed from its own largest logit. Exactly, all its scores differ
/// from those of the whole row by the same number. Each computed score has three roundings, of numbers no
/// larger than `|y| + |ln E|`, and |ln E| is below 28. A token that reaches `score` has a `y` of at most
/// `|score| + 28` in size. So the roundings of both tokens on both scales together are below `(|score| +
/// 64) · 2^-49`.
fn latest(score: f64) -> f64 {
    const ROUNDING: f64 = 1.0 / (1u64 << 45) as f64;
    score + (score.abs() + 64.0) * ROUNDING
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logits::measure::curve::{POINTS, STEPS};
    use onedraw_testkit::rows;

    const NOISE: Noise = Noise { seed: 5, position: 3, sequence: 0, round: 0 };

    /// A row as its definition has it, and what parts of it would say.
    struct Whole {
        order: Vec<Key>,
        temperature: Temperature,
        known: Known,
    }

    fn finalist(key: Key, x_max: f32, temperature: Temperature) -> Finalist {
        Finalist::new(key, NOISE.token(key.token()), x_max, temperature)
    }

    fn sorted(row: &[f32], first: usize) -> Vec<Key> {
        let mut order: Vec<Key> = (first as u32..).zip(row).map(|(token, &x)| Key::new(x, token)).collect();
        order.retain(|&key| key < Key::END);
        order.sort_unstable();
        order
    }

    /// The opening of one part, computed naively.
    fn opening(open: &Open, row: &[f32], first: usize) -> Opening {
        let order = sorted(row, first);
        let mut lists = Lists::default();
        let best = order.len().min(open.best as usize);
        lists.keys.extend_from_slice(&order[..best]);
        let x_max = order.first().map_or(0.0, |top| top.logit());
        let reached = &order[..order.partition_point(|&key| key <= open.end(x_max))];
        if let Some(temperature) = open.race {
            let mut runners: Vec<_> = reached.iter().map(|&key| finalist(key, x_max, temperature)).collect();
            runners.sort_by(
                |a, b| if a.beats(b) { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater },
            );
            lists.keys.extend(runners.iter().take(Open::FINISHERS).map(|runner| runner.key));
        }
        let mut rest = 0;
        if let Some(temperature) = open.masses {
            lists.points = vec![0; POINTS];
            let softmax = temperature.softmax(x_max);
            let mass = |keys: &[Key]| keys.iter().map(|key| softmax.weight(key.logit())).sum::<u64>();
            let tail = reached.get(best..).unwrap_or_default();
            if best == open.best as usize {
                rest = mass(tail);
                let targets = Targets::new(rest, mass(&order[..best]), open.focus);
                let (mut upto, mut sum) = ([0; STEPS], 0);
                for key in tail {
                    sum += softmax.weight(key.logit());
                    upto[step_of(key.logit(), softmax)..].fill(sum);
                }
                for (i, point) in lists.points.iter_mut().enumerate() {
                    *point = upto.partition_point(|&mass| mass <= targets.of(i)) as u16;
                }
            }
        }
        let summit = Summit { top: order.first().copied(), bad: None };
        let opened = Opened { summit, is_raw: true, best: best as u32, rest };
        let held = Held { start: first as u32, length: row.len() as u32 };
        Opening::new(open, held, opened, &lists).expect("a possible opening")
    }

    fn whole(row: &[f32], parts: usize, best: u32, temperature: f64) -> Whole {
        let temperature = Temperature::ONE.then(temperature);
        let masses = (best > 0).then_some(temperature);
        let (reach, focus) = (f64::NEG_INFINITY, if parts.is_multiple_of(2) { 1 << 52 } else { 0 });
        let open = Open { best, race: Some(temperature), masses, reach, focus };
        let edge = |part: usize| part * row.len() / parts;
        let openings = (0..parts).map(|part| opening(&open, &row[edge(part)..edge(part + 1)], edge(part)));
        let known = Known::new(open, NOISE, openings.collect());
        Whole { order: sorted(row, 0), temperature, known }
    }

    impl Whole {
        /// Asks everything about the token at a place; returns how many questions were answered, and how many
        /// there were. Every answer is right.
        fn ask(&self, place: usize) -> (usize, usize) {
            let Self { order, temperature, known } = self;
            let (key, x_max) = (order[place], order[0].logit());
            let softmax = temperature.softmax(x_max);
            let mass = |keys: &[Key]| keys.iter().map(|key| softmax.weight(key.logit())).sum::<u64>();
            let up_to = mass(&order[..=place]);
            let mut answered = [false; 6];
            if let Some(bounds) = known.bounds(key, softmax) {
                assert!(bounds.least <= up_to && up_to <= bounds.most, "{up_to} {bounds:?} at {place}");
                answered[0] = true;
            }
            if let Some(exact) = known.mass(key, softmax) {
                assert_eq!(exact, up_to);
                answered[1] = true;
            }
            if let Some(count) = known.count_before(key, u32::MAX) {
                assert_eq!(count as usize, place);
                answered[2] = true;
            }
            let mut keys = Vec::new();
            if known.best(place + 1, &mut keys) {
                keys.sort_unstable();
                assert_eq!(keys, order[..=place]);
                answered[3] = true;
            }
            for (i, before, runners) in [(4, None, &order[..]), (5, Some(key.next()), &order[..=place])] {
                if let Some(Winner { finalist: winner }) = known.race(x_max, *temperature, before) {
                    let scores = runners.iter().map(|&key| finalist(key, x_max, *temperature));
                    assert_eq!(winner, scores.reduce(|a, b| if b.beats(&a) { b } else { a }), "at {place}");
                    answered[i] = true;
                }
            }
            assert!(known.count_before(key, 1).is_none_or(|count| count == 1 || place == 0));
            (answered.iter().filter(|answered| **answered).count(), answered.len())
        }
    }

    /// Whatever is answered is right, on every kind of row; most of it is.
    #[test]
    fn answers_are_those_of_the_whole_row() {
        let (mut answered, mut asked) = (0, 0);
        for seed in 0..12 {
            let kinds = [
                rows::peaked(seed, 3000),
                rows::gaussian(seed, 2000, 2.0),
                rows::ties(seed, 1500, 4),
                rows::flat(700, 1.0),
                rows::masked(seed, 900, 0.9),
                rows::extreme(seed, 800),
                rows::denormal(seed, 600),
                vec![1.0],
            ];
            for row in kinds {
                for (parts, best, temperature) in
                    [(1, 50, 1.0), (3, 50, 0.01), (8, 20, 0.8), (5, 0, 30.0), (16, 50, 1e6)]
                {
                    let whole = whole(&row, parts, best, temperature);
                    let count = whole.order.len();
                    for place in [0, 1, 7, 30, 49, 50, 51, 200, count / 2, count - 1] {
                        if place < count {
                            let (some, all) = whole.ask(place);
                            (answered, asked) = (answered + some, asked + all);
                        }
                    }
                }
            }
        }
        assert!(answered > asked / 3, "{answered} of {asked}");
    }

    /// A winner that is no better than the last finisher which its part sent is not certain: a token that
    /// was not sent may be as good.
    #[test]
    fn the_last_finisher_does_not_win() {
        let row = rows::gaussian(9, 500, 1.0);
        let whole = whole(&row, 1, 0, 1.0);
        let finishers = whole.known.parts[0].finishers.clone();
        let mut met = 0;
        for (place, &key) in finishers.iter().enumerate() {
            // Only tokens from this one on, in the order of the race, come before the place.
            let is_first = finishers[..place].iter().all(|earlier| *earlier > key);
            if !is_first {
                continue;
            }
            let race = whole.known.race(whole.order[0].logit(), whole.temperature, Some(key.next()));
            let expected = (place + 1 < finishers.len()).then_some(key);
            assert_eq!(race.and_then(|winner| winner.finalist).map(|winner| winner.key), expected);
            met += 1;
        }
        assert!(met > 1);
        let cold = Temperature::ONE.then(0.5);
        assert_eq!(whole.known.race(whole.order[0].logit(), cold, None), None, "another race");
    }

    /// What no part can say is refused.
    #[test]
    fn impossible_openings() {
        let temperature = Temperature::ONE;
        let reach = f64::NEG_INFINITY;
        let open = Open { best: 3, race: Some(temperature), masses: Some(temperature), reach, focus: 0 };
        let held = Held { start: 10, length: 20 };
        let key = |x: f32, token| Key::new(x, token);
        let best = [key(5.0, 12), key(4.0, 11), key(4.0, 15)];
        let finishers: Vec<Key> = (10..18).map(|token| key(3.0, token)).collect();
        let summit = Summit { top: Some(best[0]), bad: None };
        let good = Opened { summit, is_raw: true, best: 3, rest: 17 * UNIT };
        let lists = |best: &[Key], finishers: &[Key]| Lists {
            keys: [best, finishers].concat(),
            sums: Vec::new(),
            points: vec![0; POINTS],
        };
        let is_possible = |opened, lists| Opening::new(&open, held, opened, &lists).is_some();
        assert!(is_possible(good, lists(&best, &finishers)));
        // Points do not fall where their targets rise: twice from half on, if there is a focus.
        let mut falling = lists(&best, &finishers);
        falling.points[..POINTS / 2].fill(7);
        assert!(!is_possible(good, falling.clone()));
        assert!(Opening::new(&Open { focus: 1, ..open }, held, good, &falling).is_some());
        falling.points[POINTS - 2] = 1;
        assert!(Opening::new(&Open { focus: 1, ..open }, held, good, &falling).is_none());
        let swapped = [best[0], best[2], best[1]];
        let twice = [best[0], best[1], best[1]];
        let mut repeated = finishers.clone();
        repeated[7] = repeated[0];
        let two = Opened { best: 2, rest: 0, ..good };
        let with_top = |top| Opened { summit: Summit { top, bad: None }, ..good };
        for (opened, lists) in [
            (good, lists(&swapped, &finishers)),
            (good, lists(&twice, &finishers)),
            (good, lists(&best, &finishers[..2])),
            (good, lists(&best, &[&finishers[..], &best[..1]].concat())),
            (good, lists(&best, &repeated)),
            (Opened { rest: 17 * UNIT + 1, ..good }, lists(&best, &finishers)),
            (Opened { best: 12, ..good }, lists(&best, &finishers)),
            // Fewer than were asked for are all there are.
            (two, lists(&best[..2], &finishers)),
            (Opened { rest: 1, ..two }, lists(&best[..2], &best[..2])),
            (with_top(Some(best[1])), lists(&best, &finishers)),
            (with_top(None), lists(&best, &finishers)),
        ] {
            assert!(!is_possible(opened, lists.clone()), "{opened:?} {:?}", lists.keys);
        }
        assert!(is_possible(two, lists(&best[..2], &best[..2])));

        // Where two of the best tokens are within reach, no others race.
        let open = Open { reach: -1.0, ..open };
        let best = [key(5.0, 12), key(4.0, 11), key(3.5, 15)];
        let none = Opened { rest: 0, ..good };
        let is_possible = |opened, lists| Opening::new(&open, held, opened, &lists).is_some();
        assert!(is_possible(none, lists(&best, &best[..2])));
        assert!(!is_possible(none, lists(&best, &best)));
        assert!(!is_possible(none, lists(&best, &best[..1])));
        assert!(!is_possible(Opened { rest: 1, ..good }, lists(&best, &best[..2])));
    }

    /// Parts that leave out what a min-p drops say nothing about it, and the rest is right.
    #[test]
    fn what_is_out_of_reach_is_not_known() {
        let temperature = Temperature::ONE.then(0.8);
        for seed in 0..20 {
            let row = rows::gaussian(seed, 4000, 1.0);
            let reach = -2.0;
            let open = Open { best: 50, race: Some(temperature), masses: Some(temperature), reach, focus: 0 };
            let parts = [0..1500, 1500..4000].map(|part| opening(&open, &row[part.clone()], part.start));
            let whole =
                Whole { order: sorted(&row, 0), temperature, known: Known::new(open, NOISE, parts.into()) };
            let (x_max, softmax) = (whole.order[0].logit(), temperature.softmax(whole.order[0].logit()));
            let cut = open.end(x_max);
            let kept = whole.order.partition_point(|&key| key <= cut);
            assert!((20..1000).contains(&kept), "{kept}");
            for place in [0, 49, 60, kept / 2, kept - 1] {
                whole.ask(place);
            }
            let mass = whole.order[..kept].iter().map(|key| softmax.weight(key.logit())).sum();
            let bounds = whole.known.bounds(cut, softmax).expect("within reach");
            assert!((bounds.least..=bounds.most).contains(&mass));
            // One of the parts is as narrow as the row, and its mass is told.
            assert!(bounds.most - bounds.least < mass / 50, "{bounds:?} of {mass}");
            assert!(whole.known.race(x_max, temperature, Some(cut.next())).is_some());
            assert_eq!(whole.known.race(x_max, temperature, None), None);
            assert_eq!(whole.known.bounds(Key::END, softmax), None);
        }
    }
}
