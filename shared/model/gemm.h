// Matrix products: oneDNN where the build has it, Eigen otherwise. Both stay on the calling thread.
#pragma once

#include <cstddef>

namespace downpour::model {

/// A row-major matrix in memory: element (i, j) at data[i * stride + j].
struct ConstMatrix {
  const float* data = nullptr;
  size_t stride = 0;
};
struct Matrix {
  float* data = nullptr;
  size_t stride = 0;
  operator ConstMatrix() const {
    return {data, stride};
  }  // NOLINT(google-explicit-constructor): a view
};

enum class Transpose : bool { kNo, kYes };

/// c[m, n] = op(a)[m, k] op(b)[k, n], or += with `accumulate`. c overlaps neither a nor b.
/// Numerics: float32; bits depend on the build, the CPU and the sizes, never on threads.
void gemm(Transpose transpose_a, Transpose transpose_b, size_t m, size_t n, size_t k, ConstMatrix a,
          ConstMatrix b, bool accumulate, Matrix c);

/// The same by Eigen in any build: the fallback, and the oracle of the tests.
void gemm_eigen(Transpose transpose_a, Transpose transpose_b, size_t m, size_t n, size_t k,
                ConstMatrix a, ConstMatrix b, bool accumulate, Matrix c);

/// "oneDNN" or "Eigen".
const char* gemm_backend();

/// While it lives, products called from this thread use this thread only.
class SingleThreadProducts final {
 public:
  SingleThreadProducts();
  ~SingleThreadProducts();
  SingleThreadProducts(const SingleThreadProducts&) = delete;
  SingleThreadProducts& operator=(const SingleThreadProducts&) = delete;

 private:
  int threads_before_ = 1;
};

}  // namespace downpour::model
