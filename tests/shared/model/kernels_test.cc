#include "shared/model/kernels.h"

#include <cmath>

#include "shared/model/gemm.h"
#include "shared/model/vector_math.h"
#include "tests/shared/model/support.h"

using namespace downpour;
using namespace downpour::model;

TEST_CASE("exp_fast, log1p_fast and sigmoid_fast keep their error bounds", "[model][numeric]") {
  double worst_exp = 0, worst_log = 0, worst_sigmoid = 0;
  for (double x = -87; x < 88; x += 0.00317) {
    const float f = float(x);
    const double e = std::exp(double(f));
    worst_exp = std::max(worst_exp, std::abs(double(exp_fast(f)) / e - 1));
    const double s = 1 / (1 + std::exp(-double(f)));
    worst_sigmoid = std::max(worst_sigmoid, std::abs(double(sigmoid_fast(f)) / s - 1));
  }
  for (double u = 1e-30; u <= 1; u *= 1.001) {
    const float f = float(u);
    worst_log = std::max(worst_log, std::abs(double(log1p_fast(f)) / std::log1p(double(f)) - 1));
  }
  CHECK(worst_exp < 2e-7);
  CHECK(worst_log < 3e-7);
  CHECK(worst_sigmoid < 4e-7);
  CHECK(log1p_fast(0.0F) == 0.0F);
  CHECK(exp_fast(0.0F) == 1.0F);
  CHECK(std::isnan(exp_fast(std::nanf(""))));
  CHECK(std::isfinite(exp_fast(1e30F)));
  CHECK(exp_fast(-1e30F) < 1e-37F);
}

TEST_CASE("gemm agrees with Eigen for all forms", "[model][numeric]") {
  Rng rng(1);
  const auto fill = [&](size_t n) {
    std::vector<float> x(n);
    for (float& v : x) v = float(rng.normal());
    return x;
  };
  for (const auto& [m, n, k] :
       {std::tuple{1, 1, 1}, {7, 3, 5}, {128, 64, 429}, {64, 2, 100}, {3, 4, 0}, {0, 4, 3}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const size_t extra = 3;  // strides are larger than the rows
        const auto size = [&](int rows, int columns) {
          return size_t(rows) * (size_t(columns) + extra) + 1;
        };
        const auto a = fill(ta ? size(k, m) : size(m, k));
        const auto b = fill(tb ? size(n, k) : size(k, n));
        for (const bool accumulate : {false, true}) {
          auto c = fill(size(m, n));
          auto expected = c;
          const ConstMatrix ma{a.data(), size_t(ta ? m : k) + extra};
          const ConstMatrix mb{b.data(), size_t(tb ? k : n) + extra};
          const size_t stride = size_t(n) + extra;
          const SingleThreadProducts single;
          gemm(Transpose(ta), Transpose(tb), size_t(m), size_t(n), size_t(k), ma, mb, accumulate,
               {c.data(), stride});
          gemm_eigen(Transpose(ta), Transpose(tb), size_t(m), size_t(n), size_t(k), ma, mb,
                     accumulate, {expected.data(), stride});
          CAPTURE(m, n, k, ta, tb, accumulate, gemm_backend());
          double worst = 0;
          for (size_t i = 0; i < c.size(); ++i) {
            worst = std::max(worst, std::abs(double(c[i]) - double(expected[i])));
          }
          CHECK(worst < 1e-6 * (k + 10) * 2);  // order of k float32 terms of size about 1
        }
      }
    }
  }
}

TEST_CASE("pooling: values are factors, mean divides by their sum, an empty bag is 0", "[model]") {
  const std::vector<float> rows = {1, 2, 10, 20, 100, 200};  // three keys with two floats each
  BagColumn bag;
  bag.offsets = {0, 2, 2, 4};
  bag.keys = {0, 2, 1, 1};
  bag.values = {0.5F, 1.5F, 1.0F, -1.0F};
  const BagView view{&bag, rows.data(), nullptr};
  std::vector<float> out(6, 7.0F);
  pool_forward({&view, 1}, 2, true, false, {0, 3}, {out.data(), 2});
  CHECK(out == std::vector<float>{150.5F, 301, 0, 0, 0, 0});
  pool_forward({&view, 1}, 2, true, true, {0, 3}, {out.data(), 2});
  CHECK(out == std::vector<float>{75.25F, 150.5F, 0, 0, 0, 0});
  bag.values.clear();
  pool_forward({&view, 1}, 2, true, true, {0, 3}, {out.data(), 2});
  CHECK(out == std::vector<float>{50.5F, 101, 0, 0, 10, 20});
}

TEST_CASE("key shares are disjoint and cover every key", "[model]") {
  for (const uint32_t count : {1U, 2U, 3U, 16U}) {
    for (uint32_t key = 0; key < 5000; ++key) {
      uint32_t owners = 0;
      for (uint32_t i = 0; i < count; ++i) owners += KeyShare{i, count}.owns(key);
      REQUIRE(owners == 1);
    }
  }
}

TEST_CASE("pooling gives the same sums for every row width, with and without offsets", "[model]") {
  for (const uint32_t dim : {1U, 2U, 4U, 5U, 8U, 16U, 32U, 33U, 64U}) {
    std::vector<float> rows(3 * dim), gradient(3 * dim, 0.0F), out(4 * dim);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = float(i);
    BagColumn single;
    single.keys = {2, 0, 2, 1};
    BagColumn ranges = single;
    ranges.offsets = {0, 1, 2, 3, 4};
    for (const BagColumn* bag : {&single, &ranges}) {
      CAPTURE(dim, bag->offsets.size());
      std::fill(gradient.begin(), gradient.end(), 0.0F);
      const BagView view{bag, rows.data(), gradient.data()};
      pool_forward({&view, 1}, dim, true, false, {0, 4}, {out.data(), dim});
      for (uint32_t j = 0; j < dim; ++j) {
        CHECK(out[j] == rows[2 * dim + j]);
        CHECK(out[3 * dim + j] == rows[dim + j]);
      }
      pool_backward({&view, 1}, dim, true, false, {0, 4}, {out.data(), dim}, {});
      for (uint32_t j = 0; j < dim; ++j) CHECK(gradient[2 * dim + j] == 2 * rows[2 * dim + j]);
    }
  }
}
