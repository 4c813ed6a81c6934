// Every cell of the kernel over a small contract, to be compiled with a sanitizer:
// all layouts, sizes that fill no vector, rows of unequal length and of none.
//
//   contract            all cases, then the same work by several threads
//   contract threads    the second part alone, larger
//
// Arrays have exactly their size, and NaN stands where nothing may be read and where the
// kernel has to write. benchmarks/sanitizers.py compiles and runs this file.

#include <cmath>
#include <cstdio>
#include <vector>

#include "scan.cpp"

#ifndef REALS  // the number types: one alone compiles faster
#define REALS float, double
#endif

struct CellSizes {
  const char* name;
  int64_t G, REC;
};
const CellSizes CELLS[] = {{"rnn tanh", 1, 1},    {"rnn relu", 1, 1},   {"rnn sigmoid", 1, 1},
                           {"rnn identity", 1, 1}, {"lstm", 4, 4},       {"gru after", 3, 3},
                           {"gru before", 3, 3},   {"lru tanh", 2, 1},   {"lru highway", 1, 1}};

struct Shape {
  int64_t K, d_s, d_in, N, T;
};
// K: below, at and above whole vectors. Blocks in the lanes up to d_s = 8, where there are
// enough of them; else units. Chunks of 4 steps, long rows as in use.
const Shape SHAPES[] = {{1, 1, 1, 1, 1},  {19, 1, 3, 5, 9},  {16, 2, 1, 9, 8}, {21, 2, 4, 3, 5},
                        {17, 3, 2, 4, 4}, {33, 4, 0, 2, 9},  {7, 5, 3, 3, 6},  {18, 8, 2, 2, 5},
                        {1, 2, 2, 17, 3}, {2, 16, 5, 11, 9}, {1, 33, 3, 9, 6}, {3, 7, 1, 1, 8},
                        {9, 2, 3, 5, 37}};

struct Case {
  int64_t cell;
  Shape shape;
  int64_t outputs, reverse, threads;
  bool wide, lengths, first, odd;  // odd: addresses are multiples of a number's size alone
};

[[noreturn]] void fail(const Case& c, const char* what) {
  const Shape& s = c.shape;
  fprintf(stderr,
          "%s: cell %s, K %ld, d_s %ld, d_in %ld, N %ld, T %ld, outputs %ld, reverse %ld, "
          "threads %ld, wide %d, lengths %d, first states %d\n",
          what, CELLS[c.cell].name, long(s.K), long(s.d_s), long(s.d_in), long(s.N), long(s.T),
          long(c.outputs), long(c.reverse), long(c.threads), c.wide, c.lengths, c.first);
  exit(1);
}

// Numbers on the heap, of the exact size: what lies behind them is the sanitizer's.
template <class R>
class Array {
  R* memory;

 public:
  R* data;
  int64_t size;

  Array(int64_t size, bool odd) : size(size) {
    memory = static_cast<R*>(malloc((size + odd) * sizeof(R)));
    data = memory + odd;
    for (int64_t i = 0; i < size; ++i) data[i] = R(NAN);
  }
  Array(const Array&) = delete;
  Array(Array&& other) noexcept : memory(other.memory), data(other.data), size(other.size) {
    other.memory = nullptr;
  }
  ~Array() { free(memory); }
};

// One layer: what the kernel reads, in `given`, and what it fills.
template <class R>
class Run {
  const Case& c;
  uint32_t seed = 1;
  std::vector<Array<R>> given, filled, checkpoints;
  std::vector<int64_t> lengths;

  R random() {  // in (-1, 1)
    seed = seed * 1664525u + 1013904223u;
    return R(seed >> 8) / R(1 << 23) - 1;
  }
  R* read(int64_t size) {
    given.emplace_back(size, c.odd);
    for (int64_t i = 0; i < size; ++i) given.back().data[i] = random();
    return given.back().data;
  }
  // NaN at padded steps, none of which may be read
  R* read_steps(int64_t numbers) {
    R* array = read(z.N * z.T * numbers);
    for (int64_t n = 0; z.lengths && n < z.N; ++n)
      for (int64_t i = z.lengths[n] * numbers; i < z.T * numbers; ++i)
        array[n * z.T * numbers + i] = R(NAN);
    return array;
  }
  R* fill(int64_t size) {
    filled.emplace_back(size, c.odd);
    return filled.back().data;
  }

 public:
  Scan z{};

