#include "tools/export/saved_model.h"

#include <algorithm>
#include <utility>

#include "chief/runtime/average_images.h"
#include "shared/checkpoint/partition_reader.h"
#include "shared/checkpoint/paths.h"
#include "shared/job/job_file.h"
#include "shared/optim/initializer.h"
#include "shared/optim/optimizer.h"

namespace downpour::tools {

using checkpoint::TableImage;

Result<SavedModel> SavedModel::open(Storage& storage, const std::string& run_dir,
                                    std::vector<std::string>& notes) {
  DP_TRY(checkpoint::Manifest manifest, checkpoint::load_model(storage, run_dir, &notes));
  return of(storage, run_dir, std::move(manifest));
}

Result<SavedModel> SavedModel::of(Storage& storage, const std::string& run_dir,
                                  checkpoint::Manifest manifest) {
  SavedModel model(storage);
  model.manifest_ = std::move(manifest);
  DP_TRY(model.job_, job_from_toml(model.manifest_.job, run_dir));
  model.folder_ = checkpoint::checkpoint_folder(run_dir, model.manifest_.id);
  return model;
}

Result<void> SavedModel::each_partition(
    size_t table, const std::function<Result<void>(const TableImage&)>& use) const {
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

Result<void> SavedModel::each_row(
    size_t table, size_t m, const std::function<void(uint64_t key, const float* row)>& use) const {
  const VariableSpec& variable = manifest_.tables[table].table_variables[m];
  const uint32_t stored = optim::stored_floats(variable.optimizer, variable.dim);
  return each_partition(table, [&](const TableImage& rows) -> Result<void> {
    const float* from =
        rows.table_variables[m].data() + optim::model_weights_at(variable.optimizer, variable.dim);
    for (size_t r = 0; r < rows.keys.size(); ++r, from += stored) use(rows.keys[r], from);
    return {};
  });
}

Result<std::vector<float>> SavedModel::dense(size_t table) const {
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
      std::copy_n(from + optim::model_weights_at(variable.optimizer, floats), floats,
                  &weights[block * kDenseBlockFloats]);
      from += optim::stored_floats(variable.optimizer, floats);
    }
    return {};
  }));
  return weights;
}

}  // namespace downpour::tools
