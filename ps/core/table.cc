#include "ps/core/table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "ps/core/lookups.h"
#include "ps/core/prefetch.h"
#include "shared/base/check.h"
#include "shared/optim/initializer.h"

namespace downpour::ps {
namespace {

constexpr uint32_t kLinesMax = 8;  // per row; the hardware prefetcher fetches the rest

/// Returns the number of cache lines to prefetch for the first floats of a row. A packed row may
/// begin with the last float of a line.
uint32_t lines_of(size_t floats, Arena::Stride stride) {
  const size_t before = stride == Arena::Stride::kPacked ? 64 - sizeof(float) : 0;
  return std::min(kLinesMax, uint32_t((before + floats * sizeof(float) + 63) / 64));
}

/// Padding would double the memory of rows of 16 weights and one slot of the row. Saving memory is
/// the purpose of an optimizer with slots of rows. Rows with averages are packed, too, because they
/// also have a slot of the row.
Arena::Stride stride_of(const OptimizerSpec& optimizer) {
  return row_slots_of(optimizer) > 0 ? Arena::Stride::kPacked : Arena::Stride::kPadded;
}

/// Copies the weights of rows[i] to row i of `out`, or writes initial values there if there is no
/// row. `at`: the position of the weights in a row. kDim: the width, or 0 to use variable.dim.
template <uint32_t kDim>
void copy_rows(const Arena& arena, size_t at, const VariableSpec& variable, uint64_t seed,
               const void* keys, const uint32_t* rows, size_t n, void* out) {
  const uint32_t dim = kDim == 0 ? variable.dim : kDim;
  auto* to = static_cast<uint8_t*>(out);
  for (size_t i = 0; i < n; ++i, to += dim * sizeof(float)) {
    if (rows[i] != kNoRow) [[likely]] {
      std::memcpy(to, arena.row(rows[i]) + at, dim * sizeof(float));
    } else {
      optim::fill_initial(variable.init, seed, key_at(keys, i), dim, to);
    }
  }
}

}  // namespace

Table::Table(TableId id, const TableSpec& spec, uint64_t seed, uint32_t partition_bits,
             const ArenaOptions& arenas, uint64_t index_salt)
    : id_(id), spec_(spec), partition_bits_(partition_bits), index_(id, index_salt, spec.group) {
  DP_CHECK(!spec.table_variables.empty(), spec.name);
  DP_CHECK(partition_bits >= 1 && partition_bits <= 16, partition_bits);
  if (spec.kind == TableKind::kDense) {
    dense_ = std::make_unique<DenseBlocks>(
        spec, optim::variable_seed(seed, spec.table_variables[0].name));
    row_bytes_max_ = dense_->stored_floats(0) * sizeof(float);  // the last block may be shorter
    return;
  }
  index_.configure(arenas);
  keys_.configure(arenas);
  table_variables_.reserve(spec.table_variables.size());
  for (const VariableSpec& variable : spec.table_variables) {
    DP_CHECK(variable.dim > 0, variable.name);
    const uint32_t stored = optim::stored_floats(variable.optimizer, variable.dim);
    const Arena::Stride stride = stride_of(variable.optimizer);
    const bool averages = variable.optimizer.averages();
    table_variables_.push_back({.spec = variable,
                                .seed = optim::variable_seed(seed, variable.name),
                                .stored_floats = stored,
                                .pull_lines = lines_of(variable.dim, stride),
                                .model_lines = lines_of(averages ? stored : variable.dim, stride),
                                .apply_lines = lines_of(stored, stride),
                                .update = optim::update_kernel(variable.optimizer, variable.dim),
                                .rates = optim::StepRates(variable.optimizer),
                                .arena = Arena(stored, stride)});
    table_variables_.back().arena.configure(arenas);
    row_bytes_max_ += table_variables_.back().arena.stride() * sizeof(float);
  }
  row_bytes_max_ += sizeof(uint64_t) + RowIndex::kKeyBytesMax + PartitionRows::kRowBytesMax;
}

void Table::track_touched() {
  DP_CHECK(rows() == 0, spec_.name);
  touched_ = std::make_unique<Touched>();
  if (dense_ != nullptr) touched_->since_snapshot.ensure(dense_->block_count());
}

bool Table::keys_in(const void* keys, size_t n, const uint8_t* owned) const {
  // If all partitions are owned, no key needs its hash. That saves a tenth of a pull.
  const bool owns_all = std::memchr(owned, 0, size_t{1} << partition_bits_) == nullptr;
  if (owns_all && dense_ == nullptr) return true;
  const uint64_t key_end = dense_ == nullptr ? 0 : dense_->block_count();
  uint32_t ok = 1;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t key = key_at(keys, i);
    ok &= uint32_t(owned[raw(partition_of(index_.hash(key), partition_bits_))] != 0);
    ok &= uint32_t(key_end == 0 || key < key_end);
  }
  return ok != 0;
}

