// The loop over time of the recurrent layers, forward and backward, on the CPU.
//
// One call runs one layer over a batch of sequences. The interface is plain C: a struct
// of sizes and pointers, see `Scan`. Arrays are contiguous and in the layout of the
// ops.

#include <pthread.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

// ------------------------------------------------------------------------- interface

enum CellCode : int64_t {
  RNN_TANH,
  RNN_RELU,
  RNN_SIGMOID,
  RNN_IDENTITY,
  LSTM,
  GRU_AFTER,  // the reset gate acts after the recurrent product
  GRU_BEFORE,
  LRU_TANH,
  LRU_HIGHWAY  // gate f alone; x is the candidate, d_in = d
};

enum Outputs : int64_t { LAST, ALL, MEAN };

enum Status : int { DONE, NO_MEMORY, UNKNOWN_CELL, BAD_SIZES };

// Everything a call needs. `real` is float or double, as `itemsize` says; a null
// pointer stands for what is not there, or not wanted.
struct Scan {
  int64_t itemsize;  // 4: float, 8: double
  int64_t cell;      // CellCode
  int64_t K, d_s;    // blocks and their size; d = K * d_s
  int64_t d_in;      // features of x; with `p` given the kernel does not project
  int64_t N, T;
  int64_t chunk;    // steps between two checkpoints, >= 1; n_chunks = ceil(T / chunk)
  int64_t reverse;  // 1: from the last real step to the first
  int64_t outputs;  // Outputs
  int64_t threads;  // at most so many; fewer for small work, in backward at most 16

  const void* x;           // real (N, T, d_in)
  const void* p;           // real (N, T, G, d): input part of the pre-activations, with
                           // bias; replaces x, weight_x and bias. Highway keeps x too
  const void* weight_x;    // real (G, d, d_in)
  const void* weight_h;    // real (R, K, d_s, d_s)
  const void* bias;        // real (G, d)
  const void* bias_q;      // real (d,), GRU_AFTER; null: zeros
  const void* h0;          // real (N, d); null: zeros
  const void* c0;          // real (N, d), LSTM; null: zeros
  const int64_t* lengths;  // (N,); null: every row has T steps

  void* h;            // real ALL (N, T, d), 0 at padded steps; MEAN (N, d)
  void* h_last;       // real (N, d)
  void* c_last;       // real (N, d), LSTM
  void* checkpoints;  // real (N, n_chunks, S, d), S = 2 for LSTM, else 1; forward
                      // fills, backward reads; null: no backward will follow

  const void* dh;  // gradients of what forward returned, null: zeros
  const void* dh_last;
  const void* dc_last;
  void* dx;  // real (N, T, d_in); with `p`: highway alone, the candidate's part
  void* dp;  // real (N, T, G, d), 0 at padded steps; with `p`, in place of
             // dweight_x and dbias
  void* dweight_x;
  void* dweight_h;
  void* dbias;
  void* dbias_q;
  void* dh0;
  void* dc0;
};

// --------------------------------------------------------------------------- vectors

#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16
#endif

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define INLINE static ALWAYS_INLINE

namespace {

template <class R>
struct Vectors {
  typedef R V __attribute__((vector_size(VECTOR_BYTES)));
  typedef V Loose __attribute__((aligned(alignof(R)), may_alias));
};
template <class R>
using Vec = typename Vectors<R>::V;

template <class R>
constexpr int LANES = VECTOR_BYTES / sizeof(R);

template <class R>
INLINE Vec<R> load(const R* p) {
  return *reinterpret_cast<const typename Vectors<R>::Loose*>(p);
}

template <class R>
INLINE void store(R* p, Vec<R> v) {
  *reinterpret_cast<typename Vectors<R>::Loose*>(p) = v;
}

typedef Vec<float> FloatV;
typedef Vec<double> DoubleV;
typedef int64_t LongV __attribute__((vector_size(VECTOR_BYTES)));

// N vectors that go through the same arithmetic side by side: each operation is issued
// for all of them before the next, which keeps the pipelines full where one would wait.
template <class R, int N>
struct Bundle {
  Vec<R> v[N];
};

template <class T>
using Number = std::remove_reference_t<decltype(T::v[0][0] + 0)>;

#define BUNDLE_OPERATOR(op)                                                       \
  template <class R, int N>                                                       \
  INLINE Bundle<R, N> operator op(const Bundle<R, N>& a, const Bundle<R, N>& b) { \
    Bundle<R, N> out;                                                             \
    for (int n = 0; n < N; ++n) out.v[n] = a.v[n] op b.v[n];                      \
    return out;                                                                   \
  }                                                                               \
  template <class R, int N>                                                       \
  INLINE Bundle<R, N> operator op(const Bundle<R, N>& a, R b) {                   \
    Bundle<R, N> out;                                                             \
    for (int n = 0; n < N; ++n) out.v[n] = a.v[n] op b;                           \
    return out;                                                                   \
  }                                                                               \
  template <class R, int N>                                                       \
  INLINE Bundle<R, N> operator op(R a, const Bundle<R, N>& b) {                   \
    Bundle<R, N> out;                                                             \
    for (int n = 0; n < N; ++n) out.v[n] = a op b.v[n];                           \
    return out;                                                                   \
  }
BUNDLE_OPERATOR(+)
BUNDLE_OPERATOR(-)
BUNDLE_OPERATOR(*)
BUNDLE_OPERATOR(/)

// f of each vector
template <class R, int N, class F>
INLINE Bundle<R, N> each(const Bundle<R, N>& x, F f) {
  Bundle<R, N> out;
  for (int n = 0; n < N; ++n) out.v[n] = f(x.v[n]);
  return out;
}

// min(bound, x) and max(bound, x), where a NaN in x, for which the comparison fails,
// passes through. x86 has just that instruction, but gcc 12 makes a compare and a blend
// of `?:`.
#if defined(__x86_64__)
#if VECTOR_BYTES == 64
// All lanes, by mask: the plain form makes gcc 12 warn about its own header.
#define VECTOR_OP(name, a, b) _mm512_maskz_##name(-1, a, b)
#elif VECTOR_BYTES == 32
#define VECTOR_OP(name, a, b) _mm256_##name(a, b)
#else
#define VECTOR_OP(name, a, b) _mm_##name(a, b)
#endif
INLINE FloatV at_most(FloatV x, FloatV bound) { return VECTOR_OP(min_ps, bound, x); }
INLINE FloatV at_least(FloatV x, FloatV bound) { return VECTOR_OP(max_ps, bound, x); }
INLINE DoubleV at_most(DoubleV x, DoubleV bound) { return VECTOR_OP(min_pd, bound, x); }
#else
INLINE FloatV at_most(FloatV x, FloatV bound) { return bound < x ? bound : x; }
INLINE FloatV at_least(FloatV x, FloatV bound) { return bound > x ? bound : x; }
INLINE DoubleV at_most(DoubleV x, DoubleV bound) { return bound < x ? bound : x; }
#endif

template <int N>
INLINE Bundle<float, N> at_most(const Bundle<float, N>& x, float bound) {
  return each(x, [=](FloatV v) { return at_most(v, FloatV{} + bound); });
}
template <int N>
INLINE Bundle<float, N> within(const Bundle<float, N>& x, float low, float high) {
  return each(x, [=](FloatV v) {
    return at_least(at_most(v, FloatV{} + high), FloatV{} + low);
  });
}

// tanh(x) = x P(z) / (P(z) + z E(z)), z = x^2, from benchmarks/fit_tanh.py. P(0) = 1,
// so tiny x returns exactly; with P in the denominator too, its rounding errors partly
// cancel.
const float P1 = 0.134528622f, P2 = 0.00358164683f, P3 = 2.2066979e-05f,
            P4 = 1.54897108e-08f;
const float E1 = 0.333333313f, E2 = 0.0226207059f, E3 = 0.000320731895f,
            E4 = 8.46885143e-07f;

// Beyond it, tanh differs from 1 by less than the largest error below. There z stays as
// it is, so that the quotient grows with x, and is cut: large x give 1 to the last bit.
const float TANH_BOUND = 7.9f;

// Largest error over all floats, absolute and relative: 3.0e-7 with fused multiply-add,
// 3.6e-7 without.
template <int N>
INLINE Bundle<float, N> tanh_(const Bundle<float, N>& x) {
  auto z = at_most(x * x, TANH_BOUND * TANH_BOUND);
  auto p = z * P4 + P3;
  auto e = z * E4 + E3;
  p = p * z + P2;
  e = e * z + E2;
  p = p * z + P1;
  e = e * z + E1;
  p = p * z + 1.f;
  return within(x * p / (e * z + p), -1.f, 1.f);
}

// 1 / 2 + tanh(x / 2) / 2: the powers of two go, exactly, into the coefficients, and
// the denominator is a polynomial of its own, to take its 4. Largest error over all
// floats 2.1e-7; no relative accuracy for x far below 0, and 0 below -15.8.
template <int N>
INLINE Bundle<float, N> sigmoid(const Bundle<float, N>& x) {
  auto z = at_most(x * x, 4 * TANH_BOUND * TANH_BOUND);
  auto p = z * (P4 / 256) + P3 / 64;
  auto q = z * ((P4 + E4) / 64) + (P3 + E3) / 16;
  p = p * z + P2 / 16;
  q = q * z + (P2 + E2) / 4;
  p = p * z + P1 / 4;
  q = q * z + (P1 + E1);
  p = p * z + 1.f;
  q = q * z + 4.f;
  return within(x * p / q + 0.5f, 0.f, 1.f);
}

// exp(x) = power (1 + rest), power = 2^k and |rest| < 0.42; for -709 <= x <= 709.
// `rest` keeps its relative accuracy near 0, as expm1 does.
struct Exponential {
  DoubleV power, rest;
};

INLINE Exponential exponential(DoubleV x) {
  // Added to a small number, 1.5 * 2^52 rounds it to an integer, in the lowest bits.
  const double magic = 6755399441055744.;
  DoubleV shifted = x * 1.4426950408889634 + magic;
  DoubleV k = shifted - magic;
  LongV exponent = ((LongV)shifted + 1023) << 52;
  // ln 2 in two parts, the first short enough that k times it is exact.
  DoubleV r = x - k * 6.93147180369123816490e-01;
  r = r - k * 1.90821492927058770002e-10;
  // Taylor: |r| <= ln(2) / 2, so the first term left out, r^14 / 14!, is below 1e-17 r.
  DoubleV p = r * (1 / 6227020800.) + 1 / 479001600.;
  p = p * r + 1 / 39916800.;
  p = p * r + 1 / 3628800.;
  p = p * r + 1 / 362880.;
  p = p * r + 1 / 40320.;
  p = p * r + 1 / 5040.;
  p = p * r + 1 / 720.;
  p = p * r + 1 / 120.;
  p = p * r + 1 / 24.;
  p = p * r + 1 / 6.;
  p = p * r + 1 / 2.;
  return {(DoubleV)exponent, r * r * p + r};
}

INLINE LongV sign_bit(DoubleV x) { return (LongV)x & INT64_MIN; }

INLINE DoubleV magnitude(DoubleV x) { return (DoubleV)((LongV)x & INT64_MAX); }

// E / (E + 2) with E = exp(2|x|) - 1: no cancellation. Within 3 ULP.
INLINE DoubleV tanh_(DoubleV x) {
  Exponential e = exponential(2 * at_most(magnitude(x), DoubleV{} + 20));
  DoubleV expm1 = e.power * e.rest + (e.power - 1);
  return (DoubleV)((LongV)(expm1 / (expm1 + 2)) | sign_bit(x));
}

// E / (1 + E) or 1 / (1 + E), E = exp(-|x|): relative error below 4e-16 down to -700.
INLINE DoubleV sigmoid(DoubleV x) {
  Exponential e = exponential(-at_most(magnitude(x), DoubleV{} + 709));
  DoubleV E = e.power * e.rest + e.power;
  return (x < 0 ? E : DoubleV{} + 1) / (1 + E);
}

template <int N>
INLINE Bundle<double, N> tanh_(const Bundle<double, N>& x) {
  return each(x, [](DoubleV v) { return tanh_(v); });
}

template <int N>
INLINE Bundle<double, N> sigmoid(const Bundle<double, N>& x) {
  return each(x, [](DoubleV v) { return sigmoid(v); });
}

template <class R>
R sum(Vec<R> v) {
  R total = 0;
  for (int l = 0; l < LANES<R>; ++l) total += v[l];
  return total;
}

// [a0 b0 a1 b1 ...], first half in a, second in b; and back
template <class V, int... l>
INLINE void zip(V& a, V& b, std::integer_sequence<int, l...>) {
  constexpr int n = sizeof...(l);
  V low = __builtin_shufflevector(a, b, (l / 2 + l % 2 * n)...);
  b = __builtin_shufflevector(a, b, (n / 2 + l / 2 + l % 2 * n)...);
  a = low;
}

template <class V, int... l>
INLINE void unzip(V& a, V& b, std::integer_sequence<int, l...>) {
  V even = __builtin_shufflevector(a, b, (2 * l)...);
  b = __builtin_shufflevector(a, b, (2 * l + 1)...);
  a = even;
}

// ----------------------------------------------------------------------------- cells
//
// The pointwise part of a cell, on a bundle T of units. A unit has A pre-activations
// `a`. The G input gates are added to a[INPUT], a[INPUT + 1], ...; recurrent gate q is
// added to a[TARGET[q]]. From step to step it carries S states `s`; backward also wants
// SAVED numbers of the step. In backward `e` comes in as the gradient of the states at
// this step, and goes out as that of the states before it, but for the recurrent
// products; `delta` is the gradient of `a`. The formulas are those of doc/backward.rst.

struct Cell {
  static constexpr int S = 1, INPUT = 0, RESET_STATE = 0;
  static constexpr bool RESET_BEFORE = false, HIGHWAY = false;
};

// y = value(a), and its slope from y
struct Tanh {
  template <class T>
  INLINE T value(const T& a) {
    return tanh_(a);
  }
  template <class T>
  INLINE T slope(const T& y) {
    return Number<T>(1) - y * y;
  }
};
struct Relu {
  template <class T>
  INLINE T value(const T& a) {
    return each(a, [](auto v) { return v < 0 ? decltype(v){} : v; });
  }
  template <class T>
  INLINE T slope(const T& y) {
    return each(y, [](auto v) { return v > 0 ? decltype(v){} + 1 : decltype(v){}; });
  }
};
struct Sigmoid {
  template <class T>
  INLINE T value(const T& a) {
    return sigmoid(a);
  }
  template <class T>
  INLINE T slope(const T& y) {
    return y * (Number<T>(1) - y);
  }
};
struct Identity {
  template <class T>
  INLINE T value(const T& a) {
    return a;
  }
  template <class T>
  INLINE T slope(const T&) {
    return T{} + Number<T>(1);
  }
};

template <class Activation>
struct Rnn : Cell {
  static constexpr int A = 1, G = 1, REC = 1, SAVED = 0;
  static constexpr int TARGET[] = {0};

