#include "ps/core/dense_blocks.h"

#include <cstring>

#include "shared/base/check.h"
#include "shared/optim/initializer.h"

namespace downpour::ps {

DenseBlocks::DenseBlocks(const TableSpec& spec, uint64_t seed)
    : spec_(spec),
      seed_(seed),
      update_(optim::update_kernel(spec.table_variables[0].optimizer, kDenseBlockFloats)) {
  DP_CHECK(spec.table_variables.size() == 1, spec.name, spec.table_variables.size());
  DP_CHECK(spec.block_count() > 0, spec.name);
  blocks_.resize(spec.block_count());
}

uint32_t DenseBlocks::stored_floats(uint64_t key) const {
  return optim::stored_floats(spec_.table_variables[0].optimizer, floats(key));
}

void DenseBlocks::pull(uint64_t key, bool of_model, void* values) const {
  DP_CHECK(key < blocks_.size(), key, blocks_.size());
  if (stored(key)) {
    const OptimizerSpec& optimizer = spec_.table_variables[0].optimizer;
    const uint32_t at = of_model ? optim::model_weights_at(optimizer, floats(key)) : 0;
    std::memcpy(values, blocks_[key].get() + at, floats(key) * sizeof(float));
  } else {
    optim::fill_initial(spec_.table_variables[0].init, seed_, key, floats(key), values);
  }
}

void DenseBlocks::apply(uint64_t key, const void* gradient, optim::StepRate rate) {
  DP_CHECK(key < blocks_.size(), key, blocks_.size());
  const VariableSpec& variable = spec_.table_variables[0];
  if (!stored(key)) {
    float* const block = make_block(key);
    optim::fill_initial(variable.init, seed_, key, floats(key), block);
    optim::start_slots(variable.optimizer, floats(key), block);
  }
  const optim::RowUpdate update;
  update_(variable.optimizer, {blocks_[key].get(), 0, floats(key)}, {&update, 1}, &rate, gradient);
}

void DenseBlocks::set_block(uint64_t key, const float* values) {
  DP_CHECK(key < blocks_.size(), key, blocks_.size());
  float* const block = stored(key) ? blocks_[key].get() : make_block(key);
  std::memcpy(block, values, stored_floats(key) * sizeof(float));
}

void DenseBlocks::drop(uint64_t key) {
  if (!stored(key)) return;
  blocks_[key].reset();
  --stored_count_;
  bytes_ -= stored_floats(key) * sizeof(float);
}

float* DenseBlocks::make_block(uint64_t key) {
  const size_t bytes = stored_floats(key) * sizeof(float);
  auto* const memory = static_cast<float*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
  DP_CHECK(memory != nullptr, "out of memory for a dense block: bytes", bytes);
  blocks_[key].reset(memory);
  ++stored_count_;
  bytes_ += bytes;
  return memory;
}

}  // namespace downpour::ps
