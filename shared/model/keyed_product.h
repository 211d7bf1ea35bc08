// KeyedProduct: a dense layer over concatenated embeddings, multiplied once a key instead of once a
// record.
//
// The kernel has a block W_b [dim, units] for each bag b, and the layer's product is the sum, over
// bags and the record's keys in them, of value * (row(key) W_b). The records of a batch share keys
// (their frequencies fall off like Zipf's law), so row(key) W_b is made once for each different key
// of a bag and gathered; backward, the layer's gradients are summed by key and multiplied once. The
// same sums in another order: linear models over normalised data, factorised (Kumar, Naughton and
// Patel, "Learning Generalized Linear Models Over Normalized Data", SIGMOD 2015).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/model/float_buffer.h"
#include "shared/model/kernels.h"
#include "shared/model/program.h"
#include "shared/tensor/batch.h"

namespace downpour::model {

/// One layer's part of a step. `views` are the pool's bags, in order; `kernel` is W_0, and the
/// others follow it.
class KeyedProduct final {
 public:
  KeyedProduct(const PoolOp& pool, uint32_t units) : pool_(pool), units_(units) {}

  /// Numbers the keys of each bag. False, and inactive until the next batch, where too few records
  /// share keys for it to pay.
  bool begin(const Batch& batch);
  bool active() const { return active_; }

  /// The product of record `record` and those after it, [records, units]; then, written by the
  /// caller, the gradient of that.
  Matrix layer(size_t record) { return {layer_.data() + record * units_, units_}; }

  /// Fills layer() for all records.
  void forward(std::span<const BagView> views, const float* kernel, int threads);

  /// From the gradients in layer(): sets `kernel_gradient`, which lies like `kernel`, and adds to
  /// the rows' gradients of `views`. A key's gradient is summed by record, then by bag.
  void backward(std::span<const BagView> views, const float* kernel, float* kernel_gradient,
                int threads);

 private:
  /// Rows [begin, end) of a table that one bag alone has: they are multiplied where they lie.
  struct Run {
    uint32_t begin = 0, end = 0;
    uint32_t bag = 0;
    uint32_t count() const { return end - begin; }
  };
  struct Bag {
    uint32_t keys = 0;  // different ones: rows of products
    uint32_t rows_in_runs = 0;
    size_t first_place = 0;       // in places_
    std::span<const Run> runs;    // the first rows of products; the others are gathered
    uint32_t first_gathered = 0;  // in gathered_
    size_t gathered() const { return keys - rows_in_runs; }
  };
  /// Bags [begin, end), whose products stay in cache together.
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
  /// The bags of a group as bags of products: places for keys, units for dim.
  std::vector<BagView> product_views(std::span<const BagView> views, Group group,
                                     float* products) const;
  void multiply(const Bag& bag, const BagView& view, const float* kernel, float* products);
  void multiply_back(const Bag& bag, const BagView& view, const float* kernel,
                     const float* gradients, float* kernel_gradient);

  const PoolOp& pool_;
  uint32_t units_;
  bool active_ = false;
  size_t records_ = 0;
  std::vector<Bag> bags_;
  std::vector<Run> found_, runs_;   // as they lie; bag by bag
  std::vector<uint32_t> owners_;    // by number in the table's list: the last bag that has the key
  std::vector<uint32_t> seen_;      // likewise: stamp of the bag + its place there
  std::vector<uint32_t> places_;    // for each key of a bag: its product's number among the bag's
  std::vector<uint32_t> gathered_;  // keys outside of runs, bag by bag: numbers in the table's list
  FloatBuffer layer_;               // [records, units]
  FloatBuffer rows_;                // of gathered_, [keys, dim]; backward: their gradients
  FloatBuffer products_;            // of a group: [keys, units]; backward: summed gradients
};

}  // namespace downpour::model