uint64_t Table::value_floats(const void* keys, size_t n) const {
  uint64_t floats = 0;
  if (dense_ != nullptr) {
    for (size_t i = 0; i < n; ++i) floats += dense_->floats(key_at(keys, i));
    return floats;
  }
  for (const TableVariable& table_variable : table_variables_) floats += table_variable.spec.dim;
  return floats * n;
}

void Table::pull(const void* keys, size_t n, void* values, uint32_t* rows_out,
                 Weights weights) const {
  if (dense_ == nullptr) return pull_rows(keys, n, values, rows_out, weights);
  auto* out = static_cast<uint8_t*>(values);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t key = key_at(keys, i);
    dense_->pull(key, weights == Weights::kOfModel, out);
    out += dense_->floats(key) * sizeof(float);
    if (rows_out != nullptr) rows_out[i] = dense_->stored(key) ? uint32_t(key) : kNoRow;
  }
}

/// Prefetches the rows of all variables. It copies base and stride of the first variable's arena.
/// Otherwise the compiler would load them again for each row, because a store of a row number might
/// change table_variables_.
class Table::RowFetcher {
 public:
  RowFetcher(const std::vector<TableVariable>& table_variables, uint32_t TableVariable::*lines)
      : base_(table_variables[0].arena.base()),
        stride_(table_variables[0].arena.stride()),
        lines_(table_variables[0].*lines),
        others_(std::span(table_variables).subspan(1)),
        lines_of_(lines) {}
  [[gnu::always_inline]] void fetch(uint32_t row) const {
    prefetch_lines(base_ + row * stride_, lines_);
    for (const TableVariable& table_variable : others_)
      prefetch_lines(table_variable.arena.row(row), table_variable.*lines_of_);
  }

 private:
  const float* base_;
  size_t stride_;
  uint32_t lines_;
  std::span<const TableVariable> others_;
  uint32_t TableVariable::*lines_of_;
};

void Table::pull_rows(const void* keys, size_t n, void* values, uint32_t* rows_out,
                      Weights weights) const {
  const bool of_model = weights == Weights::kOfModel;
  Lookups lookups(index_, keys, n);
  const RowFetcher fetcher(table_variables_,
                           of_model ? &TableVariable::model_lines : &TableVariable::pull_lines);
  uint32_t found[2][kLookupChunk];
  const auto find_rows = [&](size_t begin, size_t end, uint32_t* rows) {
    lookups.begin_chunk(begin / kLookupChunk);
    for (size_t i = begin; i < end; ++i) {
      const uint32_t row = lookups.row(i);
      rows[i - begin] = row;
      if (row != kNoRow) fetcher.fetch(row);
    }
    if (rows_out != nullptr) std::memcpy(rows_out + begin, rows, (end - begin) * sizeof(uint32_t));
  };
  const auto copy = [&](size_t begin, size_t end, const uint32_t* rows) {
    auto* out = static_cast<uint8_t*>(values);
    const auto* chunk_keys = static_cast<const uint8_t*>(keys) + begin * sizeof(uint64_t);
    for (const TableVariable& table_variable : table_variables_) {
      const size_t dim = table_variable.spec.dim;
      const auto copy_table_variable = dim == 1    ? copy_rows<1>
                                       : dim == 16 ? copy_rows<16>
                                                   : copy_rows<0>;
      const size_t at =
          of_model ? optim::model_weights_at(table_variable.spec.optimizer, uint32_t(dim)) : 0;
      copy_table_variable(table_variable.arena, at, table_variable.spec, table_variable.seed,
                          chunk_keys, rows, end - begin, out + begin * dim * sizeof(float));
      out += n * dim * sizeof(float);
    }
  };
  for (size_t begin = 0, chunk = 0; begin < n + kLookupChunk; begin += kLookupChunk, ++chunk) {
    if (begin < n) find_rows(begin, std::min(n, begin + kLookupChunk), found[chunk % 2]);
    if (chunk > 0) copy(begin - kLookupChunk, std::min(n, begin), found[(chunk - 1) % 2]);
  }
}

void Table::apply(const void* keys, size_t n, const uint32_t* rows, const void* gradients,
                  const ApplyOptions& options) {
  DP_CHECK(n < UINT32_MAX, n);
  if (dense_ != nullptr) return apply_blocks(keys, n, gradients, options);
  if (rows != nullptr) return apply_rows<true>(keys, n, rows, gradients, options);
  apply_rows<false>(keys, n, nullptr, gradients, options);
}

