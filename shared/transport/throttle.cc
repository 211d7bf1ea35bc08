#include "shared/transport/throttle.h"

#include <algorithm>
#include <utility>

#include "shared/base/units.h"

namespace downpour::transport {

bool Throttle::pass(int64_t now_ns) {
  const double passed_s = double(std::max<int64_t>(0, now_ns - last_ns_)) / double(kSecond);
  last_ns_ = std::max(last_ns_, now_ns);
  tokens_ = std::min<double>(limits_.burst, tokens_ + passed_s * limits_.per_second);
  if (tokens_ < 1) {
    ++suppressed_;
    return false;
  }
  tokens_ -= 1;
  return true;
}

uint64_t Throttle::take_suppressed() { return std::exchange(suppressed_, 0); }

}  // namespace downpour::transport
