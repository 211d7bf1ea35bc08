#include "tools/export/top_weights.h"

#include <algorithm>
#include <cmath>

#include "shared/base/str.h"
#include "shared/job/field_output.h"
#include "tools/export/saved_model.h"
#include "tools/export/words.h"

namespace downpour::tools {
namespace {

double value_of(const float* row, size_t width) {
  if (width == 1) return row[0];
  double squares = 0;
  for (size_t i = 0; i < width; ++i) squares += double(row[i]) * double(row[i]);
  return std::sqrt(squares);
}

/// Keeps the largest rows.
class Largest {
 public:
  explicit Largest(size_t count) : count_(count) {}

  void add(uint64_t key, double value) {
    if (count_ == 0) return;
    const Entry entry{std::isnan(value) ? INFINITY : std::abs(value), key, value};
    if (heap_.size() == count_) {
      if (!before(entry, heap_.front())) return;
      std::ranges::pop_heap(heap_, before);
      heap_.back() = entry;
    } else {
      heap_.push_back(entry);
    }
    std::ranges::push_heap(heap_, before);
  }

  /// Calls use(key, value), the largest first.
  template <typename Use>
  void each(Use&& use) {
    std::ranges::sort(heap_, before);
    for (const Entry& entry : heap_) use(entry.key, entry.value);
  }

 private:
  struct Entry {
    double size = 0;
    uint64_t key = 0;
    double value = 0;
  };
  static bool before(const Entry& a, const Entry& b) {
    return a.size != b.size ? a.size > b.size : a.key < b.key;
  }
  size_t count_;
  std::vector<Entry> heap_;  // its front is the last of the largest
};

/// Returns a name for each row of the kernel of a linear layer; empty if the variable is not one.
std::vector<std::string> rows_of_kernel(const Job& job, const std::string& variable) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : job.model.layers) {
    if (layer.type != "linear" || variable != layer.name + "/kernel") continue;
    for (const std::string& input : layer.inputs) {
      const FieldSpec* const field = job.data.find_field(input);
      if (field == nullptr) return {};  // the columns of another layer have no names
      if (is_sparse(*field)) continue;
      uint64_t width = 1;
      for (const int64_t d : number_shape(*field)) width *= uint64_t(d);
      for (uint64_t i = 0; i < width; ++i)
        names.push_back(width == 1 ? input : str(input, "[", i, "]"));
    }
  }
  return names;
}

}  // namespace

Result<std::vector<TopRows>> top_weights(Storage& storage, const std::string& run_dir,
                                         const checkpoint::Manifest& manifest, size_t count) {
  DP_TRY(const SavedModel model, SavedModel::of(storage, run_dir, manifest));
  std::vector<TopRows> all;
  for (size_t t = 0; t < manifest.tables.size(); ++t) {
    const TableSpec& table = manifest.tables[t];
    for (size_t m = 0; m < table.table_variables.size(); ++m) {
      const VariableSpec& variable = table.table_variables[m];
      TopRows rows{.variable = variable.name};
      Largest largest(count);
      if (table.kind == TableKind::kDense) {
        const std::vector<std::string> names = rows_of_kernel(model.job(), variable.name);
        if (names.empty() || variable.shape.size() != 2 || variable.shape[0] != names.size())
          continue;
        DP_TRY(const std::vector<float> weights, model.dense(t));
        const size_t width = variable.shape[1];
        rows.norm = width > 1;
        rows.rows = names.size();
        for (size_t i = 0; i < names.size(); ++i)
          largest.add(i, value_of(&weights[i * width], width));
        largest.each([&](uint64_t i, double value) { rows.top.push_back({names[i], "", value}); });
      } else {
        DP_TRY(const Words words, Words::open(model.job(), t));
        rows.norm = variable.dim > 1;
        DP_TRY_VOID(model.each_row(t, m, [&](uint64_t key, const float* row) {
          ++rows.rows;
          largest.add(key, value_of(row, variable.dim));
        }));
        largest.each([&](uint64_t key, double value) {
          rows.top.push_back({str(key), words.all(key), value});
        });
      }
      all.push_back(std::move(rows));
    }
  }
  return all;
}

}  // namespace downpour::tools