void Table::apply_blocks(const void* keys, size_t n, const void* gradients,
                         const ApplyOptions& options) {
  const OptimizerSpec& optimizer = spec_.table_variables[0].optimizer;
  optim::StepRates rates(optimizer);
  const bool needs_step = optim::rate_needs_step(optimizer);
  DP_CHECK(!needs_step || options.steps != nullptr, spec_.name);
  const auto* gradient = static_cast<const uint8_t*>(gradients);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t key = key_at(keys, i);
    const uint32_t partition = raw(partition_of(index_.hash(key), partition_bits_));
    if (options.admitted == nullptr || options.admitted[partition] != 0) {
      const optim::StepRate rate =
          needs_step ? rate_of(rates, options, partition) : optim::StepRate{};
      dense_->apply(key, gradient, rate);
      if (touched_ != nullptr) touched_->since_snapshot.mark(uint32_t(key));
    }
    gradient += dense_->floats(key) * sizeof(float);
  }
}

template <bool kHaveRows>
void Table::apply_rows(const void* keys, size_t n, const uint32_t* rows, const void* gradients,
                       const ApplyOptions& options) {
  std::optional<Lookups> lookups;
  if (!kHaveRows) lookups.emplace(index_, keys, n);
  RowFetcher fetcher(table_variables_, &TableVariable::apply_lines);
  const bool needs_partition =
      options.admitted != nullptr ||
      std::any_of(table_variables_.begin(), table_variables_.end(),
                  [](const TableVariable& table_variable) {
                    return optim::rate_needs_step(table_variable.spec.optimizer);
                  });
  optim::RowUpdate updates[2][kLookupChunk];
  size_t counts[2] = {};
  const auto find_rows = [&](size_t begin, size_t end, optim::RowUpdate* chunk) {
    size_t count = 0;
    if (!kHaveRows) lookups->begin_chunk(begin / kLookupChunk);
    for (size_t i = begin; i < end; ++i) {
      uint32_t partition = 0;
      if (needs_partition) {
        partition = raw(partition_of(index_.hash(key_at(keys, i)), partition_bits_));
        if (options.admitted != nullptr && options.admitted[partition] == 0) continue;
      }
      uint32_t row = kHaveRows ? rows[i] : lookups->row(i);
      if (row == kNoRow) [[unlikely]] {
        const uint64_t key = key_at(keys, i), hash = index_.hash(key);
        if (kHaveRows) row = index_.find(key, hash);  // it was absent at the pull
        if (row == kNoRow) {
          row = add_row(key, hash);
          if (!kHaveRows) lookups->on_insert(i + 1);
          fetcher =
              RowFetcher(table_variables_, &TableVariable::apply_lines);  // arenas may have moved
        }
      }
      DP_DCHECK(row < rows_end_, row, rows_end_);
      fetcher.fetch(row);
      chunk[count++] = {.row = row, .gradient = uint32_t(i), .partition = partition};
    }
    // Nothing waits for these stores. Prefetching their lines would cost more than it saves.
    if (touched_ != nullptr) touched_->since_snapshot.mark({chunk, count});
    return count;
  };
  for (size_t begin = 0, chunk = 0; begin < n + kLookupChunk; begin += kLookupChunk, ++chunk) {
    if (begin < n)
      counts[chunk % 2] = find_rows(begin, std::min(n, begin + kLookupChunk), updates[chunk % 2]);
    if (chunk == 0) continue;
    const size_t before = (chunk - 1) % 2;
    update_members({updates[before], counts[before]}, n, gradients, options);
  }
}

void Table::update_members(std::span<const optim::RowUpdate> updates, size_t n,
                           const void* gradients, const ApplyOptions& options) {
  const auto* gradient = static_cast<const uint8_t*>(gradients);
  for (TableVariable& table_variable : table_variables_) {
    optim::StepRate rates[kLookupChunk];
    if (optim::rate_needs_step(table_variable.spec.optimizer)) {
      DP_CHECK(options.steps != nullptr, table_variable.spec.name);
      for (size_t i = 0; i < updates.size(); ++i)
        rates[i] = rate_of(table_variable.rates, options, updates[i].partition);
    }
    table_variable.update(
        table_variable.spec.optimizer,
        {table_variable.arena.base(), table_variable.arena.stride(), table_variable.spec.dim},
        updates, rates, gradient);
    gradient += n * table_variable.spec.dim * sizeof(float);
  }
}

/// Makes an initialized row for a key that has none, and adds it to the index.
uint32_t Table::add_row(uint64_t key, uint64_t hash) {
  const uint32_t row = take_row(key, partition_of(hash, partition_bits_));
  for (const TableVariable& table_variable : table_variables_) {
    float* const weights = table_variable.arena.row(row);
    optim::fill_initial(table_variable.spec.init, table_variable.seed, key, table_variable.spec.dim,
                        weights);
    optim::start_slots(table_variable.spec.optimizer, table_variable.spec.dim, weights);
  }
  index_.insert(key, hash, row);
  return row;
}

