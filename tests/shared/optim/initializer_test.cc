#include "shared/optim/initializer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

namespace downpour::optim {
namespace {

std::vector<float> values_of(const InitSpec& init, size_t rows, uint32_t dim, uint64_t seed = 7) {
  std::vector<float> values(rows * dim);
  for (size_t r = 0; r < rows; ++r) fill_initial(init, seed, r, dim, values.data() + r * dim);
  return values;
}

/// The cumulative distribution function of the standard normal truncated at two standard
/// deviations.
double truncated_normal_cdf(double x) {
  return 0.5 + 0.5 * std::erf(x / std::sqrt(2.0)) / std::erf(std::sqrt(2.0));
}

/// Returns the Kolmogorov-Smirnov distance between the values and a distribution.
template <typename Cdf>
double distance(std::vector<float> values, Cdf cdf) {
  std::sort(values.begin(), values.end());
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double at = cdf(double(values[i]));
    worst = std::max({worst, std::abs(at - double(i) / double(values.size())),
                      std::abs(at - double(i + 1) / double(values.size()))});
  }
  return worst;
}

}  // namespace

TEST_CASE("initial values have the requested distribution", "[optim]") {
  // Random values exceed 1.63 / sqrt(n) in one of a hundred samples. The seed is fixed.
  const double limit = 1.63 / std::sqrt(200'000.0);
  const auto normal = values_of({InitType::kNormal, 0.05F}, 12'500, 16);
  CHECK(distance(normal, [](double x) { return truncated_normal_cdf(x / double(0.05F)); }) < limit);
  CHECK(*std::max_element(normal.begin(), normal.end()) <= 0.1F);
  const auto uniform = values_of({InitType::kUniform, 0.3F}, 12'500, 16);
  CHECK(distance(uniform, [](double x) { return (x / double(0.3F) + 1) / 2; }) < limit);
  CHECK(*std::min_element(uniform.begin(), uniform.end()) >= -0.3F);
  CHECK(*std::max_element(uniform.begin(), uniform.end()) < 0.3F);
  CHECK(values_of({InitType::kZero, 1.0F}, 2, 3) == std::vector<float>(6, 0.0F));
}

TEST_CASE("an initial value depends only on seed, variable, key and column", "[optim]") {
  const InitSpec init{InitType::kNormal, 1.0F};
  std::vector<float> narrow(3), wide(37), other(37);
  fill_initial(init, 1, 5, 3, narrow.data());
  fill_initial(init, 1, 5, 37, wide.data());
  // The value does not depend on the width.
  CHECK(std::equal(narrow.begin(), narrow.end(), wide.begin()));
  fill_initial(init, 1, 6, 37, other.data());
  CHECK(other[0] != wide[0]);
  CHECK(variable_seed(1, "a") != variable_seed(1, "b"));
  CHECK(variable_seed(1, "a") != variable_seed(2, "a"));
  std::vector<uint8_t> bytes(37 * sizeof(float) + 1);
  fill_initial(init, 1, 5, 37, bytes.data() + 1);  // unaligned output
  CHECK(std::equal(bytes.begin() + 1, bytes.end(), reinterpret_cast<const uint8_t*>(wide.data())));
}

}  // namespace downpour::optim