  template <class T>
  INLINE void forward(const T* a, T* s, T*) {
    s[0] = Activation::value(a[0]);
  }
  template <class T>
  INLINE void backward(T* e, const T* s, const T*, const T*, T* delta) {
    delta[0] = e[0] * Activation::slope(s[0]);
    e[0] = T{};
  }
};

struct Lstm : Cell {
  static constexpr int A = 4, G = 4, REC = 4, S = 2, SAVED = 5;
  static constexpr int TARGET[] = {0, 1, 2, 3};

  template <class T>
  INLINE void forward(const T* a, T* s, T* saved) {
    T i = sigmoid(a[0]), f = sigmoid(a[1]);
    T g = tanh_(a[2]), o = sigmoid(a[3]);
    s[1] = f * s[1] + i * g;
    T q = tanh_(s[1]);
    s[0] = o * q;
    saved[0] = i, saved[1] = f, saved[2] = g, saved[3] = o, saved[4] = q;
  }
  template <class T>
  INLINE void backward(T* e, const T*, const T* saved, const T* before, T* delta) {
    T i = saved[0], f = saved[1], g = saved[2], o = saved[3], q = saved[4];
    T dc = e[1] + e[0] * o * (Number<T>(1) - q * q);
    delta[0] = dc * g * i * (Number<T>(1) - i);
    delta[1] = dc * before[1] * f * (Number<T>(1) - f);
    delta[2] = dc * i * (Number<T>(1) - g * g);
    delta[3] = e[0] * q * o * (Number<T>(1) - o);
    e[0] = T{};
    e[1] = dc * f;
  }
};

struct Gru : Cell {
  static constexpr int G = 3, REC = 3, SAVED = 4;

  template <class T>
  INLINE void mix(T* s, const T& z, const T& n) {
    s[0] = s[0] + (Number<T>(1) - z) * (n - s[0]);  // z = 1 keeps to the last bit
  }
  template <class T>
  INLINE void backward_mix(T* e, const T& z, const T& n, const T* before, T* delta) {
    delta[2] = e[0] * (Number<T>(1) - z) * (Number<T>(1) - n * n);
    delta[1] = e[0] * (before[0] - n) * z * (Number<T>(1) - z);
    e[0] = e[0] * z;
  }
};

// a: r z n and, apart from n, the recurrent product inside the reset gate
struct GruAfter : Gru {
  static constexpr int A = 4;
  static constexpr int TARGET[] = {0, 1, 3};

  template <class T>
  INLINE void forward(const T* a, T* s, T* saved) {
    T r = sigmoid(a[0]), z = sigmoid(a[1]);
    T n = tanh_(a[2] + r * a[3]);
    mix(s, z, n);
    saved[0] = r, saved[1] = z, saved[2] = n, saved[3] = a[3];
  }
  template <class T>
  INLINE void backward(T* e, const T*, const T* saved, const T* before, T* delta) {
    T r = saved[0], z = saved[1], n = saved[2], q = saved[3];
    backward_mix(e, z, n, before, delta);
    delta[0] = delta[2] * q * r * (Number<T>(1) - r);
    delta[3] = delta[2] * r;
  }
};

// The recurrent product of n wants r o h: `reset` comes first, and in backward last.
struct GruBefore : Gru {
  static constexpr int A = 3;
  static constexpr int TARGET[] = {0, 1, 2};
  static constexpr bool RESET_BEFORE = true;
  static constexpr int RESET_STATE = 1;  // of saved: r o h

  template <class T>
  INLINE void reset(T a, T h, T* saved) {
    saved[0] = sigmoid(a);
    saved[RESET_STATE] = saved[0] * h;
  }
  template <class T>
  INLINE void forward(const T* a, T* s, T* saved) {
    T z = sigmoid(a[1]), n = tanh_(a[2]);
    mix(s, z, n);
    saved[2] = z, saved[3] = n;
  }
  template <class T>
  INLINE void backward(T* e, const T*, const T* saved, const T* before, T* delta) {
    backward_mix(e, saved[2], saved[3], before, delta);
  }
  // de: gradient of r o h
  template <class T>
  INLINE void backward_reset(T de, T* e, const T* saved, T h, T* delta) {
    T r = saved[0];
    delta[0] = de * h * r * (Number<T>(1) - r);
    e[0] = e[0] + de * r;
  }
};

template <class Activation>
struct Lru : Cell {
  static constexpr int A = 2, REC = 1, SAVED = 2;
  static constexpr int TARGET[] = {1};

  template <class T>
  INLINE void forward(const T* a, T* s, T* saved) {
    T c = Activation::value(a[0]), f = sigmoid(a[1]);
    s[0] = s[0] + f * (c - s[0]);
    saved[0] = c, saved[1] = f;
  }
  template <class T>
  INLINE void backward(T* e, const T*, const T* saved, const T* before, T* delta) {
    T c = saved[0], f = saved[1];
    delta[0] = e[0] * f * Activation::slope(c);
    delta[1] = e[0] * (c - before[0]) * f * (Number<T>(1) - f);
    e[0] = e[0] - e[0] * f;
  }
};

struct LruTanh : Lru<Tanh> {
  static constexpr int G = 2;
};

// a[0] is the candidate: the input itself, which no weight touches
struct LruHighway : Lru<Identity> {
  static constexpr int G = 1, INPUT = 1;
  static constexpr bool HIGHWAY = true;
};

// -------------------------------------------------------------------- small products

// C (M, N) += A (M, depth) B (depth, N). Rows of B and C are contiguous; element (m, k)
// of A is A[m * a_m + k * a_k]. N is a multiple of the lanes. Every element of C is
// summed in the same order, wherever its tile lies.
template <class R, int M, int N>
INLINE void add_product_tile(int64_t depth, const R* A, int64_t a_m, int64_t a_k,
                             const R* B, int64_t ldb, R* C, int64_t ldc) {
  Vec<R> c[M][N];
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) c[m][n] = load(C + m * ldc + n * LANES<R>);
  for (int64_t k = 0; k < depth; ++k, A += a_k, B += ldb)
    for (int m = 0; m < M; ++m)
      for (int n = 0; n < N; ++n) c[m][n] += A[m * a_m] * load(B + n * LANES<R>);
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) store(C + m * ldc + n * LANES<R>, c[m][n]);
}

