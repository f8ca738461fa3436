//! What a caller may want to know of a draw beside its token: logprobs, ranks, lists, runners-up.

use crate::engine::draw::Draw;
use crate::error::RowError;
use crate::kept::{Border, Kept};
use crate::logits::access::RowAccess;
use crate::logits::answer::Finalist;
use crate::logits::locate::{self, KeptMass};
use crate::logits::query::{ListBest, ListKept, ReadLogit};
use crate::numeric::key::Key;
use crate::numeric::mass::{MAX_VOCABULARY, relative};
use crate::numeric::math::ln;
use crate::numeric::noise::Noise;
use crate::params::modes::KeptMode;

/// The most likely tokens that are considered as runners-up of a race: a drafter can reasonably guess no
/// others.
const CONSIDERED_RUNNERS: u32 = 16;

/// The token at share `uniform` of the kept mass, in the order: the inverse of the distribution function.
pub(crate) async fn at<R: RowAccess>(draw: &mut Draw<'_, R>, uniform: f64) -> Result<Key, RowError> {
    if !(0.0..1.0).contains(&uniform) {
        return Err(RowError::UniformOutOfRange { uniform });
    }
    if draw.is_greedy {
        return Ok(draw.summit);
    }
    let (last, total) = draw.kept().await?;
    // uniform · 2^64 is exact; the product's upper half is below the total.
    let share = (uniform * 18_446_744_073_709_551_616.0) as u64;
    let unit = (u128::from(share) * u128::from(total)) >> 64;
    let kept = KeptMass { last, softmax: draw.softmax(), total };
    locate::by_mass(&mut draw.row, kept, unit as u64).await
}

/// The winner and the tokens that finish after it, the earliest first, at most `count` in all. Only the
/// winner is certain: of the others, the [`CONSIDERED_RUNNERS`] most likely tokens are looked at.
pub(crate) async fn runners<R: RowAccess>(
    draw: &mut Draw<'_, R>,
    count: usize,
    noise: &Noise,
) -> Result<Vec<Finalist>, RowError> {
    let (x_max, temperature, is_greedy) = (draw.x_max(), draw.temperature, draw.is_greedy);
    let finalist = |key: Key| {
        let scaled = temperature.scaled(key.logit(), x_max);
        // A greedy row has no race: the order decides, and the logits say by how much.
        let score = if is_greedy { scaled } else { scaled - ln(noise.token(key.token())) };
        Finalist { score, key }
    };
    let first = finalist(draw.winner().await?);
    let mut runners = vec![first];
    if count < 2 {
        return Ok(runners);
    }
    let others = best(draw, Some(CONSIDERED_RUNNERS)).await?.iter().filter(|&&key| key != first.key);
    let mut others: Vec<Finalist> = others.map(|&key| finalist(key)).collect();
    others.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.key.token().cmp(&b.key.token())));
    for runner in others {
        if is_greedy || draw.rejected_by(runner.key).await?.is_none() {
            runners.push(runner);
        }
        if runners.len() == count {
            break;
        }
    }
    Ok(runners)
}

/// The logarithm of the probability of a token; −inf if the chain removed it.
pub(crate) async fn logprob<R: RowAccess>(draw: &mut Draw<'_, R>, key: Key) -> Result<f64, RowError> {
    let (last, _) = draw.kept().await?;
    Ok(if key > last { f64::NEG_INFINITY } else { kept_logprob(draw).await?(key) })
}

/// The function that gives the logarithm of the probability of a token that the chain keeps; of another token, that
/// which it would have beside the kept ones.
pub(crate) async fn kept_logprob<R: RowAccess>(
    draw: &mut Draw<'_, R>,
) -> Result<impl Fn(Key) -> f64 + use<R>, RowError> {
    let (_, total) = draw.kept().await?;
    let (is_greedy, temperature, x_max, ln_total) =
        (draw.is_greedy, draw.temperature, draw.x_max(), ln(relative(total)));
    Ok(move |key: Key| {
        let scaled = if is_greedy { 0.0 } else { temperature.scaled(key.logit(), x_max) };
        scaled - ln_total
    })
}

