#include "chief/runtime/start_weights.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "chief/runtime/weights_file.h"
#include "shared/base/hash.h"
#include "shared/base/str.h"
#include "shared/job/nearest_name.h"
#include "shared/optim/initializer.h"
#include "shared/optim/optimizer.h"

namespace downpour::chief {
namespace {

constexpr const char* kKeys = "/keys";

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text;
  for (const uint64_t d : shape) text += str(text.empty() ? "" : " x ", d);
  return text.empty() ? "(no dimension)" : text;
}

}  // namespace

/// Reads the arrays of a file for the variables of a job.
class StartReader {
 public:
  StartReader(const WeightsFile& file, const Job& job, uint32_t partitions)
      : file_(file), job_(job), partition_bits_(uint32_t(std::countr_zero(partitions))) {}

  Result<void> add(TableId id, const TableSpec& spec) {
    StartWeights::Table& table = start_.tables_.emplace_back();
    table.spec = &spec;
    table.weights.resize(spec.table_variables.size());
    return spec.kind == TableKind::kDense ? add_dense(id, table) : add_rows(id, table);
  }

  /// Checks that every array was used, and notes what the file does not have.
  Result<void> finish() {
    std::vector<std::string> names(known_.begin(), known_.end());
    for (const auto& [name, entry] : file_.arrays()) {
      if (used_.contains(name)) continue;
      if (const auto number = number_of(name); number) {
        DP_TRY_VOID(compare(name, *number));
        continue;
      }
      const std::string near = nearest_name(name, names);
      return error(str("the file has the array `", name, "`, but the model has no such variable"),
                   near.empty() ? str("remove it; the model has ", listed(names))
                                : str("did you mean `", near, "`? the model has ", listed(names)));
    }
    if (!missing_.empty())
      add_note(str("not in ", file_.path(), ", so with initial values: ", listed(missing_)));
    start_.partitions_ = 1U << partition_bits_;
    start_.note_ = std::move(note_);
    return {};
  }

  StartWeights take() { return std::move(start_); }

 private:
  Error error(std::string what, std::string hint) const {
    return Error{ErrorCode::kConfig, std::move(what), file_.path(), std::move(hint), "DP-2110"};
  }
  static std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += str(text.empty() ? "" : ", ", name);
    return text;
  }
  void add_note(const std::string& text) { note_ += (note_.empty() ? "" : "; ") + text; }

  /// Returns the entry of a variable's array after checking its shape; null: the file has none.
  Result<const WeightsFile::Entry*> find(const std::string& name,
                                         const std::vector<uint64_t>& shape) {
    known_.insert(name);
    const auto found = file_.arrays().find(name);
    if (found == file_.arrays().end()) {
      missing_.push_back(name);
      return static_cast<const WeightsFile::Entry*>(nullptr);
    }
    used_.insert(name);
    const std::vector<uint64_t>& given = found->second.shape;
    if (given != shape) {
      return error(str("the array `", name, "` is ", shape_text(given),
                       " in the file, but the variable is ", shape_text(shape)),
                   "change the model to match the file, or remove the array from the file");
    }
    return &found->second;
  }

  Result<void> add_dense(TableId id, StartWeights::Table& table) {
    const TableSpec& spec = *table.spec;
    const VariableSpec& variable = spec.table_variables[0];
    DP_TRY(const auto* const entry,
           find(variable.name, {variable.shape.begin(), variable.shape.end()}));
    if (entry == nullptr) return {};
    DP_TRY(const std::vector<float> weights, file_.floats(variable.name));
    for (uint64_t block = 0; block < spec.block_count(); ++block)
      table.places.push_back(place(id, spec, block));
    std::ranges::sort(table.places);
    for (const StartWeights::Place& at : table.places) {
      const float* const from = &weights[at.key * kDenseBlockFloats];
      table.weights[0].insert(table.weights[0].end(), from, from + spec.row_floats(0, at.key));
    }
    return {};
  }

  /// The rows of one variable, in the order of their keys.
  struct Rows {
    std::vector<uint64_t> keys;
    std::vector<size_t> order;
    std::vector<float> weights;
  };

  Result<Rows> rows_of(const VariableSpec& variable) {
    Rows rows;
    const std::string keys = variable.name + kKeys;
    known_.insert(variable.name), known_.insert(keys);
    const auto& arrays = file_.arrays();
    const auto found = arrays.find(keys);
    if (found == arrays.end() && !arrays.contains(variable.name)) {
      missing_.push_back(variable.name);
      return rows;
    }
    if (found == arrays.end() || found->second.shape.size() != 1) {
      return error(str("the file has `", variable.name, "`, but no vector `", keys, "`"),
                   "the rows of embeddings need the key of each row");
    }
    used_.insert(keys);
    const uint64_t count = found->second.shape[0];
    DP_TRY(const auto* const entry, find(variable.name, {count, variable.dim}));
    if (entry == nullptr)
      return error(str("the file has `", keys, "`, but no `", variable.name, "`"), "store both");
    DP_TRY(rows.keys, file_.keys(keys));
    DP_TRY(rows.weights, file_.floats(variable.name));
    rows.order.resize(rows.keys.size());
    std::iota(rows.order.begin(), rows.order.end(), size_t{0});
    std::ranges::sort(rows.order, {}, [&](size_t i) { return rows.keys[i]; });
    for (size_t i = 1; i < rows.order.size(); ++i) {
      if (rows.keys[rows.order[i]] != rows.keys[rows.order[i - 1]]) continue;
      return Error{ErrorCode::kBadData,
                   str("the key ", rows.keys[rows.order[i]], " occurs twice in `", keys, "`"),
                   file_.path(), "store each key once"};
    }
    return rows;
  }

  Result<void> add_rows(TableId id, StartWeights::Table& table) {
    const TableSpec& spec = *table.spec;
    std::vector<Rows> all;
    for (const VariableSpec& variable : spec.table_variables) {
      DP_TRY(Rows rows, rows_of(variable));
      for (const uint64_t key : rows.keys) table.places.push_back(place(id, spec, key));
      all.push_back(std::move(rows));
    }
    std::ranges::sort(table.places);
    const auto [end, last] = std::ranges::unique(table.places);
    table.places.erase(end, last);
    for (size_t m = 0; m < all.size(); ++m) {
      const VariableSpec& variable = spec.table_variables[m];
      const uint64_t seed = optim::variable_seed(job_.seed, variable.name);
      const Rows& rows = all[m];
      std::vector<float>& to = table.weights[m];
      to.resize(table.places.size() * variable.dim);
      for (size_t i = 0; i < table.places.size(); ++i) {
        const uint64_t key = table.places[i].key;
        const auto at =
            std::ranges::lower_bound(rows.order, key, {}, [&](size_t r) { return rows.keys[r]; });
        float* const row = &to[i * variable.dim];
        if (at == rows.order.end() || rows.keys[*at] != key) {
          optim::fill_initial(variable.init, seed, key, variable.dim, row);
        } else {
          std::copy_n(&rows.weights[*at * variable.dim], variable.dim, row);
        }
      }
    }
    return {};
  }

  StartWeights::Place place(TableId id, const TableSpec& spec, uint64_t key) const {
    return {raw(partition_of(row_hash(id, key, spec.group), partition_bits_)), key};
  }

  /// Returns the job's number of an array OUTPUT/offset or OUTPUT/scale.
  std::optional<float> number_of(const std::string& name) const {
    for (const OutputSpec& output : job_.model.outputs) {
      if (name == output.name + "/offset") return output.offset.value;
      if (name == output.name + "/scale") return output.scale.value;
    }
    return std::nullopt;
  }

  Result<void> compare(const std::string& name, float here) {
    DP_TRY(const std::vector<float> there, file_.floats(name));
    if (there.size() == 1 && there[0] != here)
      add_note(str("`", name, "` is ", there[0], " in the file, but ", here, " in the job, which ",
                   "counts"));
    return {};
  }

  const WeightsFile& file_;
  const Job& job_;
  uint32_t partition_bits_;
  StartWeights start_;
  std::set<std::string> used_, known_;
  std::vector<std::string> missing_;
  std::string note_;
};

