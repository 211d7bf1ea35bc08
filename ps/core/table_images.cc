// Table: partitions as images, exported and restored.
#include <algorithm>
#include <cstring>

#include "ps/core/prefetch.h"
#include "ps/core/table.h"
#include "shared/base/check.h"

namespace downpour::ps {
namespace {

/// Resizes a vector. If it has to grow, its contents are discarded.
template <typename T>
void resize_anew(PageVector<T>& values, size_t size) {
  if (size > values.capacity()) {
    values.clear();
    values.reserve(size + size / 16);
  }
  values.resize(size);
}

void add_row_to(std::vector<RowRun>& runs, uint32_t row) {
  if (!runs.empty() && row == runs.back().first + runs.back().count) {
    ++runs.back().count;
  } else {
    runs.push_back({row, 1});
  }
}

size_t rows_in(std::span<const RowRun> runs) {
  size_t rows = 0;
  for (const RowRun& run : runs) rows += run.count;
  return rows;
}

}  // namespace

size_t Table::stored_floats(size_t table_variable, uint64_t key) const {
  return dense_ != nullptr ? dense_->stored_floats(key)
                           : table_variables_[table_variable].stored_floats;
}

checkpoint::TableImage Table::export_partition(PartitionId partition) const {
  checkpoint::TableImage image;
  std::vector<RowRun> runs;
  rows_of(partition, runs);
  copy_runs(runs, image);
  checkpoint::RowSorter().sort(image);
  return image;
}

size_t Table::snapshot_partition(PartitionId partition, bool touched_only, SnapshotMemory& memory,
                                 checkpoint::TableImage& image) {
  const size_t rows = rows_of(partition, memory.runs);
  DP_CHECK(!touched_only || touched_ != nullptr, spec_.name);
  if (touched_ != nullptr) {
    touched_->in_snapshot.ensure(dense_ != nullptr ? dense_->block_count() : rows_end_);
    std::vector<RowRun>& touched_runs = memory.touched;
    touched_runs.clear();
    for (const RowRun& run : memory.runs) {
      for (uint32_t row = run.first; row < run.first + run.count; ++row) {
        if (!touched_->since_snapshot.take(row)) continue;
        touched_->in_snapshot.mark(row);
        if (touched_only) add_row_to(touched_runs, row);
      }
    }
    if (touched_only) std::swap(memory.runs, touched_runs);
  }
  copy_runs(memory.runs, image);
  return rows;
}

void Table::settle_snapshots(bool published) {
  if (touched_ == nullptr) return;
  if (!published) touched_->since_snapshot.merge(touched_->in_snapshot);
  touched_->in_snapshot.clear();
}

void Table::copy_runs(std::span<const RowRun> runs, checkpoint::TableImage& image) const {
  constexpr size_t kRunsAhead = 8;
  image.table = id_;
  image.table_variables.resize(spec_.table_variables.size());
  const size_t rows = rows_in(runs);
  resize_anew(image.keys, rows);
  if (dense_ != nullptr) return copy_blocks(runs, image);
  uint64_t* key = image.keys.data();
  for (const RowRun& run : runs) {
    std::memcpy(key, keys_.row(run.first), run.count * sizeof(uint64_t));
    key += run.count;
  }
  for (size_t m = 0; m < table_variables_.size(); ++m) {
    const TableVariable& table_variable = table_variables_[m];
    const size_t width = table_variable.stored_floats;
    resize_anew(image.table_variables[m], rows * width);
    float* to = image.table_variables[m].data();
    for (size_t r = 0; r < runs.size(); ++r) {
      const RowRun& run = runs[r];
      if (r + kRunsAhead < runs.size()) {
        prefetch_lines(table_variable.arena.row(runs[r + kRunsAhead].first),
                       table_variable.apply_lines);
      }
      const float* from = table_variable.arena.row(run.first);
      if (table_variable.arena.stride() == width) {
        std::memcpy(to, from, run.count * width * sizeof(float));
        to += run.count * width;
        continue;
      }
      for (uint32_t i = 0; i < run.count; ++i, from += table_variable.arena.stride(), to += width) {
        std::memcpy(to, from, width * sizeof(float));
      }
    }
  }
}

void Table::copy_blocks(std::span<const RowRun> runs, checkpoint::TableImage& image) const {
  image.table_variables[0].clear();
  size_t i = 0;
  for (const RowRun& run : runs) {
    for (uint64_t key = run.first; key < uint64_t{run.first} + run.count; ++key) {
      const float* const block = dense_->block(key);
      image.keys[i++] = key;
      image.table_variables[0].insert(image.table_variables[0].end(), block,
                                      block + dense_->stored_floats(key));
    }
  }
}

size_t Table::rows_of(PartitionId partition, std::vector<RowRun>& runs) const {
  runs.clear();
  if (dense_ != nullptr) {
    for (uint32_t key = 0; key < dense_->block_count(); ++key) {
      if (!dense_->stored(key)) continue;
      if (partition_of(index_.hash(key), partition_bits_) == partition) add_row_to(runs, key);
    }
  } else if (partition_rows_.begun()) {
    partition_rows_.for_each(partition, [&](RowRun run) { runs.push_back(run); });
  } else {
    std::vector<RowIndex::Entry> entries;
    index_.entries_of(partition, partition_bits_, entries);
    std::ranges::sort(entries, {}, &RowIndex::Entry::row);
    for (const RowIndex::Entry& entry : entries) add_row_to(runs, entry.row);
  }
  return rows_in(runs);
}

Result<void> Table::check_image(PartitionId partition, const checkpoint::TableImage& image) const {
  const auto bad = [&](const auto&... parts) {
    return Error{.code = ErrorCode::kBadData,
                 .what = str("table ", spec_.name, ", partition ", partition, ": ", parts...),
                 .hint = "the checkpoint belongs to another model or is damaged"};
  };
  if (image.table != id_) return bad("rows of table ", image.table, ", but ", id_, " was expected");
  if (image.table_variables.size() != spec_.table_variables.size()) {
    return bad(image.table_variables.size(), " variables, but the model has ",
               spec_.table_variables.size());
  }
  for (size_t i = 0; i < image.keys.size(); ++i) {
    const uint64_t key = image.keys[i];
    if (i > 0 && key <= image.keys[i - 1]) return bad("key ", key, " is out of order");
    if (dense_ != nullptr && key >= dense_->block_count()) {
      return bad("block ", key, " of ", dense_->block_count());
    }
    if (partition_of(index_.hash(key), partition_bits_) != partition) {
      return bad("key ", key, " belongs to another partition");
    }
  }
  for (size_t m = 0; m < image.table_variables.size(); ++m) {
    size_t floats = dense_ != nullptr ? 0 : image.keys.size() * table_variables_[m].stored_floats;
    if (dense_ != nullptr) {
      for (const uint64_t key : image.keys) floats += dense_->stored_floats(key);
    }
    if (image.table_variables[m].size() != floats) {
      return bad(spec_.table_variables[m].name, " has ", image.table_variables[m].size(),
                 " floats, but ", floats, " were expected");
    }
  }
  return {};
}

Result<void> Table::import_partition(PartitionId partition, const checkpoint::TableImage& image) {
  DP_TRY_VOID(check_image(partition, image));
  drop_partition(partition);
  std::vector<size_t> offsets(image.table_variables.size(), 0);
  for (const uint64_t key : image.keys) {
    const uint32_t row = dense_ != nullptr ? 0 : take_row(key, partition);
    for (size_t m = 0; m < image.table_variables.size(); ++m) {
      const float* const from = image.table_variables[m].data() + offsets[m];
      const size_t floats = stored_floats(m, key);
      offsets[m] += floats;
      if (dense_ != nullptr) {
        dense_->set_block(key, from);
      } else {
        std::copy_n(from, floats, table_variables_[m].arena.row(row));
      }
    }
    if (dense_ == nullptr) index_.insert(key, index_.hash(key), row);
  }
  return {};
}

void Table::drop_partition(PartitionId partition) {
  std::vector<RowRun> runs;
  rows_of(partition, runs);
  if (dense_ != nullptr) {
    for (const RowRun& run : runs) {
      for (uint32_t key = run.first; key < run.first + run.count; ++key) dense_->drop(key);
    }
    return;
  }
  const auto give_back = [&](RowRun run) {
    // Push in reverse, so that rows are reused in ascending order and lie in runs.
    for (uint32_t i = run.count; i-- > 0;) free_rows_.push_back(run.first + i);
  };
  if (partition_rows_.begun()) {
    partition_rows_.drop(partition, give_back);  // includes rows that have no key yet
  } else {
    for (const RowRun& run : runs) give_back(run);
  }
  index_.erase_partition(partition, partition_bits_);
}

}  // namespace downpour::ps
