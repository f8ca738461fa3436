"""The kernels of the passes, in Triton, one program for each row. Arithmetic is in float32, in float64 for float64 logits.

Naively, with x the logits of a row over its temperature and K its kept tokens:

    peak = max(x[i] for i in K);  mass = sum(exp(x[i] - peak) for i in K)
    logprob = x[token] - peak - ln(mass)
    gradient[i] = 0 outside K, else with p = exp(x[i] - peak) / mass
        (d_logprob * ((i == token) - p) - d_entropy * p * (ln(p) + entropy)) / temperature

What the kernels do differently:

1. Peak and sums are found in one pass over blocks of logits. Where a block has a higher peak, the sums so far are
   multiplied by the exp of the difference, which is the same sum in exact arithmetic. Powers are of 2, which is what the
   hardware has.
2. With ids, the gradient is zeros with the kept entries over them. A program reads the kept logits into registers, from
   where the forward pass wrote them down if they are few. Then it writes a block of zeros and over it the entries
   that are in it, while the zeros are still in a cache. Barriers separate reading, zeros and entries, so the gradient may
   lie where the logits lie. A set that is too large for the registers is done in segments of as many columns as there are
   registers, and ids ascend, so each segment fits.
3. With summaries of few tokens, ids are listed first. Otherwise each pass finds out again what is kept: what reaches the
   border, up to the last token, and what reaches the next number above the border, after it.
4. What is wrong is not raised but reported, by an atomic minimum over row * SPAN + problem. Nothing outside the tensors
   is read, whatever ids, offsets and tokens are. Wrong offsets move the ids of all rows, and a wrong summary gives wrong
   ids, so they go before all else: their reports are negative.
"""
# Type checkers do not know the language that Triton compiles.
# mypy: ignore-errors

import triton
import triton.language as tl

from . import _asked
from ._asked import Problem

IGNORED = tl.constexpr(_asked.IGNORED)
SPAN = tl.constexpr(_asked.SPAN)
NO_PROBLEM = tl.constexpr(_asked.NO_PROBLEM)
NO_ID = tl.constexpr(2**31 - 1)
OFFSETS = tl.constexpr(int(Problem.OFFSETS))
NO_PREFIX = tl.constexpr(int(Problem.NO_PREFIX))
EMPTY = tl.constexpr(int(Problem.EMPTY))
OUTSIDE = tl.constexpr(int(Problem.OUTSIDE))
ORDER = tl.constexpr(int(Problem.ORDER))
TEMPERATURE = tl.constexpr(int(Problem.TEMPERATURE))
TOKEN_OUTSIDE = tl.constexpr(int(Problem.TOKEN_OUTSIDE))
NAN = tl.constexpr(int(Problem.NAN))
BORDER = tl.constexpr(int(Problem.BORDER))
COUNT = tl.constexpr(int(Problem.COUNT))
INFINITE = tl.constexpr(int(Problem.INFINITE))
NOT_KEPT = tl.constexpr(int(Problem.NOT_KEPT))
TOKEN_LOGIT = tl.constexpr(int(Problem.TOKEN_LOGIT))


@triton.jit
def _inverse(temperature, WIDE: tl.constexpr):
    """log2(e) / temperature, held where its product with -inf is -inf, and with 0 is 0."""
    HIGHEST: tl.constexpr = 1e307 if WIDE == tl.float64 else 1e37
    return tl.minimum(tl.maximum(1.4426950408889634 / temperature, 1 / HIGHEST), HIGHEST).to(WIDE)


@triton.jit
def _nothing(WIDE: tl.constexpr):
    """The sums of a row to which nothing was added. The peak begins with the lowest finite number, so that no difference
    with it is NaN."""
    LOWEST: tl.constexpr = -1.7976931348623157e308 if WIDE == tl.float64 else -3.4028234663852886e38
    zero = tl.zeros([], WIDE)
    return zero + LOWEST, zero, zero


@triton.jit
def _add(logits, kept, inverse, peak, mass, moment, ENTROPY: tl.constexpr):
    """Adds the kept ones of a block of logits to the sums of a row: their peak, and over y = (logit - peak) * inverse the
    mass, of 2^y, and the moment, of 2^y * y. A logit that is not kept must be lower than one that is."""
    top = tl.maximum(peak, tl.max(logits, axis=0))
    y, moved = (logits - top) * inverse, (peak - top) * inverse
    shares, share = tl.where(kept, tl.exp2(y), 0), tl.exp2(moved)
    if ENTROPY:
        # y is infinite for -inf; its share is 0, and so is its moment.
        moment = tl.where(share > 0, share * (moment + moved * mass), 0) + tl.sum(tl.where(shares > 0, shares * y, 0), axis=0)
    return top, share * mass + tl.sum(shares, axis=0), moment