// All rows of a panel of N vectors, in tiles of 8 vectors: enough to hide the latency
template <class R, int N>
void add_product_panel(int64_t M, int64_t depth, const R* A, int64_t a_m, int64_t a_k,
                       const R* B, int64_t ldb, R* C, int64_t ldc) {
  int64_t m = 0;
  constexpr int TALL = 8 / N;
  for (; m + TALL <= M; m += TALL)
    add_product_tile<R, TALL, N>(depth, A + m * a_m, a_m, a_k, B, ldb, C + m * ldc,
                                 ldc);
  if constexpr (TALL > 4)
    for (; m + 4 <= M; m += 4)
      add_product_tile<R, 4, N>(depth, A + m * a_m, a_m, a_k, B, ldb, C + m * ldc, ldc);
  if constexpr (TALL > 1)
    for (; m < M; ++m)
      add_product_tile<R, 1, N>(depth, A + m * a_m, a_m, a_k, B, ldb, C + m * ldc, ldc);
}

template <class R>
void add_product(int64_t M, int64_t N, int64_t depth, const R* A, int64_t a_m,
                 int64_t a_k, const R* B, int64_t ldb, R* C, int64_t ldc) {
  int64_t n = 0, vectors = N / LANES<R>;
  const int64_t widest = M >= 4 ? 2 : M >= 2 ? 4 : 8;
  auto panel = [&](auto run, int64_t width) {
    run(M, depth, A, a_m, a_k, B + n * LANES<R>, ldb, C + n * LANES<R>, ldc);
    n += width;
  };
  while (vectors - n >= 8 && widest == 8) panel(add_product_panel<R, 8>, 8);
  while (vectors - n >= 4 && widest >= 4) panel(add_product_panel<R, 4>, 4);
  while (vectors - n >= 2) panel(add_product_panel<R, 2>, 2);
  while (vectors - n >= 1) panel(add_product_panel<R, 1>, 1);
}

// ------------------------------------------------------------- layers, layouts
//
// The kernel's own arrays are records: `slots` numbers for every unit of a row, padded
// with zeros to whole vectors. There are two layouts.
//
//   Lanes are blocks, for small blocks: LANES blocks make a group, and all slots of a
//   group lie together, (slots, DS, LANES), so that every place in it is a constant.
//   Lanes are units of one block, for large blocks and for few of them: one group,
//   slots one after the other, (slots, K, DS), with DS a multiple of the lanes.
//
// In both a record is (groups, slots, span).

constexpr int MAX_ROWS = 8;  // that run side by side
constexpr int AHEAD = 8;     // steps whose input part is computed at once

template <class R>
struct Parameters {
  R* w;   // weight_x (groups, d_in, G, span)
  R* b;   // bias, a record of A slots
  R* u;   // weight_h; lanes are blocks: (groups, REC, DS, DS, LANES), last but one is
          // the unit read; lanes are units: (REC, K, d_s, DS), last is the unit written
  R* ut;  // lanes are units: the same, last is the unit read
};

// The way of a row through some steps, forward. What a step reads and writes lies so
// many numbers after that of the step before.
template <class R>
struct Ascent {
  const R* x;  // (d_in,)
  int64_t x_step;
  const R* pre;  // a record of A slots: what the pre-activations start from
  int64_t pre_step;
  R* record;  // of the state before; 0 as step: the next ones replace it
  int64_t record_step;
  R* h = nullptr;  // (d,), gets the state, if anybody wants it
  int64_t h_step = 0;
  R* total = nullptr;  // a record of one slot, to which states are added
};

// and backward, from its last step to its first
template <class R>
struct Descent {
  int64_t steps;
  const R* record;  // of the state before the first step; those of the steps follow
  const R* dh;      // (d,), gradient of the first step's output; null: zeros
  int64_t dh_step;
  R* e;      // a record of S slots
  R* delta;  // a record of A slots, of the first step
};

template <class R>
struct Plan {
  int64_t K, d_s, d_in;  // d_in = 0: p is given
  int64_t fused;         // features that `step` multiplies by w itself: all or none
  int A, G, REC, S, B;   // B slots: S states and what is saved of a step
  int input, reset_state;
  const int* target;
  bool highway, blocks_in_lanes;
  int64_t DS, groups, span, width;  // width = groups * span: numbers in a slot
  int rows;                         // worth running side by side
  Parameters<R> p;

  // The arrays of the rows, but for those of the ops, lie at equal distances. All rows
  // take the same number of steps forward; backward the longest row comes first.
  typedef void Step(const Plan&, int rows, int64_t steps, const Ascent<R>*, R* scratch);
  typedef void Back(const Plan&, int rows, const Descent<R>*, R* scratch);
  // adds the gradients of b and u over some steps of one row
  typedef void Gather(const Plan&, int64_t steps, const R* records, const R* delta,
                      const Parameters<R>& grad);
  // (d,) to a slot of a record, and back
  typedef void LoadRow(const Plan&, const R* units, R* record, int slot, int slots);
  typedef void StoreRow(const Plan&, R* units, const R* record, int slot, int slots);
  Step *step, *step_and_save;
  Back* back;
  Gather* gather_recurrent;
  LoadRow* load;
  StoreRow* store;

  int64_t in_slot(int64_t k, int64_t c) const {
    return blocks_in_lanes ? c * LANES<R> + k % LANES<R> : k * DS + c;
  }
  int64_t group(int64_t k) const { return blocks_in_lanes ? k / LANES<R> : 0; }
  int64_t at_w(int64_t i, int64_t g, int64_t k, int64_t c) const {
    return ((group(k) * d_in + i) * G + g) * span + in_slot(k, c);
  }
  // gate q of block k: to unit c from unit j
  int64_t at_u(int64_t q, int64_t k, int64_t c, int64_t j) const {
    return blocks_in_lanes
               ? (((group(k) * REC + q) * DS + c) * DS + j) * LANES<R> + k % LANES<R>
               : ((q * K + k) * d_s + j) * DS + c;
  }
  int64_t at_ut(int64_t q, int64_t k, int64_t c, int64_t j) const {
    return ((q * K + k) * d_s + c) * DS + j;
  }

  // From the record before a step to what recurrent gate q read in it: the state there,
  // or r o h, which is saved in the record of the step itself.
  int64_t read_by(int q) const {
    return reset_state && q == REC - 1 ? B * width + reset_state * span : 0;
  }

  int64_t size_w() const { return d_in * G * width; }
  int64_t size_b() const { return A * width; }
  int64_t size_u() const {
    return blocks_in_lanes ? width * REC * DS : REC * K * d_s * DS;
  }
  int64_t size_ut() const { return blocks_in_lanes ? 0 : size_u(); }
  int64_t size_gradients() const { return size_w() + size_b() + size_u(); }
  int64_t size_parameters() const { return size_gradients() + size_ut(); }
  int64_t size_scratch() const { return blocks_in_lanes ? 0 : rows * A * width; }

  Parameters<R> parameters_in(R* memory) const {
    R *b = memory + size_w(), *u = b + size_b();
    return {memory, b, u, u + size_u()};
  }

  void clear(R* record, int slot, int slots) const {
    for (int64_t g = 0; g < groups; ++g)
      memset(record + (g * slots + slot) * span, 0, span * sizeof(R));
  }
  // sums, a record of one slot, += the first slot of a record
  void add_first(R* sums, const R* record, int slots) const {
    for (int64_t g = 0; g < groups; ++g, sums += span, record += slots * span)
      for (int64_t v = 0; v < span; v += LANES<R>)
        ::store(sums + v, ::load(sums + v) + ::load(record + v));
  }
  // the state after step s to those who want it
  void hand_over(const Ascent<R>& way, int64_t s) const {
    const R* after = way.record + (s + 1) * way.record_step;
    if (way.total) add_first(way.total, after, B);
    if (way.h) store(*this, way.h + s * way.h_step, after, 0, B);
  }
  // dW += delta x^T over some steps
  void gather_input(int64_t steps, const R* x, int64_t x_step, const R* delta,
                    R* dw) const {
    if (d_in == 1 && A == G)  // groups lie side by side in both
      return add_product<R>(1, G * width, steps, x, 1, x_step, delta, A * width, dw,
                            G * width);
    for (int64_t g = 0; g < groups; ++g)
      add_product<R>(d_in, G * span, steps, x, 1, x_step,
                     delta + (g * A + input) * span, A * width,
                     dw + g * d_in * G * span, G * span);
  }
  // Units that are not there read an infinite input as NaN, 0 * inf: their deltas must
  // not reach dx.
  void blank_padding(R* delta) const {
    constexpr int64_t L = LANES<R>;
    if (!blocks_in_lanes) {
      for (int64_t k = 0; k < A * K && d_s < DS; ++k)
        memset(delta + k * DS + d_s, 0, (DS - d_s) * sizeof(R));
    } else if (K % L) {
      R* last = delta + (groups - 1) * A * span;
      for (int64_t v = 0; v < A * span; v += L)
        for (int64_t l = K % L; l < L; ++l) last[v + l] = 0;
    }
  }
  // dx (d_in,) += W^T delta
  void add_input_gradient(const R* delta, R* dx) const {
    for (int64_t i = 0; i < d_in; ++i) {
      Vec<R> total{};
      for (int64_t g = 0; g < groups; ++g) {
        const R *w = p.w + (g * d_in + i) * G * span,
                *d = delta + (g * A + input) * span;
        for (int64_t v = 0; v < G * span; v += LANES<R>)
          total += ::load(w + v) * ::load(d + v);
      }
      dx[i] += sum<R>(total);
    }
  }
};

// ------------------------------------------------------------------- lanes are blocks

// DS vectors with the units in order, to DS vectors of one component each; DS = 2^n
template <class R, int DS, int... l>
INLINE void split(Vec<R>* v, std::integer_sequence<int, l...> order) {
  for (int n = DS; n > 1; n /= 2) {
    Vec<R> w[DS];
    for (int i = 0; i < DS / 2; ++i) {
      w[i] = v[2 * i], w[i + DS / 2] = v[2 * i + 1];
      unzip(w[i], w[i + DS / 2], order);
    }
    for (int i = 0; i < DS; ++i) v[i] = w[i];
  }
}
template <class R, int DS, int... l>
INLINE void join(Vec<R>* v, std::integer_sequence<int, l...> order) {
  for (int n = DS; n > 1; n /= 2) {
    Vec<R> w[DS];
    for (int i = 0; i < DS / 2; ++i) {
      w[2 * i] = v[i], w[2 * i + 1] = v[i + DS / 2];
      zip(w[2 * i], w[2 * i + 1], order);
    }
    for (int i = 0; i < DS; ++i) v[i] = w[i];
  }
}

// The CPU does not fetch ahead what is read from the end to the start: backward asks
// for the gradients of so many steps on, past the end for the last ones.
constexpr int64_t FETCH_AHEAD = 16;