  explicit Run(const Case& c) : c(c) {
    const auto [name, G, REC] = CELLS[c.cell];
    const bool lstm = c.cell == LSTM, highway = c.cell == LRU_HIGHWAY;
    const bool bias_q = c.cell == GRU_AFTER && c.first;
    const int64_t d = c.shape.K * c.shape.d_s, N = c.shape.N, T = c.shape.T;
    const int64_t d_in = highway ? d : c.shape.d_in;
    z.itemsize = sizeof(R), z.cell = c.cell, z.K = c.shape.K, z.d_s = c.shape.d_s;
    z.d_in = d_in, z.N = N, z.T = T, z.chunk = T > 16 ? 16 : 4;
    z.reverse = c.reverse, z.outputs = c.outputs, z.threads = c.threads;
    for (int64_t n = 0; n < N; ++n) lengths.push_back(n * 5 % (T + 1));
    z.lengths = c.lengths ? lengths.data() : nullptr;

    if (c.wide)
      z.p = read_steps(G * d);
    else
      z.weight_x = read(G * d * d_in), z.bias = read(G * d);
    if (!c.wide || highway) z.x = read_steps(d_in);
    z.weight_h = read(REC * z.K * z.d_s * z.d_s);
    // or a state that no activation bounds would grow
    for (int64_t i = 0; i < given.back().size; ++i) given.back().data[i] /= R(z.d_s);
    if (bias_q) z.bias_q = read(d);
    if (c.first) z.h0 = read(N * d);
    if (c.first && lstm) z.c0 = read(N * d);

    if (c.outputs == ALL) z.h = fill(N * T * d), z.dh = read_steps(d);
    if (c.outputs == MEAN) z.h = fill(N * d), z.dh = read(N * d);
    z.h_last = fill(N * d), z.dh_last = c.first ? read(N * d) : nullptr;
    if (lstm) z.c_last = fill(N * d), z.dc_last = c.first ? read(N * d) : nullptr;

    if (c.wide)
      z.dp = fill(N * T * G * d);
    else
      z.dweight_x = fill(G * d * d_in), z.dbias = fill(G * d);
    if (!c.wide || highway) z.dx = fill(N * T * d_in);
    z.dweight_h = fill(REC * z.K * z.d_s * z.d_s);
    if (bias_q) z.dbias_q = fill(d);
    if (c.first) z.dh0 = fill(N * d);
    if (c.first && lstm) z.dc0 = fill(N * d);
    const int64_t n_chunks = (T + z.chunk - 1) / z.chunk;
    checkpoints.emplace_back(N * n_chunks * (lstm ? 2 : 1) * d, c.odd);
    z.checkpoints = checkpoints[0].data;  // those past a row's end stay as they are
  }

  void call() {
    if (skpararnn_forward(&z) != DONE) fail(c, "forward failed");
    if (skpararnn_backward(&z) != DONE) fail(c, "backward failed");
    for (const auto& array : filled)
      for (int64_t i = 0; i < array.size; ++i)
        if (!std::isfinite(array.data[i])) fail(c, "not written, or not finite");
  }

  bool same_bits(const Run& other) const {
    for (size_t a = 0; a < filled.size(); ++a)
      if (memcmp(filled[a].data, other.filled[a].data, filled[a].size * sizeof(R))) return false;
    return true;
  }

  // the first row again, step by step
  void walk() {
    const int64_t d = z.K * z.d_s, steps = z.lengths ? z.lengths[0] : z.T;
    Memory memory(skpararnn_stepper_bytes(&z));
    Array<R> h(d, c.odd), c_now(z.c_last ? d : 0, c.odd);
    if (skpararnn_stepper_init(&z, memory.start) != DONE) fail(c, "the stepper failed");
    for (int64_t t = 0; t < steps; ++t)
      skpararnn_stepper_step(memory.start, static_cast<const R*>(z.x) + t * z.d_in, h.data);
    skpararnn_stepper_state(memory.start, h.data, z.c_last ? c_now.data : nullptr);
    for (int64_t i = 0; i < d; ++i)
      if (!(std::fabs(h.data[i] - static_cast<R*>(z.h_last)[i]) <= R(1e-4)))
        fail(c, "the stepper went elsewhere");
  }
};

// A build may leave out cells.
bool is_compiled(int64_t cell) {
  Scan z{};
  z.itemsize = 8, z.cell = cell, z.K = z.d_s = z.d_in = 1;
  return skpararnn_stepper_bytes(&z) != UNKNOWN_CELL;
}

template <class R>
int run_all(int64_t cell) {
  int count = 0;
  for (const Shape& shape : SHAPES)
    for (int64_t outputs : {LAST, ALL, MEAN})
      for (int options = 0; options < 16; ++options, ++count) {
        const bool reverse = options & 1, wide = options & 2, first = options & 8;
        const Case c{cell, shape, outputs, reverse, 1, wide, bool(options & 4), first,
                     bool(count & 1)};
        Run<R> run(c);
        run.call();
        if (!wide && !reverse) run.walk();
      }
  return count;
}

// ----------------------------------------------------------------------------- threads

// large enough that the kernel starts all the threads it may
Case work_of(int64_t cell, int64_t d_s, bool large, int64_t threads) {
  const int64_t T = large ? 200 : 50, N = large ? 100 : 50;
  return {cell, {64 / d_s, d_s, 4, N, T}, ALL, 0, threads, false, true, true, false};
}

template <class R>
struct Caller {
  Run<R>& run;
  pthread_t thread;
  static void* work(void* self) {
    static_cast<Caller*>(self)->run.call();
    return nullptr;
  }
};

// By one thread, by four, and by two callers of two threads each, which share nothing but
// the machine: all have to give the same bits.
template <class R>
int run_crowd(int64_t cell, bool large) {
  int count = 0;
  for (int64_t d_s : {2, 32}) {
    const Case alone = work_of(cell, d_s, large, 1), four = work_of(cell, d_s, large, 4);
    const Case two = work_of(cell, d_s, large, 2);
    Run<R> expected(alone), team(four), left(two), right(two);
    expected.call();
    team.call();
    Caller<R> callers[] = {{left, {}}, {right, {}}};
    for (auto& caller : callers) pthread_create(&caller.thread, nullptr, caller.work, &caller);
    for (auto& caller : callers) pthread_join(caller.thread, nullptr);
    for (const Run<R>* run : {&team, &left, &right})
      if (!run->same_bits(expected)) fail(four, "other bits with several threads");
    count += 4;
  }
  return count;
}

template <class... R>
int test_cell(int64_t cell, bool threads_alone) {
  int count = (run_crowd<R>(cell, threads_alone) + ...);
  if (!threads_alone) count += (run_all<R>(cell) + ...);
  return count;
}

int main(int n_arguments, char**) {
  for (int64_t cell = RNN_TANH; cell <= LRU_HIGHWAY; ++cell)
    if (is_compiled(cell))
      printf("%s: %d runs\n", CELLS[cell].name, test_cell<REALS>(cell, n_arguments > 1));
}
