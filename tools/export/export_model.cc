#include "tools/export/export_model.h"

#include <algorithm>
#include <functional>

#include "chief/runtime/average_images.h"
#include "shared/base/bytes.h"
#include "shared/checkpoint/manifest.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/paths.h"
#include "shared/job/job_file.h"
#include "shared/optim/initializer.h"
#include "shared/optim/optimizer.h"

namespace downpour::tools {
namespace {

using checkpoint::TableImage;

template <typename T>
std::span<const uint8_t> bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

/// The checkpoint that is exported.
class Model {
 public:
  static Result<Model> open(Storage& storage, const std::string& run_dir,
                            std::vector<std::string>& notes) {
    Model model(storage);
    DP_TRY(model.manifest_, checkpoint::load_model(storage, run_dir, &notes));
    DP_TRY(model.job_, job_from_toml(model.manifest_.job, run_dir));
    model.folder_ = checkpoint::checkpoint_folder(run_dir, model.manifest_.id);
    return model;
  }

  const checkpoint::Manifest& manifest() const { return manifest_; }
  const Job& job() const { return job_; }

  /// Calls use(TableImage) with the rows of a table in each partition.
  template <typename Use>
  Result<void> each_partition(size_t table, Use&& use) const {
    for (const std::vector<wire::ImageRef>& chain : checkpoint::chains_of(manifest_)) {
      DP_TRY(const checkpoint::PartitionImage image,
             checkpoint::read_partition(storage_, folder_, chain, manifest_.tables));
      for (const TableImage& rows : image.tables) {
        if (raw(rows.table) != table) continue;
        DP_TRY_VOID(chief::check_slots(manifest_.tables[table], rows));
        DP_TRY_VOID(use(rows));
      }
    }
    return {};
  }

  /// Returns the weights of a dense variable. A block that was never written has initial values.
  Result<std::vector<float>> dense(size_t table) const {
    const TableSpec& spec = manifest_.tables[table];
    const VariableSpec& variable = spec.table_variables[0];
    const uint64_t seed = optim::variable_seed(job_.seed, variable.name);
    std::vector<float> weights(variable.elements());
    for (uint64_t block = 0; block < spec.block_count(); ++block) {
      optim::fill_initial(variable.init, seed, block, spec.row_floats(0, block),
                          &weights[block * kDenseBlockFloats]);
    }
    DP_TRY_VOID(each_partition(table, [&](const TableImage& blocks) -> Result<void> {
      const float* from = blocks.table_variables[0].data();
      for (const uint64_t block : blocks.keys) {
        const uint32_t floats = spec.row_floats(0, block);
        std::copy_n(from, floats, &weights[block * kDenseBlockFloats]);
        from += optim::stored_floats(variable.optimizer, floats);
      }
      return {};
    }));
    return weights;
  }

  /// Appends the weights of variable `m` of a table of embeddings.
  Result<void> append_rows(size_t table, size_t m, Archive& archive) const {
    const VariableSpec& variable = manifest_.tables[table].table_variables[m];
    const uint32_t stored = optim::stored_floats(variable.optimizer, variable.dim);
    return each_partition(table, [&](const TableImage& rows) {
      std::vector<float> weights;
      weights.reserve(rows.keys.size() * variable.dim);
      const float* from = rows.table_variables[m].data();
      for (size_t r = 0; r < rows.keys.size(); ++r, from += stored)
        weights.insert(weights.end(), from, from + variable.dim);
      return archive.append(bytes_of(weights));
    });
  }

  Result<void> append_keys(size_t table, Archive& archive) const {
    return each_partition(table, [&](const TableImage& rows) {
      return archive.append({reinterpret_cast<const uint8_t*>(rows.keys.data()),
                             rows.keys.size() * sizeof(uint64_t)});
    });
  }

 private:
  explicit Model(Storage& storage) : storage_(storage) {}

  Storage& storage_;
  checkpoint::Manifest manifest_;
  Job job_;
  std::string folder_;
};

/// One array, and how its bytes are appended.
struct Source {
  ArraySpec array;
  std::function<Result<void>(Archive&)> append;
};

Result<std::vector<Source>> sources_of(const Model& model) {
  std::vector<Source> sources;
  const std::vector<TableSpec>& tables = model.manifest().tables;
  for (size_t t = 0; t < tables.size(); ++t) {
    const TableSpec& spec = tables[t];
    if (spec.kind == TableKind::kDense) {
      const VariableSpec& variable = spec.table_variables[0];
      sources.push_back(
          {{.name = variable.name, .shape = {variable.shape.begin(), variable.shape.end()}},
           [&model, t](Archive& archive) -> Result<void> {
             DP_TRY(const std::vector<float> weights, model.dense(t));
             return archive.append(bytes_of(weights));
           }});
      continue;
    }
    uint64_t rows = 0;
    DP_TRY_VOID(model.each_partition(t, [&](const TableImage& image) -> Result<void> {
      rows += image.keys.size();
      return {};
    }));
    for (size_t m = 0; m < spec.table_variables.size(); ++m) {
      const VariableSpec& variable = spec.table_variables[m];
      sources.push_back(
          {{.name = variable.name + "/keys", .type = ElementType::kUint64, .shape = {rows}},
           [&model, t](Archive& archive) { return model.append_keys(t, archive); }});
      sources.push_back(
          {{.name = variable.name, .shape = {rows, variable.dim}},
           [&model, t, m](Archive& archive) { return model.append_rows(t, m, archive); }});
    }
  }
  for (const OutputSpec& output : model.job().model.outputs) {
    for (const auto& [name, number] :
         {std::pair("offset", output.offset.value), std::pair("scale", output.scale.value)}) {
      sources.push_back({{.name = str(output.name, "/", name), .shape = {1}},
                         [number = std::vector{number}](Archive& archive) {
                           return archive.append(bytes_of(number));
                         }});
    }
  }
  return sources;
}

}  // namespace

Result<Exported> export_model(Storage& storage, const std::string& run_dir,
                              const std::string& path) {
  Exported exported;
  DP_TRY(const Model model, Model::open(storage, run_dir, exported.notes));
  DP_TRY(const std::vector<Source> sources, sources_of(model));
  exported.checkpoint = str(model.manifest().id);
  for (const Source& source : sources) exported.arrays.push_back(source.array);
  DP_TRY(const auto archive,
         create_archive(storage, path, exported.arrays, "job.toml", model.manifest().job));
  for (const Source& source : sources) DP_TRY_VOID(source.append(*archive));
  DP_TRY_VOID(archive->finish());
  return exported;
}

}  // namespace downpour::tools