template <class R, int DS>
struct BlockRows {
  static constexpr int L = LANES<R>;
  static constexpr bool SHUFFLE = !(DS & (DS - 1));
  using Order = std::make_integer_sequence<int, L>;

  // one group of a row (d,) of the ops, a vector for each component
  INLINE void get_group(const Plan<R>& z, const R* units, int64_t g, Vec<R>* v) {
    const int64_t blocks = z.K - g * L < L ? z.K - g * L : L;
    if (SHUFFLE && z.d_s == DS && blocks == L) {
      for (int c = 0; c < DS; ++c) v[c] = load(units + (g * DS + c) * L);
      split<R, DS>(v, Order{});
    } else {
      for (int c = 0; c < DS; ++c) v[c] = Vec<R>{};
      for (int64_t k = 0; k < blocks; ++k)
        for (int64_t c = 0; c < z.d_s; ++c) v[c][k] = units[(g * L + k) * z.d_s + c];
    }
  }
  INLINE void put_group(const Plan<R>& z, R* units, int64_t g, Vec<R>* v) {
    const int64_t blocks = z.K - g * L < L ? z.K - g * L : L;
    if (SHUFFLE && z.d_s == DS && blocks == L) {
      join<R, DS>(v, Order{});
      for (int c = 0; c < DS; ++c) store(units + (g * DS + c) * L, v[c]);
    } else {
      for (int64_t k = 0; k < blocks; ++k)
        for (int64_t c = 0; c < z.d_s; ++c) units[(g * L + k) * z.d_s + c] = v[c][k];
    }
  }

  static void load_row(const Plan<R>& z, const R* units, R* record, int slot,
                       int slots) {
    record += slot * DS * L;
    for (int64_t g = 0; g < z.groups; ++g, record += slots * DS * L) {
      Vec<R> v[DS];
      get_group(z, units, g, v);
      for (int c = 0; c < DS; ++c) store(record + c * L, v[c]);
    }
  }
  static void store_row(const Plan<R>& z, R* units, const R* record, int slot,
                        int slots) {
    record += slot * DS * L;
    for (int64_t g = 0; g < z.groups; ++g, record += slots * DS * L) {
      Vec<R> v[DS];
      for (int c = 0; c < DS; ++c) v[c] = load(record + c * L);
      put_group(z, units, g, v);
    }
  }

  static void gather(const Plan<R>& z, int64_t steps, const R* records, const R* delta,
                     const Parameters<R>& grad) {
    for (int64_t g = 0; g < z.groups; ++g)
      for (int q = 0; q < z.A; ++q) {
        int gate = 0;
        while (gate < z.REC && z.target[gate] != q) ++gate;
        const R* read = records + g * z.B * DS * L + z.read_by(gate);
        const R* d = delta + (g * z.A + q) * DS * L;
        R* db = grad.b + (g * z.A + q) * DS * L;
        R* du = grad.u + (g * z.REC + gate) * DS * DS * L;
        for (int c = 0; c < DS; c += TOGETHER)
          if (gate < z.REC)
            gather_units<DS>(z, steps, d + c * L, read, db + c * L, du + c * DS * L);
          else
            gather_units<0>(z, steps, d + c * L, read, db + c * L, nullptr);
      }
  }

  // components whose sums fit the registers
  static constexpr int TOGETHER = DS == 2 || DS == 4 ? 2 : 1;

  template <int READ>
  INLINE void gather_units(const Plan<R>& z, int64_t steps, const R* d, const R* read,
                           R* db, R* du) {
    Vec<R> sum_b[TOGETHER] = {}, sum_u[TOGETHER][READ + 1] = {};
    for (int64_t s = 0; s < steps; ++s, d += z.A * z.width, read += z.B * z.width)
      for (int c = 0; c < TOGETHER; ++c) {
        Vec<R> one = load(d + c * L);
        sum_b[c] += one;
        for (int j = 0; j < READ; ++j) sum_u[c][j] += one * load(read + j * L);
      }
    for (int c = 0; c < TOGETHER; ++c) {
      store(db + c * L, load(db + c * L) + sum_b[c]);
      for (int j = 0; j < READ; ++j) {
        R* to = du + (c * DS + j) * L;
        store(to, load(to) + sum_u[c][j]);
      }
    }
  }
};

template <class R, class C, int DS>
struct BlockLanes {
  static constexpr int L = LANES<R>, A = C::A, G = C::G, REC = C::REC, S = C::S;
  static constexpr int B = C::S + C::SAVED;
  using Rows = BlockRows<R, DS>;
  // components worked on together: they share the loads of x, and fit the registers
  static constexpr int SHARE = C::RESET_BEFORE ? DS : DS * A <= 8 ? DS : A <= 2 ? 4 : 2;
  static constexpr int PART = DS % SHARE ? 1 : SHARE;

  template <bool SAVE>
  static void step(const Plan<R>& z, int rows, int64_t steps, const Ascent<R>* ways,
                   R*) {
    constexpr int WANTED = A <= 2 ? 4 : 2;
    constexpr int N = DS < WANTED ? WANTED / DS : 1;  // groups side by side
    const int64_t groups = z.groups;
    for (int64_t s = 0; s < steps; ++s)
      for (int r = 0; r < rows; ++r) {
        Place at(z, ways[r], s);
        int64_t g = 0;
        for (; g + N <= groups; g += N) step_groups<SAVE, N>(z, at);
        for (; g < groups; ++g) step_groups<SAVE, 1>(z, at);
        if (!SAVE) z.hand_over(ways[r], s);
      }
  }

  // a group in the arrays of one row at one step
  struct Place {
    const int64_t fused;  // features that are projected here
    const R *x, *pre, *w, *u, *before;
    R* after;

    ALWAYS_INLINE Place(const Plan<R>& z, const Ascent<R>& way, int64_t s)
        : fused(z.fused),
          x(way.x + s * way.x_step),
          pre(way.pre + s * way.pre_step),
          w(z.p.w),
          u(z.p.u),
          before(way.record + s * way.record_step),
          after(way.record + (s + 1) * way.record_step) {}
    ALWAYS_INLINE void advance(int64_t groups) {
      pre += groups * A * DS * L;
      w += groups * fused * G * DS * L;
      u += groups * REC * DS * DS * L;
      before += groups * B * DS * L;
      after += groups * B * DS * L;
    }
  };

  template <bool SAVE, int N>
  INLINE void step_groups(const Plan<R>& z, Place& at) {
    constexpr int M = N * PART % 2 ? 1 : 2;  // vectors in a bundle
    // a padded unit stays 0, though an infinite input makes NaN of it: 0 * inf
    const int units = DS == 8 ? int(z.d_s) : DS;
    const int64_t w_group = at.fused * G * DS * L;
    Vec<R> h[N][DS], rh[N][C::RESET_BEFORE ? DS : 1];
    for (int n = 0; n < N; ++n)
      for (int c = 0; c < DS; ++c) h[n][c] = load(at.before + (n * B * DS + c) * L);
    // rolled, these two loops need no more registers than there are
#pragma GCC unroll 1
    for (int part = 0; part < DS; part += PART) {
      Vec<R> a[A][N][PART], saved[C::SAVED + 1][N][PART];
      for (int q = 0; q < A; ++q)
        for (int n = 0; n < N; ++n)
          for (int c = 0; c < PART; ++c)
            a[q][n][c] = load(at.pre + ((n * A + q) * DS + part + c) * L);
      const R* wi = at.w + part * L;
      for (int64_t i = 0; i < at.fused; ++i, wi += G * DS * L)
        for (int n = 0; n < N; ++n)
          for (int q = 0; q < G; ++q)
            for (int c = 0; c < PART; ++c)
              a[C::INPUT + q][n][c] +=
                  at.x[i] * load(wi + n * w_group + (q * DS + c) * L);
      for (int q = 0; q < REC; ++q) {
        const bool reset = C::RESET_BEFORE && q == REC - 1;
        if constexpr (C::RESET_BEFORE)
          for (int n = 0; n < N; ++n)
            for (int c = 0; reset && c < DS; ++c) {
              Bundle<R, 1> out[2];
              C::reset(Bundle<R, 1>{a[0][n][c]}, Bundle<R, 1>{h[n][c]}, out);
              for (int i = 0; i < 2; ++i) saved[i][n][c] = out[i].v[0];
              rh[n][c] = saved[C::RESET_STATE][n][c];
              if (c >= units) rh[n][c] = Vec<R>{};
            }
        for (int n = 0; n < N; ++n)
          for (int c = 0; c < PART; ++c)
            for (int j = 0; j < DS; ++j)
              a[C::TARGET[q]][n][c] +=
                  load(at.u + (((n * REC + q) * DS + part + c) * DS + j) * L) *
                  (reset ? rh[n][j] : h[n][j]);
      }
#pragma GCC unroll 2
      for (int first = 0; first < N * PART; first += M) {
        Bundle<R, M> one[A], next[S], keep[C::SAVED + 1];
        for (int m = 0; m < M; ++m) {
          const int n = (first + m) / PART, c = (first + m) % PART;
          for (int q = 0; q < A; ++q) one[q].v[m] = a[q][n][c];
          next[0].v[m] = h[n][part + c];
          for (int i = 1; i < S; ++i)
            next[i].v[m] = load(at.before + ((n * B + i) * DS + part + c) * L);
          for (int i = 0; C::RESET_BEFORE && i < 2; ++i) keep[i].v[m] = saved[i][n][c];
        }
        C::forward(one, next, keep);
        for (int m = 0; m < M; ++m) {
          const int n = (first + m) / PART, c = (first + m) % PART;
          if (part + c >= units) next[0].v[m] = Vec<R>{};
          for (int i = 0; i < S; ++i)
            store(at.after + ((n * B + i) * DS + part + c) * L, next[i].v[m]);
          for (int i = 0; SAVE && i < C::SAVED; ++i)
            store(at.after + ((n * B + S + i) * DS + part + c) * L, keep[i].v[m]);
        }
      }
    }
    at.advance(N);
  }

  static void back(const Plan<R>& z, int rows, const Descent<R>* ways, R*) {
    for (int64_t s = ways[0].steps - 1; s >= 0; --s) {
      for (int r = 0; r < rows && s < ways[r].steps; ++r) back_step(z, ways[r], s);
    }
  }

