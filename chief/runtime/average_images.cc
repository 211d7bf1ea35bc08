#include "chief/runtime/average_images.h"

#include <algorithm>
#include <limits>

#include "shared/checkpoint/image_layout.h"
#include "shared/optim/optimizer.h"

namespace downpour::chief {
namespace {

/// One model's rows of a table, read in the order of their keys.
struct Cursor {
  const checkpoint::TableImage* image = nullptr;
  double share = 0;
  size_t row = 0;
  std::vector<size_t> at = {};  // per variable: the first float of the row

  bool done() const { return row == image->keys.size(); }
  uint64_t key() const { return image->keys[row]; }
};

checkpoint::TableImage average_table(const TableSpec& spec, std::vector<Cursor> models) {
  checkpoint::TableImage mean{.table = models.front().image->table};
  mean.table_variables.resize(spec.table_variables.size());
  for (Cursor& model : models) model.at.resize(spec.table_variables.size());
  std::vector<double> sums;
  while (true) {
    uint64_t key = std::numeric_limits<uint64_t>::max();
    bool any = false;
    for (const Cursor& model : models) {
      if (!model.done()) key = std::min(key, model.key()), any = true;
    }
    if (!any) return mean;
    mean.keys.push_back(key);
    for (size_t m = 0; m < spec.table_variables.size(); ++m) {
      const OptimizerSpec& optimizer = spec.table_variables[m].optimizer;
      const uint32_t dim = spec.row_floats(m, key);
      const size_t stored = optim::stored_floats(optimizer, dim);
      double total = 0;
      sums.assign(dim, 0.0);
      for (Cursor& model : models) {
        if (model.done() || model.key() != key) continue;
        const float* weights = model.image->table_variables[m].data() + model.at[m] +
                               optim::model_weights_at(optimizer, dim);
        for (uint32_t i = 0; i < dim; ++i) sums[i] += model.share * double(weights[i]);
        total += model.share;
        model.at[m] += stored;
      }
      PageVector<float>& rows = mean.table_variables[m];
      const size_t begin = rows.size();
      for (const double sum : sums) rows.push_back(float(sum / total));
      rows.resize(begin + stored);
      optim::start_slots(optimizer, dim, rows.data() + begin);
    }
    for (Cursor& model : models) model.row += !model.done() && model.key() == key ? 1 : 0;
  }
}

}  // namespace

Result<void> check_slots(const TableSpec& spec, const checkpoint::TableImage& image) {
  for (size_t m = 0; m < spec.table_variables.size(); ++m) {
    const VariableSpec& variable = spec.table_variables[m];
    const uint32_t wanted = 1 + slots_of(variable.optimizer);
    DP_TRY(const uint32_t stored,
           checkpoint::stored_copies(spec, m, image.keys, image.table_variables[m].size()));
    if (stored == wanted) continue;
    return Error{ErrorCode::kBadData, str("variable ", variable.name, " stores ", stored,
                                          " floats per weight; its optimizer needs ", wanted)};
  }
  return {};
}

Result<checkpoint::PartitionImage> average_images(
    std::span<const checkpoint::PartitionImage> images, std::span<const double> shares,
    const std::vector<TableSpec>& tables) {
  checkpoint::PartitionImage mean{.partition = images.front().partition};
  for (size_t t = 0; t < tables.size(); ++t) {
    std::vector<Cursor> models;
    for (size_t i = 0; i < images.size(); ++i) {
      for (const checkpoint::TableImage& table : images[i].tables) {
        if (raw(table.table) != t) continue;
        DP_TRY_VOID(check_slots(tables[t], table));
        models.push_back({.image = &table, .share = shares[i]});
      }
    }
    if (!models.empty()) mean.tables.push_back(average_table(tables[t], std::move(models)));
  }
  return mean;
}

}  // namespace downpour::chief
