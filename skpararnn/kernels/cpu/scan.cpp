// The loop over time of the recurrent layers, forward and backward, on the CPU.
//
// One call runs one layer over a batch of sequences. The interface is plain C: a struct of
// sizes and pointers, see `Scan`. Arrays are contiguous and in the layout of the ops.

#include <cstdint>

// ------------------------------------------------------------------------- interface

enum CellCode : int64_t {
  RNN_TANH,
  RNN_RELU,
  RNN_SIGMOID,
  RNN_IDENTITY,
  LSTM,
  GRU_AFTER,   // the reset gate acts after the recurrent product
  GRU_BEFORE,
  LRU_TANH,
  LRU_HIGHWAY  // gate f alone; x is the candidate, d_in = d
};

enum Outputs : int64_t { LAST, ALL, MEAN };

enum Status : int { DONE, NO_MEMORY, UNKNOWN_CELL };

// Everything a call needs. `real` is float or double, as `itemsize` says; a null pointer
// stands for what is not there, or not wanted.
struct Scan {
  int64_t itemsize;  // 4: float, 8: double
  int64_t cell;      // CellCode
  int64_t K, d_s;    // blocks and their size; d = K * d_s
  int64_t d_in;      // features of x; with `p` given the kernel does not project
  int64_t N, T;
  int64_t chunk;     // steps between two checkpoints, n_chunks = ceil(T / chunk)
  int64_t reverse;   // 1: from the last real step to the first
  int64_t outputs;   // Outputs
  int64_t threads;   // at most so many; fewer for small work

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
  void* checkpoints;  // real (N, n_chunks, S, d), S = 2 for LSTM, else 1; forward fills,
                      // backward reads; null: no backward will follow

  const void* dh;       // gradients of what forward returned, null: zeros
  const void* dh_last;
  const void* dc_last;
  void* dx;         // real (N, T, d_in); with `p`: highway alone, the candidate's part
  void* dp;         // real (N, T, G, d), 0 at padded steps; with `p`, in place of
                    // dweight_x and dbias
  void* dweight_x;
  void* dweight_h;
  void* dbias;
  void* dbias_q;
  void* dh0;
  void* dc0;
};

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int64_t skpararnn_sizeof_scan() { return sizeof(Scan); }
EXPORT int64_t skpararnn_vector_bytes() { return 16; }

// The x86-64 level of this CPU that the library is built for: 4, 3 or 1 (baseline).
EXPORT int64_t skpararnn_cpu_level() { return 1; }

// Both return a Status. Arrays that the call fills need not be initialised.
EXPORT int64_t skpararnn_forward(const Scan*) { return UNKNOWN_CELL; }
EXPORT int64_t skpararnn_backward(const Scan*) { return UNKNOWN_CELL; }

// One row, step by step, on memory of the caller's: parameters and state in the kernel's
// own layout, made from weight_x, weight_h, bias, bias_q, h0 and c0 of a Scan with N = 1.
EXPORT int64_t skpararnn_stepper_bytes(const Scan*) { return 0; }
EXPORT int64_t skpararnn_stepper_init(const Scan*, void* stepper) { return UNKNOWN_CELL; }
EXPORT void skpararnn_stepper_step(void* stepper, const void* x, void* h) {}
EXPORT void skpararnn_stepper_state(const void* stepper, void* h, void* c) {}

// y = tanh(x) for n numbers, as the cells compute it.
EXPORT void skpararnn_tanh(int64_t itemsize, const void* x, void* y, int64_t n) {}