  INLINE void back_step(const Plan<R>& z, const Descent<R>& way, int64_t s) {
    const int units = DS == 8 ? int(z.d_s) : DS;
    const int64_t groups = z.groups, to_next = B * z.width;
    const R *before = way.record + s * to_next, *u = z.p.u;
    const R* dh = way.dh ? way.dh + s * way.dh_step : nullptr;
    R *e = way.e, *delta = way.delta + s * A * z.width;
    for (int64_t g = 0; g < groups; ++g) {
      if (dh) {
        __builtin_prefetch(dh - FETCH_AHEAD * way.dh_step + g * DS * L);
        Vec<R> dy[DS];
        Rows::get_group(z, dh, g, dy);
        for (int c = 0; c < DS; ++c) store(e + c * L, load(e + c * L) + dy[c]);
      }
      back_group(units, u, before, before + to_next, e, delta);
      u += REC * DS * DS * L, before += B * DS * L, e += S * DS * L;
      delta += A * DS * L;
    }
  }

  INLINE void back_group(int units, const R* u, const R* before, const R* now, R* e,
                         R* delta) {
    Vec<R> de[DS], d[A][DS];
    for (int c = 0; c < DS; ++c) {
      Bundle<R, 1> one[S], s[S], was[S], saved[C::SAVED + 1], out[A] = {};
      for (int i = 0; i < S; ++i) one[i] = {load(e + (i * DS + c) * L)};
      for (int i = 0; i < S; ++i) s[i] = {load(now + (i * DS + c) * L)};
      for (int i = 0; i < S; ++i) was[i] = {load(before + (i * DS + c) * L)};
      for (int i = 0; i < C::SAVED; ++i)
        saved[i] = {load(now + ((S + i) * DS + c) * L)};
      C::backward(one, s, saved, was, out);
      de[c] = one[0].v[0];
      for (int i = 1; i < S; ++i) store(e + (i * DS + c) * L, one[i].v[0]);
      for (int q = 0; q < A; ++q) d[q][c] = c < units ? out[q].v[0] : Vec<R>{};
    }
    if constexpr (C::RESET_BEFORE) {
      Vec<R> drh[DS] = {};
      add_back(u + (REC - 1) * DS * DS * L, d[C::TARGET[REC - 1]], drh);
      for (int c = 0; c < DS; ++c) {
        Bundle<R, 1> one{de[c]}, r{load(now + (S * DS + c) * L)}, out;
        C::backward_reset(Bundle<R, 1>{drh[c]}, &one, &r,
                          Bundle<R, 1>{load(before + c * L)}, &out);
        de[c] = one.v[0];
        d[0][c] = out.v[0];
      }
    }
    for (int q = 0; q < REC - C::RESET_BEFORE; ++q)
      add_back(u + q * DS * DS * L, d[C::TARGET[q]], de);
    for (int c = 0; c < DS; ++c) store(e + c * L, de[c]);
    for (int q = 0; q < A; ++q)
      for (int c = 0; c < DS; ++c) store(delta + (q * DS + c) * L, d[q][c]);
  }

  // de += U^T d
  INLINE void add_back(const R* u, const Vec<R>* d, Vec<R>* de) {
    for (int c = 0; c < DS; ++c)
      for (int j = 0; j < DS; ++j) de[j] += load(u + (c * DS + j) * L) * d[c];
  }
};

// -------------------------------------------------------------------- lanes are units

template <class R>
struct UnitRows {
  static void load_row(const Plan<R>& z, const R* units, R* record, int slot, int) {
    record += slot * z.width;
    for (int64_t k = 0; k < z.K; ++k, units += z.d_s, record += z.DS) {
      memcpy(record, units, z.d_s * sizeof(R));
      memset(record + z.d_s, 0, (z.DS - z.d_s) * sizeof(R));
    }
  }
  static void store_row(const Plan<R>& z, R* units, const R* record, int slot, int) {
    record += slot * z.width;
    for (int64_t k = 0; k < z.K; ++k, units += z.d_s, record += z.DS)
      memcpy(units, record, z.d_s * sizeof(R));
  }

  // to += from M, for the blocks M of gate q
  static void add_recurrent(const Plan<R>& z, int rows, const R* u, int q,
                            const R* from, int64_t from_stride, R* to,
                            int64_t to_stride) {
    for (int64_t k = 0; k < z.K; ++k)
      add_product<R>(rows, z.DS, z.d_s, from + k * z.DS, from_stride, 1,
                     u + z.at_u(q, k, 0, 0), z.DS, to + k * z.DS, to_stride);
  }

  static void gather(const Plan<R>& z, int64_t steps, const R* records, const R* delta,
                     const Parameters<R>& grad) {
    for (int64_t v = 0; v < z.A * z.width; v += LANES<R>) {
      Vec<R> total = load(grad.b + v);
      for (int64_t s = 0; s < steps; ++s) total += load(delta + s * z.A * z.width + v);
      store(grad.b + v, total);
    }
    for (int q = 0; q < z.REC; ++q) {
      const R* read = records + z.read_by(q);
      for (int64_t k = 0; k < z.K; ++k)
        add_product<R>(z.d_s, z.DS, steps, read + k * z.DS, 1, z.B * z.width,
                       delta + z.target[q] * z.width + k * z.DS, z.A * z.width,
                       grad.u + z.at_u(q, k, 0, 0), z.DS);
    }
  }
};

// Rows run side by side, because they share the loads of the recurrent matrix.
template <class R, class C>
struct UnitLanes : UnitRows<R> {
  static constexpr int L = LANES<R>, A = C::A, REC = C::REC, S = C::S;
  static constexpr int B = C::S + C::SAVED;
  using Loops = UnitRows<R>;
  using UnitRows<R>::add_recurrent;

  // between rows at equal distances
  static int64_t gaps(int rows) { return rows > 1 ? rows - 1 : 1; }

  template <bool SAVE>
  static void step(const Plan<R>& z, int rows, int64_t steps, const Ascent<R>* ways,
                   R* scratch) {
    const int64_t stride = (ways[rows - 1].record - ways[0].record) / gaps(rows);
    for (int64_t s = 0; s < steps; ++s) {
      step_rows<SAVE>(z, rows, s, ways, stride, scratch);
      for (int r = 0; r < rows && !SAVE; ++r) z.hand_over(ways[r], s);
    }
  }

  template <bool SAVE>
  INLINE void step_rows(const Plan<R>& z, int rows, int64_t s, const Ascent<R>* ways,
                        int64_t stride, R* scratch) {
    const int64_t width = z.width;
    const R* before = ways[0].record + s * ways[0].record_step;
    R *after = ways[0].record + (s + 1) * ways[0].record_step, *a = scratch;
    for (int r = 0; r < rows; ++r)
      memcpy(a + r * A * width, ways[r].pre + s * ways[r].pre_step,
             A * width * sizeof(R));
    for (int q = 0; q < REC - C::RESET_BEFORE; ++q)
      add_recurrent(z, rows, z.p.u, q, before, stride, a + C::TARGET[q] * width,
                    A * width);
    if constexpr (C::RESET_BEFORE) {
      for (int r = 0; r < rows; ++r)
        for (int64_t v = 0; v < width; v += L) {
          Bundle<R, 1> saved[2];
          C::reset(Bundle<R, 1>{load(a + r * A * width + v)},
                   Bundle<R, 1>{load(before + r * stride + v)}, saved);
          for (int i = 0; i < 2; ++i)
            store(after + r * stride + (S + i) * width + v, saved[i].v[0]);
        }
      add_recurrent(z, rows, z.p.u, REC - 1, after + (S + C::RESET_STATE) * width,
                    stride, a + C::TARGET[REC - 1] * width, A * width);
    }
    for (int r = 0; r < rows; ++r, a += A * width, before += stride, after += stride) {
      int64_t v = 0;
      for (; v + 2 * L <= width; v += 2 * L)
        step_units<SAVE, 2>(width, a + v, before + v, after + v);
      if (v < width) step_units<SAVE, 1>(width, a + v, before + v, after + v);
    }
  }

  template <bool SAVE, int M>
  INLINE void step_units(int64_t width, const R* pre, const R* before, R* after) {
    Bundle<R, M> a[A], s[S], saved[C::SAVED + 1];
    for (int m = 0; m < M; ++m) {
      for (int q = 0; q < A; ++q) a[q].v[m] = load(pre + q * width + m * L);
      for (int i = 0; i < S; ++i) s[i].v[m] = load(before + i * width + m * L);
      for (int i = 0; C::RESET_BEFORE && i < 2; ++i)
        saved[i].v[m] = load(after + (S + i) * width + m * L);
    }
    C::forward(a, s, saved);
    for (int m = 0; m < M; ++m) {
      for (int i = 0; i < S; ++i) store(after + i * width + m * L, s[i].v[m]);
      for (int i = 0; SAVE && i < C::SAVED; ++i)
        store(after + (S + i) * width + m * L, saved[i].v[m]);
    }
  }

  static void back(const Plan<R>& z, int rows, const Descent<R>* ways, R* scratch) {
    const auto &first = ways[0], &last = ways[rows - 1];
    const int64_t stride = (last.record - first.record) / gaps(rows),
                  delta_stride = (last.delta - first.delta) / gaps(rows);
    int running = 1;
    for (int64_t s = ways[0].steps - 1; s >= 0; --s) {
      while (running < rows && s < ways[running].steps) ++running;
      back_rows(z, running, s, ways, stride, delta_stride, scratch);
    }
  }

  INLINE void back_rows(const Plan<R>& z, int rows, int64_t s, const Descent<R>* ways,
                        int64_t stride, int64_t delta_stride, R* scratch) {
    const int64_t width = z.width;
    const R *before = ways[0].record + s * B * width, *now = before + B * width;
    R *e = ways[0].e, *delta = ways[0].delta + s * A * width;
    for (int r = 0; r < rows; ++r) {
      const R* dh = ways[r].dh;
      if (dh) {
        dh += s * ways[r].dh_step;
        if (z.DS != z.d_s) {
          Loops::load_row(z, dh, scratch, 0, 1);
          dh = scratch;
        }
      }
      for (int64_t v = 0; v < width; v += L)
        back_units(width, before + r * stride + v, now + r * stride + v,
                   dh ? dh + v : nullptr, e + r * S * width + v,
                   delta + r * delta_stride + v);
    }
    if constexpr (C::RESET_BEFORE) {
      memset(scratch, 0, rows * width * sizeof(R));
      add_recurrent(z, rows, z.p.ut, REC - 1, delta + C::TARGET[REC - 1] * width,
                    delta_stride, scratch, width);
      for (int r = 0; r < rows; ++r)
        for (int64_t v = 0; v < width; v += L) {
          Bundle<R, 1> saved{load(now + r * stride + S * width + v)}, out;
          Bundle<R, 1> de{load(e + r * S * width + v)};
          C::backward_reset(Bundle<R, 1>{load(scratch + r * width + v)}, &de, &saved,
                            Bundle<R, 1>{load(before + r * stride + v)}, &out);
          store(e + r * S * width + v, de.v[0]);
          store(delta + r * delta_stride + v, out.v[0]);
        }
    }
    for (int q = 0; q < REC - C::RESET_BEFORE; ++q)
      add_recurrent(z, rows, z.p.ut, q, delta + C::TARGET[q] * width, delta_stride, e,
                    S * width);
  }

