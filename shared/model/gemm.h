// Matrix products: by oneDNN if the build has it, otherwise by Eigen. Products run on the calling
// thread only, if a SingleThreadProducts exists there (oneDNN) or always (Eigen).
#pragma once

#include <cstddef>

namespace downpour::model {

/// A row-major matrix in memory: element (i, j) is at data[i * stride + j].
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

/// Computes c[m, n] = op(a)[m, k] op(b)[k, n], or += with `accumulate`. c must not overlap a or b.
/// Computes in float32. On a single thread the bits depend only on the build, the CPU and the
/// sizes.
void gemm(Transpose transpose_a, Transpose transpose_b, size_t m, size_t n, size_t k, ConstMatrix a,
          ConstMatrix b, bool accumulate, Matrix c);

/// Computes the same product with Eigen in any build. It is the fallback, and the reference of the
/// tests.
void gemm_eigen(Transpose transpose_a, Transpose transpose_b, size_t m, size_t n, size_t k,
                ConstMatrix a, ConstMatrix b, bool accumulate, Matrix c);

/// Returns "oneDNN" or "Eigen".
const char* gemm_backend();

/// Restricts matrix products that are called from this thread to this thread, for its lifetime.
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
