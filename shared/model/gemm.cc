#include "shared/model/gemm.h"

#include <Eigen/Core>
#include <cstring>

#include "shared/base/check.h"
#ifdef DP_HAVE_DNNL
#include <dnnl.h>
#include <omp.h>
#endif

namespace downpour::model {
namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const RowMajor, Eigen::Unaligned, Eigen::OuterStride<>>;
using Map = Eigen::Map<RowMajor, Eigen::Unaligned, Eigen::OuterStride<>>;

ConstMap map(ConstMatrix x, size_t rows, size_t columns) {
  return {x.data, Eigen::Index(rows), Eigen::Index(columns),
          Eigen::OuterStride<>(Eigen::Index(x.stride))};
}

void clear(Matrix c, size_t m, size_t n) {
  for (size_t i = 0; i < m; ++i) std::memset(c.data + i * c.stride, 0, n * sizeof(float));
}

}  // namespace

void gemm_eigen(Transpose transpose_a, Transpose transpose_b, size_t m, size_t n, size_t k,
                ConstMatrix a, ConstMatrix b, bool accumulate, Matrix c) {
  if (!accumulate) clear(c, m, n);
  if (m == 0 || n == 0 || k == 0) return;
  Map out(c.data, Eigen::Index(m), Eigen::Index(n), Eigen::OuterStride<>(Eigen::Index(c.stride)));
  const bool ta = transpose_a == Transpose::kYes;
  const bool tb = transpose_b == Transpose::kYes;
  const ConstMap left = ta ? map(a, k, m) : map(a, m, k);
  const ConstMap right = tb ? map(b, n, k) : map(b, k, n);
  if (ta && tb) {
    out.noalias() += left.transpose() * right.transpose();
  } else if (ta) {
    out.noalias() += left.transpose() * right;
  } else if (tb) {
    out.noalias() += left * right.transpose();
  } else {
    out.noalias() += left * right;
  }
}

#ifdef DP_HAVE_DNNL

void gemm(Transpose transpose_a, Transpose transpose_b, size_t m, size_t n, size_t k, ConstMatrix a,
          ConstMatrix b, bool accumulate, Matrix c) {
  if (m == 0 || n == 0) return;
  if (k == 0) return accumulate ? void() : clear(c, m, n);
  const dnnl_status_t status = dnnl_sgemm(
      transpose_a == Transpose::kYes ? 'T' : 'N', transpose_b == Transpose::kYes ? 'T' : 'N',
      dnnl_dim_t(m), dnnl_dim_t(n), dnnl_dim_t(k), 1.0F, a.data, dnnl_dim_t(a.stride), b.data,
      dnnl_dim_t(b.stride), accumulate ? 1.0F : 0.0F, c.data, dnnl_dim_t(c.stride));
  DP_CHECK(status == dnnl_success, status, m, n, k);
}

const char* gemm_backend() { return "oneDNN"; }

// oneDNN asks OpenMP for the number of threads. This setting is local to the calling thread.
SingleThreadProducts::SingleThreadProducts() : threads_before_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}
SingleThreadProducts::~SingleThreadProducts() { omp_set_num_threads(threads_before_); }

#else

void gemm(Transpose transpose_a, Transpose transpose_b, size_t m, size_t n, size_t k, ConstMatrix a,
          ConstMatrix b, bool accumulate, Matrix c) {
  gemm_eigen(transpose_a, transpose_b, m, n, k, a, b, accumulate, c);
}

const char* gemm_backend() { return "Eigen"; }

SingleThreadProducts::SingleThreadProducts() = default;  // EIGEN_DONT_PARALLELIZE is set
SingleThreadProducts::~SingleThreadProducts() = default;

#endif

}  // namespace downpour::model