/// The logit of a token after all edits and the temperature; −inf if the chain removed it.
pub(crate) async fn logit<R: RowAccess>(draw: &mut Draw<'_, R>, key: Key) -> Result<f64, RowError> {
    let (last, _) = draw.kept().await?;
    Ok(if key > last { f64::NEG_INFINITY } else { draw.temperature.logit(key) })
}

/// 1 + the tokens before it.
pub(crate) async fn rank<R: RowAccess>(draw: &mut Draw<'_, R>, key: Key) -> Result<u32, RowError> {
    Ok(draw.row.count_before(key, u32::MAX).await? + 1)
}

/// The place of a token in the order.
pub(crate) async fn key_of<R: RowAccess>(draw: &mut Draw<'_, R>, token: u32) -> Result<Key, RowError> {
    let logit = draw.row.ask(&ReadLogit { token }).await?;
    let x = logit.x.ok_or(RowError::contradiction("no shard holds the token asked about"))?;
    Ok(Key::new(x, token))
}

/// The first `count` tokens of the order, sorted, whether the truncations keep them or not; `None`: all that
/// are alive.
pub(crate) async fn best<'d, R: RowAccess>(
    draw: &'d mut Draw<'_, R>,
    count: Option<u32>,
) -> Result<&'d [Key], RowError> {
    let count = count.map(|count| count.min(MAX_VOCABULARY as u32));
    match count {
        Some(count) => draw.row.ask(&ListBest { count }).await?,
        None => draw.row.ask(&ListKept { last: Key::END }).await?,
    };
    let keys = &mut draw.row.lists.keys;
    // Every part of a split vocabulary lists as many as are asked for of all.
    if let Some(count) = count.map(|count| count as usize).filter(|&count| count < keys.len()) {
        keys.select_nth_unstable(count);
        keys.truncate(count);
    }
    keys.sort_unstable();
    Ok(keys)
}

/// Every token that the chain keeps with the logarithm of its probability, in no particular order.
pub(crate) async fn support<R: RowAccess>(draw: &mut Draw<'_, R>) -> Result<Vec<(Key, f64)>, RowError> {
    let logprob = kept_logprob(draw).await?;
    let (last, _) = draw.kept().await?;
    draw.row.ask(&ListKept { last }).await?;
    Ok(draw.row.lists.keys.iter().map(|&key| (key, logprob(key))).collect())
}

/// The last token that the chain keeps.
pub(crate) async fn last<R: RowAccess>(draw: &mut Draw<'_, R>) -> Result<Key, RowError> {
    let (cut, _) = draw.kept().await?;
    // Most truncations end at a token, and to look there is much cheaper than to look for the last one.
    let is_token = match (draw.is_greedy, cut.token()) {
        (true, _) => true,
        (false, u32::MAX) => false,
        (false, token) => {
            draw.row.ask(&ReadLogit { token }).await?.x.is_some_and(|x| Key::new(x, token) == cut)
        }
    };
    if is_token { Ok(cut) } else { draw.row.last(cut).await }
}

/// What the draw kept, as it is asked for.
pub(crate) async fn kept<R: RowAccess>(
    draw: &mut Draw<'_, R>,
    mode: KeptMode,
    is_prefix: bool,
) -> Result<Option<Kept>, RowError> {
    if mode == KeptMode::None {
        return Ok(None);
    }
    let (cut, mass) = draw.kept().await?;
    let last = last(draw).await?;
    let border = Border { token: last.token(), logit: last.logit() };
    let (mut count, mut ids) = (1, None);
    if mode == KeptMode::Ids {
        let mut found = vec![last.token()];
        if !draw.is_greedy {
            draw.row.ask(&ListKept { last: cut }).await?;
            found = draw.row.lists.keys.iter().map(|key| key.token()).collect();
            found.sort_unstable();
        }
        count = found.len() as u32;
        ids = Some(found);
    } else if !draw.is_greedy {
        count = draw.row.count_before(last.next(), u32::MAX).await?;
    }
    Ok(Some(Kept { count, last: is_prefix.then_some(border), ln_mass: ln(relative(mass)), ids }))
}