  INLINE void back_units(int64_t width, const R* before, const R* now, const R* dh,
                         R* e, R* delta) {
    Bundle<R, 1> one[S], s[S], was[S], saved[C::SAVED + 1], out[A] = {};
    for (int i = 0; i < S; ++i) one[i] = {load(e + i * width)};
    if (dh) one[0].v[0] += load(dh);
    for (int i = 0; i < S; ++i) s[i] = {load(now + i * width)};
    for (int i = 0; i < S; ++i) was[i] = {load(before + i * width)};
    for (int i = 0; i < C::SAVED; ++i) saved[i] = {load(now + (S + i) * width)};
    C::backward(one, s, saved, was, out);
    for (int i = 0; i < S; ++i) store(e + i * width, one[i].v[0]);
    for (int q = 0; q < A; ++q) store(delta + q * width, out[q].v[0]);
  }
};

// --------------------------------------------------------- the plan of a layer

template <class R, class C, int DS>
void put_blocks_in_lanes(Plan<R>& z) {
  using Loops = BlockLanes<R, C, DS>;
  z.blocks_in_lanes = true;
  z.DS = DS;
  z.span = DS * LANES<R>;
  z.groups = (z.K + LANES<R> - 1) / LANES<R>;
  const int64_t vectors = z.groups * DS;  // 16 of them hide the latency of each
  z.rows = vectors >= 16 ? 1 : vectors >= 8 ? 2 : vectors >= 4 ? 4 : 8;
  z.fused = z.d_in;
  z.step = Loops::template step<false>;
  z.step_and_save = Loops::template step<true>;
  z.back = Loops::back;
  z.gather_recurrent = BlockRows<R, DS>::gather;
  z.load = BlockRows<R, DS>::load_row;
  z.store = BlockRows<R, DS>::store_row;
}

template <class R, class C>
void put_units_in_lanes(Plan<R>& z) {
  using Loops = UnitLanes<R, C>;
  z.blocks_in_lanes = false;
  z.DS = (z.d_s + LANES<R> - 1) / LANES<R> * LANES<R>;
  z.span = z.K * z.DS;
  z.groups = 1;
  z.rows = MAX_ROWS;
  z.fused = 0;
  z.step = Loops::template step<false>;
  z.step_and_save = Loops::template step<true>;
  z.back = Loops::back;
  z.gather_recurrent = Loops::gather;
  z.load = Loops::load_row;
  z.store = Loops::store_row;
}

template <class R, class C>
void plan_cell(Plan<R>& z) {
  z.A = C::A, z.G = C::G, z.REC = C::REC, z.S = C::S, z.B = C::S + C::SAVED;
  z.input = C::INPUT, z.target = C::TARGET, z.highway = C::HIGHWAY;
  z.reset_state = C::RESET_BEFORE ? C::S + C::RESET_STATE : 0;
  constexpr int64_t L = LANES<R>;
  const int64_t DS = z.d_s <= 4 ? z.d_s : 8;  // 5 to 7 are padded
  const int64_t blocks = DS * ((z.K + L - 1) / L), units = z.K * ((z.d_s + L - 1) / L);
  if (z.d_s > 8 || units < blocks)  // vectors in a slot
    put_units_in_lanes<R, C>(z);
  else if (DS == 1)
    put_blocks_in_lanes<R, C, 1>(z);
  else if (DS == 2)
    put_blocks_in_lanes<R, C, 2>(z);
  else if (DS == 3)
    put_blocks_in_lanes<R, C, 3>(z);
  else if (DS == 4)
    put_blocks_in_lanes<R, C, 4>(z);
  else
    put_blocks_in_lanes<R, C, 8>(z);
  z.width = z.groups * z.span;
}

// false: there is no such cell
template <class R>
bool make_plan(const Scan& scan, Plan<R>& z) {
  z.K = scan.K, z.d_s = scan.d_s, z.d_in = scan.p ? 0 : scan.d_in;
  switch (scan.cell) {
    case RNN_TANH:
      plan_cell<R, Rnn<Tanh>>(z);
      break;
    case RNN_RELU:
      plan_cell<R, Rnn<Relu>>(z);
      break;
    case RNN_SIGMOID:
      plan_cell<R, Rnn<Sigmoid>>(z);
      break;
    case RNN_IDENTITY:
      plan_cell<R, Rnn<Identity>>(z);
      break;
    case LSTM:
      plan_cell<R, Lstm>(z);
      break;
    case GRU_AFTER:
      plan_cell<R, GruAfter>(z);
      break;
    case GRU_BEFORE:
      plan_cell<R, GruBefore>(z);
      break;
    case LRU_TANH:
      plan_cell<R, LruTanh>(z);
      break;
    case LRU_HIGHWAY:
      plan_cell<R, LruHighway>(z);
      break;
    default:
      return false;
  }
  return true;
}

// ---------------------------------------------------------- a layer and its run

// A row of the batch. Step s of its run is step `time(s)` of its sequence.
struct Row {
  int64_t n, steps, first, direction;
  int64_t time(int64_t s) const { return first + s * direction; }
};

template <class R>
struct Layer {
  const Scan& z;
  const int64_t d, d_in, n_chunks;
  Plan<R> lay;

  Layer(const Scan& scan, const Plan<R>& plan)
      : z(scan),
        d(scan.K * scan.d_s),
        d_in(scan.d_in),
        n_chunks((scan.T + scan.chunk - 1) / scan.chunk),
        lay(plan) {}

  // ---- parameters in the kernel's order

  // f(place in the packed array, place in the array of the ops)
  template <class F>
  void for_weight_x(F f) const {
    for (int g = 0; g < lay.G; ++g)
      for (int64_t k = 0; k < z.K; ++k)
        for (int64_t c = 0; c < z.d_s; ++c)
          for (int64_t i = 0; i < lay.d_in; ++i)
            f(lay.at_w(i, g, k, c), ((g * z.K + k) * z.d_s + c) * d_in + i);
  }
  template <class F>
  void for_weight_h(F f) const {
    for (int q = 0; q < lay.REC; ++q)
      for (int64_t k = 0; k < z.K; ++k)
        for (int64_t c = 0; c < z.d_s; ++c)
          for (int64_t j = 0; j < z.d_s; ++j)
            f(lay.at_u(q, k, c, j), lay.at_ut(q, k, c, j),
              ((q * z.K + k) * z.d_s + c) * z.d_s + j);
  }

  void pack(R* memory) {
    const Parameters<R> p = lay.p = lay.parameters_in(memory);
    memset(memory, 0, lay.size_parameters() * sizeof(R));
    const R *wx = (const R*)z.weight_x, *wh = (const R*)z.weight_h;
    for_weight_x([&](int64_t ours, int64_t theirs) { p.w[ours] = wx[theirs]; });
    for_weight_h([&](int64_t ours, int64_t transposed, int64_t theirs) {
      p.u[ours] = wh[theirs];
      if (lay.size_ut()) p.ut[transposed] = wh[theirs];
    });
    for (int g = 0; g < lay.G && !z.p; ++g)
      lay.load(lay, (const R*)z.bias + g * d, p.b, lay.input + g, lay.A);
    if (lay.A > lay.input + lay.G && z.bias_q)
      lay.load(lay, (const R*)z.bias_q, p.b, lay.A - 1, lay.A);
  }

  void unpack(const Parameters<R>& grad) const {
    R *wx = (R*)z.dweight_x, *wh = (R*)z.dweight_h;
    if (wx)
      for_weight_x([&](int64_t ours, int64_t theirs) { wx[theirs] = grad.w[ours]; });
    if (wh)
      for_weight_h(
          [&](int64_t ours, int64_t, int64_t theirs) { wh[theirs] = grad.u[ours]; });
    for (int g = 0; g < lay.G && z.dbias; ++g)
      lay.store(lay, (R*)z.dbias + g * d, grad.b, lay.input + g, lay.A);
    if (z.dbias_q) lay.store(lay, (R*)z.dbias_q, grad.b, lay.A - 1, lay.A);
  }

  // ---- what a thread works with

  struct Work {
    Row rows[MAX_ROWS];
    R *pre, *scratch, *record, *delta, *e, *mean;
  };

  // numbers, the parts in the order of `work_in`
  int64_t size_work(bool backward) const {
    const int64_t steps = backward ? z.chunk : 0, rows = lay.rows;
    return rows * lay.width *
               (AHEAD * lay.A + (steps + 1) * lay.B + steps * lay.A + lay.S + 1) +
           lay.size_scratch();
  }

  Work work_in(R* memory, bool backward) const {
    const int64_t steps = backward ? z.chunk : 0, n = lay.rows * lay.width;
    Work w;
    w.record = memory;
    w.delta = w.record + n * (steps + 1) * lay.B;
    w.pre = w.delta + n * steps * lay.A;
    w.e = w.pre + n * AHEAD * lay.A;
    w.mean = w.e + n * lay.S;
    w.scratch = w.mean + n;
    return w;
  }

  // ---- a tile: a few rows, longest first

  int64_t tiles() const { return (z.N + lay.rows - 1) / lay.rows; }

  int open_tile(int64_t tile, const int64_t* order, Work& w) const {
    const int64_t at_once = lay.rows, start = tile * at_once;
    const int rows = int(z.N - start < at_once ? z.N - start : at_once);
    for (int r = 0; r < rows; ++r) {
      const int64_t n = order ? order[start + r] : start + r;
      // clamped: whoever owns them may have changed them since they were checked
      const int64_t steps = z.lengths ? std::clamp<int64_t>(z.lengths[n], 0, z.T) : z.T;
      w.rows[r] = {n, steps, n * z.T + (z.reverse ? steps - 1 : 0), z.reverse ? -1 : 1};
    }
    return rows;
  }

  static int still_running(const Work& w, int rows, int64_t s) {
    while (rows > 0 && w.rows[rows - 1].steps <= s) --rows;
    return rows;
  }

  // The next steps that rows can take together from step s on, before step `end`. Their
  // records start at `record` and lie `stride` apart.
  int64_t ascend(const Work& w, int rows, int64_t s, int64_t end, R* record,
                 int64_t stride, int64_t record_step, Ascent<R>* ways) const {
    const bool fused = lay.fused == lay.d_in && !z.p && !lay.highway;
    const int64_t size = lay.A * lay.width,
                  until = std::min(end, w.rows[rows - 1].steps),
                  steps = std::min<int64_t>(until - s, AHEAD);
    for (int r = 0; r < rows; ++r) {
      const Row& row = w.rows[r];
      R* pre = w.pre + r * AHEAD * size;
      const R* x = z.x ? (const R*)z.x + row.time(s) * d_in : nullptr;
      if (!fused) look_ahead(row, s, steps, x, pre);
      ways[r] = {x,
                 row.direction * d_in,
                 fused ? lay.p.b : pre,
                 fused ? 0 : size,
                 record + r * stride,
                 record_step};
    }
    return steps;
  }