@triton.jit
def _tell(row, token, logit, inverse, peak, mass, moment, logprobs, entropies, peaks, log_masses, ENTROPY: tl.constexpr):
    """Writes what is known of a row; the logit is that of its token."""
    LN_2: tl.constexpr = 0.6931471805599453
    is_used = token != IGNORED
    log_mass = tl.log2(mass)
    tl.store(logprobs + row, tl.where(is_used, ((logit - peak) * inverse - log_mass) * LN_2, 0))
    if ENTROPY:
        tl.store(entropies + row, tl.where(is_used, (log_mass - moment / mass) * LN_2, 0))
    tl.store(peaks + row, peak)
    tl.store(log_masses + row, log_mass)


@triton.jit
def _any(lanes):
    return tl.max(lanes.to(tl.int32), axis=0) > 0


@triton.jit
def _slopes(logits, inverse, peak, log_mass, entropy, d_logprob, d_entropy, ENTROPY: tl.constexpr):
    """The gradient of kept logits other than that of the drawn token, which has d_logprob / temperature more."""
    LN_2: tl.constexpr = 0.6931471805599453
    log_p = (logits - peak) * inverse - log_mass
    p = tl.exp2(log_p)
    slopes = p * (-d_logprob * inverse * LN_2)
    if ENTROPY:
        slopes -= tl.where(p > 0, p * (log_p * LN_2 + entropy), 0) * (d_entropy * inverse * LN_2)
    return slopes


@triton.jit
def forward_ids(
    logits, row_stride, column_stride, vocabulary, tokens, temperatures, logprobs, entropies, peaks, log_masses, report,
    token_ids, offsets, values, total, rows, VALUES: tl.constexpr, ENTROPY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    WIDE: tl.constexpr = tl.float64 if logits.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64)
    logits += row * row_stride
    token, temperature = tl.load(tokens + row).to(tl.int64), tl.load(temperatures + row)
    begin, end = tl.load(offsets + row).to(tl.int64), tl.load(offsets + row + 1).to(tl.int64)
    fits = (begin >= 0) & (begin <= end) & (end <= total) & ((row > 0) | (begin == 0)) & ((row + 1 < rows) | (end == total))
    count = tl.where(fits & (token != IGNORED), end - begin, 0)
    token_ids += tl.where(fits, begin, 0)
    values += tl.where(fits, begin, 0)
    inverse = _inverse(temperature, WIDE)

    lanes = tl.arange(0, BLOCK)
    peak, mass, moment = _nothing(WIDE)
    is_outside, is_falling, is_nan, is_drawn = lanes < 0, lanes < 0, lanes < 0, lanes < 0
    for start in range(0, count, BLOCK):
        place = start + lanes
        inside = place < count
        ids = tl.load(token_ids + place, mask=inside, other=0).to(tl.int64)
        before = tl.load(token_ids + place - 1, mask=inside & (place > 0), other=-1).to(tl.int64)
        is_there = inside & (ids >= 0) & (ids < vocabulary)
        value = tl.load(logits + ids * column_stride, mask=is_there, other=-float("inf"))
        if VALUES:
            tl.store(values + place, value, mask=inside)
        read = value.to(WIDE)
        is_outside |= inside & (is_there == 0)
        is_falling |= inside & (before >= ids)
        is_nan |= read != read
        is_drawn |= is_there & (ids == token)
        peak, mass, moment = _add(read, is_there, inverse, peak, mass, moment, ENTROPY)

    logit = tl.load(logits + token * column_stride, mask=(token >= 0) & (token < vocabulary), other=0).to(WIDE)
    _tell(row, token, logit, inverse, peak, mass, moment, logprobs, entropies, peaks, log_masses, ENTROPY)
    problem = tl.where(logit == -float("inf"), TOKEN_LOGIT, 0)
    problem = tl.where(_any(is_drawn), problem, NOT_KEPT)
    problem = tl.where(peak == float("inf"), INFINITE, problem)
    problem = tl.where(_any(is_nan), NAN, problem)
    problem = tl.where((token >= 0) & (token < vocabulary), problem, TOKEN_OUTSIDE)
    problem = tl.where((temperature > 0) & (temperature < float("inf")), problem, TEMPERATURE)
    problem = tl.where(_any(is_falling), ORDER, problem)
    problem = tl.where(_any(is_outside), OUTSIDE, problem)
    problem = tl.where(begin == end, EMPTY, problem)
    problem = tl.where(token != IGNORED, problem, 0)
    problem = tl.where(fits, problem, OFFSETS)
    if problem > 0:
        tl.atomic_min(report, row * SPAN + problem - tl.where(fits, 0, NO_PROBLEM))