uint32_t Table::take_row(uint64_t key, PartitionId partition) {
  const uint32_t row = find_row(partition);
  std::memcpy(keys_.row(row), &key, sizeof key);
  return row;
}

/// Length of the next run in a table with this many rows. Runs grow with the table, so that about a
/// thirtieth of it is unused room in runs.
uint32_t Table::run_rows_at(uint64_t rows) const {
  constexpr uint64_t kRunRowsMax = 256, kRunShare = 16;
  return uint32_t(std::min(kRunRowsMax, rows / kRunShare >> partition_bits_));
}

uint64_t Table::rows_to_make(const void* keys, size_t n, const uint32_t* rows) const {
  uint64_t absent = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t key = key_at(keys, i);
    if (dense_ != nullptr) {
      absent += dense_->stored(key) ? 0 : 1;
    } else if (rows == nullptr || rows[i] == kNoRow) {
      absent += index_.find(key, index_.hash(key)) == kNoRow ? 1 : 0;
    }
  }
  return absent;
}

bool Table::reserve(uint64_t rows) {
  if (dense_ != nullptr || rows == 0) return true;
  // Each partition may begin a run, and runs become longer as the table grows.
  const uint64_t runs = std::min<uint64_t>(rows, uint64_t{1} << partition_bits_);
  const uint64_t end = rows_end_ + rows + runs * run_rows_at(2 * (rows_end_ + rows));
  if (end >= kNoRow || !keys_.reserve(end) || !index_.reserve(rows)) return false;
  return std::all_of(
      table_variables_.begin(), table_variables_.end(),
      [&](TableVariable& table_variable) { return table_variable.arena.reserve(end); });
}

/// Returns a row for a new key. Rows are listed by partition from the first run on, or when there
/// are so many rows that listing them takes half a millisecond.
uint32_t Table::find_row(PartitionId partition) {
  constexpr uint32_t kRowsUnlistedMax = 1 << 16;
  const uint32_t run_rows = run_rows_at(rows_end_);
  if (!partition_rows_.begun() && (run_rows > 1 || rows_end_ >= kRowsUnlistedMax)) list_rows();
  if (!free_rows_.empty()) {
    const uint32_t row = free_rows_.back();
    free_rows_.pop_back();
    if (partition_rows_.begun()) partition_rows_.add(partition, row);
    return row;
  }
  uint32_t row = 0;
  if (partition_rows_.begun() && partition_rows_.take(partition, row)) return row;
  if (run_rows > 1) {
    partition_rows_.open(partition, add_rows(run_rows), run_rows);
    partition_rows_.take(partition, row);
    return row;
  }
  row = add_rows(1);
  if (partition_rows_.begun()) partition_rows_.add(partition, row);
  return row;
}

/// Begins to list rows by partition. Existing rows are added first.
void Table::list_rows() {
  partition_rows_.begin(uint32_t{1} << partition_bits_);
  std::vector<bool> is_free(rows_end_);
  for (const uint32_t row : free_rows_) is_free[row] = true;
  for (uint32_t row = 0; row < rows_end_; ++row) {
    if (is_free[row]) continue;
    partition_rows_.add(partition_of(index_.hash(key_at(keys_.base(), row)), partition_bits_), row);
  }
}

/// Adds new rows. Returns the first one.
uint32_t Table::add_rows(uint32_t rows) {
  DP_CHECK(rows_end_ < kNoRow - rows, spec_.name);
  const uint32_t first = rows_end_;
  rows_end_ += rows;
  keys_.ensure(rows_end_);
  for (TableVariable& table_variable : table_variables_) table_variable.arena.ensure(rows_end_);
  if (touched_ != nullptr) touched_->since_snapshot.ensure(rows_end_);
  return first;
}

uint64_t Table::rows() const { return dense_ != nullptr ? dense_->stored_count() : index_.size(); }

TableMemory Table::memory() const {
  if (dense_ != nullptr)
    return {.index_bytes = dense_->table_bytes(), .row_bytes = dense_->bytes()};
  TableMemory memory{.index_bytes = index_.bytes() + free_rows_.capacity() * sizeof(uint32_t) +
                                    partition_rows_.bytes(),
                     .row_bytes = keys_.touched_bytes(rows_end_)};
  if (touched_ != nullptr) {
    memory.index_bytes += touched_->since_snapshot.bytes() + touched_->in_snapshot.bytes();
  }
  for (const TableVariable& table_variable : table_variables_) {
    memory.row_bytes += table_variable.arena.touched_bytes(rows_end_);
  }
  return memory;
}

}  // namespace downpour::ps
