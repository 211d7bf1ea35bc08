// FloatBuffer: scratch memory that grows to the largest request and never shrinks.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace downpour::model {

/// Floats aligned to a cache line and not initialized.
class FloatBuffer final {
 public:
  float* data() { return floats_.get(); }
  /// Returns memory for at least `count` floats. Growing discards the contents.
  float* ensure(size_t count) {
    if (count > count_) {
      floats_.reset(static_cast<float*>(operator new(count * sizeof(float), kLine)));
      count_ = count;
    }
    return floats_.get();
  }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Free {
    void operator()(float* p) const { operator delete(p, kLine); }
  };
  std::unique_ptr<float, Free> floats_;
  size_t count_ = 0;
};

}  // namespace downpour::model