Result<StartWeights> StartWeights::read(const std::string& path, const Job& job,
                                        const std::vector<TableSpec>& tables, uint32_t partitions) {
  DP_TRY(const WeightsFile file, WeightsFile::open(path));
  StartReader reader(file, job, partitions);
  for (size_t t = 0; t < tables.size(); ++t) DP_TRY_VOID(reader.add(TableId(t), tables[t]));
  DP_TRY_VOID(reader.finish());
  return reader.take();
}

uint64_t StartWeights::rows() const {
  uint64_t rows = 0;
  for (const Table& table : tables_)
    rows += table.spec->kind == TableKind::kEmbedding ? table.places.size() : 0;
  return rows;
}

Result<std::vector<wire::ImageRef>> StartWeights::write(checkpoint::ImageFileWriter writer) const {
  std::vector<size_t> next(tables_.size());                 // place of each table
  std::vector<std::vector<size_t>> floats(tables_.size());  // and of each variable
  for (size_t t = 0; t < tables_.size(); ++t) floats[t].resize(tables_[t].weights.size());
  for (uint32_t p = 0; p < partitions_; ++p) {
    checkpoint::PartitionImage image{.partition = PartitionId(p)};
    for (size_t t = 0; t < tables_.size(); ++t) {
      const Table& table = tables_[t];
      checkpoint::TableImage rows{.table = TableId(t)};
      rows.table_variables.resize(table.weights.size());
      for (; next[t] < table.places.size() && table.places[next[t]].partition == p; ++next[t]) {
        const uint64_t key = table.places[next[t]].key;
        rows.keys.push_back(key);
        for (size_t m = 0; m < table.weights.size(); ++m) {
          const OptimizerSpec& optimizer = table.spec->table_variables[m].optimizer;
          const uint32_t dim = table.spec->row_floats(m, key);
          PageVector<float>& to = rows.table_variables[m];
          const size_t begin = to.size();
          to.resize(begin + optim::stored_floats(optimizer, dim));
          std::copy_n(&table.weights[m][floats[t][m]], dim, &to[begin]);
          floats[t][m] += dim;
          optim::start_slots(optimizer, dim, to.data() + begin);
        }
      }
      if (!rows.keys.empty()) image.tables.push_back(std::move(rows));
    }
    DP_TRY_VOID(writer.add(image));
  }
  return writer.finish();
}

}  // namespace downpour::chief