@triton.jit
def backward_ids(
    gradient, gradient_row, gradient_column, logits, row_stride, column_stride, vocabulary, tokens, temperatures, entropies, peaks, log_masses,
    d_logprobs, d_entropies, token_ids, offsets, values, VALUES: tl.constexpr, ENTROPY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    WIDE: tl.constexpr = tl.float64 if logits.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64)
    logits += row * row_stride
    gradient += row * gradient_row
    token, inverse = tl.load(tokens + row).to(tl.int64), _inverse(tl.load(temperatures + row), WIDE)
    peak, log_mass, entropy = tl.load(peaks + row), tl.load(log_masses + row), tl.load(entropies + row)
    d_logprob, d_entropy = tl.load(d_logprobs + row), tl.load(d_entropies + row)
    begin, end = tl.load(offsets + row).to(tl.int64), tl.load(offsets + row + 1).to(tl.int64)
    token_ids += begin
    values += begin
    count = tl.where(token != IGNORED, end - begin, 0).to(tl.int32)
    segment = tl.where(count <= BLOCK, vocabulary, BLOCK)

    lanes = tl.arange(0, BLOCK)
    zeros = tl.zeros([BLOCK], gradient.dtype.element_ty)
    more = d_logprob * inverse * 0.6931471805599453
    done = 0
    for first in range(0, vocabulary, segment):
        limit = tl.minimum(first + segment, vocabulary)
        ids = tl.load(token_ids + done + lanes, mask=done + lanes < count, other=NO_ID).to(tl.int32)
        places = values + done + lanes if VALUES else logits + ids.to(tl.int64) * column_stride
        read = tl.load(places, mask=ids < limit, other=0).to(WIDE)
        slopes = _slopes(read, inverse, peak, log_mass, entropy, d_logprob, d_entropy, ENTROPY)
        slopes = (slopes + tl.where(ids == token, more, 0)).to(gradient.dtype.element_ty)
        tl.debug_barrier()
        for start in range(first, limit, BLOCK):
            column = tl.multiple_of(start, 16) + lanes
            tl.store(gradient + column.to(tl.int64) * gradient_column, zeros, mask=column < vocabulary)
            tl.debug_barrier()
            here = (ids >= start) & (ids < start + BLOCK)
            tl.store(gradient + ids.to(tl.int64) * gradient_column, slopes, mask=here)
        done += tl.sum((ids < limit).to(tl.int32), axis=0)


@triton.jit
def _above(border):
    """The next number above a border: what is kept beyond the last token must reach it. 0 equals -0."""
    if border.dtype == tl.float64:
        bits = border.to(tl.int64, bitcast=True)
        bits = tl.where(border > 0, bits + 1, tl.where(border < 0, bits - 1, 1))
    else:
        bits = border.to(tl.int32, bitcast=True)
        bits = tl.where(border > 0, bits + 1, tl.where(border < 0, bits - 1, 1))
    return bits.to(border.dtype, bitcast=True)


@triton.jit
def _belongs(logits, column_stride, vocabulary, count, last, border, found, has_nan, problem):
    """The problem of a row, or that of its summary, which goes before."""
    was = tl.load(logits + last.to(tl.int64) * column_stride, mask=(last >= 0) & (last < vocabulary), other=0).to(border.dtype)
    problem = tl.where(found == count, problem, COUNT)
    problem = tl.where(was == border, problem, BORDER)
    problem = tl.where(has_nan, NAN, problem)
    problem = tl.where(last < vocabulary, problem, OUTSIDE)
    problem = tl.where(count > 0, problem, EMPTY)
    return tl.where(last >= 0, problem, NO_PREFIX)


@triton.jit
def list_ids(
    logits, row_stride, column_stride, vocabulary, tokens, report, counts, last_tokens, last_logits, token_ids, offsets, BLOCK: tl.constexpr,
):  # fmt: skip
    """Writes the ids of rows of which summaries are known."""
    WIDE: tl.constexpr = tl.float64 if logits.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64)
    logits += row * row_stride
    token_ids += tl.load(offsets + row)
    token = tl.load(tokens + row)
    last, border, count = tl.load(last_tokens + row), tl.load(last_logits + row).to(WIDE), tl.load(counts + row)
    above = _above(border)

    lanes = tl.arange(0, BLOCK)
    found, has_nan = 0, False
    for start in range(0, tl.where(token != IGNORED, vocabulary, 0), BLOCK):
        column = start + lanes
        read = tl.load(logits + column.to(tl.int64) * column_stride, mask=column < vocabulary, other=-float("inf")).to(WIDE)
        # Most blocks have nothing else. NaN is not below the border either.
        if _any((read < border) == 0):
            has_nan |= _any(read != read)
            kept = read >= tl.where(column <= last, border, above)
            rest = tl.where(kept, column, NO_ID)
            here = tl.sum(kept.to(tl.int32), axis=0)
            # One by one: they are few, and a prefix sum would take registers that loads need.
            for place in range(found, tl.minimum(found + here, count)):
                first = tl.min(rest, axis=0)
                tl.store(token_ids + place, first)
                rest = tl.where(rest == first, NO_ID, rest)
            found += here

    problem = _belongs(logits, column_stride, vocabulary, count, last, border, found, has_nan, 0)
    if (problem > 0) & (token != IGNORED):
        tl.atomic_min(report, row * SPAN + problem - NO_PROBLEM)


