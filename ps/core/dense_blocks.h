// DenseBlocks: the blocks of one dense variable that a ps core holds, each with its slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "shared/optim/optimizer.h"
#include "shared/tensor/variables.h"

namespace downpour::ps {

/// Block k of a dense variable is stored as a row of `floats(k)` weights (see
/// optim::stored_floats()). A block is stored when it is first applied to. Until then it reads as
/// initialized, and a pull stores nothing.
class DenseBlocks final {
 public:
  DenseBlocks(const TableSpec& spec, uint64_t seed);

  uint32_t block_count() const { return uint32_t(blocks_.size()); }
  /// Number of weights of block `key`; key < block_count().
  uint32_t floats(uint64_t key) const { return spec_.row_floats(0, key); }
  /// Number of floats of a stored block: weights and slots.
  uint32_t stored_floats(uint64_t key) const;
  bool stored(uint64_t key) const { return blocks_[key] != nullptr; }

  /// `of_model`: reads the averages, if the block has them.
  void pull(uint64_t key, bool of_model, void* values) const;
  void apply(uint64_t key, const void* gradient, optim::StepRate rate);

  /// Returns the stored block, or null.
  const float* block(uint64_t key) const { return blocks_[key].get(); }
  /// Stores `values` as the block: stored_floats(key) floats.
  void set_block(uint64_t key, const float* values);
  void drop(uint64_t key);

  uint64_t stored_count() const { return stored_count_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t table_bytes() const { return blocks_.capacity() * sizeof(Block); }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  using Block = std::unique_ptr<float[], Free>;
  float* make_block(uint64_t key);

  TableSpec spec_;
  uint64_t seed_;
  optim::UpdateRows update_;
  std::vector<Block> blocks_;
  uint64_t stored_count_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace downpour::ps