  void look_ahead(const Row& row, int64_t s, int64_t steps, const R* x, R* pre) const {
    const int64_t size = lay.A * lay.width;
    for (int64_t i = 0; i < steps; ++i) {
      R* one = pre + i * size;
      memcpy(one, lay.p.b, size * sizeof(R));
      if (lay.highway) lay.load(lay, x + i * row.direction * d_in, one, 0, lay.A);
      for (int g = 0; g < lay.G && z.p; ++g)
        lay.load(lay, (const R*)z.p + (row.time(s + i) * lay.G + g) * d, one,
                 lay.input + g, lay.A);
    }
    const int64_t group = lay.G * lay.span;
    for (int64_t g = 0; g < lay.groups && lay.d_in > lay.fused; ++g)
      add_product<R>(steps, group, d_in, x, row.direction * d_in, 1,
                     lay.p.w + g * d_in * group, group,
                     pre + (g * lay.A + lay.input) * lay.span, size);
  }

  // a record's states from up to S arrays of the ops; null stands for zeros
  void load_states(const void* const* from, int64_t row, R* record, int slots) const {
    for (int i = 0; i < lay.S; ++i)
      if (from[i])
        lay.load(lay, (const R*)from[i] + row * d, record, i, slots);
      else
        lay.clear(record, i, slots);
  }
  void store_states(void* const* to, int64_t row, const R* record, int slots) const {
    for (int i = 0; i < lay.S; ++i)
      if (to[i]) lay.store(lay, (R*)to[i] + row * d, record, i, slots);
  }

  void forward_tile(int64_t tile, const int64_t* order, R* memory) const {
    Work w = work_in(memory, false);
    const int all = open_tile(tile, order, w);
    const int64_t stride = lay.B * lay.width;
    Ascent<R> ways[MAX_ROWS];
    const void* const first[] = {z.h0, z.c0};
    for (int r = 0; r < all; ++r)
      load_states(first, w.rows[r].n, w.record + r * stride, lay.B);
    if (z.outputs == MEAN) memset(w.mean, 0, all * lay.width * sizeof(R));

    int rows = all;
    for (int64_t s = 0; (rows = still_running(w, rows, s));) {
      const int64_t in_chunk = s % z.chunk;
      for (int r = 0; r < rows && !in_chunk && z.checkpoints; ++r)
        store_checkpoint(w, r, s / z.chunk);
      const int64_t steps =
          ascend(w, rows, s, s - in_chunk + z.chunk, w.record, stride, 0, ways);
      for (int r = 0; r < rows; ++r) {
        const Row& row = w.rows[r];
        if (z.outputs == ALL) ways[r].h = (R*)z.h + row.time(s) * d;
        ways[r].h_step = row.direction * d;
        if (z.outputs == MEAN) ways[r].total = w.mean + r * lay.width;
      }
      lay.step(lay, rows, steps, ways, w.scratch);
      s += steps;
    }
    for (int r = 0; r < all; ++r) close_row(w, r);
  }

  int64_t checkpoint(int64_t n, int64_t chunk, int i) const {
    return ((n * n_chunks + chunk) * lay.S + i) * d;
  }
  void store_checkpoint(const Work& w, int r, int64_t chunk) const {
    for (int i = 0; i < lay.S; ++i)
      lay.store(lay, (R*)z.checkpoints + checkpoint(w.rows[r].n, chunk, i),
                w.record + r * lay.B * lay.width, i, lay.B);
  }

  void close_row(const Work& w, int r) const {
    const Row& row = w.rows[r];
    void* last[] = {z.h_last, z.c_last};
    store_states(last, row.n, w.record + r * lay.B * lay.width, lay.B);
    if (z.outputs == ALL)
      clear_padding(z.h, row, d);
    else if (z.outputs == MEAN) {
      R* mean = w.mean + r * lay.width;
      divide(mean, row.steps);
      lay.store(lay, (R*)z.h + row.n * d, mean, 0, 1);
    }
  }

  void clear_padding(void* array, const Row& row, int64_t numbers) const {
    if (array)
      memset((R*)array + (row.n * z.T + row.steps) * numbers, 0,
             (z.T - row.steps) * numbers * sizeof(R));
  }

  void backward_tile(int64_t tile, const int64_t* order, R* memory,
                     const Parameters<R>& grad) const {
    Work w = work_in(memory, true);
    const int all = open_tile(tile, order, w);
    const void* const last[] = {z.dh_last, z.dc_last};
    for (int r = 0; r < all; ++r) {
      load_states(last, w.rows[r].n, w.e + r * lay.S * lay.width, lay.S);
      if (z.outputs == MEAN && z.dh) load_mean(w, r);
      clear_padding(z.dx, w.rows[r], d_in);
      clear_padding(z.dp, w.rows[r], lay.G * d);
    }
    const int64_t longest = all ? w.rows[0].steps : 0;
    for (int64_t chunk = (longest + z.chunk - 1) / z.chunk - 1; chunk >= 0; --chunk) {
      const int64_t start = chunk * z.chunk;
      const int rows = still_running(w, all, start);
      replay(w, rows, chunk);
      descend(w, rows, start);
      for (int r = 0; r < rows; ++r) finish(w, r, start, grad);
    }
    void* first[] = {z.dh0, z.dc0};
    for (int r = 0; r < all; ++r)
      store_states(first, w.rows[r].n, w.e + r * lay.S * lay.width, lay.S);
  }

  // what each step of a row gets of the gradient of their mean
  void load_mean(Work& w, int r) const {
    R* dh = w.mean + r * lay.width;
    memcpy(dh, (const R*)z.dh + w.rows[r].n * d, d * sizeof(R));
    divide(dh, w.rows[r].steps);
  }

  // a slot by the steps of its row; of none, it is left as it is
  void divide(R* slot, int64_t steps) const {
    const R share = R(1) / R(steps ? steps : 1);
    for (int64_t v = 0; v < lay.width; ++v) slot[v] *= share;
  }

  int64_t steps_in_chunk(const Row& row, int64_t start) const {
    return row.steps - start < z.chunk ? row.steps - start : z.chunk;
  }
  R* record(const Work& w, int r, int64_t s) const {
    return w.record + (r * (z.chunk + 1) + s) * lay.B * lay.width;
  }
  R* delta(const Work& w, int r, int64_t s) const {
    return w.delta + (r * z.chunk + s) * lay.A * lay.width;
  }

  // the chunk forward again, from its checkpoint, keeping what backward needs
  void replay(Work& w, int rows, int64_t chunk) const {
    const R* from = (const R*)z.checkpoints;
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < lay.S; ++i)
        lay.load(lay, from + checkpoint(w.rows[r].n, chunk, i), record(w, r, 0), i,
                 lay.B);
    Ascent<R> ways[MAX_ROWS];
    const int64_t start = chunk * z.chunk;
    for (int64_t s = 0; s < z.chunk && (rows = still_running(w, rows, start + s));) {
      const int64_t hop = lay.B * lay.width,
                    steps = ascend(w, rows, start + s, start + z.chunk, record(w, 0, s),
                                   (z.chunk + 1) * hop, hop, ways);
      lay.step_and_save(lay, rows, steps, ways, w.scratch);
      s += steps;
    }
  }

  void descend(Work& w, int rows, int64_t start) const {
    Descent<R> ways[MAX_ROWS];
    for (int r = 0; r < rows; ++r) {
      const Row& row = w.rows[r];
      const R* dh = nullptr;
      if (z.dh && z.outputs == ALL) dh = (const R*)z.dh + row.time(start) * d;
      if (z.dh && z.outputs == MEAN) dh = w.mean + r * lay.width;
      ways[r] = {steps_in_chunk(row, start),
                 record(w, r, 0),
                 dh,
                 z.outputs == ALL ? row.direction * d : 0,
                 w.e + r * lay.S * lay.width,
                 delta(w, r, 0)};
    }
    lay.back(lay, rows, ways, w.scratch);
  }

  // parameters and inputs, from the deltas of a chunk
  void finish(Work& w, int r, int64_t start, const Parameters<R>& grad) const {
    const Row& row = w.rows[r];
    const int64_t steps = steps_in_chunk(row, start);
    const R* x = z.p ? nullptr : (const R*)z.x + row.time(start) * d_in;
    lay.gather_recurrent(lay, steps, record(w, r, 0), delta(w, r, 0), grad);
    if (x) lay.gather_input(steps, x, row.direction * d_in, delta(w, r, 0), grad.w);
    if (!z.dx && !z.dp) return;
    for (int64_t s = 0; s < steps; ++s) {
      R* one = delta(w, r, s);
      const int64_t t = row.time(start + s);
      for (int g = 0; g < lay.G && z.dp; ++g)
        lay.store(lay, (R*)z.dp + (t * lay.G + g) * d, one, lay.input + g, lay.A);
      if (!z.dx) continue;
      R* dx = (R*)z.dx + t * d_in;
      if (lay.highway)
        lay.store(lay, dx, one, 0, lay.A);
      else
        memset(dx, 0, d_in * sizeof(R));
      lay.blank_padding(one);
      lay.add_input_gradient(one, dx);
    }
  }
};

// ----------------------------------------------------------------------------- threads

// Vanishing gradients pass through denormal numbers, which are many times slower: for
// the duration of a call they count as zero.
class FlushToZero {
#if defined(__x86_64__)
  unsigned before = __builtin_ia32_stmxcsr();

 public:
  FlushToZero() { __builtin_ia32_ldmxcsr(before | 0x8040); }
  ~FlushToZero() { __builtin_ia32_ldmxcsr(before); }
#elif defined(__aarch64__)
  uint64_t before;

 public:
  FlushToZero() {
    asm volatile("mrs %0, fpcr" : "=r"(before));
    asm volatile("msr fpcr, %0" ::"r"(before | uint64_t(1) << 24));
  }
  ~FlushToZero() { asm volatile("msr fpcr, %0" ::"r"(before)); }
#endif
};

void* allocate(size_t bytes) {
  void* memory = nullptr;
  return posix_memalign(&memory, 64, bytes ? bytes : 64) ? nullptr : memory;
}

struct Memory {
  void* start;
  explicit Memory(size_t bytes) : start(allocate(bytes)) {}
  Memory(const Memory&) = delete;
  ~Memory() { free(start); }
};

