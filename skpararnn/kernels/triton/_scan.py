"""The loop over time, forward and backward, for all cells.

A program is one warp. Each of its lanes owns one block of one row for all steps: the
states of the block, its recurrent weights and their gradients stay in registers. Lanes
never speak to each other inside the loop, so there is no shared memory and no barrier,
and the order of every sum is fixed.

Time is walked in chunks of CHUNK steps. What the next chunk reads is loaded before this
one is computed, so that memory answers meanwhile. Chunks of steps that every lane has
need no masks; what is left is walked by a second loop, step by step, with masks.

The letters are those of doc/backward.rst; a step's units and gates are in tuples, as in
_cells.py. Arrays are contiguous. One that is not there is None, and the compiler leaves
out what would touch it. Numbers are STATE in registers, whatever the arrays hold.
"""

import triton
import triton.language as tl

# not compiled for: neither a batch of another size nor a sequence of another length
# should wait for the compiler
SIZES = ["N", "T", "K", "REVERSE"]

# -- lanes -----------------------------------------------------------------------------


@triton.jit
def lanes(N, K, LANES: tl.constexpr):
    """Row and block of each lane.

    Those behind the last one repeat its work and write the same numbers, so that
    nothing needs a mask for them.
    """
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    lane = tl.minimum(lane, N * K - 1)
    return (lane // K).to(tl.int64), lane % K


@triton.jit
def count_steps(LENGTHS, n, T):
    """Real steps of each lane's row, the fewest and the most of them."""
    if LENGTHS is None:
        steps, fewest, most = T, T, T
    else:
        steps = tl.minimum(tl.maximum(tl.load(LENGTHS + n), 0), T).to(tl.int32)
        fewest, most = tl.min(steps), tl.max(steps)
    return steps, fewest, most


@triton.jit
def select(mask, new, old):
    chosen = ()
    for u in tl.static_range(len(new)):
        chosen += (tl.where(mask, new[u], old[u]),)
    return chosen


@triton.jit
def add(a, b):
    total = ()
    for u in tl.static_range(len(a)):
        total += (a[u] + b[u],)
    return total


@triton.jit
def divided(units, count):
    quotients = ()
    for u in tl.static_range(len(units)):
        quotients += (units[u] / count,)
    return quotients


@triton.jit
def zeros(NUMBERS: tl.constexpr, STATE: tl.constexpr, LANES: tl.constexpr):
    numbers = ()
    for _ in tl.static_range(NUMBERS):
        numbers += (tl.zeros((LANES,), STATE),)
    return numbers


# -- memory ----------------------------------------------------------------------------


@triton.jit
def shifted(array, offset):
    """The array from there on, if it is there."""
    if array is None:
        address = None
    else:
        address = array + offset
    return address


@triton.jit
def load_units(array, mask, STATE: tl.constexpr, DS: tl.constexpr):
    """The units of each lane's block, none of an array that is not there."""
    units = ()
    if array is not None:
        for u in tl.static_range(DS):
            if mask is None:
                unit = tl.load(array + u)
            else:
                unit = tl.load(array + u, mask=mask, other=0.0)
            units += (unit.to(STATE),)
    return units


@triton.jit
def store_units(array, units, mask, DS: tl.constexpr):
    if array is not None:
        for u in tl.static_range(DS):
            tl.store(array + u, units[u], mask=mask)


@triton.jit
def load_or_zeros(array, STATE: tl.constexpr, DS: tl.constexpr, LANES: tl.constexpr):
    if array is None:
        units = zeros(DS, STATE, LANES)
    else:
        units = load_units(array, None, STATE, DS)
    return units


@triton.jit
def load_inputs(
    p, x, d, away, mask, STATE: tl.constexpr, GATES: tl.constexpr, DS: tl.constexpr
):
    """A step's candidate x, if it is a highway's, and then its p, gate by gate."""
    inputs = load_units(shifted(x, away), mask, STATE, DS)
    if p is not None:
        for gate in tl.static_range(GATES):
            inputs += load_units(p + away * GATES + gate * d, mask, STATE, DS)
    return inputs


@triton.jit
def store_deltas(dp, dx, d, away, delta, mask, GATES: tl.constexpr, DS: tl.constexpr):
    """The gradients of what `load_inputs` reads of a step."""
    if dx is not None:
        store_units(dx + away, delta, mask, DS)
        delta = delta[DS:]
    for gate in tl.static_range(GATES):
        store_units(dp + away * GATES + gate * d, delta[gate * DS :], mask, DS)


@triton.jit
def load_blocks(W, k, K, STATE: tl.constexpr, PRODUCTS: tl.constexpr, DS: tl.constexpr):
    """The recurrent blocks of all gates, row by row."""
    w = ()
    for gate in tl.static_range(PRODUCTS):
        block = W + (gate * K + k) * (DS * DS)
        w += load_units(block, None, STATE, DS * DS)
    return w


@triton.jit
def store_blocks(DW, dw, n, k, K, PRODUCTS: tl.constexpr, DS: tl.constexpr):
    """The gradients of the blocks, those of each row of the batch on their own."""
    for gate in tl.static_range(PRODUCTS):
        block = DW + ((n * PRODUCTS + gate) * K + k) * (DS * DS)
        store_units(block, dw[gate * DS * DS :], None, DS * DS)


# -- forward ---------------------------------------------------------------------------


@triton.jit
def forward_chunk(
    p,
    x,
    d,
    direction,
    s,
    mask,
    STATE: tl.constexpr,
    GATES: tl.constexpr,
    DS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """What the cell reads at step s and at those after it."""
    chunk = ()
    for u in tl.static_range(CHUNK):
        away = (s + u) * direction
        inputs = load_inputs(p, x, d, away, mask, STATE, GATES, DS)
        chunk += (inputs,)
    return chunk


@triton.jit(do_not_specialize=SIZES)
def scan_forward(
    X,  # (N, T, d), of a highway alone
    P,  # (N, T, GATES, d)
    W,  # (PRODUCTS, K, DS, DS)
    BIAS_Q,  # (d,), of a gru that resets after the product
    H0,  # (N, d)
    C0,  # (N, d), of an lstm alone, as all C
    LENGTHS,  # (N,)
    H,  # (N, T, d), if the states are asked for or backward follows
    C,  # (N, T, d), if backward follows
    MEAN,  # (N, d)
    H_LAST,  # (N, d)
    C_LAST,  # (N, d)
    N,
    T,
    K,
    REVERSE,
    CELL: tl.constexpr,
    OPTION: tl.constexpr,
    STATE: tl.constexpr,
    GATES: tl.constexpr,
    PRODUCTS: tl.constexpr,
    DS: tl.constexpr,
    CHUNK: tl.constexpr,
    LANES: tl.constexpr,
):
    """Fill H, C, MEAN, H_LAST and C_LAST; padded steps are left as they are."""
    n, k = lanes(N, K, LANES)
    steps, fewest, most = count_steps(LENGTHS, n, T)
    unit, d = k * DS, K * DS
    row = n * d + unit
    w = load_blocks(W, k, K, STATE, PRODUCTS, DS)
    b_q = load_or_zeros(shifted(BIAS_Q, unit), STATE, DS, LANES)
    h = load_or_zeros(shifted(H0, row), STATE, DS, LANES)
    c = ()
    if C_LAST is not None:
        c = load_or_zeros(shifted(C0, row), STATE, DS, LANES)
    total = ()
    if MEAN is not None:
        total = zeros(DS, STATE, LANES)

    first = n * T + REVERSE * (steps - 1)
    direction = ((1 - 2 * REVERSE) * d).to(tl.int64)
    at = first * d + unit
    p = P + first * (GATES * d) + unit
    x = shifted(X, at)
    h_out = shifted(H, at)
    c_out = shifted(C, at)

    whole = fewest // CHUNK * CHUNK
    ahead = forward_chunk(p, x, d, direction, 0, whole > 0, STATE, GATES, DS, CHUNK)
    for s in range(0, whole, CHUNK):
        now = ahead
        # the last chunk is loaded twice, instead of what lies behind it
        after = tl.minimum(s + CHUNK, whole - CHUNK)
        ahead = forward_chunk(p, x, d, direction, after, None, STATE, GATES, DS, CHUNK)
        for u in tl.static_range(CHUNK):
            h, c = CELL(now[u], h, c, w, b_q, OPTION, DS)
            if MEAN is not None:
                total = add(total, h)
            away = (s + u) * direction
            store_units(shifted(h_out, away), h, None, DS)
            store_units(shifted(c_out, away), c, None, DS)

    for s in range(whole, most):
        there, away = s < steps, s * direction
        inputs = load_inputs(p, x, d, away, there, STATE, GATES, DS)
        h_new, c_new = CELL(inputs, h, c, w, b_q, OPTION, DS)
        if MEAN is not None:
            total = select(there, add(total, h_new), total)
        h, c = select(there, h_new, h), select(there, c_new, c)
        store_units(shifted(h_out, away), h, there, DS)
        store_units(shifted(c_out, away), c, there, DS)

    store_units(H_LAST + row, h, None, DS)
    store_units(shifted(C_LAST, row), c, None, DS)
    if MEAN is not None:
        mean = divided(total, tl.maximum(steps, 1).to(STATE))
        store_units(MEAN + row, mean, None, DS)


# -- backward --------------------------------------------------------------------------


@triton.jit
def load_before(states, first, there, is_first, STATE: tl.constexpr, DS: tl.constexpr):
    """The states before a step, which before the first one are not among the others."""
    before = load_units(states, there & (is_first == 0), STATE, DS)
    if first is not None:
        before = select(is_first, load_units(first, is_first, STATE, DS), before)
    return before


@triton.jit
def backward_chunk(
    p,
    x,
    h,
    c,
    dh,
    d,
    direction,
    r,
    mask,
    STATE: tl.constexpr,
    GATES: tl.constexpr,
    DS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """What the cell reads at the r-th step from the end and at those before it."""
    chunk = ()
    for u in tl.static_range(CHUNK):
        away = (r + u) * direction
        inputs = load_inputs(p, x, d, away, mask, STATE, GATES, DS)
        h_before = load_units(shifted(h, away + direction), mask, STATE, DS)
        c_before = load_units(shifted(c, away + direction), mask, STATE, DS)
        D = load_units(shifted(dh, away), mask, STATE, DS)
        chunk += ((inputs, h_before, c_before, D),)
    return chunk


@triton.jit
def outer(dw, delta, read, DS: tl.constexpr):
    """Add to the gradients of the blocks those of one step."""
    total = ()
    for row in tl.static_range(len(delta)):
        for j in tl.static_range(DS):
            factor = read[row // DS * DS + j]
            total += (tl.fma(delta[row], factor, dw[row * DS + j]),)
    return total


@triton.jit(do_not_specialize=SIZES)
def scan_backward(
    DH,  # (N, T, d)
    DMEAN,  # (N, d)
    DH_LAST,  # (N, d)
    DC_LAST,  # (N, d)
    X,  # (N, T, d), of a highway alone
    P,  # (N, T, GATES, d), but for rnn
    W,  # (PRODUCTS, K, DS, DS)
    BIAS_Q,  # (d,)
    H0,  # (N, d)
    C0,  # (N, d)
    LENGTHS,  # (N,)
    H,  # (N, T, d)
    C,  # (N, T, d), of an lstm alone
    DX,  # (N, T, d), of a highway alone
    DP,  # (N, T, GATES, d)
    DW,  # (N, PRODUCTS, K, DS, DS)
    DBIAS_Q,  # (N, d), of a gru that resets after the product
    DH0,  # (N, d)
    DC0,  # (N, d)
    N,
    T,
    K,
    REVERSE,
    CELL: tl.constexpr,
    OPTION: tl.constexpr,
    STATE: tl.constexpr,
    GATES: tl.constexpr,
    PRODUCTS: tl.constexpr,
    DS: tl.constexpr,
    CHUNK: tl.constexpr,
    LANES: tl.constexpr,
):
    """Fill DX, DP, DW, DBIAS_Q, DH0 and DC0; padded steps are left as they are."""
    n, k = lanes(N, K, LANES)
    steps, fewest, most = count_steps(LENGTHS, n, T)
    unit, d = k * DS, K * DS
    row = n * d + unit
    w = load_blocks(W, k, K, STATE, PRODUCTS, DS)
    b_q = load_or_zeros(shifted(BIAS_Q, unit), STATE, DS, LANES)
    dw = zeros(PRODUCTS * DS * DS, STATE, LANES)
    db_q = ()
    if DBIAS_Q is not None:
        db_q = zeros(DS, STATE, LANES)
    share = ()
    if DMEAN is not None:
        share = load_units(DMEAN + row, None, STATE, DS)
        share = divided(share, tl.maximum(steps, 1).to(STATE))
    H_t = load_or_zeros(shifted(DH_LAST, row), STATE, DS, LANES)  # (30)
    C_t = ()
    if C is not None:
        C_t = load_or_zeros(shifted(DC_LAST, row), STATE, DS, LANES)

    last = n * T + (1 - REVERSE) * (steps - 1)
    at = last * d + unit
    direction = ((2 * REVERSE - 1) * d).to(tl.int64)
    p = shifted(P, last * (GATES * d) + unit)
    dp = DP + last * (GATES * d) + unit
    x = shifted(X, at)
    dx = shifted(DX, at)
    dh = shifted(DH, at)
    h_in = shifted(H, at)
    c_in = shifted(C, at)
    h = load_units(h_in, steps > 0, STATE, DS)
    c = load_units(c_in, steps > 0, STATE, DS)

    # the first step of a row is left to the second loop, for the state before it
    whole = tl.maximum(fewest - 1, 0) // CHUNK * CHUNK
    ahead = backward_chunk(
        p, x, h_in, c_in, dh, d, direction, 0, whole > 0, STATE, GATES, DS, CHUNK
    )
    for r in range(0, whole, CHUNK):
        now = ahead
        after = tl.minimum(r + CHUNK, whole - CHUNK)
        ahead = backward_chunk(
            p, x, h_in, c_in, dh, d, direction, after, None, STATE, GATES, DS, CHUNK
        )
        for u in tl.static_range(CHUNK):
            inputs, h_before, c_before, D = now[u]
            if DH is not None:
                H_t = add(H_t, D)  # (29)
            if DMEAN is not None:
                H_t = add(H_t, share)  # (29)
            H_t, C_t, delta, recurrent, read = CELL(
                H_t, C_t, inputs, h_before, c_before, h, c, w, b_q, OPTION, DS
            )
            h, c = h_before, c_before
            dw = outer(dw, recurrent, read, DS)
            if DBIAS_Q is not None:
                db_q = add(db_q, recurrent[2 * DS :])  # (19)
            away = (r + u) * direction
            store_deltas(dp, dx, d, away, delta, None, GATES, DS)

    for r in range(whole, most):
        there, is_first, away = r < steps, r + 1 == steps, r * direction
        inputs = load_inputs(p, x, d, away, there, STATE, GATES, DS)
        h_at = shifted(h_in, away + direction)
        c_at = shifted(c_in, away + direction)
        h_before = load_before(h_at, shifted(H0, row), there, is_first, STATE, DS)
        c_before = load_before(c_at, shifted(C0, row), there, is_first, STATE, DS)
        D = load_units(shifted(dh, away), there, STATE, DS)
        H_all = H_t
        if DH is not None:
            H_all = add(H_all, D)  # (29)
        if DMEAN is not None:
            H_all = add(H_all, share)  # (29)
        H_new, C_new, delta, recurrent, read = CELL(
            H_all, C_t, inputs, h_before, c_before, h, c, w, b_q, OPTION, DS
        )
        H_t, C_t = select(there, H_new, H_t), select(there, C_new, C_t)
        h, c = select(there, h_before, h), select(there, c_before, c)
        recurrent = select(there, recurrent, zeros(PRODUCTS * DS, STATE, LANES))
        dw = outer(dw, recurrent, read, DS)
        if DBIAS_Q is not None:
            db_q = add(db_q, recurrent[2 * DS :])  # (19)
        store_deltas(dp, dx, d, away, delta, there, GATES, DS)

    store_units(DH0 + row, H_t, None, DS)  # (31)
    store_units(shifted(DC0, row), C_t, None, DS)
    store_blocks(DW, dw, n, k, K, PRODUCTS, DS)
    store_units(shifted(DBIAS_Q, row), db_q, None, DS)