@triton.jit
def forward_borders(
    logits, row_stride, column_stride, vocabulary, tokens, temperatures, logprobs, entropies, peaks, log_masses, report,
    counts, last_tokens, last_logits, ENTROPY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    WIDE: tl.constexpr = tl.float64 if logits.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64)
    logits += row * row_stride
    token, temperature = tl.load(tokens + row).to(tl.int64), tl.load(temperatures + row)
    last, border, count = tl.load(last_tokens + row), tl.load(last_logits + row).to(WIDE), tl.load(counts + row)
    above, inverse = _above(border), _inverse(temperature, WIDE)

    lanes = tl.arange(0, BLOCK)
    peak, mass, moment = _nothing(WIDE)
    found = 0
    for start in range(0, tl.where(token != IGNORED, vocabulary, 0), BLOCK):
        column = start + lanes
        read = tl.load(logits + column.to(tl.int64) * column_stride, mask=column < vocabulary, other=-float("inf")).to(WIDE)
        # NaN counts as kept here, and makes the mass NaN.
        kept = (read < tl.where(lanes <= last - start, border, above)) == 0
        found += tl.sum(kept.to(tl.int32), axis=0)
        peak, mass, moment = _add(read, kept, inverse, peak, mass, moment, ENTROPY)

    logit = tl.load(logits + token * column_stride, mask=(token >= 0) & (token < vocabulary), other=0).to(WIDE)
    _tell(row, token, logit, inverse, peak, mass, moment, logprobs, entropies, peaks, log_masses, ENTROPY)
    problem = tl.where(logit >= tl.where(token <= last, border, above), 0, NOT_KEPT)
    problem = tl.where(peak == float("inf"), INFINITE, problem)
    problem = tl.where((token >= 0) & (token < vocabulary), problem, TOKEN_OUTSIDE)
    problem = tl.where((temperature > 0) & (temperature < float("inf")), problem, TEMPERATURE)
    has_nan = (mass != mass) & (peak < float("inf"))
    problem = _belongs(logits, column_stride, vocabulary, count, last, border, found, has_nan, problem)
    if (problem > 0) & (token != IGNORED):
        tl.atomic_min(report, row * SPAN + problem)


@triton.jit
def backward_borders(
    gradient, gradient_row, gradient_column, logits, row_stride, column_stride, vocabulary, tokens, temperatures, entropies, peaks, log_masses,
    d_logprobs, d_entropies, last_tokens, last_logits, ENTROPY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    WIDE: tl.constexpr = tl.float64 if logits.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64)
    logits += row * row_stride
    gradient += row * gradient_row
    token, inverse = tl.load(tokens + row).to(tl.int64), _inverse(tl.load(temperatures + row), WIDE)
    peak, log_mass, entropy = tl.load(peaks + row), tl.load(log_masses + row), tl.load(entropies + row)
    d_logprob, d_entropy = tl.load(d_logprobs + row), tl.load(d_entropies + row)
    # Nothing is kept of a row that is not trained on.
    is_used = token != IGNORED
    last, border = tl.load(last_tokens + row), tl.where(is_used, tl.load(last_logits + row).to(WIDE), float("inf"))
    above = tl.where(is_used, _above(border), float("inf"))
    drawn = tl.load(logits + token * column_stride, mask=is_used, other=0).to(WIDE)
    lanes = tl.arange(0, BLOCK)
    tl.debug_barrier()
    for start in range(0, vocabulary, BLOCK):
        column = start + lanes
        inside = column < vocabulary
        read = tl.load(logits + column.to(tl.int64) * column_stride, mask=inside, other=-float("inf")).to(WIDE)
        slopes = tl.zeros([BLOCK], WIDE)
        if _any(read >= border):
            kept = is_used & (read >= tl.where(column <= last, border, above))
            slopes = tl.where(kept, _slopes(read, inverse, peak, log_mass, entropy, d_logprob, d_entropy, ENTROPY), 0)
        tl.store(gradient + column.to(tl.int64) * gradient_column, slopes.to(gradient.dtype.element_ty), mask=inside)
    tl.debug_barrier()
    slope = _slopes(drawn, inverse, peak, log_mass, entropy, d_logprob, d_entropy, ENTROPY) + d_logprob * inverse * 0.6931471805599453
    tl.store(gradient + token * gradient_column, slope.to(gradient.dtype.element_ty), mask=is_used)