template <class F>
struct Team {
  F& run;  // run(item, memory)
  const int64_t items;
  const size_t bytes;
  int64_t next = 0;
  int failed = 0;

  static void* work(void* self) {
    Team& team = *static_cast<Team*>(self);
    FlushToZero flush;
    Memory memory(team.bytes);
    if (!memory.start) {
      __atomic_store_n(&team.failed, 1, __ATOMIC_RELAXED);
      return nullptr;
    }
    for (int64_t item;
         (item = __atomic_fetch_add(&team.next, 1, __ATOMIC_RELAXED)) < team.items;)
      team.run(item, memory.start);
    return nullptr;
  }
};

// Run all items, each once and by any thread; memory is the thread's own. Threads live
// as long as the call, so that a process can fork between calls.
template <class F>
int64_t in_parallel(int64_t items, int64_t threads, size_t bytes, F run) {
  constexpr int MOST = 256;
  Team<F> team{run, items, bytes};
  pthread_t others[MOST];
  int started = 0;
  while (started < MOST && started + 1 < threads && started + 1 < items &&
         !pthread_create(&others[started], nullptr, Team<F>::work, &team))
    ++started;
  Team<F>::work(&team);
  while (started) pthread_join(others[--started], nullptr);
  return team.failed ? NO_MEMORY : DONE;
}

// ------------------------------------------------------------------------------- calls

// Rows by decreasing length: those of a tile end about together. Null: all are equal.
int64_t* sort_rows(const Scan& z, void* memory) {
  if (!z.lengths) return nullptr;
  int64_t* order = static_cast<int64_t*>(memory);
  for (int64_t n = 0; n < z.N; ++n) order[n] = n;
  const int64_t* lengths = z.lengths;
  std::sort(order, order + z.N, [=](int64_t a, int64_t b) {
    return lengths[a] != lengths[b] ? lengths[a] > lengths[b] : a < b;
  });
  return order;
}

// A thread is worth starting for half a millisecond of work, some 5e6 operations.
template <class R>
int64_t threads_for(const Layer<R>& layer, int passes) {
  const Scan& z = layer.z;
  double steps = double(z.N) * double(z.T);
  if (z.lengths) {
    steps = 0;
    for (int64_t n = 0; n < z.N; ++n) steps += double(z.lengths[n]);
  }
  const double a_step =
      double(layer.d) * layer.lay.A * (double(layer.lay.d_in + z.d_s) + 15);
  const double worth = 1 + passes * steps * a_step / 5e6;
  return worth < double(z.threads) ? int64_t(worth) : z.threads;
}

struct Forward {
  template <class R>
  static int64_t run(Layer<R>& layer, void*) {
    const Scan& z = layer.z;
    Memory parameters(layer.lay.size_parameters() * sizeof(R)),
        rows(z.N * sizeof(int64_t));
    if (!parameters.start || !rows.start) return NO_MEMORY;
    layer.pack(static_cast<R*>(parameters.start));
    const int64_t* order = sort_rows(z, rows.start);
    return in_parallel(layer.tiles(), threads_for(layer, 1),
                       layer.size_work(false) * sizeof(R),
                       [&](int64_t tile, void* memory) {
                         layer.forward_tile(tile, order, static_cast<R*>(memory));
                       });
  }
};

// Tiles are dealt to slabs, each with sums of its own, which are added in a fixed
// order. How many slabs there are depends on sizes alone: so do the gradients, to the
// last bit, however many threads there are.
struct Backward {
  template <class R>
  static int64_t run(Layer<R>& layer, void*) {
    constexpr int64_t MOST = 16, MOST_BYTES = int64_t(1) << 25;
    const Scan& z = layer.z;
    const int64_t size = layer.lay.size_gradients(),
                  fitting = MOST_BYTES / int64_t(size * sizeof(R));
    int64_t slabs = fitting < 1 ? 1 : fitting < MOST ? fitting : MOST;
    if (slabs > layer.tiles()) slabs = layer.tiles() ? layer.tiles() : 1;
    Memory parameters(layer.lay.size_parameters() * sizeof(R)),
        rows(z.N * sizeof(int64_t));
    Memory sums(slabs * size * sizeof(R));
    if (!parameters.start || !rows.start || !sums.start) return NO_MEMORY;
    layer.pack(static_cast<R*>(parameters.start));
    const int64_t* order = sort_rows(z, rows.start);
    R* total = static_cast<R*>(sums.start);
    memset(total, 0, slabs * size * sizeof(R));
    const int64_t status =
        in_parallel(slabs, threads_for(layer, 3), layer.size_work(true) * sizeof(R),
                    [&](int64_t slab, void* memory) {
                      const auto own = layer.lay.parameters_in(total + slab * size);
                      for (int64_t tile = slab; tile < layer.tiles(); tile += slabs)
                        layer.backward_tile(tile, order, static_cast<R*>(memory), own);
                    });
    for (int64_t slab = 1; slab < slabs; ++slab)
      for (int64_t i = 0; i < size; ++i) total[i] += total[slab * size + i];
    layer.unpack(layer.lay.parameters_in(total));
    return status;
  }
};

struct Stepper {
  void (*step)(Stepper&, const void* x, void* h);
  void (*state)(const Stepper&, void* h, void* c);
};

template <class R>
struct StepperOf : Stepper {
  Scan z;
  Layer<R> layer;
  typename Layer<R>::Work work;

  StepperOf(const Layer<R>& one, R* memory) : z(one.z), layer(z, one.lay) {
    layer.pack(memory);
    work = layer.work_in(memory + layer.lay.size_parameters(), false);
    layer.open_tile(0, nullptr, work);
    const void* first[] = {z.h0, z.c0};
    layer.load_states(first, 0, work.record, layer.lay.B);
    Stepper::step = [](Stepper& self, const void* x, void* h) {
      static_cast<StepperOf&>(self).take(static_cast<const R*>(x), static_cast<R*>(h));
    };
    Stepper::state = [](const Stepper& self, void* h, void* c) {
      const auto& own = static_cast<const StepperOf&>(self);
      void* to[] = {h, c};
      own.layer.store_states(to, 0, own.work.record, own.layer.lay.B);
    };
  }

  void take(const R* x, R* h) {
    FlushToZero flush;
    z.x = x;
    Ascent<R> way;
    layer.ascend(work, 1, 0, 1, work.record, 0, 0, &way);
    way.h = h;
    layer.lay.step(layer.lay, 1, 1, &way, work.scratch);
  }

  static constexpr size_t head() { return (sizeof(StepperOf) + 63) / 64 * 64; }
};

// One row of one step: N = T = 1
Scan of_a_step(const Scan& z) {
  Scan one = z;
  one.N = one.T = one.chunk = 1;
  one.outputs = LAST;
  one.reverse = 0;
  one.p = nullptr;
  one.lengths = nullptr;
  return one;
}

struct StepperBytes {
  template <class R>
  static int64_t run(Layer<R>& layer, void*) {
    return StepperOf<R>::head() +
           (layer.lay.size_parameters() + layer.size_work(false)) * sizeof(R);
  }
};

struct StepperInit {
  template <class R>
  static int64_t run(Layer<R>& layer, void* memory) {
    char* numbers = static_cast<char*>(memory) + StepperOf<R>::head();
    new (memory) StepperOf<R>(layer, reinterpret_cast<R*>(numbers));
    return DONE;
  }
};

template <class Call, class R>
int64_t on_layer(const Scan& z, void* memory) {
  Plan<R> plan;
  if (!make_plan(z, plan)) return UNKNOWN_CELL;
  const bool positive = z.K > 0 && z.d_s > 0 && z.chunk > 0;
  if (!positive || z.d_in < 0 || z.N < 0 || z.T < 0) return BAD_SIZES;
  FlushToZero flush;
  Layer<R> layer(z, plan);
  return Call::run(layer, memory);
}

template <class Call>
int64_t dispatch(const Scan& z, void* memory) {
  return z.itemsize == 4 ? on_layer<Call, float>(z, memory)
                         : on_layer<Call, double>(z, memory);
}

template <class R>
void tanh_of(const R* x, R* y, int64_t n) {
  FlushToZero flush;
  constexpr int64_t L = LANES<R>;
  int64_t i = 0;
  for (; i + 2 * L <= n; i += 2 * L) {
    const auto both = tanh_(Bundle<R, 2>{load(x + i), load(x + i + L)});
    store(y + i, both.v[0]);
    store(y + i + L, both.v[1]);
  }
  Bundle<R, 2> rest{};
  for (int64_t l = i; l < n; ++l) rest.v[(l - i) / L][(l - i) % L] = x[l];
  rest = tanh_(rest);
  for (int64_t l = i; l < n; ++l) y[l] = rest.v[(l - i) / L][(l - i) % L];
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int64_t skpararnn_sizeof_scan() { return sizeof(Scan); }
EXPORT int64_t skpararnn_vector_bytes() { return VECTOR_BYTES; }

// The x86-64 level of this CPU that the library is built for: 4, 3 or 1 (baseline).
EXPORT int64_t skpararnn_cpu_level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl");
  return v3 && v4 ? 4 : v3 ? 3 : 1;
#else
  return 1;
#endif
}

// Both return a Status. Arrays that the call fills need not be initialised.
EXPORT int64_t skpararnn_forward(const Scan* scan) {
  return dispatch<Forward>(*scan, nullptr);
}
EXPORT int64_t skpararnn_backward(const Scan* scan) {
  return dispatch<Backward>(*scan, nullptr);
}

// One row, step by step, on memory of the caller's (bytes: how much of it, aligned to
// 64): parameters and state in the kernel's own layout, made from weight_x, weight_h,
// bias, bias_q, h0 and c0 of a Scan with N = 1. x is (d_in,), h and c are (d,).
EXPORT int64_t skpararnn_stepper_bytes(const Scan* scan) {
  return dispatch<StepperBytes>(of_a_step(*scan), nullptr);
}
EXPORT int64_t skpararnn_stepper_init(const Scan* scan, void* stepper) {
  return dispatch<StepperInit>(of_a_step(*scan), stepper);
}
EXPORT void skpararnn_stepper_step(void* stepper, const void* x, void* h) {
  Stepper& self = *static_cast<Stepper*>(stepper);
  self.step(self, x, h);
}
EXPORT void skpararnn_stepper_state(const void* stepper, void* h, void* c) {
  const Stepper& self = *static_cast<const Stepper*>(stepper);
  self.state(self, h, c);
}

// y = tanh(x) for n numbers, as the cells compute it.
EXPORT void skpararnn_tanh(int64_t itemsize, const void* x, void* y, int64_t n) {
  if (itemsize == 4)
    tanh_of(static_cast<const float*>(x), static_cast<float*>(y), n);
  else
    tanh_of(static_cast<const double*>(x), static_cast<double*>(y), n);
}
