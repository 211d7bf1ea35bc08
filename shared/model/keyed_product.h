// KeyedProduct: a dense layer over concatenated embeddings, multiplied once per key and not once
// per record.
//
// The kernel has a block W_b [dim, units] for each bag b. The layer's product is the sum, over the
// bags and the record's keys in them, of value * (row(key) W_b). The records of a batch share keys,
// because key frequencies are roughly Zipf-distributed. So row(key) W_b is computed once for each
// different key of a bag and then gathered. In the backward pass the layer's gradients are first
// summed by key and then multiplied once. The result consists of the same sums in another order.
// This is known as factorized learning over normalized data (Kumar, Naughton and Patel, "Learning
// Generalized Linear Models Over Normalized Data", SIGMOD 2015).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/model/float_buffer.h"
#include "shared/model/kernels.h"
#include "shared/model/program.h"
#include "shared/tensor/batch.h"

namespace downpour::model {

/// The keyed product of one layer, used for one batch after the other. `views` are the pool's bags,
/// in order. `kernel` points to W_0; the other blocks follow it.
class KeyedProduct final {
 public:
  /// Keeps the reference. With `any_key_order`, most rows are multiplied where they lie, so the
  /// bits of the sums over keys depend on the order of the table's keys. Without it, the rows of a
  /// bag are first gathered in the order in which the records name them.
  KeyedProduct(const PoolOp& pool, uint32_t units, bool any_key_order)
      : pool_(pool), units_(units), any_key_order_(any_key_order) {}

  /// Starts a batch: numbers the keys of each bag. Returns false, and stays inactive until the next
  /// batch, if too few records share keys for the method to pay.
  bool begin(const Batch& batch);
  bool active() const { return active_; }

  /// Returns the product from record `record` on, [records, units]. After forward() the caller
  /// replaces it with its gradient.
  Matrix layer(size_t record) { return {layer_.data() + record * units_, units_}; }

  /// Fills layer() for all records.
  void forward(std::span<const BagView> views, const float* kernel, int threads);

  /// Reads the gradients in layer(). Sets `kernel_gradient`, which has the layout of `kernel`, and
  /// adds to the row gradients of `views`. The gradient of a key is summed over records within each
  /// bag, then over bags.
  void backward(std::span<const BagView> views, const float* kernel, float* kernel_gradient,
                int threads);

 private:
  /// Consecutive rows [begin, end) of a table for which `bag` is the last bag that has the key.
  /// They are multiplied in place.
  struct Run {
    uint32_t begin = 0, end = 0;
    uint32_t bag = 0;
    uint32_t count() const { return end - begin; }
  };
  struct Bag {
    uint32_t keys = 0;  // number of different keys: rows of products
    uint32_t rows_in_runs = 0;
    size_t first_place = 0;       // into places_
    std::span<const Run> runs;    // the first rows of products; the other rows are gathered
    uint32_t first_gathered = 0;  // into gathered_
    size_t gathered() const { return keys - rows_in_runs; }
  };
  /// Bags [begin, end), whose products stay in the cache together.
  struct Group {
    size_t begin = 0, end = 0;
  };

  const BagColumn& column(const Batch& batch, size_t bag) const {
    return batch.bags[pool_.bags[bag].bag];
  }
  void find_runs(const Batch& batch);
  void place(std::span<const uint32_t> keys, uint32_t stamp, Bag& bag);
  std::vector<Group> group(uint64_t floats_max, size_t bags_max) const;
  size_t floats_in(Group group) const;
  /// Returns the bags of a group as bags of products: places_ for keys, units for dim.
  std::vector<BagView> product_views(std::span<const BagView> views, Group group,
                                     float* products) const;
  void multiply(const Bag& bag, const BagView& view, const float* kernel, float* products);
  void multiply_back(const Bag& bag, const BagView& view, const float* kernel,
                     const float* gradients, float* kernel_gradient);

  const PoolOp& pool_;
  uint32_t units_;
  bool any_key_order_;
  bool active_ = false;
  size_t records_ = 0;
  std::vector<Bag> bags_;
  std::vector<Run> found_, runs_;  // all runs in table order; the same runs grouped by bag
  // For each table of the batch: the keys of records in bags that the pool does not read.
  std::vector<size_t> others_;
  std::vector<uint32_t> owners_;  // for each key of a table: the last bag that has the key
  // For each key of a table: stamp of the last bag + place in that bag.
  std::vector<uint32_t> seen_;
  std::vector<uint32_t> places_;  // for each key of a bag: the number of its product within the bag
  std::vector<uint32_t> gathered_;  // keys outside of runs, bag by bag: index into the table's keys
  FloatBuffer layer_;               // [records, units]
  FloatBuffer rows_;  // rows of gathered_, [keys, dim]; in the backward pass their gradients
  // Products of a group, [keys, units]; in the backward pass summed gradients.
  FloatBuffer products_;
};

}  // namespace downpour::model
